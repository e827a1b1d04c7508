"""What code may do that was not seen to be executed: told by the names in all that may run.

A rule of absence stands back where one of them says that what it misses may be done after all. The names are guesses,
and only ever silence: what was seen is asked of the events.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpudoctor.lint.program import Program

_SEED = "seed"
_MIXING = ("shuffle", "permutation", "randperm", "train_test_split", "choice", "choices")
_LOWER_PRECISION = (
    *("autocast", "gradscaler", "mixed_precision", "mixedprecision", "matmul_precision", "_amp", "quanti"),
    *("float16", "bfloat", "fp16", "bf16", "fp8", "tf32", "4bit", "8bit"),
)


def may_set_seed(program: Program) -> bool:
    """A function that has to do with seeds is called, or an option is named after one, as `random_seed`."""
    if not program.has_text(_SEED, "rng_state"):
        return False
    names = program.names
    setting = (each for each in names.uses | names.given if f"_{_SEED}" in each or f"{_SEED}_" in each)
    return _any_has((_SEED, "set_rng_state"), names.called) or next(setting, None) is not None


def may_mix_data(program: Program) -> bool:
    """Something is put into another order or drawn at random: files, indices, rows of a table."""
    if not program.has_text(*_MIXING, "sample"):
        return False
    called = program.names.called
    return "sample" in called or any(each.endswith(_MIXING) for each in called)


def may_lower_precision(program: Program) -> bool:
    """A lower precision than FP32 is spoken of. It is chosen in so many ways, and so often inside of a forward, that a
    mention must do. But scores have a precision, too, and batches are mixed."""
    names = program.names
    # Of a tensor or of torch: `half` alone is the half of anything.
    if "half" in names.attributes or "amp" in names.uses:
        return True
    return _any_has(_LOWER_PRECISION, names.uses | names.called | names.given)


def _any_has(words: Iterable[str], names: Iterable[str]) -> bool:
    """One of the names has one of the words in it, in lower or upper case."""
    return any(word in name for name in map(str.lower, names) for word in words)
