"""The local rank comes from a command line option that `torchrun` does not pass.

## What goes wrong

The *local rank* numbers the processes of one machine, and with it the GPU that each one uses. The old launcher
`python -m torch.distributed.launch` passed it as the option `--local_rank`. `torchrun` does not: it sets the
variable `LOCAL_RANK` instead. Started with `torchrun`, every process keeps the default of the option: with 0 all of
them use GPU 0 and all of them save, with -1 a program that tests for it trains on its own in each process. Since
torch 2.0 the old launcher spells the option `--local-rank`, and a program that declares only the other spelling ends
with `error: unrecognized arguments: --local-rank=0`. So does one that declares neither; `deepspeed` passes
`--local_rank`, too.

## Fix

Take the default from the environment, `default=int(os.environ.get("LOCAL_RANK", 0))`, and declare both spellings. Safe:
a launcher that passes the option still has the last word.

## Silent when

The program reads `LOCAL_RANK` somewhere, if only where the option is missing, and no GPU is surely set by the option
in spite of that, and the project's scripts do not start it by a `torch.distributed.launch` that passes what is not
declared; the option is declared and never used, or is overwritten before it is; the program spawns its
processes itself, or is one process; a framework is in charge whose launcher passes the option; the project's scripts
start it by `deepspeed` alone, or by `torch.distributed.launch`, and the spelling is declared that this passes since
PyTorch 2. With a torch before that, it is a suggestion. A run is silent where the option is right by the time of the
first step, and speaks without lint only where ranks share a GPU.

## Sources

huggingface/pytorch-image-models#1728, Project-MONAI/tutorials#1665, hkchengrex/XMem#18,
https://docs.pytorch.org/docs/stable/elastic/run.html#transitioning-from-torch-distributed-launch-to-torchrun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.placement import DeviceUsed
from gpudoctor.lint.events.process import (
    LOCAL_RANK_OPTIONS,
    ArgumentDeclared,
    ArgumentsParsed,
    EnvironmentRead,
    SettingRead,
)
from gpudoctor.lint.launchfiles.start import StartedBy
from gpudoctor.lint.repair.repair import (
    Code,
    Either,
    Imported,
    RemoveArgument,
    Repair,
    RepairStep,
    Replace,
    SetArgument,
    Source,
)
from gpudoctor.record import replace
from gpudoctor.rule import Findings, Launched, Program, Recording, Rule
from gpudoctor_rules.launch._starts import named

if TYPE_CHECKING:
    from gpudoctor.api.pack import Value
    from gpudoctor.run.recording import Process
    from gpudoctor.run.recording.call_counts import RecordedOption

REMEDY = (
    "Declare both spellings and take the default from the environment: "
    '`"--local_rank", "--local-rank", type=int, default=int(os.environ.get("LOCAL_RANK", 0))`.'
)
_PASSED = {StartedBy.DEEPSPEED: "--local_rank", StartedBy.LAUNCH: "--local-rank"}
"""The launchers that pass the option, where nothing else is said."""
ELSEWHERE = frozenset({"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"})
"""Variables that tell the local rank."""


class LocalRankArgument(Rule):
    code = "GPU411"
    severity = Severity.WARNING
    errors = ("error: unrecognized arguments: --local-rank=0",)
    stops = True
    fix_safety = Safety.SAFE
    needs = (ArgumentDeclared,)
    looks_at = ((ArgumentDeclared, "is_local_rank"),)

    def in_code(self, program: Program) -> Findings:
        if program.world is not LaunchWorld.TORCHRUN or not program.whole:
            return
        # A framework asks for the rank itself; what the parser refuses ends the program all the same.
        kept = [] if program.managed_by else list(self._kept(program))
        yield from kept or self._refused(program)

    def _kept(self, program: Program) -> Findings:
        """The option is not passed, so it keeps its default."""
        # A demo that shares its options with the training is started by no launcher.
        if not program.launched_in_several:
            return
        # The option may be a leftover: the GPU is chosen by another number.
        if any(_is_other_rank(use.device) for use in program.events(DeviceUsed)):
            return
        # Who reads the variable as well has seen the change of launchers.
        if _knows_it_from_elsewhere(program):
            return
        for event in _declared(program):
            # An option that nobody reads is often kept so that old launch scripts go on working.
            used = next((read for read in program.events(SettingRead) if read.name == event.name), None)
            if used is None or not event.is_local_rank:
                continue
            # `default=os.environ["LOCAL_RANK"]` is the remedy itself.
            if event.default is not None and event.default.has(Rank):
                continue
            # DeepSpeed's launcher, for one, does pass the option. Asked last: that reads the scripts of the project.
            if program.documented.launchers() == {"deepspeed"}:
                return
            option = next(flag for flag in event.flags if flag in LOCAL_RANK_OPTIONS)
            # The project's own launcher passes it in the spelling that is declared.
            if _passed(program) == "--local-rank" and "--local-rank" in event.flags:
                return
            yield self.found(
                at=event.location,
                message=_message(program, option, event),
                severity=Severity.INFO if _passed(program) in event.flags else None,
                remedy=REMEDY,
                because=[("it is taken for the local rank here", used.location)],
                repair=_declare(event),
            )
            return

    def _refused(self, program: Program) -> Findings:
        """The launcher of the project passes a spelling that is not declared. Where else the local rank is asked for
        does not count: nobody comes there."""
        event = next((each for each in _declared(program) if "--local_rank" in each.flags), None)
        if event is None or not program.has(ArgumentsParsed):
            return
        # Whoever writes of it, as one that rewrites `sys.argv`, knows it.
        if program.has_text("--local-rank"):
            return
        # Asked last, for it reads what the project says of itself.
        if not program.is_before_torch(2, 0) and _started_by_launch(program):
            named = "launch" in program.documented.launchers_naming_it()
            found = self.found(
                at=event.location,
                message="Since PyTorch 2 `torch.distributed.launch`, by which the project starts "
                f"{'this' if named else 'its programs'}, passes `--local-rank`, which is not declared: every process "
                "ends with "
                "`error: unrecognized arguments: --local-rank=0`.",
                remedy='Declare both spellings: `"--local_rank", "--local-rank"`. Or start it with `torchrun`, which '
                "passes neither.",
                doubt="" if named else "No command line of the project names this program.",
                repair=Repair("Declare both spellings", _other_spelling(event)),
            )
            # Other scripts may start it by torchrun.
            yield replace(found, launcher="launch")

    def in_launch(self, launched: Launched) -> Findings:
        """A launcher passes the option to a program that declares none."""
        for file, launch in launched.launches:
            option = _PASSED.get(launch.launcher, "")
            facts = launched.program_of(file, launch) if option and launch.closed else None
            if facts is None or not (facts.options and facts.options_known) or "local-rank" in facts.options:
                continue
            if launch.option("no-local-rank", "use-env") is None and not launch.module:
                yield self.found(
                    launch.word.at,
                    f"`{launch.launcher.value}` passes `{option}`, which {named(launch)} does not declare: "
                    f"every process ends with `error: unrecognized arguments: {option}=0`.",
                    remedy='Declare both spellings: `parser.add_argument("--local_rank", "--local-rank", type=int, '
                    "default=-1)`.",
                    severity=Severity.ERROR,
                )

    def in_run(self, recording: Recording) -> Findings:
        refused = [
            (each, one) for each in _everybody(recording) for one in each.refused if _is_other_spelling(one.text)
        ]
        wrong = _kept_default(recording)
        if refused and (at := refused[0][1].place) is not None:
            yield self.found(
                at, f"The launcher passed an option that is not declared: `{refused[0][1].text}`.", remedy=REMEDY
            )
        # The number may come from the environment after all, where the option is left out.
        elif wrong and (self.code in recording.suspected or _share_a_gpu(recording)):
            ranks = [process.rank or 0 for process, _ in wrong]
            _process, option = wrong[0]
            if option.place is not None:
                kept = "nothing" if option.value is None else option.value
                yield self.found(
                    option.place,
                    f"{recording.named(ranks)} trained with {kept} as the local rank, and the launcher had given "
                    f"{' and '.join(str(each.local_rank) for each, _ in wrong)} in `LOCAL_RANK`.",
                    remedy=REMEDY,
                )

    def could_show(self, recording: Recording) -> bool:
        return recording.trained and any((rank.local_rank or 0) > 0 for rank in recording.ranks)


def _declared(program: Program) -> list[ArgumentDeclared]:
    """The options, first those of parsers that are asked: the file of another program, which is imported for its
    functions, has one that is not. Those of a parent are asked for by another parser."""
    asked = {event.parser for event in program.events(ArgumentsParsed)}
    return sorted(program.events(ArgumentDeclared), key=lambda event: event.parser not in asked)


def _started_by_launch(program: Program) -> bool:
    """The project's own scripts start it by torch's old launcher, which then passes the local rank as an option; others
    may start it by torchrun."""
    own = program.documented.launchers_naming_it()
    # Frameworks have launchers of their own, which a project uses beside torch's.
    if program.managed_by:
        return "launch" in own
    return "launch" in (own or program.documented.launchers() if own or program.launched_in_several else ())


def _passed(program: Program) -> str:
    """The option that the launcher of the project passes, with the torch that it asks for; empty for torchrun."""
    if program.launcher != "launch" or _told_by_variable(program):
        return ""
    return "--local_rank" if program.is_before_torch(2, 0) else "--local-rank"


def _told_by_variable(program: Program) -> bool:
    return "launch --use_env" in program.documented.launchers()


def _message(program: Program, option: str, event: ArgumentDeclared) -> str:
    passed = _passed(program)
    # The next version of torch ends that.
    if passed in event.flags:
        return (
            f"`torchrun`, the launcher since PyTorch 1.9, does not pass `{option}`, and from PyTorch 2 on neither does "
            f"`torch.distributed.launch`: with a newer torch than this project asks for, every process {_keeps(event)}."
        )
    if passed:
        since = "" if passed == "--local_rank" else "Since PyTorch 2 "
        return (
            f"{since}`torch.distributed.launch` passes `{passed}`, which is not declared, and `torchrun` passes "
            f"neither: no process gets `{option}`."
        )
    by_variable = program.launcher == "launch" and _told_by_variable(program)
    launcher = "torch.distributed.launch --use_env" if by_variable else "torchrun"
    told = f"`{launcher}` does not pass `{option}`, it sets the variable `LOCAL_RANK`: every process {_keeps(event)}."
    return told if by_variable or program.is_before_torch(2, 0) else told + _passed_since(event)


def _passed_since(event: ArgumentDeclared) -> str:
    """What the old launcher does, which may be the one that the author has in mind."""
    if "--local-rank" in event.flags:
        return ""
    return " `torch.distributed.launch` of PyTorch 2 passes `--local-rank`, which is not declared."


def _everybody(recording: Recording) -> tuple[Process, ...]:
    return (*recording.ranks, *recording.others)


def _is_other_spelling(text: str) -> bool:
    return "unrecognized arguments" in text and any(option in text for option in LOCAL_RANK_OPTIONS)


def _kept_default(recording: Recording) -> list[tuple[Process, RecordedOption]]:
    """The ranks whose option said something else than the launcher."""
    pairs = [(each, each.option) for each in recording.ranks if each.option is not None and each.local_rank is not None]
    return [(each, option) for each, option in pairs if option.value != each.local_rank]


def _share_a_gpu(recording: Recording) -> bool:
    used = [
        (each.host, each.optimizers[0].gpu) for each in recording.ranks if each.optimizers and each.optimizers[0].gpu
    ]
    return len(set(used)) < len(used)


def _declare(event: ArgumentDeclared) -> Repair:
    at = event.location
    before = Either(((Source(at, "default"),), ("0",)))
    default: Code = ("int(", Imported("os.environ"), '.get("LOCAL_RANK", ', before, "))")
    steps = (SetArgument(at, "default", default), RemoveArgument(at, "required", if_given=True))
    return Repair("Take the default from the environment", (*steps, *_other_spelling(event)))


def _other_spelling(event: ArgumentDeclared) -> tuple[RepairStep, ...]:
    at, last = event.location, str(len(event.flags) - 1)
    missing = sorted(LOCAL_RANK_OPTIONS.difference(event.flags))
    return tuple(Replace(at, (Source(at, last), f', "{other}"'), part=last) for other in missing[:1])


def _is_other_rank(device: Value) -> bool:
    """The GPU is chosen by a rank that the process group or the environment gave, where the option is left out."""
    index = device.index
    # The global rank from the group is GPU205's business.
    return isinstance(index, Rank) and index.kind is RankKind.LOCAL and index.source is not RankSource.ARGUMENT


def _is_by_option(use: DeviceUsed) -> bool:
    """The GPU that a process is set to, and can be no other one, is what the option says."""
    index = use.device.index
    chosen = use.purpose == "set_device" and use.certain
    return chosen and isinstance(index, Rank) and index.kind is RankKind.LOCAL and index.source is RankSource.ARGUMENT


def _knows_it_from_elsewhere(program: Program) -> bool:
    """Another source of the local rank is read, or written about: perhaps on a way that was not followed."""
    read = any(event.name in ELSEWHERE for event in program.events(EnvironmentRead))
    # The text of the files, too: a shell command or a comment about `LOCAL_RANK` shows that it is dealt with. Where the
    # option chooses the GPU in spite of that, it is not.
    return (read or program.has_text(*ELSEWHERE)) and not any(map(_is_by_option, program.events(DeviceUsed)))


def _keeps(event: ArgumentDeclared) -> str:
    default = event.default.single if event.default is not None else None
    return f"keeps the default, {default!r}" if default is not None and default.is_constant else "is left without it"
