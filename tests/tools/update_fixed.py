"""Write what the bad programs of some rules are fixed to: `bad_x.fixed.py` beside `bad_x.py`. Read the diff.

python tests/tools/update_fixed.py [GPU302 ...]
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from gpudoctor.registry import find_rules  # noqa: E402
from tests.support.fixing import copy_of  # noqa: E402
from tests.support.fixture_marks import Case, cases  # noqa: E402


def main(codes: list[str]) -> int:
    """Bring the golden files of these rules up to date, of all rules with a fix where none is given."""
    with_fix = {card.code for card in find_rules().cards if card.fix_safety}
    for case in cases(ROOT / "fixtures"):
        # What becomes of the example of a page stands on the page.
        if case.bad and case.name != "bad_page" and case.code in (codes or with_fix):
            _update(case)
    return 0


def _update(case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = copy_of(case, Path(folder).resolve())
        before = {file: file.read_bytes() for file in program.files}
        program.fix()
        for file, data in before.items():
            golden, after = program.golden(file), file.read_bytes()
            if after == data:
                golden.unlink(missing_ok=True)
            elif not golden.exists() or golden.read_bytes() != after:
                golden.write_bytes(after)
                print(golden.relative_to(ROOT))
        if all(file.read_bytes() == data for file, data in before.items()):
            print(f"no fix: {case.entry.relative_to(ROOT)}")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
