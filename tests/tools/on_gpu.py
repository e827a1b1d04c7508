"""Everything about gpudoctor that no CPU can show, on a machine with one or more NVIDIA GPUs, within nine minutes.

    python tests/tools/on_gpu.py FOLDER [--minutes 9] [--only speed,nccl] [--rehearse]

It writes `on_gpu.json` and `on_gpu.html` into FOLDER, and prints what was assumed of GPUs and does not hold. It needs
this checkout and torch; it says what else is missing, and goes on without. Where there is no GPU each part says so;
`--rehearse` then does with small sizes on the CPU what a part can do there.

`python tests/tools/on_gpu.py --compare FOLDER/on_gpu.json` compares an earlier look once more. What is worth keeping is
committed as `fixtures/recordings/on_gpu/NAME.json`; tests compare each of these with the code, then.
"""

import argparse
import contextlib
import importlib
import importlib.util
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "rules")]

from tests.on_gpu.assumptions import FAILS, compared  # noqa: E402
from tests.on_gpu.page import page_of  # noqa: E402
from tests.on_gpu.part import DONE, python, run  # noqa: E402

PARTS = ("machine", "cuda_errors", "nccl", "speed", "costs", "watched", "probed", "missing_rank")
"""In the order of how much is lost where the time is over before they come."""
NO_GPU = "no GPU"
REHEARSED = "rehearsed on the CPU"
_LAST = 5.0
"""Seconds that are kept for comparing and writing, and of a part for ending what it has started."""
_WANTED = {
    "pynvml": "nvidia-ml-py, without which the driver is not asked",
    "psutil": "psutil, without which a part of the inventory is empty",
    "jinja2": "jinja2, without which the pages of run and probe are not tried",
}
_SURVEY = """
import json
try:
    import torch
    count = torch.cuda.device_count()
    names = [torch.cuda.get_device_name(index) for index in range(count)]
    print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda, "gpus": count, "names": names}))
except Exception as error:
    print(json.dumps({"torch": None, "cuda": None, "gpus": 0, "names": [], "error": repr(error)}))
"""


def main() -> int:
    """Survey, examine, compare, write."""
    options = _options()
    if options.compare:
        document = json.loads(Path(options.compare).read_text(encoding="utf-8"))
        document["assumptions"] = [each._asdict() for each in compared(facts_of(document))]
        print(summary(document))
        return 0
    began = time.monotonic()
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    survey = surveyed()
    parts = examined(survey, options.only, began + 60 * options.minutes - _LAST, rehearse=options.rehearse)
    document = {"version": 1, "survey": survey, "parts": parts, "seconds": round(time.monotonic() - began, 1)}
    document["assumptions"] = [each._asdict() for each in compared(facts_of(document))]
    document["summary"] = summary(document).splitlines()[0]
    (folder / "on_gpu.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (folder / "on_gpu.html").write_text(page_of(document), encoding="utf-8")
    print(summary(document))
    print(f"{folder}: on_gpu.json, and on_gpu.html with all that was seen")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default="on_gpu")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--compare", metavar="JSON")
    return parser.parse_args()


def surveyed() -> dict[str, Any]:
    """What is here: torch, its GPUs, and the packages that are missing."""
    # In a process of its own: whoever has started CUDA must not start others by a fork.
    ended = python(_SURVEY, 120.0)
    try:
        found: dict[str, Any] = json.loads(ended.out.splitlines()[-1])
    except (IndexError, ValueError):
        found = {"torch": None, "cuda": None, "gpus": 0, "names": [], "error": ended.err[-300:]}
    missing = [what for module, what in _WANTED.items() if importlib.util.find_spec(module) is None]
    if not found["torch"]:
        missing.insert(0, f"torch, without which nothing is examined ({found.get('error', '')})")
    return {**found, "python": sys.version.split()[0], "missing": [f"missing: {each}" for each in missing]}


def examined(
    survey: Mapping[str, Any], names: Sequence[str], until: float, *, rehearse: bool = False
) -> list[dict[str, Any]]:
    """Each part in a process of its own, which knows when it must have ended; `until` is a `time.monotonic()`."""
    found = []
    with tempfile.TemporaryDirectory(prefix="gpudoctor-on-gpu-") as folder:
        for name in names:
            part: Any = importlib.import_module(f"tests.on_gpu.{name}")
            refused = _refusal(part, survey, until, rehearse)
            ended = refused or _run(name, part, survey, until, Path(folder))
            facts = _told(Path(folder) / f"{name}.jsonl")
            done = facts.pop(DONE, {"steps": []})["steps"]
            if not refused and (out := [step.name for step in part.STEPS if step.name not in done]):
                ended = f"{ended}; left out: {', '.join(out)}"
            elif ended.startswith(REHEARSED) and not facts:
                ended = f"{NO_GPU}, and nothing of it can be rehearsed without one"
            found.append({"name": name, "asks": part.ASKS, "ended": ended, "facts": facts})
            print(f"{name}: {ended}", flush=True)
    return found


def _refusal(part: Any, survey: Mapping[str, Any], until: float, rehearse: bool) -> str:
    """Why a part is not examined; empty where it is."""
    if not survey["gpus"]:
        return "" if rehearse and survey["torch"] else NO_GPU
    if survey["gpus"] < part.GPUS:
        return f"{NO_GPU} besides the first: this takes {part.GPUS}"
    return "" if until - time.monotonic() > 10 else "left out: the time is over"


def _run(name: str, part: Any, survey: Mapping[str, Any], until: float, folder: Path) -> str:
    device = "cuda" if survey["gpus"] else "cpu"
    limit = min(part.SECONDS, until - time.monotonic())
    own_end = time.monotonic() + limit - _LAST
    own = folder / name
    own.mkdir()
    ended = run(
        [sys.executable, "-m", "tests.on_gpu", name, str(own), device, str(survey["gpus"]), str(own_end)], limit
    )
    with contextlib.suppress(FileNotFoundError):
        (own / f"{name}.jsonl").rename(folder / f"{name}.jsonl")
    if ended.status is None:
        return f"ended after {ended.seconds:.0f} s, before it was done"
    if ended.status:
        return f"failed: {ended.err.strip().splitlines()[-1] if ended.err.strip() else ended.status}"
    return f"{REHEARSED if device == 'cpu' else 'examined'} in {ended.seconds:.0f} s"


def _told(path: Path) -> dict[str, Any]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return dict(json.loads(line) for line in lines)


def facts_of(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What the parts have told, without what was only rehearsed."""
    return {part["name"]: part["facts"] for part in document["parts"] if document["survey"]["gpus"]}


def summary(document: Mapping[str, Any]) -> str:
    """One line, and one more for each assumption that does not hold."""
    survey, assumed = document["survey"], document["assumptions"]
    where = f"{survey['gpus']} x {survey['names'][0]}" if survey["names"] else f"{NO_GPU}: {_why_none(survey)}"
    states = [each["state"] for each in assumed]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    bad = [f"  {each['says']}: {each['seen']} ({each['where']})" for each in assumed if each["state"] == FAILS]
    return "\n".join([f"{where}, torch {survey['torch']}: of {len(assumed)} assumptions {counts}", *bad])


def _why_none(survey: Mapping[str, Any]) -> str:
    if not survey["torch"]:
        return "there is no torch"
    if not survey["cuda"]:
        return "this torch is built without CUDA, and would see none"
    return "torch sees none; `gpudoctor env --gpus` says what the driver sees"


if __name__ == "__main__":
    sys.exit(main())
