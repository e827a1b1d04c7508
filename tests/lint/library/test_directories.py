"""Folders: what makes and removes them, and what does not mind that another process was first."""

from gpudoctor.lint.events.files import ChangeFolder
from gpudoctor.lint.events.process import Caught


def test_what_is_made_and_removed(paper):
    found = paper(
        """
        import argparse, os, shutil
        from pathlib import Path
        args = argparse.ArgumentParser().parse_args()
        os.makedirs("a")
        os.makedirs("b", exist_ok=True)
        os.makedirs("c", exist_ok=args.again)
        Path("d").mkdir(parents=True)
        args.out.mkdir(exist_ok=True)
        shutil.rmtree("e")
        shutil.rmtree("f", ignore_errors=True)
        """
    )
    events = list(found.events(ChangeFolder))
    assert [event.tolerated for event in events] == [False, True, True, False, True, False, True]
    assert [event.removes for event in events] == [False] * 5 + [True] * 2


def test_errors_that_are_caught_around_them(paper):
    found = paper(
        """
        import contextlib, os
        try:
            os.mkdir("a")
        except FileExistsError:
            os.mkdir("b")
        with contextlib.suppress(OSError):
            os.mkdir("c")
        try:
            os.mkdir("d")
        except (KeyError, ValueError):
            pass
        """
    )
    folders, handlers = found.events(ChangeFolder), found.events(Caught)
    assert [event.context.contexts for event in folders] == [(), (), ("suppress",), ()]
    taken = [[each.takes("FileExistsError") for each in handlers if each.tries(event)] for event in folders]
    assert taken == [[True], [], [], [False]]
