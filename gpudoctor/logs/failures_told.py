"""From the facts of a log to failures: what each of them says of the process that it is about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from gpudoctor.logs.endings import CUT, SIGKILL
from gpudoctor.logs.error_texts import OF_LAUNCHERS, meaning_of
from gpudoctor.logs.error_texts.error_text import ErrorText, FailureRole
from gpudoctor.logs.log_facts import CollectiveStack, LogFact, LoggedCrash, LoggedFrame, Notice, ProcessExit, Timeout
from gpudoctor.logs.logged_failure import LoggedFailure
from gpudoctor.logs.speakers import Speaker
from gpudoctor.logs.tracebacks import STARTS_PYTHON
from gpudoctor.record import replace

_RANK_IN_TEXT = re.compile(
    r"(?:\[Rank |\bRankID:|\bRank (?=\d+ successfully reached)|\b(?:on|for|around) rank:? |"
    r"Duplicate GPU detected : rank |(?<![-_])\brank=|"
    r"between collectives on ranks\. Rank |^\w*Error: Rank |same model across all ranks, but Rank )(\d+)|"
    r"^\w*Error: \[(\d+)\] is setting up NCCL comm|"
    # `srun --label`, in lines that were put together.
    r"(?<!line) (\d{1,5}): (?=[A-Za-z_][\w.]*Error: )"
)
"""Errors in which a process says its own rank."""
_CAME_TWICE = re.compile(r"Bootstrap Root : rank (\d+) of \d+ ranks has already checked in")
"""Two processes of one rank, as the root tells, which is another."""
_TIMED_OUT_ELSEWHERE = re.compile(r"due to a collective timeout from\s+rank (\d+)")
"""Whose watchdog gave up first, as it tells the others."""
_LOCAL_RANK_IN_TEXT = re.compile(r"--local[-_]rank[= ](\d+)")
"""Options with which a launcher tells a process its local rank."""
_LAUNCHER_THAT_IS_LEFT = re.compile(r"The node '(?P<host>[\w.-]+?)(?:_\d+_\d+)?' has failed to send")
_TRIES = re.compile(r"client socket has failed to connect|\[W.*server socket has failed to")
"""What is said of one address, where others may do."""
_OF_SPAWN = re.compile(r"process \d+ terminated with (?:signal|exit code) ")
"""What old versions of `mp.spawn` raise."""
_COMMAND_OF_LAUNCHER = re.compile(rf"Command {STARTS_PYTHON}")
_HANDLERS = ("sigkill_handler", "sigterm_handler", "_terminate_process_handler")
"""What launchers do when they are told to end, in which they may fail."""
_KILLED = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}


_NOT_TOLD = "ended; the log does not tell how"
_OF_WINDOWS = {0xC0000005: "an access violation", 0xC0000374: "heap corruption", 0xC000013A: "SIGTERM (Ctrl-C)"}
"""Exit codes that stand for signals there; some launchers tell them as negative numbers."""


def failures_of(facts: Sequence[LogFact]) -> list[LoggedFailure]:
    """What failed, in the order of the facts. What only tells of the failure of others counts where it is all there
    is."""
    found = list(_failures_of(_with_first_calls(facts)))
    of_launchers = [fact for fact in facts if isinstance(fact, LoggedCrash) and _launchers_own(fact)]
    ended = [LoggedFailure(each.by, each.at, _NOT_TOLD, FailureRole.OWN, exit=True) for each in of_launchers]
    return found or ended[:1]


def _with_first_calls(facts: Sequence[LogFact]) -> Sequence[LogFact]:
    """Where the log has the last calls of a traceback only, those before them are of one that goes through the same:
    two calls in a row that are the same are so in processes that fail alike."""
    if not any(isinstance(fact, LoggedCrash) and _lacks_first_calls(fact) for fact in facts):
        return facts
    before: dict[tuple[LoggedFrame, ...], tuple[LoggedFrame, ...]] = {}
    for fact in facts:
        if isinstance(fact, LoggedCrash) and fact.place is not None:
            for number, two in enumerate(pairwise(fact.frames)):
                before.setdefault(two, fact.frames[:number])
    return [_continued(fact, before) if isinstance(fact, LoggedCrash) else fact for fact in facts]


def _lacks_first_calls(crash: LoggedCrash) -> bool:
    return crash.headless and len(crash.frames) > 1 and crash.place is None


def _continued(crash: LoggedCrash, before: Mapping[tuple[LoggedFrame, ...], tuple[LoggedFrame, ...]]) -> LoggedCrash:
    first = before.get(crash.frames[:2], ()) if _lacks_first_calls(crash) else ()
    return replace(crash, frames=(*first, *crash.frames)) if first else crash


def _failures_of(facts: Sequence[LogFact]) -> Iterator[LoggedFailure]:
    stacks = [fact for fact in facts if isinstance(fact, CollectiveStack)]
    timed = {fact.by.rank for fact in facts if isinstance(fact, Timeout)}
    launched: set[str] = set()
    programs: set[str] = set()
    for fact in facts:
        if isinstance(fact, LoggedCrash):
            if (fact.ignored and not fact.type) or _of_starter(fact, launched, programs):
                continue
            told = _crash(fact)
            # Of an error whose traceback is not in the log, nobody knows whether it ended the process.
            bare = fact.headless and not fact.frames and told.meaning is None
            if _launchers_own(fact):
                launched.add(fact.at.path)
            else:
                programs.add(fact.program)
                yield replace(told, cut=True) if bare else told
        elif isinstance(fact, Timeout):
            yield _timeout(fact, stacks)
        elif isinstance(fact, CollectiveStack) and fact.by.rank not in timed:
            yield _timeout(Timeout(fact.by, fact.at, "", None, None, 0.0), stacks)
        elif isinstance(fact, ProcessExit):
            launched.add(fact.at.path)
            yield _exit(fact)
        elif isinstance(fact, Notice):
            meaning = meaning_of(fact.text)
            if meaning is not None:
                by, tries = _ranked(fact.by, fact.text), _TRIES.search(fact.text) is not None
                if elsewhere := _TIMED_OUT_ELSEWHERE.search(fact.text):
                    by = Speaker(rank=int(elsewhere[1]))
                elif (left := _LAUNCHER_THAT_IS_LEFT.search(fact.text)) and not by.is_known:
                    by = replace(by, host=left["host"])
                yield LoggedFailure(by, fact.at, fact.text, meaning.role, meaning, cut=tries)


def _of_starter(crash: LoggedCrash, launched: set[str], programs: set[str]) -> bool:
    """It has no error, calls no file of the user's, or is of none of the programs that have told theirs, and begins
    behind that of the launcher, or what that one has told of a process: whoever had started it, a notebook say, fails
    for it."""
    if crash.by.is_known or crash.by.tag or crash.at.path not in launched:
        return False
    if not crash.type or not (crash.program or crash.headless):
        return True
    return bool(programs - {""}) and not crash.headless and crash.program not in programs


def _launchers_own(crash: LoggedCrash) -> bool:
    """What a launcher raises because a process has failed. A log may begin in the middle of its name."""
    cut = crash.at.line == 1 and crash.type[:1].islower()
    names = [name for name in OF_LAUNCHERS if crash.type.endswith(name) or (cut and name.endswith(crash.type))]
    if names == ["CalledProcessError"]:
        return _COMMAND_OF_LAUNCHER.match(crash.text) is not None
    if crash.frames and crash.calls.endswith("spawn.py:join") and not crash.text.strip():
        # What it has to tell of a process stands below.
        return True
    return bool(names) or _OF_SPAWN.match(crash.text) is not None


def _crash(crash: LoggedCrash) -> LoggedFailure:
    # Of a chain, the first error that is understood says most: others were raised while it was handled. Libraries that
    # catch what a service or a file tells them say what it was for.
    chain = [crash]
    while (earlier := chain[-1].raised_first) is not None:
        chain.append(earlier)
    meant = [(each, meaning_of(f"{each.type}: {each.text}", each.calls)) for each in chain]
    telling = next((each for each, meaning in meant if meaning is not None and meaning.tells_more), None)
    told = telling or next((each for each, meaning in reversed(meant) if meaning is not None), crash)
    if not told.type:
        return LoggedFailure(crash.by, crash.at, CUT, FailureRole.OWN, place=crash.place, cut=True)
    text = f"{told.type}: {told.text}" if told.text else told.type
    meaning = meaning_of(text, told.calls)
    if meaning is not None and meaning.role is FailureRole.STOPPED:
        # Below the error may stand what a launcher says of others.
        meaning = meaning_of(text.partition("\n")[0], told.calls)
    role = meaning.role if meaning else FailureRole.OWN
    handler = bool(crash.frames) and crash.frames[-1].function in _HANDLERS
    if handler:
        role, meaning = FailureRole.STOPPED, meaning_of("SIGTERM")
    place = next((each.place for each in (told, *chain) if each.place), None)
    by = _ranked(crash.by, text)
    if told.type.endswith("SignalException"):
        # Of the launcher, and its place is that of whoever started it.
        place = None
    raised = told.frames[-1] if told.frames and place is not None else None
    # Another process, or a thread, has met what is raised again here.
    library = raised.library if raised is not None and raised.function != "reraise" else ""
    cut, headless = crash.ignored or handler, crash.headless and bool(crash.frames)
    return LoggedFailure(by, crash.at, text, role, meaning, place, cut=cut, headless=headless, library=library)


def _ranked(by: Speaker, text: str) -> Speaker:
    if twice := _CAME_TWICE.search(text):
        return Speaker(rank=int(twice[1]))
    if by.is_known:
        return by
    if ranked := _RANK_IN_TEXT.search(text):
        return replace(by, rank=int(next(filter(None, ranked.groups()))))
    if local := _LOCAL_RANK_IN_TEXT.search(text):
        return replace(by, local_rank=int(local[1]))
    return by


def _timeout(fact: Timeout, stacks: Sequence[CollectiveStack]) -> LoggedFailure:
    number = "" if fact.number is None else f" number {fact.number}"
    within = f"within {fact.seconds:.0f} s" if fact.seconds else "in its time"
    text = f"NCCL's watchdog: {fact.operation or 'a collective'}{number} did not end {within}"
    stack = next((each for each in stacks if each.by.rank == fact.by.rank), None)
    place = next((frame for frame in stack.frames if frame.own), None) if stack else None
    return LoggedFailure(fact.by, fact.at, text, FailureRole.WAIT, meaning_of("collective operation timeout"), place)


def _exit(fact: ProcessExit) -> LoggedFailure:
    if fact.code is not None and (name := _OF_WINDOWS.get(fact.code % (1 << 32))):
        meaning = meaning_of(name)
        return _ended(fact, f"killed by {name}", meaning.role if meaning else FailureRole.OWN, meaning)
    if not fact.signal:
        text = _NOT_TOLD if fact.code is None else f"exit code {fact.code}"
        return _ended(fact, text, FailureRole.OWN, None)
    name = _KILLED.get(fact.signal, f"signal {fact.signal}")
    text = f"killed by {name}"
    if fact.signal == 9:
        return _ended(fact, text, FailureRole.OWN, SIGKILL)
    if fact.signal in (2, 15):
        return _ended(fact, text, FailureRole.STOPPED, meaning_of("SIGTERM"))
    return _ended(fact, text, FailureRole.OWN, meaning_of(name))


def _ended(fact: ProcessExit, text: str, role: FailureRole, meaning: ErrorText | None) -> LoggedFailure:
    return LoggedFailure(fact.by, fact.at, text, role, meaning, time=fact.time, root=fact.root, exit=True)
