"""What the errors of distributed training mean, as data: one record a text, in a file for each subject.

`pattern` is searched in the text of an error with its type in front (`RuntimeError: ...`), so it holds what is the same
on every machine: no address, number or path. The first record that matches counts; special ones stand before general
ones, in each file and in the order of the files. `since` and `until` are versions of the library that raises it, and
empty where the text has always been so. What a kind of error says by itself stands in `program_texts`, and counts only
where no other record does.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from gpudoctor.logs.error_texts.ascend_texts import ASCEND_TEXTS, HCCL_FAILED
from gpudoctor.logs.error_texts.checkpoint_texts import CHECKPOINT_TEXTS
from gpudoctor.logs.error_texts.data_texts import DATA_TEXTS
from gpudoctor.logs.error_texts.device_texts import DEVICE_TEXTS
from gpudoctor.logs.error_texts.ending_texts import ENDING_TEXTS
from gpudoctor.logs.error_texts.error_text import ErrorText
from gpudoctor.logs.error_texts.framework_texts import FRAMEWORK_TEXTS
from gpudoctor.logs.error_texts.group_texts import GROUP_TEXTS, OBJECT_TEXTS
from gpudoctor.logs.error_texts.memory_texts import MEMORY_TEXTS
from gpudoctor.logs.error_texts.nccl_texts import NCCL_TEXTS, VAGUE_NCCL_TEXTS
from gpudoctor.logs.error_texts.program_texts import PROGRAM_TEXTS
from gpudoctor.logs.error_texts.scheduler_texts import SCHEDULER_TEXTS
from gpudoctor.logs.error_texts.service_texts import SERVICE_TEXTS
from gpudoctor.logs.error_texts.sharding_texts import SHARDING_TEXTS
from gpudoctor.logs.error_texts.startup_texts import STARTUP_TEXTS
from gpudoctor.logs.error_texts.waiting_texts import WAITING_TEXTS
from gpudoctor.logs.error_texts.words_of_patterns import words_of
from gpudoctor.logs.error_texts.wrapper_texts import WRAPPER_TEXTS

AT_THE_END = ErrorText(
    r"terminate called without an active exception",
    "A thread of native code still ran when the process ended, and it was aborted for that: what the program had to do "
    "was done, or an error had ended it before.",
    "Look at the lines before for an error; otherwise call `destroy_process_group()` last, and wait for checkpoints "
    "that are written in the background.",
    library="libstdc++",
)
"""How a process is aborted that forgets a thread."""
ABORTED = ErrorText(r"SIGABRT|Aborted", "Native code ended the process: the lines before this one say why.")
"""How a process ends that has told its error in native code."""
ERROR_TEXTS: tuple[ErrorText, ...] = (
    *OBJECT_TEXTS,
    *SERVICE_TEXTS,
    *NCCL_TEXTS,
    *ASCEND_TEXTS,
    *MEMORY_TEXTS,
    *CHECKPOINT_TEXTS,
    *SHARDING_TEXTS,
    *WRAPPER_TEXTS,
    *FRAMEWORK_TEXTS,
    *DEVICE_TEXTS,
    *GROUP_TEXTS,
    *WAITING_TEXTS,
    *SCHEDULER_TEXTS,
    *STARTUP_TEXTS,
    *DATA_TEXTS,
    *VAGUE_NCCL_TEXTS,
    HCCL_FAILED,
    *ENDING_TEXTS,
    AT_THE_END,
    ABORTED,
)

OF_LAUNCHERS = (
    "ChildFailedError", "CalledProcessError", "ProcessRaisedException", "ProcessExitedException",
)  # fmt: skip
"""Exceptions by which a launcher says that one of its processes failed."""
QUOTES_ITS_RANK = "ProcessRaisedException"
"""The one of them that holds the traceback of the process."""


_VAGUE = (*VAGUE_NCCL_TEXTS, HCCL_FAILED)
"""Of whose error the lines behind it say more."""
_TEXTS = {False: ERROR_TEXTS, True: PROGRAM_TEXTS}
"""All records, by whether they say only what a kind of error does."""


@cache
def _words(kinds: bool) -> tuple[tuple[frozenset[str], ErrorText], ...]:
    return tuple((words_of(each.pattern), each) for each in _TEXTS[kinds])


@cache
def _all_words(kinds: bool) -> frozenset[str]:
    return frozenset().union(*(words for words, _ in _words(kinds)))


def meaning_of(text: str, calls: str = "") -> ErrorText | None:
    """The record that a text matches, None where nobody has declared it. `calls` are those that raised it, one a line,
    as `file.py:function`."""
    begin = _surely_of(text)
    # What draws a box around a traceback breaks the lines of its error, too.
    found = _first_of(begin, calls, kinds=False) or _first_of(" ".join(begin.split()), calls, kinds=False)
    return _first_of(text, calls, kinds=False) if found in _VAGUE else found


_TRACEBACK = "Traceback (most recent call last):"


def _surely_of(text: str) -> str:
    """The first line, and those that are indented, go on with a sentence, or are announced by a colon: nothing marks
    where the text of an exception ends, and what is printed behind it may be another's."""
    lines = text.split("\n")
    end, quotes = 1, False
    while end < len(lines):
        if not _goes_on(lines[end - 1], lines[end]):
            # The error of a worker or a replica stands below its traceback, in the text of the one that tells of it.
            if not quotes:
                break
            quotes = False
        quotes = quotes or lines[end].endswith(_TRACEBACK)
        end += 1
    return "\n".join(lines[:end])


def _goes_on(line: str, further: str) -> bool:
    if not further or further[0].isspace() or further[0].islower() or ":" in (line[-1:], further[-1:]):
        return True
    return _PLACE_ALONE.fullmatch(line) is not None


_PLACE_ALONE = re.compile(r"(?:[\w.]+: )?\[\S+:\d+\]\s*")
"""Where in native code an error was raised: what it says stands behind."""


def meaning_by_kind(text: str) -> ErrorText | None:
    """What the kind of an error says that no record explains, None where it says nothing."""
    return _first_of(text, "", kinds=True)


# What is asked of one failure is asked again, and ranks fail alike.
@lru_cache(maxsize=1024)
def _first_of(text: str, calls: str, *, kinds: bool) -> ErrorText | None:
    straight = text.replace("\u2019", "'")
    here = {word for word in _all_words(kinds) if word in straight}
    may = (each for words, each in _words(kinds) if not words or not words.isdisjoint(here))
    return next((each for each in may if _means(each, _compiled(each.pattern).search(straight), calls)), None)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _means(each: ErrorText, found: re.Match[str] | None, calls: str) -> bool:
    if found is None or (each.inside and re.search(each.inside, calls) is None):
        return False
    return not each.beyond or float(found["more"]) > each.beyond * float(found["than"])
