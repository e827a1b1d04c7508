"""Values of the shell's variables: what an expansion comes to, and what is left of them where branches meet."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from gpudoctor.lint.launchfiles.shell_words import Hole, ShellVariable, Word, WordPart


def is_open(parts: Sequence[WordPart]) -> bool:
    """It may be several words, or none, where it is not known and nothing says what it mostly is."""
    if any(isinstance(part, str) for part in parts):
        return False
    usual = "".join("one" if part.single else part.default or " " for part in parts if isinstance(part, Hole))
    return not usual or " " in usual or usual.startswith("-")


def is_list(source: str) -> bool:
    return bool(re.match(r"\$[@*]|\$\{[@*]|\$\{\w+\[[@*]\]", source))


def plain_text(text: str) -> str | None:
    """A default that says itself what it is, without the quotes around it."""
    bare = text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
    return None if re.search(r"[$`\"'\\\n]", bare) else bare


def unescaped(text: str) -> str:
    known = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
    return re.sub(r"\\(.)", lambda found: known.get(found[1], found[0]), text)


def calculated(sign: str, left: int | None, right: int | None) -> int | None:
    """What the shell makes of two numbers."""
    if left is None or right is None or max(left, right) > 10**6:
        return None
    if sign == "*":
        return left * right
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    if not right or sign not in "/%":
        return None
    return left // right if sign == "/" else left % right


def glued(parts: Iterable[WordPart]) -> tuple[WordPart, ...]:
    found: list[WordPart] = []
    for part in parts:
        if isinstance(part, str) and found and isinstance(found[-1], str):
            found[-1] += part
        else:
            found.append(part)
    return tuple(found)


def joined(ends: Sequence[dict[str, ShellVariable]]) -> dict[str, ShellVariable]:
    """What is known where several ways meet: what all of them agree about."""
    first, *others = ends
    if not others:
        return first
    found: dict[str, ShellVariable] = {}
    for name in {name for end in ends for name in end}:
        bound = [end[name] for end in ends if name in end]
        same = len(bound) == len(ends) and all(each.words == bound[0].words for each in bound)
        exported = any(each.exported for each in bound)
        hole = Word((Hole(name),), bound[0].at, open=bound[0].array)
        # `[[ -n $LR ]] && ARGS+=(--lr $LR)`: what stands before is known.
        kept = _common_start(bound) if len(bound) == len(ends) and all(each.array for each in bound) else ()
        found[name] = bound[0] if same else ShellVariable((*kept, hole), bound[0].at, exported, bound[0].array)
    return found


def _common_start(bound: Sequence[ShellVariable]) -> tuple[Word, ...]:
    together = itertools.takewhile(
        lambda words: len(set(words)) == 1, zip(*(each.words for each in bound), strict=False)
    )
    return tuple(words[0] for words in together)
