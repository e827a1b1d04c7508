"""What the code of gpudoctor assumes of GPUs, and whether what was seen on one agrees. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from gpudoctor.logs.error_texts import meaning_of
from gpudoctor.probe.inventory.slowdown import in_words
from gpudoctor.probe.workloads.transformer import SHARE

Facts = Mapping[str, Mapping[str, Any]]
"""What a part has told, by name."""
Parts = Mapping[str, Facts]

HOLDS, FAILS, NOT_SEEN = "holds", "does not hold", "not seen"


class Assumption(NamedTuple):
    """One, where it is made, whether it holds, and what was seen."""

    says: str
    where: str
    state: str
    seen: str


def compared(parts: Parts) -> list[Assumption]:
    """All assumptions, those first that do not hold."""
    found = [each for question in _QUESTIONS for each in question(parts)]
    order = (FAILS, NOT_SEEN, HOLDS)
    return sorted(found, key=lambda each: order.index(each.state))


def _judged(says: str, where: str, seen: Any, holds: Callable[[Any], bool]) -> Assumption:
    """`seen` of None is what nobody could look at."""
    if seen is None:
        return Assumption(says, where, NOT_SEEN, "")
    return Assumption(says, where, HOLDS if holds(seen) else FAILS, _short(seen))


def _short(seen: Any) -> str:
    text = f"{seen:.4g}" if isinstance(seen, float) else str(seen)
    return text if len(text) <= 300 else f"{text[:300]} ..."


def _inventory(parts: Parts) -> Iterator[Assumption]:
    found = parts.get("machine", {}).get("inventory", {})
    gpus, devices = found.get("gpus"), found.get("torch_devices")
    where = "probe/inventory"
    uuids = [gpu["uuid"] for gpu in gpus] if gpus else None
    yield _judged(
        "NVML's UUIDs begin with GPU-", where, uuids, lambda seen: all(str(e).startswith("GPU-") for e in seen)
    )
    torchs = [device["uuid"] for device in devices] if devices else None
    yield _judged("torch's UUIDs are among those of NVML", where, torchs, lambda seen: set(seen) <= set(uuids or ()))
    missing = parts.get("machine", {}).get("fields", {}).get("missing")
    broken = None if missing is None else [each for each in missing if ": failed" in each]
    yield _judged(
        "no field of the inventory fails for a reason that is not foreseen", where, broken, lambda seen: not seen
    )
    weak = parts.get("machine", {}).get("weak points", {}).get("names")
    yield _judged("a healthy machine has no weak points", "probe/inventory/findings", weak, lambda seen: not seen)
    busiest = parts.get("machine", {}).get("at work", {}).get("busiest")
    first = max(busiest.values(), default=None, key=lambda each: each or 0) if busiest else None
    yield _judged(
        "utilisation is seen while the GPU works", "probe/inventory/sampler.py", first, lambda seen: seen >= 50
    )
    moments = parts.get("machine", {}).get("at work", {}).get("moments")
    words = {word for each in moments or () if isinstance(each["slowed_by"], list) for word in each["slowed_by"]}
    known = set(in_words((1 << 32) - 1))
    seen = sorted(words) if moments else None
    yield _judged(
        "each reason for a lower clock has a word", "probe/inventory/slowdown.py", seen, lambda e: set(e) <= known
    )


def _errors(parts: Parts) -> Iterator[Assumption]:
    for name, facts in parts.get("cuda_errors", {}).items():
        meaning = meaning_of(facts["text"]) if facts["status"] else None
        rules = {meaning.code, *meaning.likely} - {""} if meaning else set()
        right = meaning is not None and (not facts["rules"] or bool(rules & set(facts["rules"])))
        wanted = ", ".join(facts["rules"]) or "no rule"
        last = next((line for line in reversed(facts["text"].splitlines()) if "Error" in line), "")
        state = HOLDS if right else FAILS
        yield Assumption(f"the error of `{name}` is explained, by {wanted}", "logs/error_texts", state, last[:300])


def _speed(parts: Parts) -> Iterator[Assumption]:
    facts = parts.get("speed", {})
    rates = facts.get("products", {}).get("tflops")
    yield _judged(
        "bfloat16 multiplies faster than float32", "GPU803", rates, lambda e: e["bfloat16"] > 1.5 * e["float32"]
    )
    copies = facts.get("copies", {}).get("gigabytes_per_second")
    yield _judged(
        "pinned memory is copied faster", "GPU318", copies, lambda e: e["pinned to gpu"] > e["pageable to gpu"]
    )
    differ = facts.get("repeats", {}).get("differ")
    yield _judged("a product repeats bit by bit", "probe --thorough", differ, lambda seen: not any(seen.values()))
    sized = facts.get("transformer")
    if sized and sized.get("peak"):
        share, guess = sized["peak"] / sized["free"], sized["peak"] / sized["estimated"]
        where = "probe/workloads/transformer.py"
        yield _judged(
            f"a step takes at most {SHARE + 0.2:.0%} of the free memory", where, share, lambda e: e < SHARE + 0.2
        )
        yield _judged("its memory is estimated within a factor of 3", where, guess, lambda seen: 1 / 3 < seen < 3)


def _costs(parts: Parts) -> Iterator[Assumption]:
    for code, factor in (("GPU801", 1.03), ("GPU803", 1.3), ("GPU805", 1.2), ("GPU318", 1.3), ("pinned", 2.0)):
        facts = parts.get("costs", {}).get(code)
        seen = facts["with_it"] / facts["without"] if facts and facts["without"] else None
        yield _judged(f"{code} costs a factor of {factor} or more", "rules", seen, lambda e, least=factor: e >= least)
    clock = parts.get("costs", {}).get("GPU804")
    read = clock["with_it"] / clock["without"] if clock else None
    yield _judged("GPU804: a clock that is read at once shows less than half", "rules", read, lambda seen: seen < 0.5)


def _nccl(parts: Parts) -> Iterator[Assumption]:
    facts = parts.get("nccl", {})
    where = "run/instruments/listener.py"
    ended = facts.get("recorder, ended", {}).get("entries")
    yield _judged(
        "collectives that have ended are told as done", where, ended, lambda e: bool(e) and all(x["done"] for x in e)
    )
    still = facts.get("recorder, open", {}).get("entries")
    yield _judged("one that waits is told as open", where, still, lambda seen: bool(seen) and not seen[-1]["done"])
    name = still[-1]["name"] if still else None
    yield _judged("its name is the function's", where, name, lambda seen: seen == "all_reduce")
    watchdog = facts.get("watchdog", {}).get("text")
    said = None if watchdog is None else bool(re.search("Watchdog caught collective operation timeout", watchdog))
    yield _judged("the watchdog writes what it is known for", "logs/error_texts", said, bool)
    ras = facts.get("ras")
    yield _judged("RAS answers at its address", "NCCL 2.24 and later", ras, lambda seen: "answer" in seen)
    yield _judged("its answer is read: nobody is behind", "run/ras.py", ras, lambda seen: seen.get("read") == [])


def _runs(parts: Parts) -> Iterator[Assumption]:
    for kind in ("pageable", "pinned"):
        facts = parts.get("watched", {}).get(kind)
        if not facts or not facts["report"].get("timing") or not facts["profile"]:
            yield Assumption(f"a training with {kind} memory is watched to its end", "run", NOT_SEEN, "")
            continue
        timing, codes = facts["report"]["timing"][0], [each["code"] for each in facts["report"]["findings"]]
        yield _judged(f"GPU801 is seen in a run ({kind})", "GPU801", codes, lambda seen: "GPU801" in seen)
        yield _judged(f"a run has no errors of ours ({kind})", "run", facts["report"]["faults"], lambda seen: not seen)
        yield _judged(f"watching takes at most 2 % ({kind})", "run", timing["overhead"], lambda seen: seen <= 0.02)
        if kind == "pageable":
            copied = sum(row["gpu"] for name, row in facts["profile"]["copies"].items() if "HtoD" in name)
            told = (timing["host_to_device_seconds"] or 0) * facts["profile"]["steps"]
            share = told / copied if copied else None
            yield _judged("the time of copies is the profiler's", "run/timing.py", share, lambda seen: 0.7 < seen < 2)
    stuck = parts.get("watched", {}).get("stuck")
    kind = (stuck.get("verdict") or {}).get("kind", "none") if stuck else None
    yield _judged(
        "a kernel that is stuck is told as one", "run/hang_verdict.py", kind, lambda seen: seen == "kernel stuck"
    )
    missing = parts.get("missing_rank", {}).get("missing")
    verdict = missing.get("hang_verdict") or {} if missing else None
    yield _judged(
        "a rank that is missing is named",
        "run/hang_verdict.py",
        verdict,
        lambda seen: (seen.get("kind"), seen.get("ranks")) == ("rank missing", [1]),
    )
    behind = parts.get("missing_rank", {}).get("ras")
    yield _judged(
        "RAS tells the rank that has not called",
        "run/ras.py",
        behind,
        lambda seen: [(each["rank"], each["calls"], each["most"]) for each in seen.get("read", ())] == [(1, 1, 2)],
    )


def _probe(parts: Parts) -> Iterator[Assumption]:
    facts = parts.get("probed", {}).get("probe")
    for name, says in (("probe", "a healthy machine passes the probe"), ("shared", "so do two ranks on one GPU")):
        checks = parts.get("probed", {}).get(name, {}).get("report", {}).get("checks")
        wrong = None if checks is None else [f"{e['name']}: {e['reason']}" for e in checks if e["verdict"] == "fail"]
        yield _judged(says, "probe", wrong, lambda seen: not seen)
    steps = (facts or {}).get("report", {}).get("steps") or ()
    reached = [e["tflops"] / e["ceiling_tflops"] for e in steps if e.get("tflops") and e.get("ceiling_tflops")]
    most = max(reached, default=None)
    yield _judged("no step computes faster than its ceiling", "probe/checks/device_speed.py", most, lambda e: e <= 1.05)


_QUESTIONS = (_inventory, _errors, _speed, _costs, _nccl, _runs, _probe)
