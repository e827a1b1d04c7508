"""Files that only define things: their functions are read one by one, what they import when it is asked for."""

from textwrap import dedent

import pytest

from gpudoctor.lint.discovery.classify import classify
from gpudoctor.lint.interp.launch_worlds import programs_of
from gpudoctor.lint.interp.limits import MAX_LIBRARY_IMPORTS
from gpudoctor.lint.source.project import Project

FILES = dedent(
    """
    # file: kit/__init__.py
    from kit.ranks import my_rank
    from kit.heavy import Heavy
    # file: kit/ranks.py
    import torch.distributed as dist
    def my_rank():
        return dist.get_rank()
    # file: kit/heavy.py
    from kit import heavier
    class Heavy:
        pass
    # file: kit/heavier.py
    VALUE = 1
    """
)

READ = {
    "a name through a package": """
        from kit import my_rank, Heavy
        def place():
            reveal(my_rank())  #: global rank
        """,
    "a module": """
        import kit.ranks
        from kit import heavy
        def place():
            reveal(kit.ranks.my_rank())  #: global rank
        """,
    "under another name": """
        import kit.ranks as r
        from kit.heavy import Heavy as Large
        def place():
            reveal(r.my_rank())  #: global rank
        """,
    "only on one path": """
        try:
            from kit.ranks import my_rank
        except ImportError:
            my_rank = None
        from kit.heavy import Heavy
        def place():
            if my_rank is not None:
                reveal(my_rank())  #: global rank
        """,
    "as a default": """
        from kit.ranks import my_rank
        from kit.heavy import Heavy
        def place(rank=my_rank()):
            pass
        class Saver:
            rank_of = my_rank
            def place(self):
                reveal(my_rank())  #: global rank
        """,
}


@pytest.mark.parametrize("name", READ)
def test_only_what_is_asked_for_is_executed(paper, name):
    found = paper(dedent(READ[name]) + FILES)
    assert "kit/ranks.py" in found.program.files
    assert not found.program.files & {"kit/heavy.py", "kit/heavier.py"}


def test_a_program_executes_all_that_it_imports(paper):
    found = paper(dedent(READ["a name through a package"]) + "place()\n" + FILES)
    assert {"kit/heavy.py", "kit/heavier.py"} <= found.program.files


def test_a_star_import_executes_the_module_only_where_its_text_does_not_tell_its_names(paper):
    program = dedent(
        """
        from kit.ranks import *
        from kit.heavy import *
        from more import *
        def place():
            reveal(my_rank())  #: global rank
            reveal(first)  #: 1
            reveal(second)  #: 2
        # file: more.py
        from less import *
        if True:
            first, _hidden = 1, 3
        # file: less.py
        if True:
            second = 2
        """
    )
    found = paper(program + FILES)
    assert "more.py" in found.program.files
    assert "kit/heavy.py" not in found.program.files


def test_what_a_module_does_when_it_is_asked_for_is_not_done_by_who_asks(paper):
    """The module is imported inside a rank guard and a loop here, but its own code runs on all ranks, once."""
    paper(
        """
        import torch.distributed as dist
        from late import threshold
        def place():
            for _ in range(10):
                if dist.get_rank() == 0:
                    print(threshold)
        # file: late.py
        threshold = 1
        reveal(threshold)  #: 1
        """
    )


def test_what_is_imported_leaves_enough_for_the_file_itself(paper):
    large = "\n".join(f"value_{number} = {number}" for number in range(MAX_LIBRARY_IMPORTS + 1))
    found = paper(
        dedent(
            """
            from large import value_3
            from more import four
            def place():
                reveal(value_3)  #: 3
                reveal(four)  #: unknown
                return 1
            # file: more.py
            four = 4
            # file: large.py
            """
        )
        + large
    )
    assert "more.py" not in found.program.files
    assert any("modules that are imported" in lost.why for lost in found.program.lost)


def test_circles_end(paper):
    paper(
        """
        from one import first
        def place():
            reveal(first())  #: 2
        # file: one.py
        from two import second
        def first():
            return second()
        # file: two.py
        from one import first
        def second():
            return 2
        """
    )


def test_decorators_are_followed_one_call_deep(paper):
    """What a decorator makes of a function counts; what it writes to logs and registries does not."""
    paper(
        """
        from guards import on_first_rank
        class Saver:
            @on_first_rank
            def save(self):
                reveal()  #: dist.get_rank() == 0
        # file: guards.py
        import functools
        import torch.distributed as dist
        def on_first_rank(function):
            note(function)
            @functools.wraps(function)
            def guarded(*args, **kwargs):
                if dist.get_rank() == 0:
                    return function(*args, **kwargs)
            return guarded
        def note(function):
            reveal()  #: never
        """
    )


def test_modules_that_import_from_each_other(paper):
    found = paper(
        """
        from kit import *
        def place():
            reveal(shared)  #: 1
            reveal(one)  #: unknown
        # file: kit/__init__.py
        from kit.values import shared
        from kit.names import *
        from kit.first import one
        # file: kit/values.py
        shared = 1
        # file: kit/names.py
        from kit import shared
        __all__ = ["shared", "own"]
        own = hidden = 2
        # file: kit/first.py
        from kit.second import one
        # file: kit/second.py
        from kit.first import one
        """
    )
    assert not found.program.cut_short


def test_a_package_that_sets_up_a_logger_is_no_program(tmp_path):
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "heavy.py").write_text("class Heavy:\n    pass\n")
    init = tmp_path / "kit" / "__init__.py"
    init.write_text("from kit.heavy import Heavy\nimport torch\nset_up()\n")
    project = Project(str(init))
    entry = project.module_of(str(init))
    (program,) = programs_of(entry, classify(entry, project), project)
    assert not program.whole
    assert len(program.files) == 1
