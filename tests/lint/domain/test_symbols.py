"""Terms: what stands for an unknown value, and that it is nothing else."""

import ast
from pathlib import Path

import pytest

from gpudoctor.lint.domain import symbols
from gpudoctor.lint.domain.symbols import Attribute, CallResult, Item, Length, MethodResult, ParameterName, Setting
from gpudoctor.lint.domain.value import Anonymous, Const, Term, Unknown
from gpudoctor.lint.flow.condition import Atom
from tests.support.linting import lint
from tests.support.sources import ROOT, sources

PROGRAMS = sorted((ROOT / "fixtures" / "programs").glob("*/train.py"))


def test_terms_of_different_kinds_differ() -> None:
    lr, same = Unknown(Setting("lr")), Unknown(Setting("lr"), label="args.lr")
    made_of_one = [Length(lr), ParameterName(lr), Anonymous("lr", lr), Attribute(lr, "x"), MethodResult(lr, "x")]
    assert len({Unknown(term) for term in made_of_one}) == len(made_of_one)
    assert Unknown(Item(lr, Const(1))) == Unknown(Item(same, Const(1)))
    assert Unknown(Item(lr, Const(1))) != Unknown(Item(lr, Const(True)))


def test_a_term_says_what_it_is_made_of() -> None:
    assert CallResult("os.getcwd", ()).parts == ("os.getcwd", ())
    lr = Unknown(Setting("lr"))
    assert Length(lr).parts == (lr,)


@pytest.mark.parametrize("entry", PROGRAMS, ids=lambda path: path.parent.name)
def test_each_unknown_value_and_each_test_carries_a_term(entry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    intern = Unknown.__post_init__

    def noting(value: Unknown) -> None:
        made.append(value.term)
        intern(value)

    asked: list[object] = []
    rank = Atom.__post_init__

    def noting_test(atom: Atom) -> None:
        asked.append(atom.key)
        rank(atom)

    monkeypatch.setattr(Unknown, "__post_init__", noting)
    monkeypatch.setattr(Atom, "__post_init__", noting_test)
    lint(entry, folder=entry.parent)
    assert made
    assert asked
    assert [term for term in (*made, *asked) if not isinstance(term, Term)] == []


def test_no_value_and_no_test_is_known_by_a_tuple() -> None:
    wrong = [
        f"{source.shown}:{node.lineno}"
        for source in sources().values()
        if "Unknown(" in source.text or "Atom(" in source.text
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Unknown", "Atom")
        if isinstance(node.args[0], (ast.Tuple, ast.Constant, ast.JoinedStr))
    ]
    assert wrong == [], "write a term of domain/symbols.py"


def test_nobody_takes_a_term_apart_by_numbers() -> None:
    wrong = [
        f"{source.shown}:{node.lineno}"
        for source in sources().values()
        if ".term" in source.text or "atom.key" in source.text
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith((".term", ".term.parts", "atom.key"))
    ]
    assert wrong == [], "match on the class of the term"


def test_the_family_of_terms_is_closed() -> None:
    elsewhere = {each.__module__ for each in Term.__subclasses__()} - {symbols.__name__, Term.__module__}
    assert elsewhere == set()
