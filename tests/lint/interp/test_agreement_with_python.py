"""What a program holds on paper is what it holds in Python: nothing that is so there is surely false here."""

from pathlib import Path

import pytest

from tests.support.agreement import in_python, on_paper, on_ranks

CLAIMS = Path(__file__).parent / "claims"
# Python executes these here, and of torch the import alone takes seconds.
SLOW = {"torch_modules"}
PROGRAMS = [
    pytest.param(each, id=each.stem, marks=[pytest.mark.slow] if each.stem in SLOW else [])
    for each in sorted(CLAIMS.glob("*.py"))
    if not each.stem.startswith("ranks")
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_that_is_so_is_denied(program):
    come_by = in_python(program.read_text())
    found = on_paper(program)
    assert [line for line in come_by if line not in found] == []
    assert [line for line, denied in found.items() if denied] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ranks", "ranks_sharded"])
def test_nothing_that_is_so_on_a_rank_is_denied(name):
    program = CLAIMS / f"{name}.py"
    come_by, found = on_ranks(program), on_paper(program, "torchrun")
    assert set(found) == come_by
    assert [line for line, denied in found.items() if denied] == []


def test_what_is_not_so_is_denied(tmp_path):
    program = tmp_path / "train.py"
    program.write_text("x = [1]\nx.append(2)\nclaim(len(x) == 1)\n")
    with pytest.raises(AssertionError, match="line 3 is not so"):
        in_python(program.read_text())
    assert on_paper(program) == {3: True}
