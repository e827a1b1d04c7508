"""Commands that start others beside the script: terminals that it opens, and one process for each of many items."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpudoctor.lint.launchfiles.shell_words import Hole, Word, WordPart
from gpudoctor.lint.launchfiles.start import StartOptions
from gpudoctor.lint.launchfiles.syntax import Syntax, options_of, words_of
from gpudoctor.record import dataclass, replace

_XARGS = Syntax(
    words_of("0 null r no-run-if-empty t verbose p interactive x exit"),
    {"I": "replace", "P": "max-procs", "n": "max-args", "L": "max-lines", "d": "delimiter", "a": "arg-file"},
)
_PARALLEL = Syntax(
    words_of(
        "will-cite no-notice bar progress eta dry-run keep-order k group ungroup u line-buffer lb tag verbose v resume "
        "resume-failed no-run-if-empty r null 0 link xapply X m plain bg fg help"
    ),
    {"j": "jobs", "P": "jobs", "max-procs": "jobs", "a": "arg-file", "S": "sshlogin", "N": "max-args", "I": "replace"},
)
_ITEM = re.compile(r"(?<!\$)\{(?:\d*(?:[.#%]|/[./]?)?|=.*?=)\}")
"""What GNU parallel fills in: `{}`, `{1}`, `{%}`, `{/.}`."""
_INPUT = (":::", "::::", ":::+", "::::+")

_TMUX = Syntax(
    words_of("d D A P E X h v b f k a l R M H 2 u C"),
    {"s": "session", "n": "window", "t": "target", "c": "folder", "x": "width", "y": "height", "e": "env"}
    | {"F": "format", "p": "percentage", "L": "socket", "S": "socket-path", "N": "repeat"},
)  # fmt: skip
_TMUX_STARTS = frozenset(
    {"new-session", "new", "new-window", "neww", "split-window", "splitw", "respawn-pane", "respawnp"}
)
_TMUX_TYPES = frozenset({"send-keys", "send"})
_KEYS = frozenset({"C-m", "Enter", "ENTER", "KPEnter", "C-j", "C-c", "C-l", "Space", "Escape"})
_SCREEN = Syntax(
    words_of("d m D R A L U dm md dmL"),
    {"S": "session", "dmS": "session", "mdS": "session", "dmLS": "session", "LdmS": "session", "t": "title"}
    | {"c": "config", "s": "shell", "h": "history", "X": "told"},
)


@dataclass(frozen=True)
class OnItems:
    """A command that is started for each of many items."""

    words: tuple[Word, ...]
    at_once: bool
    """It does not wait for one before it starts the next."""


def repeated(name: str, words: Sequence[Word]) -> OnItems | None:
    """What `xargs` and `parallel` start, with nothing known in the place of the item."""
    if name == "xargs":
        options, following, _ = options_of(words, _XARGS)
        mark = options["replace"].text if "replace" in options else None
        made = tuple(_without(each, re.compile(re.escape(mark))) for each in following) if mark else following
        if made and not mark:
            made = (*made, Word((Hole(),), made[-1].at, open=True))
        return OnItems(made, "max-procs" in options and options["max-procs"].text != "1") if made else None
    options, following, _ = options_of(words, _PARALLEL)
    end = next((at for at, each in enumerate(following) if each.text in _INPUT), len(following))
    # On other machines it may be one on each.
    if not end or "sshlogin" in options:
        return None
    made = tuple(_without(each, _ITEM) for each in following[:end])
    return OnItems(made, "jobs" not in options or options["jobs"].text != "1")


def _without(word: Word, mark: re.Pattern[str]) -> Word:
    """The word with a hole wherever the mark stands in it."""
    parts: list[WordPart] = []
    spans: list[tuple[int, int]] = []
    if len(word.inside) != len(word.parts):
        return replace(word, parts=(Hole(),), inside=()) if any(mark.search(str(part)) for part in word.parts) else word
    for part, (start, end) in zip(word.parts, word.inside, strict=True):
        if not isinstance(part, str) or mark.search(part) is None:
            parts.append(part)
            spans.append((start, end))
            continue
        # Backslashes make the source longer than what it says.
        if len(part) != end - start:
            return replace(word, parts=(Hole(),), inside=((word.inside[0][0], word.inside[-1][1]),))
        at = 0
        for found in mark.finditer(part):
            parts += [part[at : found.start()], Hole()] if found.start() > at else [Hole()]
            spans += [(start + at, start + found.start())] if found.start() > at else []
            spans.append((start + found.start(), start + found.end()))
            at = found.end()
        if at < len(part):
            parts.append(part[at:])
            spans.append((start + at, end))
    return replace(word, parts=tuple(parts), inside=tuple(spans))


@dataclass(frozen=True)
class InTerminal:
    """A command that runs in a terminal of its own: one word is a script, several are its words."""

    words: tuple[Word, ...]
    options: StartOptions
    own: bool
    """The terminal is a new one, and runs nothing else."""


def in_terminal(name: str, words: Sequence[Word]) -> Iterator[InTerminal]:
    """What `tmux` and `screen` start, and type into terminals, where the script goes on beside it."""
    if name == "screen":
        options, following, _ = options_of(words, _SCREEN)
        if following and "told" not in options:
            yield InTerminal(following, options, own=True)
        return
    _, following, _ = options_of(words, _TMUX)
    told = following[0].text if following else None
    options, following, _ = options_of(following[1:], _TMUX)
    if told in _TMUX_STARTS and following:
        yield InTerminal(following, options, own=True)
    elif told in _TMUX_TYPES:
        for each in following:
            if each.text not in _KEYS:
                yield InTerminal((each,), options, own=False)
