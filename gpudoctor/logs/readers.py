"""From lines to facts. Most lines of a log say nothing to us, and are passed over by one search."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator, Sequence

from gpudoctor.logs.error_texts.words_of_patterns import words_of
from gpudoctor.logs.launcher_summary import SummaryReader
from gpudoctor.logs.learned_fronts import LearnedFronts
from gpudoctor.logs.lines import LogLine, lines_of
from gpudoctor.logs.log_facts import (
    CollectiveStack,
    GroupProgress,
    LogFact,
    LoggedFrame,
    LogPlace,
    Notice,
    ProcessExit,
    RunBegin,
    Timeout,
)
from gpudoctor.logs.nccl_processes import NcclProcesses
from gpudoctor.logs.ray_workers import LEARNED_FROM, RayWorkers
from gpudoctor.logs.run_reports import BEGIN, RunReportReader
from gpudoctor.logs.speakers import TASK, Said, Speaker, said, speaker_of
from gpudoctor.logs.stack_dumps import StackDumpReader
from gpudoctor.logs.tracebacks import ERROR_ALONE, STARTS_PYTHON, TracebackReader
from gpudoctor.record import replace

_RUN_BEGINS = (
    r"Setting OMP_NUM_THREADS environment variable for each|^nohup: ignoring|WORLD INFO DICT: |^\| NVIDIA-SMI "
)
"""What torch's launcher, that of DeepSpeed, the shell, and a job that shows its GPUs print first."""
_BEGIN = re.compile(_RUN_BEGINS)
_NOTICES = (
    r"NCCL WARN|NVRM: Xid|oom[-_]kill|Out of memory: Killed|OOMKilled|watchdog got stuck|Heartbeat monitor timed out|"
    r"DUE TO TIME LIMIT|CANCELLED AT|^Terminated\s*$|^(?! ).*[Kk]eyboard ?[Ii]nterrupt(?:ion\b|,)|"
    r"what\(\):|terminate called without an active|Segmentation fault|Bus error|insufficient shared memory|"
    r"^OMP: Error #|joined but didn't finish|"
    r"but didn't join|lagging/dead/mismatched|Detected mismatch between collectives|Duplicate GPU detected|"
    r"terminated with signal|failed to pass monitoredBarrier|received errors while waiting for|"
    r"EI00\d\d: |EJ0001: |EE1002: |EL0004: |execute failed, reason=\[|Out Of Memory|NCCL error|execve\(\): |"
    r"death signal, shutting down|\[E[^\]]*socket\.cpp|failed to listen on any\b|"
    r"server socket has failed to \w+ \w+ \S+ \(errno: (?:13|98|99)|"
    r"\"message\": \"Rendezvous\w*Error|(?:missing|ready) ranks: |waiting for remainder of ranks|"
    r"SIG\w+ (?:\(@\w+\) )?received (?:at time|by PID)|"
    r"A worker died or was killed|THCudaCheck FAIL|\.(?:cu|hip|cpp|cc|c|h):\d+: .*[Aa]ssertion|block: \[.*\] Assertion|"
    r"watchdog thread terminated with exception|Rank \d+\] Some NCCL operations have failed|"
    r"(?:Memory access fault|HW Exception) by GPU|\] NPU out of memory|"
    r"memory allocation of \d+ bytes failed|CUDA driver version is insufficient|"
    r"closing signal SIG|raised from checkTimeout|WorkNCCL::checkTimeout\(|failed to send a keep-alive|"
    r"waiting on exit barrier|"
    r"application crash on rank|"
    r"size mismatch for |"
    r"^[^:]{1,80}: error: (?:unrecognized arguments: |the following arguments are|argument [^:]+: |ambiguous option)|"
    r"Horovod has been shut down|Watchdog caught co|connectFullMesh failed|has been marked as ready twice|"
    r"can't open file '[^']*': |"
    r"\bLoss is (?:nan|inf), stopping|"
    r"^(?:free|malloc)\(\): |^double free or |^corrupted (?:size|double)|^munmap_chunk|stack smashing detected|"
    r"^(?:\S+: )?(?:line \d+: )?(?:torchrun|python3?|accelerate|deepspeed|srun|mpirun|horovodrun|conda): "
    r"(?:command )?not found$|未找到命令|"
    r"version `GLIBC\S* not found|^\S*python[\d.]*: No module named|"
    r"Error response from daemon|nvidia-container-cli: |ErrImagePull|ImagePullBackOff|node was low on resource|"
    r"enough slots available|Permission denied \(publickey|Host key verification failed|"
    r"Got fatal signal from worker processes|srun: error: (?:Unable to|Node failure|task \d+ launch|Task launch)|"
    r"(?<![`'\"])CUDA error: (?!out of memory)\w|SignalException: Process \d+ got signal|"
    r"pmixp_coll\w*: .*collective timeout|pmixp_client.* status = -61\b|mlx[45]: \S+: got completion with error|"
    r"Parameters? (?:indices )?which did not receive grad for rank \d|^Expected to have finished reduction|"
    # Every process that comes before the first one is refused for a moment; these do not come by themselves.
    r"^Timed out initializing process group|"
    r"client socket has failed to connect to .*(?:No route to host|Network is unreachable|Name or service not known)"
)
"""What is said outside of tracebacks, and may be why a process has ended."""
_NOTICE = re.compile(_NOTICES)
_TELLING = re.compile(
    "|".join(
        (
            r"Traceback \(most recent",
            r'File "[^"]+", line \d|", line \d+, in ',
            r"Exception ignored in|ray::\S+\(\) \(pid=",
            r"most recent call first",
            r"Fatal Python error",
            r"^Process \d+: |^Timeout \([\d:.]+\)!",
            r"Thread (?:0x)?[0-9a-fA-F]+ \((?:active|idle)",
            r"-- Process \d",
            r"rocess \d+ (?:terminated with|\(local_rank \d+\) FAILED)",
            r"Rendezvous\w*Error",
            r"Missing ranks:",
            r"Child process with PID \d+ terminated with code",
            r"CUDA error: ",
            r"\bglobal_ranks=\[\d+\]$",
            r"died with <Signals|returned non-zero exit status",
            r"Watchdog caught",
            r"[Ll]ast enqueued",
            r"Stack trace of the failed",
            r"^#\d+ ",
            r"Root Cause",
            r"(?:time|host|rank)      : |exitcode *: |traceback *: |\(local_rank: \d",
            r"failed \(exitcode|[Rr]ank \d+.{0,20} with (?:exit )?code",
            r"exits with return code",
            r"NCCL INFO .*rank \d+ nranks ",
            r"slurmstepd",
            r"srun: error",
            r"terminate called (?:after|without)",
            r"^Process \d+ exit with status code",
            r"Exited with (?:exit code|core file)",
            r": error: ",
            r"noticed that process rank|\bProcess name: (?:\[\[|\d+\s*$)|\bExit code: +\d+\s*$",
            r"Worker \w+ pid \d+ died, exit code",
            r"MPI_ABORT was invoked on rank|^\s*(?:with )?[Ee]rrorcode|application called MPI_Abort",
            r": line \d+:\s+\d+ (?:Killed|Aborted|Terminated) ",
            r"Pod: \S+ exited with code [1-9]",
            r"torchelastic\.worker\.status\.FAILED",
            LEARNED_FROM,
            r"\\n(?:['\"], ['\"])?\s+File ",
            # Also behind what stands in front of a line.
            re.sub(r"(?<!\[)\^", "", _NOTICES),
            _RUN_BEGINS,
            r": \[Errno \d+\] ",
            # The last line of a traceback is all that some logs keep of one.
            r"(?:Error|Exception|Exit)\s*:(?: |$)",
        )
    )
)
_WORDS = tuple(words_of(_TELLING.pattern))
"""Of these, one is in each line that `_TELLING` finds."""
_STRETCHES = tuple(
    word.encode()
    for word in (
        "Error", "Exception", "Traceback", 'File "', "Thread ", "terminate", "exitcode", "return code", "      : ",
        "[Errno ", "death signal", "SIG", "fault", "Bus error", "ssertion", "mismatch", "oom", "OOM", "Out of memory",
        "slurm", "srun", "worker died", "Xid", "NCCL", "didn't", "monitoredBarrier", "ranks", "socket.cpp",
        ": error: ", "grad for rank", "finished reduction", "(local_rank", "\\n  File", "noticed that process",
        "Process name: ", "EI00", "ray::", "EJ0001", "EE1002", "EL0004", "execute failed", "process group ", "rank=",
        "Exit code: ", "Horovod has", "ready twice", "connectFullMesh", "t open file", "Killed ", "Aborted ",
        "Terminated", "eyboard", "exited with code", "MPI_A", "rrorcode", " died, exit", "exit with status",
        ", stopping", "(): ", "double free", "corrupted ", "fatal signal", "insufficient shared",
        "memory allocation of", "application crash on", "Child process with", "with exit code", "CUDA error: ",
        "status.FAILED", "OMP_NUM_THREADS", "nohup: ", "WORLD INFO", "| NVIDIA-SMI", BEGIN,
    )
)  # fmt: skip
"""Fewer, for whole stretches of a file: one of these stands in or beside each line that tells, but for what is told
before a program begins, in the first stretch, which is read."""
_CPP_RANK = re.compile(r"\[(?:PG (?:ID )?\S+(?: PG GUID [^\]]*?)?(?:\s?\([^)]*\))? )?Rank (?P<rank>\d+)\]")
_TIMEOUT = re.compile(
    r"Watchdog caught collective operation timeout: WorkNCCL\((?:SeqNum=(?P<number>\d+), )?"
    r"OpType=(?:(?P<operation>\w+)[,)](?: NumelIn=(?P<elements>\d+))?(?:.*?Timeout\(ms\)=(?P<allowed>\d+))?|\w*$)"
)
_PROGRESS = re.compile(
    r"\[PG (?:ID )?(?P<group>\S+?)(?: PG GUID (?P<unique>[^\]]*?))?(?:\s?\([^)]*\))? Rank (?P<rank>\d+)\].*?"
    r"(?:(?:work|NCCL work|work sequence id): (?P<failed>\d+)\b.*?)?"
    r"last enqueued (?:NCCL )?work: (?P<enqueued>-?\d+), last completed (?:NCCL )?work: (?P<completed>-?\d+)",
    re.IGNORECASE,
)
_GAVE_UP = "Timeout at NCCL work"
_STACK_FRAME = re.compile(r"#\d+ (?P<function>\S+) from (?P<path>.+):(?P<line>\d+)$")
_MPI = re.compile(
    r"\s*Process name: (?:\[\[\d+,\d+\],)?(?P<rank>\d+)(?:\]|\s*$)|\s*Exit code:\s+(?P<code>\d+)\s*$|"
    r".*MPI_ABORT was invoked on rank (?P<stopped>\d+)\b|\s*(?:with )?[Ee]rrorcode:? (?P<given>-?\d+)\.?\s*$"
)
"""How mpirun and Horovod tell of the first process that failed, and of one that stops all, in two lines."""
_FAILED = re.compile(
    r"(?:application called MPI_Abort\(\S+ (?P<aborted>-?\d+)\) - process (?P<aborting>\d+)|"
    r"(?:mpirun|mpiexec|prterun) noticed that process rank (?P<noticed>\d+) .* exited on signal (?P<by_signal>\d+)|"
    r"^Process (?P<of_horovod>\d+) exit with status code (?P<its_code>\d+)|"
    r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+)|"
    r"exits with return code = (?P<killed>-?\d+)|"
    r"rocess \d+ \(local_rank (?P<child>\d+)\) FAILED \(exitcode (?P<childs>-?\d+)\)|"
    r"(?:Exception: p|^P|^p)rocess (?P<spawned>\d+) terminated with (?:"
    r"exit code (?P<ended>\d+)|signal (?P<signal>SIG\w+))|"
    rf"^subprocess\.CalledProcessError: Command {STARTS_PYTHON}.* (?:died with <Signals\.(?P<died>SIG\w+)|"
    r"returned non-zero exit status (?P<status>-?\d+))|"
    # Of a shell, and of the operator of a PyTorchJob.
    # Of Composer's launcher, and of others that tell of ranks.
    r"\b[Rr]ank (?P<told>\d+)(?: \(PID \d+\))? (?:crashed|exited|failed|died|ended) with (?:exit )?code:? "
    r"(?P<crashed>-?\d+)|"
    r"Worker \w+ pid (?P<worker>\d+) died, exit code: (?P<died_with>-?\d+)|"
    # Of Lightning, behind the rank.
    r"Child process with PID \d+ terminated with code (?P<of_child>-?\d+)|"
    r": line \d+:\s+(?P<pid>\d+) (?P<ran>Killed|Segmentation fault|Bus error|Aborted|Terminated)\b|"
    r"Pod: (?:[\w-]+\.)?(?P<pod>[\w-]+) exited with code (?P<left>[1-9]\d*)|"
    r"tasks? (?P<tasks>[\d,-]+): (?:Exited with exit code (?P<exit>\d+)|"
    r"(?P<why>Out Of Memory|Killed|Segmentation fault|Bus error|Aborted|Terminated)))"
)
_MISSING = re.compile(r"^\s*(?:\[\d+\]\s*)?(\d+): \[")
"""A rank in Horovod's list of those that are missing, with what they have not submitted."""
_ALONE = re.compile(r"CalledProcessError.*--local[-_]rank[= ]0\b|--local[-_]rank[= ]0\b.*exits with return code")
"""Launchers show the command of the last process that they started, whichever failed: the first one is the only one."""
_ONE_RANK = re.compile(r"\bglobal_ranks=\[(\d+)\]$")
"""A launcher of a node that has one process: all that its log tells is of this one."""
_MOST_TASKS = 1024
_FOLLOWING = 400
"""Lines after the begin of a traceback that are looked at."""
_CODES = ("its_code", "code", "childs", "killed", "ended", "status", "died_with", "crashed", "of_child")
_SIGNALS = {"Out Of Memory": 9, "Killed": 9, "Segmentation fault": 11, "Bus error": 7, "Aborted": 6, "Terminated": 15}


def _tells(text: str) -> bool:
    return any(word in text for word in _WORDS) and _TELLING.search(text) is not None


_BEHIND_BAR = re.compile(r".*[\w?]/(?:s|it)(?:, [^\[\]]*)?\](?=\s*\S)")
_BEHIND_RANK = re.compile(r"(?<=[^\s\]:])(?=\[rank\d+\]: ?)")
_BEHIND_BLANKS = re.compile(r"(?<=\S)\s{3,}(?=20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d)")
"""Where the next line of a logger begins that a terminal has drawn into this one."""
_RUN_ON = 'Traceback (most recent call last): File "'
_CALLS = re.compile(r'(?P<call>File "[^"]+", line \d+, in \S+) ?(?P<source>.*?)(?=\s*File "|$)')
_ERROR_AT_END = re.compile(r"\s(?P<error>[A-Za-z_][\w.]*(?:Error|Exception): .*)$")
_FLAT_TABLE = re.compile(
    r"(?P<root>Root Cause \(first observed failure\))|(?:time\s*: ?(?P<time>\S+) host\s*: ?(?P<host>\S+) )?"
    r"\brank\s*:?\s*(?P<rank>\d+) \(local[_ ]rank: (?P<local>\d+)\)\s*exitcode\s*: ?(?P<code>-?\d+)"
)
_FOLDS = re.compile(r"\\n(?:['\"], ['\"])?")
_FOLDED = re.compile(rf'{_FOLDS.pattern}(?:\[rank\d+\]:)?\s+File \\?"')
_MESSAGES = ("log", "message", "msg", "textPayload", "line", "text")
_IN_JSON = re.compile(r'\{.*"(?:' + "|".join(_MESSAGES) + r')": ?"')
"""A line of a log as Docker and collectors keep it."""


_LOGGED = re.compile(
    r"(?:WARNING|ERROR|INFO):torch\.distributed\.|(?<=[^\s:])torch\.distributed\.elastic\.multiprocessing\.errors\."
)
"""How torch's launcher begins its lines, also behind what a process has not ended."""


_BROKEN_CALL = re.compile(r'File "[^"]+(?:",(?: (?:l(?:i(?:n(?:e(?: \d*)?)?)?)?)?)?)?$')
_CALL = re.compile(r'File "[^"]+", line \d+(?:, in |$)')


def _joined(lines: Iterator[LogLine]) -> Iterator[LogLine]:
    """Calls of a traceback that a terminal has broken at its width, whole."""
    held: LogLine | None = None
    for line in lines:
        if held is not None:
            first, held = held, None
            if _CALL.search(whole := first.text + line.text):
                yield replace(first, text=whole)
                continue
            yield first
        if 'File "' in line.text and _BROKEN_CALL.search(line.text):
            held = line
        else:
            yield line
    if held is not None:
        yield held


def _unfolded(lines: Iterator[LogLine]) -> Iterator[LogLine]:
    """Tracebacks that something has written into one line, as JSON and `repr` do, with lines of their own; so has what
    runs on behind a progress bar."""
    for line in lines:
        if "&quot;" in line.text:
            line = replace(line, text=_out_of_html(line.text))
        if line.text.startswith("{") and (kept := _out_of_json(line.text)) is not None:
            yield from (replace(line, text=part) for part in kept.rstrip("\n").split("\n"))
            continue
        if ("/s" in line.text or "/it" in line.text) and (behind := _BEHIND_BAR.match(line.text)) is not None:
            yield replace(line, text=line.text[: behind.end()])
            line = replace(line, text=line.text[behind.end() :])
        if "torch.distributed." in line.text and (logged := _LOGGED.search(line.text)) and logged.start():
            yield replace(line, text=line.text[: logged.start()])
            line = replace(line, text=line.text[logged.start() :])
        if "\\n" in line.text and _FOLDED.search(line.text) is not None:
            text = line.text.replace('\\"', '"').replace("\\'", "'")
            yield from (replace(line, text=part) for part in _FOLDS.split(text))
            continue
        if "exitcode" in line.text and (flat := list(_FLAT_TABLE.finditer(line.text))):
            yield from (replace(line, text=part) for each in flat for part in _members(each))
            continue
        if "  20" in line.text and len(parts := _BEHIND_BLANKS.split(line.text)) > 1:
            yield from (replace(line, text=part) for part in parts)
            continue
        if line.text.count("[rank") > 1:
            # Ranks that write at once, each the rest of its line.
            yield from (replace(line, text=part) for part in _BEHIND_RANK.split(line.text))
            continue
        if _RUN_ON in line.text:
            yield from (replace(line, text=part) for part in _apart(line.text))
            continue
        yield line


def _out_of_html(text: str) -> str:
    from html import unescape

    return unescape(text)


def _out_of_json(text: str) -> str | None:
    """What a program has printed, where something has put it into an object of JSON; not what torch's launcher says in
    such a form itself."""
    if _IN_JSON.match(text) is None or "torchelastic" in text or "Rendezvous" in text:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return next((found[name] for name in _MESSAGES if isinstance(found.get(name), str)), None)


def _members(told: re.Match[str]) -> Iterator[str]:
    """The lines of a launcher's table that a page has drawn into one."""
    if told["root"]:
        yield told["root"]
        return
    yield f"  time      : {told['time'] or ''}"
    yield f"  host      : {told['host'] or ''}"
    yield f"  rank      : {told['rank']} (local_rank: {told['local']})"
    yield f"  exitcode  : {told['code']}"


def _apart(text: str) -> Iterator[str]:
    """The lines of a traceback in which something has put blanks in the place of their ends."""
    before, _, after = text.partition(_RUN_ON)
    yield f"{before}{_RUN_ON.partition(' File')[0]}"
    ended = _ERROR_AT_END.search(after)
    for call in _CALLS.finditer(f'File "{after[: ended.start()] if ended else after}'):
        yield f"  {call['call']}"
        yield f"    {call['source']}"
    if ended:
        yield ended["error"]


class LogReader:
    """Reads one file."""

    def __init__(self, path: str, order: int = 0) -> None:
        self._path = path
        self._file = speaker_of(path)
        self._order = order
        self._tracebacks = TracebackReader()
        self._summary = SummaryReader()
        self._stacks = StackDumpReader()
        self._report = RunReportReader()
        self._stack: tuple[Speaker, LogPlace, list[LoggedFrame]] | None = None
        self._hosts: set[str] = set()
        self._fronts = LearnedFronts()
        self._nccl = NcclProcesses()
        self._ray = RayWorkers()
        self._named: int | None = None
        self._code: tuple[int, int] | None = None
        self._listing = False
        self.lines = 0

    def facts(self) -> Iterator[LogFact]:
        """All that it says, in its order."""
        following = 0
        for line in _unfolded(_joined(lines_of(self._path, _STRETCHES))):
            self.lines = line.number
            self._order += 1
            if self._report.busy or line.text == BEGIN:
                yield from self._report.feed(line.text, LogPlace(line.path, line.number, self._order))
            tells = _tells(line.text)
            if not following and not tells and self._stack is None and not self._listing:
                continue
            following = max(0, following - 1)
            spoken = said(line.text, self._file, self._hosts, self._fronts)
            self._ray.learn(spoken.by, spoken.text)
            spoken = replace(spoken, by=self._ray.named(spoken.by))
            at = LogPlace(line.path, line.number, self._order, spoken.at)
            yield from self._summary.feed(spoken.text, at)
            if self._summary.by is not None:
                spoken = Said(self._summary.by, self._summary.indented(spoken.text))
            if tells or self._tracebacks.busy:
                by = self._tracebacks.whose(spoken.by, spoken.text, at)
                if tells or self._tracebacks.follows(by):
                    for crash in self._tracebacks.feed(by, spoken.text, at):
                        yield from self._ray.ends_in(crash)
            yield from self._stacks.feed(spoken.by, spoken.text, at)
            if tells and (self._tracebacks.busy or self._stacks.busy):
                # These are some lines long, and several processes may write at once.
                following = _FOLLOWING
            if tells or self._stack is not None or self._listing:
                yield from self._other(spoken, at)
        for crash in self._tracebacks.end():
            yield from self._ray.ends_in(crash)
        yield from self._stacks.end()
        yield from self._stack_closed()
        yield from self._summary.closed()
        yield from self._nccl.end()

    def _other(self, spoken: Said, at: LogPlace) -> Iterator[LogFact]:
        text = spoken.text
        if self._stack is not None:
            if found := _STACK_FRAME.match(text.strip()):
                self._stack[2].append(LoggedFrame(found["path"], int(found["line"]), found["function"]))
                return
            yield from self._stack_closed()
        if spoken.by.rank is None and (ranked := _CPP_RANK.search(text)) is not None:
            # Of a subgroup it is the rank in that: what stands in front of the line counts, where something does.
            spoken = replace(spoken, by=replace(spoken.by, rank=int(ranked["rank"])))
        if (told := _MPI.match(text)) is not None:
            yield from self._of_mpirun(told, at)
            return
        for read in _READERS:
            if facts := read(spoken, at):
                yield from facts
                return
        if self._listing and (listed := _MISSING.search(text)) is not None:
            yield Notice(spoken.by, at, f"[missing ranks: {listed[1]}]")
            return
        self._listing = "Missing ranks:" in text
        if (alone := _ONE_RANK.search(text)) is not None and not self._file.is_known:
            self._file = replace(self._file, rank=int(alone[1]))
        if _BEGIN.search(text):
            yield RunBegin(spoken.by, at)
        elif "Stack trace of the failed collective:" in text:
            self._stack = (spoken.by, at, [])
        elif " nranks " in text:
            self._nccl.learn(text)
        elif _NOTICE.search(text) and not ERROR_ALONE.match(text):
            notice = Notice(self._ray.told_of(spoken.by, text), at, text.strip())
            if not self._nccl.hold(notice):
                yield notice

    def _of_mpirun(self, told: re.Match[str], at: LogPlace) -> Iterator[LogFact]:
        if rank := told["rank"] or told["stopped"]:
            self._named = int(rank)
        else:
            code = _of_shell(int(told["code"])) if told["code"] else _given(told["given"])
            self._code = (at.order, code)
        # Who collects the lines may have changed the order of the two.
        if self._named is not None and self._code is not None and at.order - self._code[0] <= 1:
            code = self._code[1]
            yield ProcessExit(Speaker(rank=self._named), at, code, max(0, -code), root=True)
            self._named = self._code = None

    def _stack_closed(self) -> Iterator[LogFact]:
        if self._stack is not None and self._stack[2]:
            yield CollectiveStack(self._stack[0], self._stack[1], tuple(self._stack[2]))
        self._stack = None


def _timeout(spoken: Said, at: LogPlace) -> Sequence[LogFact]:
    found = _TIMEOUT.search(spoken.text)
    if found is None or "terminated with exception" in spoken.text or "what():" in spoken.text:
        # Said again by whoever ends the process for it.
        return ()
    number, elements = found["number"], found["elements"]
    return [
        Timeout(
            spoken.by,
            at,
            (found["operation"] or "").lstrip("_").lower(),
            int(number) if number else None,
            int(elements) if elements else None,
            int(found["allowed"] or 0) / 1000,
        )
    ]


def _progress(spoken: Said, at: LogPlace) -> Sequence[LogFact]:
    found = _PROGRESS.search(spoken.text)
    if found is None:
        return ()
    by = spoken.by if spoken.by.rank is not None else replace(spoken.by, rank=int(found["rank"]))
    failed = int(found["failed"]) if found["failed"] else None
    group = found["unique"] or found["group"]
    progress = GroupProgress(by, at, group, failed, int(found["enqueued"]), int(found["completed"]))
    if "dump signal due to a collective timeout" in spoken.text:
        return [progress, Notice(by, at, spoken.text.strip())]
    if failed is None or _GAVE_UP not in spoken.text:
        return [progress]
    # The line before says which collective it was, where the log has it.
    return [progress, Timeout(by, at, "", failed, None, 0.0, group)]


def _exit(spoken: Said, at: LogPlace) -> Sequence[LogFact]:
    """What a launcher says of how a process ended, whoever's line it runs into."""
    found = _FAILED.search(spoken.text)
    if found is None:
        return ()
    by: Sequence[Speaker] = [spoken.by]
    if found["local"] or found["child"]:
        by = [Speaker(local_rank=int(found["local"] or found["child"]))]
    elif rank := found["spawned"] or found["of_horovod"] or found["told"] or found["noticed"] or found["aborting"]:
        by = [Speaker(rank=int(rank))]
    elif not spoken.by.is_known and _ALONE.search(spoken.text):
        by = [replace(spoken.by, local_rank=0)]
    elif pid := found["pid"] or found["worker"]:
        by = [replace(spoken.by, tag=f"pid {pid}")]
    elif found["pod"]:
        by = [replace(spoken.by, host=found["pod"])]
    elif found["tasks"]:
        by = [replace(spoken.by, rank=rank, tag=TASK) for rank in _numbers(found["tasks"])]
    code = _code(found)
    return [ProcessExit(each, at, code, max(0, -code)) for each in by]


def _code(found: re.Match[str]) -> int:
    """As Python counts: negative for a signal."""
    if why := found["why"] or found["ran"]:
        return -_SIGNALS[why]
    if name := found["signal"] or found["died"]:
        return -int(getattr(signal, name, 0))
    if found["by_signal"]:
        return -int(found["by_signal"])
    if found["aborted"]:
        return _given(found["aborted"])
    if code := found["exit"] or found["left"]:
        return _of_shell(int(code))
    return _of_shell(int(next(found[name] for name in _CODES if found[name])))


def _of_shell(code: int) -> int:
    """Above 128 it is a signal, where a shell or a container ran the process."""
    return 128 - code if 0 < code - 128 < signal.NSIG else code


def _given(code: str) -> int:
    """What a program gives to MPI is no signal; what is left of it is one byte."""
    return int(code) % 256 or 1


def _numbers(listed: str) -> list[int]:
    """`2-4,7` as numbers."""
    spans = [[int(end) for end in part.split("-")] for part in listed.split(",") if part]
    return [number for span in spans for number in range(span[0], span[-1] + 1)][:_MOST_TASKS]


_EVENT = re.compile(
    r'"torchelastic\.worker\.status\.FAILED".*?"global_rank": (?P<rank>\d+).*?"hostname": "(?P<host>[^"]*)"'
)
"""What old versions of torch's launcher print of each process."""


def _event(spoken: Said, at: LogPlace) -> Sequence[LogFact]:
    found = _EVENT.search(spoken.text)
    return [ProcessExit(Speaker(rank=int(found["rank"]), host=found["host"]), at, None, 0)] if found else ()


_READERS: tuple[Callable[[Said, LogPlace], Sequence[LogFact]], ...] = (_timeout, _progress, _exit, _event)
