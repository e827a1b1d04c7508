"""A file cannot be decoded or parsed, so nothing in it was checked.

## What goes wrong

Python refuses the file before it runs a single line: `SyntaxError` on every rank. The message says on which line
reading stopped, and why, where that is known: it is Python 2, or not Python at all: a merge conflict, a command of a
notebook, a line that was lost in copying, a wrong encoding.

In a notebook only that cell is left out, and the others are checked.

A training program that imports such a file is read without it. What is then unknown is not guessed: other rules stay
silent rather than wrong, so this finding may hide others.

## Fix

By hand: correct the line that is named. Save the file as UTF-8 or declare the encoding that it really has; bring Python
2 to Python 3, which PyTorch needs since version 1.5. A file that is not meant to be Python can be left out with
`--exclude`.

## Silent when

Python itself reads the file: a declared encoding, a byte order mark, Windows line ends and old escapes in strings are
fine. So is syntax of a newer Python than the one that gpudoctor is installed with: that is told on standard error, the
command ends with 2, and nothing in the file is checked. What is too large for gpudoctor may be in order: that is a
warning. In a folder, files that name no training framework are not parsed, unless a training program imports them.

## Sources

https://peps.python.org/pep-0263/ for encodings, https://github.com/pytorch/pytorch/releases/tag/v1.5.0 for the end of
Python 2.
"""

from gpudoctor.diagnostic import Severity
from gpudoctor.rule import Rule


class UnreadableFile(Rule):
    """Lint itself finds it while it reads the files, before there is a program to ask."""

    code = "GPU001"
    # Also where nobody imports the file: it would fail on every rank as soon as somebody does.
    severity = Severity.ERROR
    stops = True
