"""Who failed first, how the others followed, and how sure that is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from gpudoctor.logs.endings import (
    CLOSED,
    CUT,
    LEFT_BEHIND,
    LOADER_THREAD,
    NOT_LISTENING,
    OUT_OF_MEMORY,
    SIGKILL,
    STOOD_ALONE,
    STOOD_APART,
    UNLIKE_CALLS,
    VAGUE,
    WATCHED,
    meaning_of_end,
)
from gpudoctor.logs.error_texts import ABORTED, AT_THE_END, OF_LAUNCHERS, meaning_by_kind, meaning_of
from gpudoctor.logs.error_texts.collective_prints import unlike_calls, without_devices
from gpudoctor.logs.error_texts.error_text import ErrorText, FailureRole
from gpudoctor.logs.log_facts import (
    CollectiveStack,
    LogFact,
    LoggedCrash,
    LoggedFrame,
    LogPlace,
    Notice,
    ProcessExit,
    StackDump,
    Standstill,
    Timeout,
)
from gpudoctor.logs.missing_ranks import MissingRanks, missing_from
from gpudoctor.logs.runs_in_log import runs_of
from gpudoctor.logs.speakers import TASK, Speaker
from gpudoctor.logs.tracebacks import STARTS_PYTHON
from gpudoctor.record import dataclass, replace

_LONGEST = 300
_RANK_IN_TEXT = re.compile(
    r"(?:\[Rank |\b(?:on|for) rank:? |Duplicate GPU detected : rank |(?<![-_])\brank=|"
    r"between collectives on ranks\. Rank |^\w*Error: Rank |same model across all ranks, but Rank )(\d+)|"
    r"^\w*Error: \[(\d+)\] is setting up NCCL comm|"
    # `srun --label`, in lines that were put together.
    r"(?<!line) (\d{1,5}): (?=[A-Za-z_][\w.]*Error: )"
)
"""Errors in which a process says its own rank."""
_TIMED_OUT_ELSEWHERE = re.compile(r"due to a collective timeout from\s+rank (\d+)")
"""Whose watchdog gave up first, as it tells the others."""
_LOCAL_RANK_IN_TEXT = re.compile(r"--local[-_]rank[= ](\d+)")
"""Options with which a launcher tells a process its local rank."""
_OF_RAY = re.compile(r"(?:Worker IP address: (?P<host>[\d.]+) .*)?Worker PID: (?P<pid>\d+)")
"""How Ray names a worker that has ended."""
_ACTOR_OF_RAY = re.compile(r"^\s*pid: (\d+)$", re.M)
"""The one that has ended, in the error of whoever had called it."""
_RANK_THAT_IS_GONE = re.compile(r"(?:waiting for send/recv from|application crash on) (rank \d+)")
_LAUNCHER_THAT_IS_LEFT = re.compile(r"The node '(?P<host>[\w.-]+?)(?:_\d+_\d+)?' has failed to send")
_TRIES = re.compile(r"client socket has failed to connect|\[W.*server socket has failed to")
"""What is said of one address, where others may do."""
_NO_HOST = (None, "0.0.0.0", "127.0.0.1")
_OF_SPAWN = re.compile(r"process \d+ terminated with (?:signal|exit code) ")
"""What old versions of `mp.spawn` raise."""
_COMMAND_OF_LAUNCHER = re.compile(rf"Command {STARTS_PYTHON}")
_RENDEZVOUS = re.compile(r"elastic\.rendezvous\b.*Rendezvous\w*Error")
"""What only a launcher raises."""
_HANDLERS = ("sigkill_handler", "sigterm_handler", "_terminate_process_handler")
"""What launchers do when they are told to end, in which they may fail."""
_RAISED = "exit code 1"
"""How Python ends after an error."""
_A_LOOK = 10
"""Seconds."""
_SAYS_NOTHING = ("killed by SIGKILL", "killed by SIGTERM")
"""Signals that leave a process no time to print an error."""
_KILLED = {
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
}


_OF_WINDOWS = {0xC0000005: "an access violation", 0xC0000374: "heap corruption", 0xC000013A: "SIGTERM (Ctrl-C)"}
"""Exit codes that stand for signals there; some launchers tell them as negative numbers."""


@dataclass(frozen=True)
class LoggedFailure:
    """How one process failed: the line that says so, where its own code was, and what the text means.

    `exit`: only a launcher says that it ended. `root`: the launcher saw it end before the others, at `time`. `cut`: its
    error is not in the log, or Python went on after it. `library` raised it, where it was not the program's own code.
    """

    by: Speaker
    at: LogPlace
    text: str
    role: FailureRole
    meaning: ErrorText | None = None
    place: LoggedFrame | None = None
    time: str = ""
    root: bool = False
    exit: bool = False
    cut: bool = False
    library: str = ""

    @property
    def explained(self) -> ErrorText | None:
        """What it means, or at least what its kind says."""
        return self.meaning or meaning_of_end(self.text, exit=self.exit) or meaning_by_kind(self.text)

    @property
    def summary(self) -> str:
        """Its first line that says something."""
        text = without_devices(self.text)
        line = next((line.strip() for line in text.splitlines() if line.strip(" :")), "")
        return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."


@dataclass(frozen=True)
class FollowingRanks:
    """Processes that failed in one way, after another had."""

    ranks: tuple[int, ...]
    processes: int
    failure: LoggedFailure


@dataclass(frozen=True)
class LogDiagnosis:
    """What a log says of a failed job.

    `first` is the failure to look at, `alike` how many processes failed in just this way, `because` why it is taken
    for the first. `missing` are ranks that others waited for. `sure` is false where another order is possible.
    `earlier` is how runs before this one ended, in the same files; `last_run` is false where a later one did not fail.
    """

    first: LoggedFailure | None
    alike: tuple[int, ...]
    because: str
    sure: bool
    missing: MissingRanks | None
    following: tuple[FollowingRanks, ...]
    lines: int
    """The last line of the logs that said something."""
    files: int
    earlier: tuple[LoggedFailure, ...] = ()
    last_run: bool = True


def diagnose(facts: Iterable[LogFact], files: int) -> LogDiagnosis:
    """Put the facts of all logs of one job in order. Of several runs, the last one that failed is told of."""
    found = [_of_one_run(run, files) for run in runs_of(facts)]
    failed = [each for each in found if each.first is not None] or found[-1:]
    earlier = tuple(each.first for each in failed[:-1] if each.first is not None)
    lines = max(each.lines for each in found)
    return replace(failed[-1], earlier=earlier, last_run=failed[-1] is found[-1], lines=lines)


def _of_one_run(known: Sequence[LogFact], files: int) -> LogDiagnosis:
    told = _with_reasons(list(_failures(known)))
    # One address was taken, or refused a connection: it says no more than that none was left.
    whole = {id(each.meaning) for each in told if not each.cut}
    told = [each for each in told if not each.cut or each.meaning is None or id(each.meaning) not in whole]
    # A thread that serves a loader ends after what it serves.
    told = [each for each in told if each.meaning is not LOADER_THREAD] or told
    if any(each.meaning not in (AT_THE_END, ABORTED) and not (each.exit or each.cut) for each in told):
        told = [each for each in told if each.meaning is not AT_THE_END]
    told = [each for each in told if each.meaning is not CLOSED] or told
    failures = _joined(told) or told[:1]
    if all(each.role is FailureRole.PEER for each in failures) and (local := _unheard(known, failures)) is not None:
        failures += [each for each in told if each.exit and each.by == Speaker(local_rank=local)][:1]
    # Who could not connect tries again.
    failures = [each for each in failures if not (each.cut and each.role is FailureRole.WAIT)] or failures
    missing = missing_from(known)
    if all(each.exit for each in failures) and (apart := _standing_apart(known)) is not None:
        failures, missing = apart
    own = [each for each in failures if each.role is FailureRole.OWN]
    if any(not each.cut for each in own) or any(each.role is FailureRole.WAIT for each in failures):
        # An error of which the log has only a part may follow those of which it has all.
        own = [each for each in own if not each.cut]
    gone = [each for each in failures if each.role is FailureRole.PEER]
    # What stands behind the error of one that lost another is mostly that of the next one.
    own = [each for each in own if not (each.cut and any(_stands_before(one, each) for one in gone))]
    if any(_is_why(each) for each in own):
        own = [each for each in own if each.meaning not in VAGUE]
    if any(each.meaning not in (None, ABORTED) for each in own):
        # What native code had told before it ended the process.
        own = [each for each in own if each.meaning is not ABORTED]
    if all(each.exit and each.meaning is None for each in own) and any(_cancelled(each, own) for each in failures):
        own = []
    if any(isinstance(fact, Timeout) for fact in known):
        # So ends a process whose watchdog gave up.
        own = [each for each in own if each.exit or each.meaning is not ABORTED]
    roots = [each for each in failures if each.root]
    first: LoggedFailure | None
    unlike = unlike_calls(each.text for each in own) if all(each.meaning is UNLIKE_CALLS for each in own) else None
    if unlike is not None:
        first = min(own, key=lambda each: (each.by.rank not in unlike.apart, each.at.order))
        because, sure = unlike.text, True
        operation = next(iter(unlike.calls.values())).operation
        # Whether one rank calls one more, or all of them in other orders, is not told.
        missing = MissingRanks((), operation, unlike.text, True)
    elif own:
        first, because, sure = _first_of(own, roots, failures, files)
        if (unheard := _unheard(known, failures)) is not None:
            because = (
                f"the launcher saw the process with local rank {unheard} fail first, whose error is not in the log"
            )
            sure = False
    else:
        first, because, sure = _first_waiting(failures, missing)
    if stood := [fact for fact in known if isinstance(fact, Standstill)]:
        # It has looked at each rank itself, and ended the job for it, or seen gloo do so.
        first, because, sure = _standstill(stood[0]), "`gpudoctor run` watched this job", True
    alike = _alike(first, failures)
    others = [each for each in failures if each is not first and not _same(each, first)]
    last = max((fact.at.order for fact in known), default=0)
    waited = missing if unlike or not own else None
    return LogDiagnosis(first, alike, because, sure, waited, _grouped(others), last, files)


def _with_reasons(told: list[LoggedFailure]) -> list[LoggedFailure]:
    """Why no address was left to listen on stands in what was said of each of them."""
    why = next((each.meaning for each in told if each.cut and "server socket has failed" in each.text), None)
    return [replace(each, meaning=why) if why and each.meaning is NOT_LISTENING else each for each in told]


def _standstill(fact: Standstill) -> LoggedFailure:
    meaning = replace(WATCHED, code=fact.code)
    return LoggedFailure(fact.by, fact.at, fact.text, FailureRole.WAIT, meaning, fact.place)


def _unheard(facts: Sequence[LogFact], failures: Sequence[LoggedFailure]) -> int | None:
    """The local rank that the launcher saw fail, where all that others say is of other processes."""
    ends = [fact for fact in facts if isinstance(fact, ProcessExit) and not fact.root and fact.signal not in (2, 15)]
    saw = {fact.by.local_rank for fact in ends if fact.by.rank is None and fact.by.local_rank is not None}
    if len(saw) != 1 or any(each.exit or each.by.rank is None for each in failures):
        return None
    (local,) = saw
    return None if any(_may_have(each.by, local) for each in failures) else local


def _cancelled(stopped: LoggedFailure, own: Sequence[LoggedFailure]) -> bool:
    """The scheduler had ended the job, and said why, before these processes ended."""
    why = stopped.role is FailureRole.STOPPED and "DUE TO " in stopped.text
    return why and all(_stands_before(stopped, each) for each in own)


def _may_have(by: Speaker, local: int) -> bool:
    """The rank has this local rank on nodes of some size."""
    rank = by.rank or 0
    return local in (by.local_rank, rank) or any(rank % size == local for size in range(local + 1, rank + 1))


def _failures(facts: Sequence[LogFact]) -> Iterator[LoggedFailure]:
    stacks = [fact for fact in facts if isinstance(fact, CollectiveStack)]
    launched: set[str] = set()
    for fact in facts:
        if isinstance(fact, LoggedCrash):
            if (fact.ignored and not fact.type) or _of_starter(fact, launched):
                continue
            told = _crash(fact)
            # Of an error whose traceback is not in the log, nobody knows whether it ended the process.
            bare = fact.headless and not fact.frames and told.meaning is None
            if _launchers_own(fact):
                launched.add(fact.at.path)
            else:
                yield replace(told, cut=True) if bare else told
        elif isinstance(fact, Timeout):
            yield _timeout(fact, stacks)
        elif isinstance(fact, ProcessExit):
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


def _of_starter(crash: LoggedCrash, launched: set[str]) -> bool:
    """It has no error, and begins behind that of the launcher: whoever had started that one fails for it."""
    return not crash.type and not crash.by.is_known and crash.at.path in launched


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
    library = told.frames[-1].library if told.frames and place is not None else ""
    return LoggedFailure(by, crash.at, text, role, meaning, place, cut=crash.ignored or handler, library=library)


def _ranked(by: Speaker, text: str) -> Speaker:
    if by.is_known:
        return by
    if ranked := _RANK_IN_TEXT.search(text):
        return replace(by, rank=int(next(filter(None, ranked.groups()))))
    if local := _LOCAL_RANK_IN_TEXT.search(text):
        return replace(by, local_rank=int(local[1]))
    if worker := _OF_RAY.search(text):
        host = worker["host"] if worker["host"] not in _NO_HOST else by.host
        return replace(by, tag=f"pid={worker['pid']}", host=host)
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
        text = "ended; the log does not tell how" if fact.code is None else f"exit code {fact.code}"
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


def _joined(failures: Sequence[LoggedFailure]) -> list[LoggedFailure]:
    """One failure a process: what a process said itself counts, and its exit code only where it said nothing."""
    told = _whole(_once([each for each in failures if not each.exit]))
    told, exits = _out_of_memory(told, _once([each for each in failures if each.exit]))
    if any(each.by.local_rank is not None for each in exits) or any(_of_launcher(each) for each in told):
        # Each of SLURM's tasks is a launcher, that ends with what it has told itself.
        exits = [each for each in exits if each.by.tag != TASK]
    named = {each.by.local_rank for each in exits if each.by.rank is not None}
    left: list[LoggedFailure] = []
    nameless = [index for index, one in enumerate(told) if not one.by.is_known and not one.by.tag]
    for each in exits:
        if each.by.rank is None and (each.by.local_rank in named or len(told) != len(nameless)):
            # The launcher says it once more, with the rank.
            continue
        own = [index for index, one in enumerate(told) if _may_be(one.by, each.by)]
        for index in own:
            told[index] = _ended_so(told[index], each)
        if not own:
            left.append(each)
    # Those that lost another, or waited for it, are not whose end the launcher saw first.
    nameless = [index for index in nameless if told[index].role is FailureRole.OWN] or nameless
    whose = len(nameless) == 1 and (len(left) == 1 or told[nameless[0]].role is FailureRole.OWN)
    speaking = [each for each in left if not each.text.startswith(_SAYS_NOTHING)]
    # SLURM tells of its tasks in no order.
    whose = whose and not (len(speaking) > 1 and all(each.by.tag == TASK for each in speaking))
    if whose and len({each.text for each in speaking}) == 1:
        # Which process has said it is not in the log, but whose error it must be: of several that end alike, it is that
        # of the first one at least. Those that a launcher has stopped had no time for it.
        end = next((each for each in speaking if each.root), speaking[0])
        left.remove(end)
        told[nameless[0]] = _ended_so(told[nameless[0]], end)
    return sorted([*told, *left], key=lambda each: each.at.order)


def _of_launcher(told: LoggedFailure) -> bool:
    return _RENDEZVOUS.search(told.text) is not None


def _out_of_memory(
    told: list[LoggedFailure], exits: list[LoggedFailure]
) -> tuple[list[LoggedFailure], list[LoggedFailure]]:
    """Where the kernel, or SLURM, says that memory was out, and not for whom, it was for those that were killed."""
    why = [each for each in told if each.meaning is OUT_OF_MEMORY and not each.by.is_known]
    if not why or not any(each.meaning is SIGKILL and (each.by.is_known or each.by.tag) for each in exits):
        return told, exits
    named = [
        replace(each, text=f"{each.text}: {why[0].summary}", meaning=OUT_OF_MEMORY) if each.meaning is SIGKILL else each
        for each in exits
    ]
    return [each for each in told if each not in why], named


def _ended_so(one: LoggedFailure, end: LoggedFailure) -> LoggedFailure:
    by = end.by if one.by.rank is None else one.by
    return replace(one, by=by, root=end.root, time=end.time)


def _whole(told: Sequence[LoggedFailure]) -> list[LoggedFailure]:
    """What a log tells of one failure in two places, together.

    Where a traceback has no error, it is that of the error which the same process told; what the C++ side of a process
    says with its rank is what Python says without it; and NCCL's warning is why NCCL's call failed.
    """
    kept = list(told)
    for each in [one for one in told if one.cut]:
        others = [one for one in kept if not one.cut and (one.by == each.by or not each.by.is_known)]
        others = [one for one in others if one.meaning is None or one.meaning.library != "ray" or one.by == each.by]
        if not others:
            error = next((one for one in kept if _stands_above(one, each)), None)
            if error is not None:
                kept[kept.index(error)] = replace(error, place=each.place)
            if error is not None or (each.place is None and each.text == CUT and not each.by.is_known):
                kept.remove(each)
            continue
        kept.remove(each)
        mine = [one for one in others if one.by == each.by]
        alike = not each.by.is_known and all(_waits_alike(one, others[0]) for one in others)
        if alike or (not each.by.is_known and len(others) == 1):
            # Whoever's it is: those that wait for each other in one collective stand at one line.
            mine = others
        bare = [one for one in mine if not (one.place and one.place.own)]
        if each.text == CUT and each.place is not None and (alike or len(bare) == 1):
            for one in bare:
                kept[kept.index(one)] = replace(one, place=each.place)
    parts = [one for one in kept if one.cut or one.meaning in VAGUE]
    for each in [one for one in parts if one.by.rank is not None and one.place is not None]:
        # NCCL names the GPU, a kernel nothing, and Python the rank.
        whole = [one for one in kept if one is not each and not one.cut]
        if len(whole) == 1 and _native(whole[0]) and len(kept) == 2:
            local, host = whole[0].by.local_rank, whole[0].by.host
            if local is None or _may_have(each.by, local):
                kept.remove(each)
                by = replace(each.by, local_rank=local, host=host or each.by.host)
                kept[kept.index(whole[0])] = replace(whole[0], by=by, place=each.place)
    for each in [one for one in kept if not one.by.is_known and not one.by.tag]:
        twins = [one for one in kept if one.by.is_known and _one_error(one, each)]
        if len(twins) > 1 and each.meaning in VAGUE:
            kept.remove(each)
        if len(twins) == 1 and (twins[0].place is None or each.place in (None, twins[0].place)):
            kept.remove(each)
            place, text = each.place or twins[0].place, _telling(twins[0], each).text
            at = min(each.at, twins[0].at, key=lambda one: one.order)
            kept[kept.index(twins[0])] = replace(twins[0], place=place, text=text, at=at)
    return kept


def _stands_above(error: LoggedFailure, calls: LoggedFailure) -> bool:
    """An error without calls right before calls without an error: some loggers write it first."""
    bare = error.cut and error.text != CUT and error.place is None
    between = calls.at.line - error.at.line - error.text.count("\n") - 1
    return bare and calls.text == CUT and error.by == calls.by and error.at.path == calls.at.path and between in (0, 1)


def _native(each: LoggedFailure) -> bool:
    """A line of native code that may be of any rank."""
    if each.by.rank is not None or each.place is not None or each.exit or each.meaning is None:
        return False
    return each.meaning.library in ("nccl", "cuda", "driver") and (_is_why(each) or each.by.local_rank is None)


def _waits_alike(one: LoggedFailure, other: LoggedFailure) -> bool:
    return one.role is FailureRole.WAIT and one.meaning is not None and one.meaning is other.meaning


def _is_why(each: LoggedFailure) -> bool:
    """It tells what was wrong where others only say that NCCL failed."""
    return each.meaning is not None and each.meaning.library == "nccl" and each.meaning not in VAGUE


def _one_error(one: LoggedFailure, other: LoggedFailure) -> bool:
    if one.place is not None and one.place == other.place and _kind(one) == _kind(other):
        # The program has logged it, and its launcher tells it once more.
        return True
    if one.meaning is None or other.meaning is None:
        return False
    return one.meaning is other.meaning or (one.meaning.library == "nccl" and other.meaning in VAGUE)


def _telling(one: LoggedFailure, other: LoggedFailure) -> LoggedFailure:
    """Python's text, where both mean the same."""
    return other if one.meaning is other.meaning and other.place is not None else one


def _once(failures: Sequence[LoggedFailure]) -> list[LoggedFailure]:
    """Without what a process said twice: an error as C++ prints it, and once more as Python does."""
    said: dict[Speaker, list[LoggedFailure]] = {}
    for each in sorted(failures, key=lambda one: one.at.order):
        kept = said.setdefault(each.by, [])
        twin = next((number for number, one in enumerate(kept) if _echoes(one, each)), None)
        if twin is None:
            kept.append(each)
        elif each.place is not None and kept[twin].place is None:
            kept[twin] = replace(each, at=kept[twin].at)
    return sorted((each for kept in said.values() for each in kept), key=lambda one: one.at.order)


def _echoes(one: LoggedFailure, other: LoggedFailure) -> bool:
    if one.exit or other.exit:
        return one.exit == other.exit
    if one.place and other.place and one.place != other.place:
        return False
    if one.meaning is AT_THE_END and other.meaning is ABORTED:
        return True
    return one.meaning is other.meaning if one.meaning else one.summary == other.summary


def _may_be(speaker: Speaker, named: Speaker) -> bool:
    if speaker.rank is not None:
        return speaker.rank == named.rank
    return speaker.local_rank is not None and speaker.local_rank == named.local_rank


def _who(by: Speaker) -> tuple[str, object]:
    if by.rank is not None:
        return "rank", by.rank
    return ("local", by.local_rank) if by.local_rank is not None else ("tag", (by.host, by.tag))


def _first_of(
    own: Sequence[LoggedFailure], roots: Sequence[LoggedFailure], failures: Sequence[LoggedFailure], files: int
) -> tuple[LoggedFailure, str, bool]:
    named = [each for each in own if each.root]
    by_time = _one_clock(own)
    earliest = min(own, key=lambda each: (each.at.at if by_time else "", each.at.order))
    said_more = [each for each in own if not each.exit]
    if named:
        first = min(named, key=lambda each: (each.time, each.exit, each.at.order))
        if first.exit and said_more and not any(_same_process(first, each) for each in said_more):
            # An exit code without an error; another process has told its own.
            told = min(said_more, key=lambda each: each.at.order)
            return told, "it is the only process whose own error is in the log", False
        together = {each.time for each in failures if each.exit and each is not first and not _same(each, first)}
        if first.exit and first.time in together and not first.meaning:
            return first, "the launcher names it, and saw others end in the same second", False
        # An error that is not in the log may be that another process was gone.
        return first, "the launcher saw it end first", not (first.exit and first.text == _RAISED)
    if said_more:
        earliest = min(said_more, key=lambda each: (each.at.at if by_time else "", each.at.order))
    alone = all(_same(each, earliest) for each in own)
    if alone:
        if any(each.text == CUT and each.by.is_known and not _same_process(earliest, each) for each in failures):
            return earliest, "it is the only error in the log that is not cut off", False
        others = any(each.role in (FailureRole.PEER, FailureRole.WAIT, FailureRole.STOPPED) for each in failures)
        because = "the others ended because of it" if others else "it is the only error in the log"
        # A table of the launcher that ends before the root cause names others, too.
        return earliest, because, not (earliest.cut or (earliest.exit and earliest.time))
    if by_time:
        if any(_within_a_second_elsewhere(earliest, each) for each in own):
            return earliest, "its time is the earliest, by less than clocks of two nodes may differ", False
        return earliest, "its time is the earliest", True
    if files == 1:
        return earliest, "it stands first in the log", len({_who(each.by) for each in own}) == 1
    return earliest, "several processes failed, and the logs have no times", False


def _within_a_second_elsewhere(one: LoggedFailure, other: LoggedFailure) -> bool:
    hosts = {one.by.host, other.by.host} - {""}
    return len(hosts) > 1 and one.at.at.partition(".")[0] == other.at.at.partition(".")[0]


def _one_clock(failures: Sequence[LoggedFailure]) -> bool:
    """All have a time, and of one kind: with the year, or as torch logs it."""
    return all(each.at.at for each in failures) and len({each.at.at[4:5] for each in failures}) == 1


def _standing_apart(facts: Sequence[LogFact]) -> tuple[list[LoggedFailure], MissingRanks | None] | None:
    """Nothing failed, and there are stacks of several processes: those that stood where the fewest did."""
    stacks: dict[Speaker, StackDump] = {}
    for fact in facts:
        if isinstance(fact, StackDump) and (fact.by not in stacks or _of_program(fact)):
            stacks[fact.by] = fact
    stood = [(fact, next((frame for frame in fact.frames if frame.own), None)) for fact in stacks.values()]
    groups: dict[tuple[str, int] | None, list[tuple[StackDump, LoggedFrame | None]]] = {}
    for fact, frame in stood:
        groups.setdefault((frame.path, frame.line) if frame else None, []).append((fact, frame))
    if not stacks:
        return None
    if len(stacks) == 1:
        ((fact, frame),) = stood
        text = f"stood in `{fact.frames[0].function}`"
        return [LoggedFailure(fact.by, fact.at, text, FailureRole.WAIT, STOOD_ALONE, frame)], None
    few, *_, many = sorted(groups.values(), key=len) if len(groups) > 1 else (stood, stood)
    failures = [
        LoggedFailure(fact.by, fact.at, f"stood in `{fact.frames[0].function}`", FailureRole.WAIT, STOOD_APART, frame)
        for fact, frame in (*few, *(each for group in groups.values() if group is not few for each in group))
    ]
    if len(few) == len(many):
        return failures, None
    ranks = tuple(sorted(fact.by.rank for fact, _ in few if fact.by.rank is not None))
    who = f"{len(few)} of {len(stood)} processes stood"
    at = many[0][1]
    others = f"{at.path}:{at.line}" if at else "no line of the program"
    return failures, MissingRanks(ranks, "", f"{who} here, the others at {others}", False)


def _of_program(stack: StackDump) -> bool:
    return stack.thread == "MainThread" or stack.frames[-1].function in ("<module>", "_run_code")


def _same_process(one: LoggedFailure, other: LoggedFailure) -> bool:
    return _who(one.by) == _who(other.by) or not other.by.is_known


def _first_waiting(
    failures: Sequence[LoggedFailure], missing: MissingRanks | None
) -> tuple[LoggedFailure | None, str, bool]:
    waits = [each for each in failures if each.role is FailureRole.WAIT]
    gone = [each for each in failures if each.role is FailureRole.PEER]
    stopped = [each for each in failures if each.role is FailureRole.STOPPED]
    ended = [each for each in stopped if not each.exit]
    if waits:
        before = next((each for each in ended if _stands_before(each, waits[0])), None)
        if before is not None:
            return before, "the others waited after it", False
        timed = min(waits, key=lambda each: each.at.at) if _one_clock(waits) else waits[0]
        placed = next((each for each in waits if each.place), timed)
        because = missing.because if missing else "no process of this log failed by itself"
        return placed, because, missing.sure if missing else False
    if named := next((each for each in ended if each.root), None):
        return named, "the launcher saw it end first", True
    # The launcher goes through its processes in their order, and finds two that have ended since its last look.
    before = next((each for each in ended if gone and each.at.order < gone[0].at.order), None)
    if before is not None:
        return before, "it ended before the others lost it", before.at.path == gone[0].at.path
    if gone:
        if any(each.root for each in gone):
            # A launcher tells each process that fails.
            return _left_behind(gone), "the launcher saw no other process fail", True
        return gone[0], f"the process that ended first{_named_as_gone(gone)} is not in this log", False
    return (stopped[0], "nothing failed before", True) if stopped else (None, "", True)


def _named_as_gone(gone: Sequence[LoggedFailure]) -> str:
    """What those that lost another process call it."""
    for each in gone:
        if rank := _RANK_THAT_IS_GONE.search(each.text):
            return f" ({rank[1]})"
        if actor := _ACTOR_OF_RAY.search(each.text):
            return f" (pid={actor[1]})"
    return ""


def _stands_before(one: LoggedFailure, other: LoggedFailure) -> bool:
    """In one file, so that the order says something."""
    return one.at.path == other.at.path and one.at.order < other.at.order


def _left_behind(gone: Sequence[LoggedFailure]) -> LoggedFailure:
    """The others came to the end of their program without an error, and this rank still wanted them."""
    first = next(each for each in gone if each.root)
    return replace(first, role=FailureRole.WAIT, meaning=LEFT_BEHIND)


def _same(one: LoggedFailure, other: LoggedFailure | None) -> bool:
    """The same error at the same line, in another process."""
    if other is None:
        return False
    if one.exit and other.exit and one.text == other.text == _RAISED and one.time != other.time:
        # One that ended later may have lost the first.
        return False
    if one.place and other.place and one.place.line == other.place.line and one.place.path == other.place.path:
        return _kind(one) == _kind(other)
    if not (one.place is other.place is None and one.role is other.role and _at_once(one.time, other.time)):
        return False
    return _kind(one) == _kind(other) or _waits_alike(one, other)


def _at_once(one: str, other: str) -> bool:
    """As launchers write it. What is more apart than a launcher takes to look at all its processes, is not one end."""
    try:
        apart = datetime.fromisoformat(one.replace("_", "T")) - datetime.fromisoformat(other.replace("_", "T"))
    except ValueError:
        return True
    return abs(apart.total_seconds()) <= _A_LOOK


def _kind(each: LoggedFailure) -> str:
    # Numbers, of a pid, a GPU or bytes, differ between processes that fail alike.
    return re.sub(r"\d+", "0", each.summary)


def _alike(first: LoggedFailure | None, failures: Sequence[LoggedFailure]) -> tuple[int, ...]:
    ranks = {each.by.rank for each in failures if _same(each, first) and each.by.rank is not None}
    return tuple(sorted(ranks))


def _grouped(failures: Sequence[LoggedFailure]) -> tuple[FollowingRanks, ...]:
    groups: dict[tuple[object, object], list[LoggedFailure]] = {}
    for each in failures:
        key = (id(each.meaning), each.place) if each.meaning else (_kind(each), each.place)
        groups.setdefault(key, []).append(each)
    return tuple(
        FollowingRanks(
            tuple(sorted({each.by.rank for each in group if each.by.rank is not None})),
            len({_who(each.by) for each in group}),
            group[0],
        )
        for group in groups.values()
    )
