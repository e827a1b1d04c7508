"""What small commands print whose output a script takes: how many GPUs a list names, the numbers up to another one."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence

from gpudoctor.lint.launchfiles.shell_values import calculated
from gpudoctor.lint.launchfiles.syntax import Syntax, words_of

_MOST = 4096
"""Numbers that `seq` prints: more are not known."""
_LONGEST = 500
"""Characters of a text in which something is replaced."""
_MOST_STARS = 2
"""In a pattern: each multiplies the ways in which it may fit."""


def output_of(words: Sequence[str], given: str | None) -> str | None:
    """What a command prints that is given this to read; None where that is not known."""
    name, *rest = words
    command = _COMMANDS.get(posixpath.basename(name))
    if command is None or (given is None and name not in _READ_NOTHING):
        return None
    syntax, print_ = command
    options: dict[str, str] = {}
    while rest and rest[0].startswith("-") and len(rest[0]) > 1 and not rest[0][1:].isdecimal():
        first = rest.pop(0)[1:]
        # `-d,` and `-d ,`
        while first[:1] in syntax.flags and first[:1]:
            options[first[0]], first = "", first[1:]
        if first:
            value = first[1:].removeprefix("=") or (rest.pop(0) if rest else "")
            if first[0] not in (syntax.short or {}):
                return None
            options[first[0]] = value
    return print_(options, rest, given or "")


def replaced(text: str, sign: str, pattern: str, new: str) -> str | None:
    """`${text/pattern/new}`, `${text%pattern}` and the like, where the pattern is one of the shell's; None where it
    would take long to see."""
    if len(text) > _LONGEST or len(new) > _LONGEST or pattern.count("*") > _MOST_STARS:
        return None
    known = {"*": ".*", "?": ".", "[!": "[^"}
    parts = re.findall(r"\[!?[^]]*\]|.", pattern, re.DOTALL)
    made = "".join(each.replace("[!", "[^") if len(each) > 1 else known.get(each, re.escape(each)) for each in parts)
    if sign in ("/", "//"):
        return re.sub(made, lambda _: new, text, count=sign == "/") if made else text
    if sign in ("#", "##"):
        made = made.replace(".*", ".*?") if sign == "#" else made
        return re.sub(rf"\A(?:{made})", "", text, flags=re.DOTALL)
    # The shortest end that fits is the one that begins last.
    starts = [at for at in range(len(text) + 1) if re.fullmatch(made, text[at:], re.DOTALL)]
    return text[: starts[0] if sign == "%%" else starts[-1]] if starts else text


def _echo(options: Mapping[str, str], words: Sequence[str], _: str) -> str:
    return " ".join(words) + ("" if "n" in options else "\n")


def _seq(options: Mapping[str, str], words: Sequence[str], _: str) -> str | None:
    if not all(re.fullmatch(r"-?\d{1,6}", word) for word in words) or not 1 <= len(words) <= 3:
        return None
    numbers = [int(word) for word in words]
    first, last = numbers[0] if len(numbers) > 1 else 1, numbers[-1]
    step = numbers[1] if len(numbers) == 3 else 1
    found = range(first, last + (1 if step > 0 else -1), step) if step else range(0)
    return options.get("s", "\n").join(map(str, found)) + "\n" if len(found) <= _MOST else None


def _tr(options: Mapping[str, str], words: Sequence[str], given: str) -> str | None:
    sets = [word.replace("\\n", "\n") for word in words]
    if any(len(each) != 1 for each in sets):
        return None
    if "d" in options and len(sets) == 1:
        return "".join(each for each in given if (each == sets[0]) is ("c" in options))
    return given.replace(sets[0], sets[1]) if len(sets) == 2 and not options else None


def _wc(options: Mapping[str, str], words: Sequence[str], given: str) -> str | None:
    counts = {"l": given.count("\n"), "w": len(given.split()), "c": len(given), "m": len(given)}
    return str(counts[next(iter(options))]) + "\n" if len(options) == 1 and not words else None


def _awk(options: Mapping[str, str], words: Sequence[str], given: str) -> str | None:
    field = re.fullmatch(r"\s*\{\s*print\s+(NF|\$(\d|NF))\s*;?\s*\}\s*", words[0]) if len(words) == 1 else None
    if field is None or len(options.get("F", " ")) != 1:
        return None
    between = options.get("F", " ").strip() or None
    rows = [line.split(between) for line in given.splitlines()]
    if field[1] == "NF":
        return "".join(f"{len(row)}\n" for row in rows)
    number = field[2]
    chosen = (row[-1:] if number == "NF" else row[int(number) - 1 : int(number)] for row in rows)
    return "".join("".join(each) + "\n" for each in chosen) if number != "0" else given


def _cut(options: Mapping[str, str], words: Sequence[str], given: str) -> str | None:
    between, number = options.get("d", "\t"), options.get("f", "")
    if len(between) != 1 or not number.isdecimal() or int(number) < 1 or words:
        return None
    rows = (line.split(between) for line in given.splitlines())
    return "".join("".join(row[int(number) - 1 : int(number)]) + "\n" for row in rows)


def _grep(options: Mapping[str, str], words: Sequence[str], given: str) -> str | None:
    plain = len(words) == 1 and bool(words[0]) and re.escape(words[0]) == words[0]
    return f"{words[0]}\n" * given.count(words[0]) if plain and "o" in options else None


def _expr(_: Mapping[str, str], words: Sequence[str], __: str) -> str | None:
    if len(words) != 3 or not (words[0].isdecimal() and words[2].isdecimal()):
        return None
    number = calculated(words[1], int(words[0]), int(words[2]))
    return f"{number}\n" if number is not None else None


def _python(options: Mapping[str, str], words: Sequence[str], _: str) -> str | None:
    # Imported late: it computes as the engine does, and few scripts ask Python.
    from gpudoctor.lint.launchfiles.python_values import printed

    return printed(options["c"]) if not words and "c" in options else None


_COMMANDS: dict[str, tuple[Syntax, Callable[[Mapping[str, str], Sequence[str], str], str | None]]] = {
    "echo": (Syntax(words_of("n e")), _echo),
    "seq": (Syntax(short={"s": "separator"}), _seq),
    "tr": (Syntax(words_of("d c")), _tr),
    "wc": (Syntax(words_of("l w c m")), _wc),
    "awk": (Syntax(short={"F": "between"}), _awk),
    "cut": (Syntax(short={"d": "delimiter", "f": "fields"}), _cut),
    "grep": (Syntax(words_of("o")), _grep),
    "expr": (Syntax(), _expr),
    **dict.fromkeys(("python", "python3"), (Syntax(short={"c": "command"}), _python)),
}
_READ_NOTHING = frozenset({"echo", "seq", "expr", "python", "python3"})
