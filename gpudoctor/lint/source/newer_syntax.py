"""Files that this Python cannot parse, asked about again with a newer grammar: they may be fine.

libcst knows the grammar of each Python. It is asked in a process of its own, once for all files of a command, because
what is nested deeply ends the process that reads it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from gpudoctor.lint.source.file import Unreadable
from gpudoctor.record import replace

_MOST_TEXT = 120_000
"""Characters of a file that is asked about; the tree of a larger one would take too much memory."""
_MOST_FILES = 40
_MOST_STARTS = 4
_SECONDS = 20
_START = "import sys; sys.path[:] = sys.argv[1:]; from gpudoctor.lint.source.newer_grammar import main; main()"
_GrammarAnswer = tuple[str, str, int, int]


def asked_again(files: Sequence[Unreadable]) -> list[Unreadable]:
    """The files, with the Python that each needs, and the place where no Python could go on."""
    doubtful = [file for file in files if file.refused and len(file.refused) <= _MOST_TEXT][:_MOST_FILES]
    if not doubtful:
        return list(files)
    answers = dict(zip(map(id, doubtful), _answers([file.refused for file in doubtful]), strict=False))
    return [_told(file, answers.get(id(file))) for file in files]


def _told(file: Unreadable, answer: _GrammarAnswer | None) -> Unreadable:
    # Not known: what the line looks like has to do.
    if answer is None or answer[2] < 0:
        return file
    needs, words, line, column = answer
    if needs:
        return replace(file, needs_python=needs, message=f"this is syntax of Python {needs} ({words})")
    if not file.is_newer:
        return file
    # Something newer is there, and another place is wrong for all of them.
    message = "invalid syntax"
    if line <= file.line - file.first or line > file.refused.count("\n") + 1 or column < 1:
        return replace(file, needs_python="", message=message)
    return replace(file, needs_python="", message=message, line=line + file.first, column=column)


def _answers(texts: list[str]) -> list[_GrammarAnswer | None]:
    import json
    import subprocess

    found: list[_GrammarAnswer | None] = []
    for _ in range(_MOST_STARTS):
        if len(found) == len(texts):
            break
        command = [sys.executable, "-I", "-c", _START, *filter(None, sys.path)]
        try:
            ended = subprocess.run(
                command,
                input=json.dumps(texts[len(found) :]).encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_SECONDS,
                cwd=os.path.dirname(os.path.abspath(sys.executable)),
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            break
        found += [tuple(json.loads(line)) for line in ended.stdout.splitlines()]
        # It has ended on the next one.
        if len(found) < len(texts):
            found.append(None)
    return found
