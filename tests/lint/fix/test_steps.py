"""What steps of repairs are refused, before anything is written."""

from collections.abc import Callable, Sequence

import pytest

from gpudoctor.diagnostic import Location
from gpudoctor.lint.fix.changes import NoFix, TreeChange
from gpudoctor.lint.fix.nodes import FileNodes
from gpudoctor.lint.fix.render import Renderer, Sight
from gpudoctor.lint.fix.steps import changes_of
from gpudoctor.lint.repair.repair import After, Before, RepairStep, Under
from gpudoctor.lint.source.file import SourceFile, parse_text

TEXT = "if a:\n    pass\nelif b:\n    pass\n"


def changes(beginning: str, step: Callable[[Location], RepairStep]) -> Sequence[TreeChange]:
    source = parse_text(TEXT.encode(), "/train.py", "train.py")
    assert isinstance(source, SourceFile)
    nodes = FileNodes(source)
    start = TEXT.index(beginning)
    made = step(source.stretch(start, start))
    return changes_of(made, nodes.anchor(made), Renderer(nodes, Sight(), lambda _: nodes))


@pytest.mark.parametrize("kind", [Before, After])
def test_nothing_stands_beside_an_elif(kind: type[Before | After]) -> None:
    assert changes("if a", lambda at: kind(at, (("x = 1",),)))
    with pytest.raises(NoFix, match="elif"):
        changes("elif b", lambda at: kind(at, (("x = 1",),)))


def test_no_elif_stands_under_a_header() -> None:
    assert changes("if a", lambda at: Under(at, ("if rank == 0:",)))
    with pytest.raises(NoFix, match="elif"):
        changes("elif b", lambda at: Under(at, ("if rank == 0:",)))
