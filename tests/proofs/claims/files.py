"""Files, checkpoints and experiment loggers."""

from collections import Counter

from ..record import Run
from .registry import Judgement, claim


@claim
def saved_twice(run: Run) -> Judgement:
    """Two ranks write the same path."""
    shared = _shared_paths(run)
    return bool(shared), f"written by several: {shared}" if shared else "no path is written twice"


@claim
def saved_once(run: Run) -> Judgement:
    """Something is written, and no path by two ranks."""
    shared = _shared_paths(run)
    written = any(True for p in run.processes for _ in p.of("save", "write"))
    return written and not shared, f"written by several: {shared}" if shared else f"anything written: {written}"


@claim
def prefix(run: Run) -> Judgement:
    """Saved keys begin with the wrapper's `module.`."""
    keys = _saved_keys(run)
    return any(key.startswith("module.") for key in keys), f"keys: {keys[:4]}"


@claim
def no_prefix(run: Run) -> Judgement:
    """Keys are saved, and none begins with `module.`."""
    keys = _saved_keys(run)
    return bool(keys) and not any(key.startswith("module.") for key in keys), f"keys: {keys[:4]}"


@claim
def logger_twice(run: Run) -> Judgement:
    """Several ranks open an experiment logger, in one folder where it has any."""
    ranks = Counter(folder for rank in run.ranks for folder in {line["folder"] for line in rank.of("logger")})
    return max(ranks.values(), default=0) > 1, f"opened in each folder by so many ranks: {dict(ranks)}"


@claim
def logger_once(run: Run) -> Judgement:
    """One rank alone opens an experiment logger."""
    opened = [rank.rank for rank in run.ranks if any(rank.of("logger"))]
    return len(opened) == 1, f"opened on ranks {opened}"


def _shared_paths(run: Run) -> list[str]:
    writers = Counter(path for p in run.processes for path in {line["path"] for line in p.of("save", "write")} if path)
    return [path for path, count in writers.items() if count > 1]


def _saved_keys(run: Run) -> list[str]:
    return [key for p in run.processes for line in p.of("save") for key in line["keys"]]
