"""Tracebacks of Python, put together from lines that may come from several processes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.logs.log_facts import LoggedCrash, LoggedFrame, LogPlace
from gpudoctor.logs.speakers import Speaker
from gpudoctor.record import replace

BEGIN = "Traceback (most recent call last)"
_TOLD_FIRST = re.compile(rf"(?P<type>[A-Za-z_][\w.]*)\s{{2,}}{re.escape(BEGIN)}")
"""Notebooks name the error in front of its calls."""
_FRAME = re.compile(
    r'(?:(?:.*\s\s|\s*)File "|"|(?=[^"\s]+", line \d+, in ))(?P<path>[^"]+)", line (?P<line>\d+)'
    r"(?:, in (?P<function>.+))?\s*$"
)
ERROR_ALONE = re.compile(r"(?:[A-Za-z_][\w.]*(?:Error|Exception|Exit)|Exception):(?: \S|\s*$)")
"""The last line of a traceback that stands alone."""
_UNTYPED = re.compile(r"[A-Za-z][\w' -]{1,80}: (?P<text>\[Errno \d+\] .+)")
"""What a program writes of an error that it has caught, where the number tells its kind."""
_BARE = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception)\s*$")
"""The same where it has no text, behind what names its process."""
_RAISES = re.compile(r"\s+raise (?P<type>[A-Za-z_][\w.]*)\(")
"""The last call of an error: some programs print the calls, and then what it says without its type."""
STARTS_PYTHON = (
    r"'?\[?'?[^',]*\b(?:python[\d.]*(?:\.exe)?|accelerate|torchrun|deepspeed|mpirun|horovodrun|srun|(?:ba)?sh)\b"
)
"""The command in a `CalledProcessError` of a launcher; others are of what a program has called itself."""
_IGNORED = "Exception ignored in"
_BOX = "│╭╰❱┃┏┗ "
"""What rich draws around a traceback."""
_BOXED_FRAME = re.compile(r"│ (?P<path>\S+):(?P<line>\d+) in (?P<function>\S+)")
_BOXED_PART = re.compile(r"│ ?(?P<path>[^\s│:]*/[^\s│:]*)\s*│\s*$")
"""The begin of a path that is longer than the box is wide."""
_NOTEBOOK_FRAME = re.compile(
    r"(?:File (?P<path>\S+?):(?P<line>\d+), in (?P<function>[\w.<>]+)|(?P<cell>Cell In ?\[\d+\]), line (?P<at>\d+)"
    r"|(?P<file>[~/]\S+\.py|<(?:ipython-input|command)-[\w-]+>) in (?P<within>[\w<>]+))"
)
_NOTEBOOK_LINE = re.compile(r"-+> (?P<line>\d+)\b")
"""The line of a call, in the source that older notebooks show below its file."""
_ERROR = re.compile(r"(?P<type>[A-Za-z_][\w.]*?)(?:\s*:\s?(?P<text>.*))?\s*$")
_ERROR_NAME = re.compile(
    r"(?:Error|Exception|Interrupt|ProcessExit|Warning|Timeout|Failure|Abort|OutOfMemory|Stop\w*)$|^(?:[a-z_]\w*\.)+[A-Z]\w*$"
)
_MAYBE_NAME = re.compile(r"[A-Z]\w*[a-z]\w*$|(?:\w+\.)+(?:\w*error|timeout)$")
"""What an exception may be called where a text follows; neither a level of a logger nor the name of a file."""
_BAR = re.compile(r"\d+%\|")
"""A progress bar."""
_AT_ONCE = re.compile(
    r"(?:(?P<module>[A-Za-z_][\w.]*?)(?P=module)+\.+)?(?P<names>(?P<name>[A-Za-z_]\w*?(?:Error|Exception|Interrupt))"
    r"(?P=name)+)(?:: ?)*(?P<text>.*)$"
)
"""The last line of several tracebacks at once: Python writes its parts one by one, and so do the other processes."""
_TEXT_AT_ONCE = re.compile(r"(?P<name>[A-Za-z_]\w*(?:Error|Exception|Interrupt))(?P<text>[^\w.:\s(^].+)$")
"""The same where the text follows at once: what stands between the two was written elsewhere."""
_REPEATED = re.compile(r"(?P<text>.{1,400}?)(?P=text)+$")
_CONTEXT = ("During handling of the above exception", "The above exception was the direct cause")
_SPAWNED = re.compile(r"(?:-- |\bERROR:\s?)Process (?P<rank>\d+) terminated with the following error:")
_OF_RAY = re.compile(r"(?:[\w.]+(?:\(\w+\))?: )?ray::\S+\(\) \((?P<tag>pid=\d+), ip=(?P<host>[\w.:]+)[,)]")
"""What Ray writes in front of the calls of a task that failed in another process."""
_OF_A_RANK = re.compile(r"last\): \(RANK (?P<rank>\d+)\)")
"""What each rank is told of the others where a checkpoint fails on one of them."""
_ELSEWHERE = re.compile(r"Caught (?P<type>\w+) in (?:DataLoader worker process|replica) \d+")
_ENDS = re.compile(
    r"\s*$|Traceback |=====|-----|\[[EWI](?!RROR\] \d{4}-\S+ \(PID:)|\[rank|[EWI]\d{4} |frame #\d+:|\*{5}|"
    r"Exception raised from |[^:]{1,60}: +\d+%\||torch\.distributed\.elastic\.multiprocessing\.errors\.|"
    r"(?:ERROR|WARNING|INFO|DEBUG):[\w.]+:|\[?(?:\d\d){0,2}[-/]?\d\d[-/]\d\d(?:/\d{4})?[ T]\d\d:\d\d|"
    r"\S+\.py:\d+: \w*Warning: |Exception in thread |Process \S+:\s*$|\(raylet|Set the environment variable HYDRA_FULL|"
    r"\S+:\d+:\d+ \[\d+\] (?:\S+:\d+ )?NCCL |(?:\([\w-]+\) )?[\w-]+@[\w-]+:\S*[$#] |"
    r"\[\d\d:\d\d:\d\d\] +[A-Z]{4,} |"
    r"(?:srun|slurmstepd): |Killing subprocess \d|Child process with PID \d|wandb: |Exception ignored in"
)
_OF_LAUNCHER = re.compile(r"(?:[EWI]\d{4} |(?:ERROR|WARNING):|\[\d{4}-).*torch[/.]distributed[/.]elastic")
"""What torch's launcher says when its processes have ended."""
_INDENT = 2
"""Blanks before a call."""
_MOST_LINES = 24
"""Lines of an exception's text that are kept."""
_MOST_FRAMES = 2_000


class _OpenTraceback:
    """A traceback whose error has not come yet.

    `begun` counts those that began before one of them ended; `outer` is the error in whose text it stands, and
    `called_by` the same where that was raised in the same process, or for it. `named` is the type of the error where
    that is known before its line has come.
    """

    def __init__(
        self,
        by: Speaker,
        at: LogPlace,
        *,
        headless: bool = False,
        ignored: bool = False,
        outer: LoggedCrash | None = None,
    ) -> None:
        self.by = by
        self.at = at
        self.headless = headless
        self.ignored = ignored
        self.outer = outer
        self.begun = 1
        self.mixed = False
        self.named = ""
        self.called_by: LoggedCrash | None = None
        self.source, self.source_at = "", 0
        self.boxed = ""
        self.frames: list[LoggedFrame] = []
        self.unnumbered: tuple[str, str] | None = None
        self.indent = 0

    def add(self, frame: LoggedFrame, before: int = _INDENT) -> None:
        """One more call, with the blanks before it: where there are more than Python writes, all is indented."""
        if not self.frames:
            self.indent = max(self.indent, before - _INDENT)
        if len(self.frames) < _MOST_FRAMES:
            self.frames.append(frame)
            self.source = ""

    @property
    def of_destructor(self) -> bool:
        """Python prints such an error and goes on."""
        return not self.headless and bool(self.frames) and self.frames[0].function == "__del__"

    def notebook(self, text: str) -> bool:
        """A line as notebooks show calls, and the source below each."""
        if found := _NOTEBOOK_FRAME.match(text):
            if found["file"]:
                self.unnumbered = (found["file"], found["within"])
            elif found["cell"]:
                self.add(LoggedFrame(found["cell"], int(found["at"]), "<module>"))
            else:
                self.add(LoggedFrame(found["path"], int(found["line"]), found["function"].rpartition(".")[2]))
            return True
        if self.unnumbered is not None and (found := _NOTEBOOK_LINE.match(text)):
            self.add(LoggedFrame(self.unnumbered[0], int(found["line"]), self.unnumbered[1]))
            self.unnumbered = None
            return True
        return False

    def ordered(self) -> tuple[LoggedFrame, ...]:
        """The calls, outermost first: some editors show them the other way round."""
        reverse = (
            len(self.frames) > 1
            and self.frames[-1].function == "<module>"
            and f"{self.frames[-2].function}(" in self.source
        )
        return tuple(self.frames[::-1] if reverse else self.frames)


class _OpenError:
    """An exception whose text may go on, indented as its calls are. `stamped`: a time stood in front of its first
    line."""

    def __init__(self, crash: LoggedCrash, stamped: bool, indent: int) -> None:
        self.crash = crash
        self.stamped = stamped
        self.indent = indent
        self.lines = [crash.text] if crash.text else []

    @property
    def holds_traceback(self) -> bool:
        """Its text has calls of its own: a syntax error, or what another process has raised."""
        return "SyntaxError" in self.crash.type or any("raceback" in line for line in self.lines)

    def ends_before(self, text: str) -> bool:
        """Calls without their begin, or behind an empty line the last line of another traceback."""
        another = _FRAME.match(text) or (ERROR_ALONE.match(text) if self.lines[-1:] == [""] else None)
        return another is not None and not self.holds_traceback

    def closed(self) -> LoggedCrash:
        return replace(self.crash, text="\n".join(self.lines))


class TracebackReader:
    """Follows the tracebacks of all speakers of one file."""

    def __init__(self) -> None:
        self._open: dict[Speaker, _OpenTraceback] = {}
        self._texts: dict[Speaker, _OpenError] = {}
        self._earlier: dict[Speaker, LoggedCrash] = {}
        self._spawned: int | None = None
        self._named_at: LogPlace | None = None
        self._ignored: Speaker | None = None
        self._error_line: tuple[Speaker, int] | None = None

    @property
    def busy(self) -> bool:
        """Something of any speaker is open."""
        return bool(self._open or self._texts or self._earlier) or self._spawned is not None

    def follows(self, by: Speaker) -> bool:
        """Something of this speaker is open, so that its next lines matter."""
        return by in self._open or by in self._texts or by in self._earlier or self._spawned is not None

    def whose(self, by: Speaker, text: str, at: LogPlace) -> Speaker:
        """Who has said a line: launchers name only the first line of what a process has written at once."""
        if self._error_line is None or by.is_known or self.follows(by) or not text[:1].isspace():
            return by
        if _BAR.search(text) or _FRAME.match(text):
            return by
        last, order = self._error_line
        return last if last in self._texts and order == at.order - 1 else by

    def feed(self, by: Speaker, text: str, at: LogPlace) -> Iterator[LoggedCrash]:
        """One line; the exceptions that are complete with it."""
        yield from self._fed(by, text, at)
        self._error_line = (by, at.order) if by in self._texts else None

    def _fed(self, by: Speaker, text: str, at: LogPlace) -> Iterator[LoggedCrash]:
        if spawned := _SPAWNED.search(text):
            # `mp.spawn` tells in the parent what happened in a rank.
            self._spawned = int(spawned["rank"])
            self._named_at = at
            self._texts.pop(by, None)
            self._open.pop(by, None)
            return
        if text.startswith(_IGNORED):
            self._ignored = by
        if "ray::" in text and (remote := _OF_RAY.match(text)):
            # The calls before are of who waited for it, which tell where it was called.
            opened = self._open.setdefault(by, _OpenTraceback(by, at, headless=True))
            opened.by = replace(by, tag=remote["tag"], host=remote["host"])
        elif BEGIN in text:
            yield from self._begin(by, text, at)
        elif by in self._open:
            yield from self._within(by, text, at)
        elif by in self._texts:
            yield from self._text(by, text, at)
        elif text.startswith(_CONTEXT) and by in self._earlier:
            return
        elif text.strip() and (earlier := self._earlier.pop(by, None)) is not None:
            yield earlier
        elif _FRAME.match(text) or ERROR_ALONE.match(text) or (self._spawned is not None and _BARE.match(text)):
            self._headless(by, text, at)
        elif untyped := _UNTYPED.match(text):
            # Whether it ended the process is not told.
            yield LoggedCrash(by, at, "OSError", untyped["text"].rstrip(), (), headless=True, ignored=True)

    def end(self) -> Iterator[LoggedCrash]:
        """What was open when the file ended."""
        for by, error in self._texts.items():
            yield self._with_earlier(by, error)
        for by, opened in self._open.items():
            yield self._cut(opened, self._earlier.pop(by, None))
        yield from self._earlier.values()
        if self._spawned is not None and self._named_at is not None:
            # The log ends before the traceback of this rank.
            yield LoggedCrash(Speaker(rank=self._spawned), self._named_at, "", "", ())
            self._spawned = None
        self._open.clear()
        self._texts.clear()
        self._earlier.clear()

    def _begin(self, by: Speaker, text: str, at: LogPlace) -> Iterator[LoggedCrash]:
        if by in self._open:
            # Processes without a name write at once: whose a line is cannot be told.
            opened = self._open[by]
            opened.begun += 1
            opened.mixed = True
            return
        outer: LoggedCrash | None = None
        of_rank = _OF_A_RANK.search(text)
        if by in self._texts:
            error = self._texts.pop(by)
            if "Original Traceback" in text or of_rank or (self._spawned is not None and not error.crash.frames):
                # The text of an exception holds the traceback of where it was raised: that is the one to show.
                self._earlier.pop(by, None)
                outer = error.closed()
            else:
                yield self._with_earlier(by, error)
        # What led to it, or what it stands in, is of the same process.
        of = outer or self._earlier.get(by)
        who = replace(by, rank=self._spawned) if self._spawned is not None else of.by if of is not None else by
        if of_rank and not who.is_known:
            who = replace(who, rank=int(of_rank["rank"]))
        self._open[by] = _OpenTraceback(who, at, ignored=self._ignored == by, outer=outer)
        self._open[by].indent = len(text) - len(text.lstrip(" "))
        if told := _TOLD_FIRST.match(text):
            self._open[by].named = told["type"]
        elif text.startswith("^C"):
            # The terminal shows that somebody has stopped it.
            self._open[by].named = "KeyboardInterrupt"
        self._open[by].called_by = None if self._spawned is not None else outer
        self._spawned = None
        self._ignored = None

    def _within(self, by: Speaker, text: str, at: LogPlace) -> Iterator[LoggedCrash]:
        """A line while a traceback is open. Of several that ran into each other, one may have ended already."""
        opened, ended = self._open[by], self._texts.get(by)
        if ended is not None and _OF_LAUNCHER.match(text):
            # All have: what could not be told apart from the output of others is lost.
            del self._open[by]
            yield from self._text(by, text, at)
            return
        self._inside(opened, by, text, at)
        if ended is None:
            return
        if self._texts.get(by) is not ended:
            yield ended.closed()
        elif not ended.lines and text.strip() and not text[0].isspace():
            ended.lines.append(_once(text, ended.crash.type))

    def _headless(self, by: Speaker, text: str, at: LogPlace) -> None:
        """A traceback of which the log has only what came later."""
        opened = _OpenTraceback(by if self._spawned is None else replace(by, rank=self._spawned), at, headless=True)
        self._spawned = None
        self._open[by] = opened
        self._inside(opened, by, text, at)

    @staticmethod
    def _cut(opened: _OpenTraceback, earlier: LoggedCrash | None) -> LoggedCrash:
        """The log ends before the error; where another had led to it, that one is known."""
        crash = LoggedCrash(
            opened.by, opened.at, opened.named, "", opened.ordered(), mixed=opened.mixed, ignored=opened.ignored
        )
        if crash.place is None and opened.outer is not None:
            return replace(opened.outer, by=opened.by)
        if earlier is None:
            return crash
        return replace(earlier, frames=crash.frames if crash.place is not None else earlier.frames)

    def _inside(self, opened: _OpenTraceback, by: Speaker, text: str, at: LogPlace) -> None:
        if found := _FRAME.match(text) or _BOXED_FRAME.search(text):
            frame = LoggedFrame(opened.boxed + found["path"], int(found["line"]), found["function"] or "")
            opened.add(frame, len(text) - len(text.lstrip(" ")))
            opened.boxed = ""
            return
        part = _BOXED_PART.search(text) if "│" in text else None
        opened.boxed = opened.boxed + part["path"] if part is not None else ""
        text = text.removeprefix(" " * opened.indent)
        if opened.notebook(text):
            return
        if opened.frames and not opened.source:
            opened.source, opened.source_at = text, at.order
        if not text.strip() or text[0] in " \t" or text.lstrip()[0] in _BOX or text.rstrip()[-1] in "│╮╯":
            return
        text, times = _disentangled(text)
        error = _ERROR.match(text)
        if error is None or not _is_error(error["type"], error["text"], opened.mixed):
            raises = _RAISES.match(opened.source)
            if raises is None or not opened.headless or at.order != opened.source_at + 1:
                # Output of somebody else, in between.
                return
            error = _ERROR.match(f"{raises['type']}: {text}")
            assert error is not None
        crash = LoggedCrash(
            opened.by,
            opened.at,
            error["type"],
            (error["text"] or "").rstrip(),
            opened.ordered(),
            opened.called_by,
            mixed=opened.mixed,
            headless=opened.headless,
            ignored=opened.ignored or opened.of_destructor,
        )
        opened.begun -= times
        if opened.begun <= 0:
            del self._open[by]
        self._texts[by] = _OpenError(crash, bool(at.at), opened.indent)

    def _text(self, by: Speaker, text: str, at: LogPlace) -> Iterator[LoggedCrash]:
        error = self._texts[by]
        text = text.removeprefix(" " * error.indent)
        if error.ends_before(text):
            del self._texts[by]
            closed = self._with_earlier(by, error)
            self._headless(by, text, at)
            if by in self._texts and _ELSEWHERE.search(closed.text):
                # What was raised in a worker or a replica, of whose traceback no more is there.
                self._texts[by].crash = replace(self._texts[by].crash, raised_first=closed, frames=closed.frames)
            else:
                yield closed
            return
        if at.at and not error.stamped:
            # A logger writes the time in front of its lines, and Python does not.
            del self._texts[by]
            yield self._with_earlier(by, error)
        elif text.startswith(_CONTEXT):
            del self._texts[by]
            self._earlier[by] = self._with_earlier(by, error)
        elif len(error.lines) >= _MOST_LINES or (
            _ENDS.match(text) and (error.lines or text.strip()) and not _ELSEWHERE.search(text)
        ):
            if text.strip():
                del self._texts[by]
                yield self._with_earlier(by, error)
            # An empty line may be followed by "During handling of ...", or belong to the text.
            elif len(error.lines) < _MOST_LINES:
                error.lines.append("")
                if error.lines[-2:] == ["", ""]:
                    del self._texts[by]
                    yield self._with_earlier(by, error)
        else:
            error.lines.append(text)

    def _with_earlier(self, by: Speaker, error: _OpenError) -> LoggedCrash:
        crash = error.closed()
        earlier = self._earlier.pop(by, None)
        return replace(crash, text=crash.text.rstrip(), raised_first=earlier or crash.raised_first)


def _is_error(name: str, text: str | None, mixed: bool) -> bool:
    """A line of this form is the last one of a traceback, and no output of the program."""
    if _ERROR_NAME.search(name) or mixed:
        return _ERROR_NAME.search(name) is not None
    return text is not None and _MAYBE_NAME.match(name) is not None and not _BAR.search(text)


def _disentangled(text: str) -> tuple[str, int]:
    """The last line of a traceback, once, and how many processes have written it at once."""
    found = _AT_ONCE.match(text)
    if found is not None:
        name = f"{found['module']}.{found['name']}" if found["module"] else found["name"]
        return f"{name}: {_once(found['text'], name)}".rstrip(": "), len(found["names"]) // len(found["name"])
    if (beside := _TEXT_AT_ONCE.match(text)) is not None:
        return f"{beside['name']}: {_once(beside['text'], beside['name'])}", 1
    return text, 1


def _once(text: str, name: str) -> str:
    """The text of an error that several processes have written, with its type in between."""
    said = text.replace(name, "").strip(": ")
    again = _REPEATED.match(said)
    return again["text"] if again else said
