"""Which process says a line: launchers and schedulers write that in front of it, or into the name of the file."""

from __future__ import annotations

import re

from gpudoctor.logs.learned_fronts import LearnedFronts
from gpudoctor.record import dataclass, replace


@dataclass(frozen=True)
class Speaker:
    """As much as is known of the process that wrote a line. `tag` keeps apart those of which no rank is known."""

    rank: int | None = None
    local_rank: int | None = None
    host: str = ""
    tag: str = ""

    @property
    def is_known(self) -> bool:
        return self.rank is not None or self.local_rank is not None


@dataclass(frozen=True)
class Said:
    """A line without what stands in front of it. `at` is the time that stood there, as it was written."""

    by: Speaker
    text: str
    at: str = ""


TASK = "task"
"""The tag of what SLURM says of a task, which may be a rank, or the launcher of a node."""

_NAMED = re.compile(
    # A number alone is a rank.
    r"(?P<host>(?!(?:ERROR|WARNING|INFO|DEBUG|CRITICAL)\b)(?=\d*[A-Za-z.])\w[\w.-]*)"
    r"(?P<colon>:|\s+\|)\s(?=Traceback \(most|  File \"|\[rank|\[E |\[default|E[A-Z]\d{4}: |(?<=\d: )\w+Error: )"
)
"""pdsh, which DeepSpeed starts its nodes with, Docker Compose and Kubernetes: a name before each line. It is known by
the lines of tracebacks."""
_FRONTS = (
    # Determined writes the level in front.
    re.compile(r"<[a-z]*>\s+(?=\[\d{4}-)"),
    # As people quote it, and set it in bold letters.
    re.compile(r">\s?"),
    re.compile(r"(?:[-+*] )?(?:\*\*|`{1,3}|[\"'“])(?=[\w.]*(?:Error|Exception)\b: |\[rank\d|Traceback \(most)"),
    # Kept as a comment.
    re.compile(r"#\s{1,3}(?=\[rank\d|\[\d{4}-|Traceback \(most|  File \"|[\w.]+(?:Error|Exception): )"),
    # Notebooks that ran on Kaggle: seconds, and the number of the line.
    re.compile(r"\d+\.\d+s\s+\d+\s(?=\S|  |$)"),
    # A launcher that repeats what its processes print.
    re.compile(r"std(?:err|out): "),
    # Kubernetes, Docker and log collectors.
    re.compile(
        r"\s?\[?(?P<at>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)\]?\s"
        r"(?:std(?:out|err)\s[FP]\s)?"
    ),
    # torch's launcher, of a function that it has called in other processes.
    re.compile(
        r"E\d{4} \d\d:\d\d:\d\d\.\d+ (?:\d+ )?\S*torch/distributed/elastic/multiprocessing/api\.py:\d+\] "
        r"(?=Traceback|  File \"|    |[\w.]+(?:Error|Exception)\b)"
    ),
    # Python's loggers, behind the time.
    re.compile(r"- [\w.]+ - (?:ERROR|WARNING|INFO|DEBUG|CRITICAL) - "),
    # The system's log, and some of CI.
    re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?!\S+ (?:kernel|systemd))"),
    re.compile(r"\[pod/(?P<host>[\w.-]+)/[\w.-]+\]\s?"),
    # An excepthook of torch, and its loggers in C++: the rank of the job.
    re.compile(r"\[rank(?P<rank>\d+)\](?::\s?|\s(?=Watchdog ))"),
    # Loggers of programs and frameworks.
    re.compile(r"\[(?:RANK |rank: )(?P<rank>\d+)\]\s?"),
    # `torchrun --tee`: the role, `default` where none is given or the node, and the rank on that.
    re.compile(r"\[(?!rank)(?:(?P<host>[A-Za-z_][\w.-]*):|(?P<role>[A-Za-z_][\w-]*?))(?P<local>\d+)\]:\s?"),
    # A launcher of benchmarks puts the name of the run, or of the node, in front.
    re.compile(r"(?:(?P<host>\w[\w.-]*) )?\[std(?:err|out)\]\s?"),
    # horovodrun, which may write the time in front
    re.compile(r"(?:[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})?\[(?P<rank>\d+)\]<std(?:out|err)>:\s?"),
    # SageMaker
    re.compile(r"\[\d+,mpirank:(?P<rank>\d+),(?P<host>[\w.-]+)\]<std(?:out|err)>:\s?"),
    # mpirun --tag-output
    re.compile(r"\[\d+,(?P<rank>\d+)\]<std(?:out|err)>:\s?"),
    # Ray and vLLM
    re.compile(
        r"\((?P<tag>(?:[\w.:]+(?:[\[ ]rank=(?P<rank>\d+)\]?)?(?:\([^)]*\))? )?pid=\d+)(?:, ip=(?P<host>[\w.:]+))?\)\s?"
    ),
    # srun --label, where what follows is surely a line of its own.
    re.compile(
        r"\s{0,4}(?P<rank>\d{1,5}):\s"
        r"(?=(?:Original )?Traceback|  File |\[rank|\[E|[\w.]+(?:Error|Exception)\b|"
        r"Fatal Python|(?:Current t|T)hread 0x|[EW]\d{4} |$)"
    ),
    _NAMED,
    # A column that a launcher of benchmarks draws.
    re.compile(r"\s+\|\s(?=\[rank\d)"),
    # NCCL: the node, the process and the GPU.
    re.compile(r"(?:(?P<host>[\w-][\w.-]*):(?P<pid>\d+):\d+ )?\[(?P<device>\d+)\] (?=.*NCCL WARN)"),
    # Determined.
    re.compile(r"[0-9a-f]{8} (?:\[rank=(?P<rank>\d+)\] )?\|\| "),
    # Loggers, some of which know the rank.
    re.compile(r"(?:ERROR|WARNING|INFO|CRITICAL) \[[^\[\]]*\brank=(?P<rank>\d+)\] "),
    re.compile(r"Uncaught (?=[\w.]+(?:Error|Exception): )"),
    re.compile(r"(?:ERROR|WARNING|INFO|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./]+:\d+\] "),
    re.compile(r"(?:ERROR|WARNING|INFO|DEBUG|CRITICAL): (?=Traceback \(most|  File \")"),
    re.compile(r"\[(?:ERROR|CRITICAL)\]\s{1,2}(?=Traceback \(most|  File \"|    |[\w.]+(?:Error|Exception): )"),
    # Numbers of lines that an editor has put there.
    re.compile(r"\[\d+\]\s(?=\[rank|Traceback \(most|  File \"|    |[\w.]+(?:Error|Exception)\b)"),
)
_ANY_FRONT = re.compile("|".join(re.sub(r"\(\?P<\w+>", "(?:", front.pattern) for front in _FRONTS))
"""Most lines have none: one question to all at once."""


def said(text: str, known: Speaker, hosts: set[str] | None = None, learned: LearnedFronts | None = None) -> Said:
    """Take off what stands in front of a line, and learn from it. `known` is what its file says; `hosts` are the names
    that have stood in front of lines, which grows, as does what was `learned` of other fronts."""
    at = ""
    for _ in range(5):
        fits = _ANY_FRONT.match(text) is not None
        match = next((found for front in _FRONTS if (found := front.match(text))), None) if fits else None
        if match is None:
            name, colon, rest = _named(text)
            if not hosts or f"{name}{colon}" not in hosts:
                behind = learned.taken_off(text) if learned is not None else None
                if behind is None:
                    break
                text = behind
                continue
            known, text = replace(known, host=name), rest.removeprefix(" ")
            continue
        if match.re is _NAMED and hosts is not None:
            hosts.add(f"{match['host']}{match['colon'].strip()}")
        parts = {name: value for name, value in match.groupdict().items() if value}
        at = parts.get("at", at)
        if "rank" in parts:
            known = replace(known, rank=int(parts["rank"]))
        if "local" in parts:
            known = replace(known, local_rank=int(parts["local"]), tag=f"{parts.get('role', '')}{parts['local']}")
        if "device" in parts:
            tag = pid_tag(parts["pid"]) if "pid" in parts else parts["device"]
            known = replace(known, local_rank=int(parts["device"]), tag=tag)
        if "host" in parts or "tag" in parts:
            known = replace(known, host=parts.get("host", known.host), tag=parts.get("tag", known.tag))
        text = text[match.end() :]
    if not at and (logged := _CPP_TIME.match(text)):
        at = f"{logged['day']:0>4} {logged['clock']}"
    return Said(known, text, at.replace("T", " ").replace(",", "."))


def pid_tag(pid: str) -> str:
    """The tag of a process of which only the number is known, as Ray writes it."""
    return f"pid={pid}"


def _named(text: str) -> tuple[str, str, str]:
    """The name that may stand in front, what ends it, and the rest."""
    found = _A_NAME.match(text)
    return (found["name"], found["colon"].strip(), text[found.end() :]) if found else ("", "", text)


_A_NAME = re.compile(r"(?P<name>\w[\w.-]*)(?P<colon>:|\s+\|)(?=\s)")
_CPP_TIME = re.compile(r"\[?[EWFI](?P<day>\d{3,4}) (?P<clock>\d\d:\d\d:\d\d\.\d+) ")
"""In front of what torch logs, in C++ and in Python: the day of the year without the year."""
_FILES = (
    # torchrun --log-dir: .../attempt_0/3/stderr.log
    (re.compile(r"attempt_\d+/(?P<local>\d+)/(?:std(?:out|err)\.log|error\.json)"), "local"),
    (re.compile(r"(?:^|[^a-z])rank[_.-]?(?P<rank>\d+)(?:\D|$)"), "rank"),
    # DeepSpeed's launcher writes these.
    (re.compile(r"_rank_(?P<rank>\d+)_local_rank_\d+\."), "rank"),
)


def speaker_of(path: str) -> Speaker:
    """What the name of a file says of who wrote it."""
    for pattern, kind in _FILES:
        if found := pattern.search(path.replace("\\", "/")):
            number = int(found[1])
            return Speaker(rank=number) if kind == "rank" else Speaker(local_rank=number, tag=path)
    return Speaker()
