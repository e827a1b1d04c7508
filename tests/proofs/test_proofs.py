"""Every claim that a fixture makes is run on two CPU ranks and seen to hold."""

import importlib
import inspect
import pkgutil
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from gpudoctor.diagnostic import Severity
from gpudoctor.record import replace as changed
from gpudoctor.registry import find_rules
from gpudoctor.rule import Rule
from gpudoctor.run.internal_errors import Faults
from gpudoctor.run.observe import judged
from gpudoctor.run.recording import Recording
from tests.support import fixture_marks

from . import claims
from .harness import GOLDEN, ROOT, Proof, Verdict, parse

FIXTURES = ROOT / "fixtures" / "rules"
NEEDS_GPU = frozenset({"GPU207"})
SCRIPTS = [script for script in sorted(FIXTURES.rglob("*.py")) if not script.name.endswith(GOLDEN)]
PROOFS = [proof for script in SCRIPTS if (proof := parse(script)) is not None]
CASES = fixture_marks.cases(ROOT / "fixtures")
FIXED = [p for p in PROOFS if any(p.script.parent.glob(f"*{GOLDEN}" if p.folder else f"{p.script.stem}{GOLDEN}"))]


UNSEEN_IN_RUNS = {
    # A stream that looks at the rank itself looks like any other.
    "GPU901/bad_stream.py",
    # Proofs fork the processes of `mp.spawn` from spares, which have imported the program already.
    "GPU405/bad_guard_around_something_else.py",
    "GPU405/bad_spawn_at_top_level.py",
}


@cache
def rules_seen_in_runs() -> list[type[Rule]]:
    """The built-in rules whose mistake two CPU ranks can show."""
    if str(ROOT / "rules") not in sys.path:
        sys.path.append(str(ROOT / "rules"))
    package = importlib.import_module("gpudoctor_rules")
    modules = [importlib.import_module(m.name) for m in pkgutil.walk_packages(package.__path__, "gpudoctor_rules.")]
    found = {
        value
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Rule) and value.__module__ == module.__name__
    }
    seen = (rule for rule in found if rule.in_run is not Rule.in_run or rule.crash or rule.drift)
    return sorted(seen, key=lambda rule: rule.code)


def fixture_of(proof: Proof) -> str:
    """The name of the fixture, which says whether it is a bad or a good one."""
    return proof.script.relative_to(FIXTURES).parts[2]


def code_of(proof: Proof) -> str:
    """The code of the rule that the fixture belongs to."""
    return fixture_marks.code_of(proof.script)


def case_of(proof: Proof) -> fixture_marks.Case:
    """The program as lint's tests know it."""
    (case,) = [each for each in CASES if each.entry == proof.script]
    return case


def named(proof: Proof) -> str:
    """How the tests of a proof are called."""
    return fixture_marks.label_of(proof.script)


def as_fixed(proof: Proof, folder: Path) -> Proof:
    """The same program with its files as they are fixed."""
    for file in sorted(proof.folder.rglob("*.py")) if proof.folder else [proof.script]:
        golden = file.with_suffix(GOLDEN)
        target = folder / file.relative_to(proof.script.parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(golden if golden.exists() else file, target)
    return replace(proof, script=folder / proof.script.name)


def proofs_for(code: str, kind: str) -> list[Proof]:
    return [p for p in PROOFS if code_of(p) == code and fixture_of(p).startswith(kind)]


def each(proofs: Iterable[Proof]) -> pytest.MarkDecorator:
    """A test for each of them; skipped where a library is missing that it takes."""
    return pytest.mark.parametrize("proof", [pytest.param(p, id=named(p), marks=_skipped(p)) for p in proofs])


def _skipped(proof: Proof) -> list[pytest.MarkDecorator]:
    why = f"takes {', '.join(proof.missing)}: pip install -c constraints.txt -e '.[test,frameworks]'"
    return [pytest.mark.skip(reason=why)] if proof.missing else []


def watched_for(proof: Proof) -> bool:
    """The proof is of a mistake that its rule also looks for in a run."""
    looks = {rule.code for rule in rules_seen_in_runs()}
    return fixture_of(proof).startswith("bad_") and code_of(proof) in looks and named(proof) not in UNSEEN_IN_RUNS


@pytest.mark.proof
@each(PROOFS)
def test_claim(proof: Proof, verdict_of: Callable[[Proof], Verdict]) -> None:
    verdict = verdict_of(proof)
    assert verdict.holds, verdict.explain()


@pytest.mark.parametrize("rule", rules_seen_in_runs(), ids=lambda rule: rule.code)
def test_rule_is_proven(rule: type[Rule]) -> None:
    """A rule whose mistake shows in a run has a bad program that makes it and a good one that does not."""
    assert proofs_for(rule.code, "bad_"), f"no bad fixture of {rule.name} begins with a line '# proof: ...'"
    assert proofs_for(rule.code, "good_"), f"no good fixture of {rule.name} begins with a line '# proof: ...'"


@pytest.mark.parametrize("code", sorted(set(map(code_of, PROOFS))))
def test_bad_and_good_claim_different_things(code: str) -> None:
    """What a good program shows too is no proof of the mistake."""
    for bad in proofs_for(code, "bad_"):
        for good in proofs_for(code, "good_"):
            assert not set(bad.claims) <= set(good.claims), f"{bad.script} claims nothing beyond {good.script}"


@pytest.mark.proof
@each([p for p in PROOFS if fixture_of(p).startswith("bad_")])
def test_claim_of_a_bad_program_does_not_hold_for_good_ones(
    proof: Proof, verdict_of: Callable[[Proof], Verdict]
) -> None:
    """A claim that any program would satisfy is no proof: for some good program of the rule it must not hold."""
    good = [verdict_of(p).run for p in proofs_for(code_of(proof), "good_") if not p.missing]
    assert not good or any(not claims.judge(claim, run)[0] for run in good for claim in proof.claims)


@pytest.mark.proof
@each(FIXED)
def test_fixed_program_no_longer_shows_the_mistake(
    proof: Proof, verdict_of: Callable[[Proof], Verdict], tmp_path: Path
) -> None:
    verdict = verdict_of(as_fixed(proof, tmp_path))
    assert not verdict.holds, verdict.explain()
    # Its fix brings the model to a GPU, and here may be none.
    if code_of(proof) in NEEDS_GPU and not _has_gpu():
        return
    finishes, why = claims.judge("finishes", verdict.run)
    assert finishes, f"{why}\n{verdict.explain()}"


def _has_gpu() -> bool:
    # Each worker of pytest imports this file, and one asks.
    import torch

    return torch.cuda.is_available()


@pytest.mark.proof
@each([p for p in PROOFS if watched_for(p)])
def test_a_run_names_the_mistake(proof: Proof, verdict_of: Callable[[Proof], Verdict]) -> None:
    """`gpudoctor run` finds it under the same code as lint, without a reference run."""
    recording = verdict_of(proof).run.recording
    assert recording is not None
    # What lint finds in it stands in the program: `test_rules.py` holds each to its marks.
    marks = fixture_marks.expected_in(case_of(proof))
    faults = Faults()
    found = {finding.code for finding in judged(suspected_in(recording, marks), find_rules().cards, faults)}
    assert not faults.told
    assert code_of(proof) in found, verdict_of(proof).explain()


def suspected_in(recording: Recording, marks: Sequence[fixture_marks.Mark]) -> Recording:
    """With what lint finds, in the copy of the program that has run."""
    seen = (each for rank in recording.ranks for each in (*rank.opens, *rank.collectives))
    files = {each.place.path for each in seen if each.place is not None}
    lines = {(mark.code, path, mark.line) for mark in marks for path in files if path.endswith(f"/{mark.path}")}
    codes = frozenset(mark.code for mark in marks)
    return changed(recording, suspected=codes, suspected_at=frozenset(lines))


@pytest.mark.proof
@each([p for p in PROOFS if fixture_of(p).startswith("good_")])
def test_a_run_finds_nothing_in_good_programs(proof: Proof, verdict_of: Callable[[Proof], Verdict]) -> None:
    recording = verdict_of(proof).run.recording
    assert recording is not None
    faults = Faults()
    found = list(judged(recording, find_rules().cards, faults))
    assert not [each for each in found if each.severity.weight >= Severity.WARNING.weight]
    # Advice for another rule may be right here.
    assert not [each for each in found if each.code == code_of(proof)]
    assert not faults.told
    assert not [fault for process in recording.ranks for fault in process.faults]


def test_every_proof_is_of_a_bad_or_a_good_fixture() -> None:
    assert [p.script for p in PROOFS if not fixture_of(p).startswith(("bad_", "good_"))] == []
