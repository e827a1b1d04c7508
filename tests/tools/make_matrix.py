"""Write the detection matrix in `docs/run-matrix.md`: what `gpudoctor run` names of the fixtures on two ranks.

    python tests/tools/make_matrix.py

It stands between `<!-- matrix -->` and `<!-- /matrix -->`. Each proof is run once; that takes minutes. Those that take
a library which is not installed are left out, and the page says so.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from gpudoctor.diagnostic import Severity  # noqa: E402
from gpudoctor.record import dataclass, replace  # noqa: E402
from gpudoctor.registry import RuleCard, find_rules  # noqa: E402
from gpudoctor.run.internal_errors import Faults  # noqa: E402
from gpudoctor.run.observe import judged  # noqa: E402
from tests.proofs.harness import AT_ONCE, Proof, Prover, Verdict  # noqa: E402
from tests.proofs.test_proofs import PROOFS, case_of, code_of, fixture_of, suspected_in  # noqa: E402
from tests.support.fixture_marks import expected_in  # noqa: E402
from tests.support.watching import watch  # noqa: E402

PAGE = ROOT / "docs" / "run-matrix.md"


@dataclass(frozen=True)
class Cell:
    """One program that was watched: what was found in it, and the steps that a rank had made at most by then."""

    proof: Proof
    codes: frozenset[str]
    alarms: frozenset[str]
    steps: int


def main() -> int:
    """Run all proofs, and bring the page up to date."""
    cards = [card for card in find_rules().cards if card.shows_in_run]
    known = [proof for proof in PROOFS if fixture_of(proof).startswith(("bad_", "good_"))]
    proofs = [proof for proof in known if not proof.missing]
    lacking = sorted({name for proof in known for name in proof.missing})
    with Prover() as prover, ThreadPoolExecutor(AT_ONCE) as pool:
        cells = [_cell(verdict, cards) for verdict in pool.map(prover.prove, proofs)]
    table = matrix(cells, cards)
    if lacking:
        left_out = len(known) - len(proofs)
        table += f"\n\n{left_out} programs were not run: they take {', '.join(lacking)}, not installed here."
    text = PAGE.read_text(encoding="utf-8")
    part = re.compile(r"(<!-- matrix -->\n).*?(<!-- /matrix -->)", re.DOTALL)
    PAGE.write_text(part.sub(lambda match: f"{match[1]}{table}\n{match[2]}", text), encoding="utf-8")
    return 0


def _cell(verdict: Verdict, cards: Sequence[RuleCard]) -> Cell:
    proof, recording = verdict.proof, verdict.run.recording
    assert recording is not None
    # What lint finds in it stands in the program.
    recording = suspected_in(recording, expected_in(case_of(proof)))
    found = list(judged(recording, cards, Faults()))
    cell = Cell(
        proof,
        frozenset(finding.code for finding in found),
        frozenset(finding.code for finding in found if finding.severity.weight >= Severity.WARNING.weight),
        max((len(rank.steps) for rank in recording.ranks), default=0),
    )
    # Proofs are forked, which hides what a process does that is started anew: there the command itself is asked.
    anew = fixture_of(proof).startswith("bad_") and code_of(proof) not in cell.codes
    return replace(cell, codes=cell.codes | _told_by_the_command(proof)) if anew else cell


def _told_by_the_command(proof: Proof) -> set[str]:
    """The codes that `gpudoctor run` names in a program, started as its user would."""
    ranks = ["--nproc-per-node", "2"] if proof.launch == "torchrun" else []
    with tempfile.TemporaryDirectory() as folder:
        try:
            return watch(Path(folder), *ranks, str(proof.script), *proof.arguments).codes
        except subprocess.TimeoutExpired:
            return set()


def matrix(cells: Sequence[Cell], cards: Sequence[RuleCard]) -> str:
    """The table, one rule a line, and above it what it comes to."""
    bad = [cell for cell in cells if fixture_of(cell.proof).startswith("bad_")]
    good = [cell for cell in cells if fixture_of(cell.proof).startswith("good_")]
    named = [cell for cell in bad if code_of(cell.proof) in cell.codes]
    seen = {code_of(cell.proof) for cell in named}
    proven = {code_of(cell.proof) for cell in bad}
    alarms = sum(bool(cell.alarms) for cell in good)
    rows = [
        _row(card, [cell for cell in bad if code_of(cell.proof) == card.code]) for card in cards if card.code in proven
    ]
    return "\n".join(
        [
            f"{len(seen)} of {len(proven)} rules named their mistake in {len(named)} of {len(bad)} bad programs; "
            f"{alarms} of {len(good)} healthy programs had a finding of severity `error` or `warning`.",
            "",
            "| code | name | bad programs named | steps that they made |",
            "|---|---|---|---|",
            *rows,
        ]
    )


def _row(card: RuleCard, bad: Iterable[Cell]) -> str:
    cells = list(bad)
    named = [cell for cell in cells if card.code in cell.codes]
    steps = sorted({cell.steps for cell in named})
    told = "-" if not steps else str(steps[0]) if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"
    return f"| {card.code} | {card.name} | {len(named)} of {len(cells)} | {told} |"


if __name__ == "__main__":
    raise SystemExit(main())
