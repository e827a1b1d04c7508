"""The environment variables that matter for training: what each does here, what looks wrong, and misspelt names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gpudoctor.probe.inventory.facts import Variable
from gpudoctor.probe.inventory.meanings import EFFECTS, LOOKS, Surroundings
from gpudoctor.probe.inventory.variable_names import FAMILIES, KNOWN, MISTAKEN

_PREFIXES = (
    "NCCL_",
    "TORCH_",
    "TORCHELASTIC_",
    "PYTORCH_",
    "GLOO_",
    "TP_",
    "OMP_",
    "CUDA_",
    "MASTER_",
    "PET_",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NTASKS",
)
# Paths of toolkits: they steer builds, not training.
_OF_NO_CONCERN = ("CUDA_HOME", "CUDA_PATH", "CUDA_VERSION", "CUDA_ROOT", "CUDA_BIN_PATH", "CUDA_INC_PATH")
_SECRET = re.compile(r"(?i)token|key|secret|passw|passphrase|_pass(?![a-z])|_pwd|credential|auth|cookie|private")
# Where a value has one inside: `https://user:word@host`, `token=word`, and the forms of well-known tokens.
_SECRET_PART = re.compile(
    r"(?i)(?<=://)[^/@\s]+(?=@)|(?<=token=)[^,;&\s]+|(?<=secret=)[^,;&\s]+|(?<=password=)[^,;&\s]+|(?<=key=)[^,;&\s]+"
    r"|\b(?:hf_|gh[a-z]_|github_pat_|glpat-|sk-|xox[a-z]-|AKIA|eyJ)[\w.-]{10,}"
)
# Of these, anything may have been named by somebody; the names of the others are in use by libraries alone.
_ANYBODYS = ("MASTER_", "TP_")
_HIDDEN = "(hidden)"
# A letter or two: NCCL_P2P_DISABLED for NCCL_P2P_DISABLE. Further away, it is more likely a name that is newer than us.
_ALIKE = 0.9


def variables(here: Surroundings) -> tuple[Variable, ...]:
    """Every variable that matters, by name."""
    return tuple(_variable(name, value, here) for name, value in _concerned(here.environment))


def _concerned(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in sorted(environment.items()):
        ours = name in KNOWN or name in MISTAKEN or name in EFFECTS or name.startswith(_PREFIXES) or meant(name)
        if ours and name not in _OF_NO_CONCERN:
            yield name, value


def _variable(name: str, value: str, here: Surroundings) -> Variable:
    right = meant(name)
    shown = _shown(name, value, named=bool(right))
    if right:
        doubt = f"nothing reads this name: {right} is meant"
        return Variable(name, shown, "nothing", doubt, f"unset {name}; export {right}={shown}")
    if name in LOOKS:
        effect, doubt, remedy = LOOKS[name](shown, here)
        return Variable(name, shown, effect, doubt, remedy or (_remedy(name) if doubt else ""))
    return Variable(name, shown, EFFECTS.get(name) or _by_family(name))


def _shown(name: str, value: str, *, named: bool) -> str:
    """The value without what may be a secret: reports are pasted into public places."""
    known = named or name in KNOWN or name in EFFECTS or name in LOOKS
    # `NCCL_IB_PKEY` is a number of a partition.
    if (not known and name.startswith(_ANYBODYS)) or (_SECRET.search(name) and name not in KNOWN):
        return _HIDDEN
    return _SECRET_PART.sub(_HIDDEN, value)


def _remedy(name: str) -> str:
    """Without the variable the default holds, except for what only a launcher can tell."""
    return "start with torchrun" if name in ("RANK", "LOCAL_RANK") else f"unset {name}"


def meant(name: str) -> str:
    """The name that was meant, where this one is misspelt; else nothing."""
    if name in KNOWN:
        return ""
    if name in MISTAKEN:
        return MISTAKEN[name]
    # `rank` alone may be anybody's.
    if name.upper() in KNOWN and "_" in name:
        return name.upper()
    if not name.startswith(FAMILIES):
        return ""
    # Imported late: it costs milliseconds, and most environments have nothing to compare.
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, KNOWN, n=1, cutoff=_ALIKE)), "")


def _by_family(name: str) -> str:
    if name.startswith("PET_"):
        return "default of a torchrun option"
    if name.startswith("NCCL_"):
        return "a setting of NCCL" if name in KNOWN else "unknown here: a newer NCCL or a plugin may read it"
    return "a setting of torch" if name.startswith(("TORCH", "PYTORCH")) else "set"
