"""What a syntax error means to the author of a training script: Python 2, a newer Python, no Python, or a slip."""

from __future__ import annotations

import re
import sys
from typing import NamedTuple

PYTHON_2 = "2.7"
_BEFORE_ASYNC = "3.6"
# Some patterns take time that grows with the square of the line, and data on one line can be megabytes.
_LONGEST = 2_000


class SyntaxProblem(NamedTuple):
    """Where a file stops being Python, and the version that could read it, where one is known."""

    line: int
    column: int
    message: str
    needs_python: str = ""


class _Sign(NamedTuple):
    """A construct, known by the `line` of the error and by what the parser `says` of it. `{}` in `means` stands for
    what the pattern captured. Patterns are compiled only when a file turns out to be unreadable."""

    means: str
    needs: str = ""
    line: str = ""
    says: str = ""

    def match(self, line: str, message: str) -> re.Match[str] | None:
        return re.search(self.line, line) if re.search(self.says, message) else None

    def is_news_to(self, running: tuple[int, int]) -> bool:
        """This interpreter cannot read it; a construct that it knows is written wrongly, and that is another matter."""
        if self.needs in ("", PYTHON_2, _BEFORE_ASYNC):
            return True
        major, minor = self.needs.split(".")
        return (int(major), int(minor)) > running


_F_STRING = r"\b[rR]?[fF][rR]?(['\"])[^'\"]*"

# What an interpreter says differs with its version; where it says no more than "invalid syntax", the line has to tell.
_NO_PYTHON = (
    _Sign("a merge conflict was left in the file", line=r"^(?:<{7}|={7}|>{7}|\|{7})(?: |$)"),
    _Sign("`{}` is a command of a notebook, not Python", line=r"^\s*([%!]\w+)"),
    _Sign("a prompt was copied from an interactive session", line=r"^\s*(?:>>>|In \[\d+\]:)(?: |$)"),
    _Sign("a placeholder of a template was not filled in", line=r"^[^'\"#]*(?:\{\{\s*[\w.]+\s*\}\}|\{%)"),
)
_OLD_PYTHON = (
    _Sign("`{}` without parentheses is Python 2", PYTHON_2, r"\b(print|exec)\b", "Missing parentheses in call"),
    _Sign("`print` without parentheses is Python 2", PYTHON_2, r"^\s*print\b\s*[^\s(=.,:\[]"),
    _Sign("`except …, {}:` is Python 2", PYTHON_2, r"^\s*except\b.*[^,\s]\s*,\s*([a-z_]\w*)\s*:", "parenthes|invalid"),
    _Sign("`raise Error, …` is Python 2", PYTHON_2, r"^\s*raise\s+[\w.]+\s*,"),
    _Sign("the long integer `{}` is Python 2", PYTHON_2, r"\b(\d+[lL])\b", "literal"),
    _Sign("the octal number `{}` is Python 2", PYTHON_2, r"\b(0\d+)\b", "leading zeros"),
    _Sign("a string with `ur` in front is Python 2", PYTHON_2, r"\b[uU][rR]['\"]", "invalid syntax"),
    _Sign("`<>` is Python 2", PYTHON_2, r"<>", "invalid syntax"),
    _Sign("backticks around an expression are Python 2", PYTHON_2, r"`[\w.()\[\]]+`", "invalid syntax"),
    _Sign("a tuple among the parameters is Python 2", PYTHON_2, says="parameters cannot be parenthesized"),
    _Sign("a tuple among the parameters is Python 2", PYTHON_2, r"\bdef\s+\w+\s*\([^)=:]*\(|\blambda\s*\(", "invalid"),
    _Sign("tabs and spaces are mixed in the indentation, as Python 2 allowed", PYTHON_2, says="use of tabs and spaces"),
    _Sign("`async` is a keyword since Python 3.7", _BEFORE_ASYNC, r"[(,]\s*async\s*=(?!=)|\bimport async\b|\.async\b"),
)
_NEW_PYTHON = (
    _Sign("`except A, B:` without parentheses needs Python 3.14", "3.14", r"^\s*except\s+[\w.]+\s*,"),
    _Sign("`lazy import` needs Python 3.15", "3.15", r"^\s*lazy\s+(?:import|from)\b"),
    _Sign(
        "a template string, `t'…'`, needs Python 3.14", "3.14", r"(?<!\w)(?:[tT][rR]?|[rR][tT])['\"]", "invalid syntax"
    ),
    _Sign(
        "the default of a type parameter needs Python 3.13",
        "3.13",
        r"^\s*(?:async\s+def|def|class|type)\s+\w+\s*\[[^\]]*\w\s*=(?!=).*\]",
    ),
    _Sign("type parameters, `{} …[T]`, need Python 3.12", "3.12", r"^\s*(async\s+def|def|class)\s+\w+\s*\["),
    _Sign("the `type` statement needs Python 3.12", "3.12", r"^\s*type\s+\w+\s*(?:\[.*\]\s*)?="),
    _Sign("this expression inside an f-string needs Python 3.12", "3.12", says="f-string expression part cannot"),
    _Sign("the same quotes inside an f-string need Python 3.12", "3.12", _F_STRING + r"\{[^'\"{}]*\1[\w{]", "f-string"),
    _Sign("an f-string over several lines needs Python 3.12", "3.12", _F_STRING + r"\{[^}'\"]*$", "unterminated|EOL"),
    _Sign("`except*` needs Python 3.11", "3.11", r"^\s*except\s*\*"),
    _Sign("this use of `*` needs Python 3.11", "3.11", r"\w\[(?:[^\[\]]*,)?\s*\*\w|\*\w+\s*:\s*\*\w", "invalid syntax"),
)


def explain(error: SyntaxError, text: str, running: tuple[int, int] = sys.version_info[:2]) -> SyntaxProblem:
    """Say of a syntax error where it is and, if a known construct is there, which Python would read it."""
    if re.match(r"#!.*\b(?:ba|z|k|da)?sh\b", text):
        return SyntaxProblem(1, 1, "this is a shell script, not Python")
    lines = text.split("\n")
    number = min(max(error.lineno or 1, 1), len(lines))
    line = lines[number - 1]
    column = min(max(error.offset or 1, 1), len(line) + 1)
    for sign in (*_NO_PYTHON, *_OLD_PYTHON, *_NEW_PYTHON):
        if sign.is_news_to(running) and (found := sign.match(line[:_LONGEST], error.msg)):
            message = sign.means.format(*found.groups())
            return SyntaxProblem(number, column, message, sign.needs)
    return SyntaxProblem(number, column, error.msg)
