"""How the processes end, and what they say."""

from ..record import Run
from .registry import Judgement, claim, claim_of_any_end, endings

LOST_PEER = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Timed out waiting",
    "wait timeout after",
    "op.preamble.length <= op.nbytes",
)
"""What a rank says whose peer went away or went another way: the same mistake as standing still."""


@claim_of_any_end
def crash(run: Run, *texts: str) -> Judgement:
    """Some process ends with an error of its own, and these texts are on its stderr."""
    failed = [each for each in run.processes if each.ending == "exited" and each.status != 0]
    said = [each for each in failed if all(_flat(text) in _flat(each.stderr) for text in texts)]
    if said:
        return True, f"{run.name(said[0])} ends with status {said[0].status} and says so"
    return False, f"{endings(run)}; none that failed says {' and '.join(map(repr, texts))}"


@claim_of_any_end
def hang(run: Run) -> Judgement:
    """Some process stands still, or is told that its peer is gone."""
    for process in run.processes:
        if process.ending in ("stood still", "out of time"):
            return True, f"{run.name(process)} {process.ending}"
        told = next((text for text in LOST_PEER if text in process.stderr), None)
        if told is not None and not (process.ending == "exited" and process.status == 0):
            return True, f"{run.name(process)}: {told}"
    return False, endings(run)


@claim
def finishes(run: Run) -> Judgement:
    """All processes end by themselves, with exit code 0."""
    return run.ended_well, endings(run)


@claim_of_any_end
def prints(run: Run, *texts: str) -> Judgement:
    """Each of these texts is on stdout or stderr of some process."""
    said = _said(run)
    missing = [text for text in texts if _flat(text) not in said]
    return bool(texts) and not missing, f"missing: {missing}" if missing else "all said"


@claim
def failure_hidden(run: Run, text: str) -> Judgement:
    """Some process shows this error, and all of them end with exit code 0, as if nothing had happened."""
    said = _flat(text) in _said(run)
    return said and run.ended_well, f"said: {said}; {endings(run)}"


@claim
def silent_about(run: Run, *texts: str) -> Judgement:
    """None of these texts is printed by any process."""
    said = _said(run)
    found = [text for text in texts if _flat(text) in said]
    return bool(texts) and not found, f"said: {found}" if found else "none said"


@claim
def output_differs(run: Run) -> Judgement:
    """The ranks print different things."""
    said = [_flat(rank.stdout) for rank in run.ranks]
    return len(said) > 1 and all(said) and len(set(said)) > 1, f"stdout: {[text[-80:] for text in said]}"


@claim
def output_agrees(run: Run) -> Judgement:
    """The ranks all print the same."""
    said = [_flat(rank.stdout) for rank in run.ranks]
    return len(said) > 1 and all(said) and len(set(said)) == 1, f"stdout: {[text[-80:] for text in said]}"


def _said(run: Run) -> str:
    return _flat("\n".join(each.stdout + "\n" + each.stderr for each in run.processes))


def _flat(text: str) -> str:
    return " ".join(text.split())
