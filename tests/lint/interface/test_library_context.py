"""What a model may ask and do: some thirty things, and groups of what only few of them ask."""

import inspect

from gpudoctor.lint.interface import library_context

GROUPS = [
    cls for _, cls in inspect.getmembers(library_context, inspect.isclass) if cls.__module__ == library_context.__name__
]


def _members(cls: type) -> dict[str, object]:
    return {name: member for name, member in vars(cls).items() if not name.startswith("_")}


def test_there_are_few_members():
    assert len(_members(library_context.LibraryContext)) <= 30


def test_each_member_says_what_it_is():
    silent = [
        f"{cls.__name__}.{name}"
        for cls in GROUPS
        for name, member in _members(cls).items()
        if cls.__name__ not in ("SpeculativeRun", "LoopRound") and not inspect.getdoc(member)
    ]
    assert not silent
