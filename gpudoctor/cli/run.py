"""`gpudoctor run`: watch the user's own training and say what really happens."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from gpudoctor.cli.command import Command, add_choice, at_least, command_named
from gpudoctor.cli.output import refuse_bad_target, refuse_no_page, rendered, say, write_aside, write_file, write_out
from gpudoctor.cli.run_report import compared, document, in_one_line, report, standstill
from gpudoctor.cli.settings import settings_for
from gpudoctor.cli.terminal import COLOURS, style_for
from gpudoctor.diagnostic import Severity
from gpudoctor.errors import GpudoctorError, UsageError, nearest_file
from gpudoctor.lint.launchfiles.launchers import tasks_of_srun
from gpudoctor.lint.pipeline import lint
from gpudoctor.ranks.process_tree import ON_LINUX
from gpudoctor.record import dataclass, replace
from gpudoctor.registry import find_rules
from gpudoctor.run.external_rank import file_of_node, given_rank, node_told
from gpudoctor.run.internal_errors import Faults
from gpudoctor.run.observe import Order, judged, observe
from gpudoctor.run.outcome import CONFIRMED
from gpudoctor.run.session import python_command
from gpudoctor.run.trace import trace_of
from gpudoctor.run.untried import untried
from gpudoctor.run.virtual_nodes import SlurmTasks, stands_in_for_srun

if TYPE_CHECKING:
    from gpudoctor.lint.request import Outcome
    from gpudoctor.run.external_rank import Given
    from gpudoctor.run.outcome import Watched
    from gpudoctor.run.recording import Recording, Waiting

_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "torch.distributed.run", "torch.distributed.launch")
CANNOT_BE_TRIED = 4
"""The exit code where a program ended at what only a real GPU has."""


class Run(Command):
    """Watch your own training and report what its ranks really do.

    Prefix your command with it: `gpudoctor run train.py ARGUMENTS`, `gpudoctor run -m pkg.train`,
    `gpudoctor run --nproc-per-node 4 train.py`, `gpudoctor run -- torchrun --nproc-per-node 4 train.py`. The script
    is not changed, and its output, signals and exit code stay its own; the report comes on standard error.
    """

    def declare(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "-m", dest="module", metavar="MODULE", nargs=argparse.REMAINDER, help="run a module, as `python -m` does"
        )
        parser.add_argument("program", nargs=argparse.REMAINDER, metavar="SCRIPT", help="the script and its arguments")
        parser.add_argument(
            "--nproc-per-node", metavar="N", type=at_least(1), help="start N ranks with torch's launcher"
        )
        parser.add_argument(
            "--virtual-gpus",
            metavar="N",
            type=at_least(1),
            help="run as on N GPUs, on a machine that need not have any",
        )
        parser.add_argument(
            "--virtual-nodes",
            metavar="N",
            type=at_least(1),
            default=1,
            help="with --virtual-gpus: simulate N nodes with these GPUs each",
        )
        parser.add_argument(
            "--skip-kernels",
            metavar="MODULE",
            action="append",
            default=[],
            help="with --virtual-gpus: replace a module of GPU kernels by a stand-in; repeatable",
        )
        parser.add_argument("--check", action="store_true", help="print one line where nothing is wrong: for CI")
        parser.add_argument(
            "--attach",
            metavar="PID",
            type=at_least(1),
            help="show where each rank of a job that hangs now is; PID is its launcher or one of its ranks",
        )
        parser.add_argument("--steps", metavar="N", type=at_least(1), help="end the job after N steps on each rank")
        parser.add_argument(
            "--hang-after",
            metavar="SECONDS",
            type=at_least(1),
            default=30,
            help="report a hang after so long without progress (default: 30)",
        )
        parser.add_argument("--kill-on-hang", action="store_true", help="end a job that hangs, with exit code 1")
        parser.add_argument("--no-lint", dest="lint", action="store_false", help="do not lint the program meanwhile")
        add_choice(parser, "--output-format", "full", "json")
        parser.add_argument("--output-file", metavar="FILE", help="write the report there instead of standard error")
        parser.add_argument("--html", metavar="FILE", help="also write a page with charts")
        parser.add_argument("--trace", metavar="FILE", help="also write a timeline for Perfetto")
        add_choice(parser, "--color", *COLOURS)

    def run(self, options: argparse.Namespace) -> int:
        if not ON_LINUX:
            raise UsageError("`gpudoctor run` follows processes as only Linux shows them; `gpudoctor lint` works here")
        if options.attach:
            return _attached(options)
        if options.skip_kernels and not options.virtual_gpus:
            raise UsageError("--skip-kernels is for kernels that virtual GPUs cannot run: add `--virtual-gpus N`")
        if options.virtual_nodes > 1 and not options.virtual_gpus:
            raise UsageError("--virtual-nodes are nodes with virtual GPUs: add `--virtual-gpus N`")
        given = given_rank(os.environ)
        if options.virtual_nodes > 1 and given is not None:
            raise UsageError(f"--virtual-nodes starts all ranks: do not start it with {given.by}")
        # As many as there are GPUs, where nobody says how many, and nobody else has started them.
        job = _job(options, options.nproc_per_node or (options.virtual_gpus if given is None else None))
        if options.output_format == "json" and not options.output_file:
            raise UsageError("--output-format json: standard output is the script's; add `--output-file FILE`")
        if options.output_file:
            refuse_bad_target(options.output_file)
        if options.html:
            refuse_no_page(options.html)
        if options.trace:
            refuse_bad_target(options.trace, "--trace")
        registry = find_rules()
        lints = options.lint and job.script and (given is None or given.reports)
        suspicions = _Beside(lambda: _suspicions(job.script)) if lints else None
        of_launcher = options.virtual_gpus and not options.nproc_per_node and given is None and not options.module
        if suspicions and of_launcher and _starts_its_ranks(suspicions.result()):
            job = _job(options, None)
        order = Order(
            command=job.command,
            hang_after=float(options.hang_after),
            kill_on_hang=options.kill_on_hang,
            steps=options.steps,
            trace=bool(options.trace),
            virtual_gpus=options.virtual_gpus,
            skip_kernels=tuple(options.skip_kernels),
            virtual_nodes=options.virtual_nodes,
            slurm=job.slurm,
            given=given,
        )
        faults = Faults()
        recording = observe(order, lambda waiting: _tell_hang(waiting, options.color), faults)
        if given is not None and not given.reports:
            return recording.status or 0
        linted = suspicions.result() if suspicions else None
        recording = recording.beside(linted.findings if linted else ())
        # What is off by default in lint is off here, too, unless lint was told to look for it.
        cards = [
            card for card in registry.cards if card.severity is not Severity.INFO or card.code in recording.suspected
        ]
        found = tuple(judged(recording, cards, faults))
        watched = compared(replace(recording, faults=faults.told), found, linted, registry)
        _hand_over(watched, options, _node(recording, given, order.command))
        # A launcher takes every other exit code for a failure of the training, and ends what is left of it.
        return _exit_code(watched) if given is None else recording.status or 0


def _attached(options: argparse.Namespace) -> int:
    """1 where the job stood still."""
    from gpudoctor.cli.attached import attached_document, attached_report
    from gpudoctor.run.attach import attach

    if options.program or options.module:
        raise UsageError("--attach looks at a job that runs already: leave the script out")
    found = attach(options.attach)
    text = rendered(options, sys.stdout, lambda: attached_document(found), lambda style: attached_report(found, style))
    if options.output_file:
        write_file(options.output_file, text, "--output-file")
    else:
        write_out(text)
    return int(bool(found.waiting))


@dataclass(frozen=True)
class _Job:
    """What is started. `script` is the file that lint can read, empty where that is not known."""

    command: tuple[str, ...]
    script: str
    slurm: SlurmTasks | None = None


def _job(options: argparse.Namespace, ranks: int | None) -> _Job:
    given = list(options.program)
    if given[:1] == ["--"]:
        if not given[1:]:
            raise UsageError("there is no command after `--`")
        # Of another command, the first Python file is what lint can read.
        script = next((word for word in given[1:] if word.endswith(".py") and os.path.isfile(word)), "")
        if options.virtual_gpus and stands_in_for_srun(given[1:]):
            return _slurm_job(given[2:], script, options)
        return _Job(tuple(given[1:]), script)
    if (given or options.module) and find_spec("torch") is None:
        # What a launcher says of it, and our report of a program that does not train, would only hide it.
        raise UsageError(
            f"torch is not installed for {sys.executable}, with which the script would run: install it there, or start "
            "`python -m gpudoctor run` with the Python of your training"
        )
    if options.module:
        command = python_command(options.module, module=True, ranks=ranks, nodes=options.virtual_nodes)
        return _Job(tuple(command), "")
    if not given:
        raise UsageError("there is no script to run: `gpudoctor run train.py`")
    if not os.path.exists(given[0]):
        otherwise = f"; to run a command, write `gpudoctor run -- {' '.join(given)}`"
        hint = nearest_file(given[0]) if given[0].endswith(".py") else otherwise
        raise UsageError(f"there is no script `{given[0]}`{hint}")
    if given[0].endswith(".ipynb"):
        made = f"`jupyter nbconvert --to script {given[0]}` makes a script of it"
        raise UsageError(f"{given[0]} is a notebook, which Python cannot start: {made}")
    return _Job(tuple(python_command(given, module=False, ranks=ranks, nodes=options.virtual_nodes)), given[0])


def _slurm_job(words: Sequence[str], script: str, options: argparse.Namespace) -> _Job:
    """What `srun` would start with these words; where they do not say how many tasks, one for each virtual GPU."""
    given, command = tasks_of_srun(words)
    if not command:
        raise UsageError("there is no command after the options of `srun`")
    nodes = given.get("nodes") or options.virtual_nodes
    per_node, every = given.get("ntasks-per-node"), given.get("ntasks")
    if per_node is None and every is not None:
        if every % nodes:
            raise UsageError(f"{every} tasks cannot be shared evenly among {nodes} nodes")
        per_node = every // nodes
    return _Job(command, script, SlurmTasks(nodes, per_node or (1 if _launches(command) else options.virtual_gpus)))


def _launches(command: Sequence[str]) -> bool:
    """It is a launcher, of which there is one on each node."""
    return any(os.path.basename(word) in _LAUNCHERS for word in command)


class _Beside:
    """Work that is done in a thread while the script runs; this process has nothing else to do."""

    def __init__(self, work: Callable[[], Outcome]) -> None:
        self._work = work
        self._result: Outcome | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def result(self) -> Outcome | None:
        """What came of it; None where it failed, or takes longer than anybody should wait."""
        self._thread.join(20.0)
        return self._result

    def _run(self) -> None:
        # What lint has to complain about, `gpudoctor lint` will say better.
        try:
            self._result = self._work()
        except GpudoctorError:
            return


def _starts_its_ranks(linted: Outcome | None) -> bool:
    """The script starts one process per GPU itself, which each rank of a launcher would do once more."""
    worlds = {program.world for program in linted.programs if program.world} if linted is not None else set()
    return worlds == {"spawn"}


def _suspicions(script: str) -> Outcome:
    """What `gpudoctor lint SCRIPT` finds."""
    parser = argparse.ArgumentParser()
    command_named("lint").declare(parser)
    return lint(settings_for(parser.parse_args([script, "--jobs", "1"])).request)


def _tell_hang(waiting: Sequence[Waiting], colour: str) -> None:
    style = style_for(sys.stderr, colour)
    say(*standstill(waiting, style))


def _node(recording: Recording, given: Given | None, command: Sequence[str]) -> int:
    """Which of several nodes this is. A launcher that we have started tells its ranks, where it comes to have any."""
    if given is not None:
        return given.node
    # Where this machine plays several nodes, all of them are in one report.
    nodes = {each.node or 0 for each in recording.ranks}
    if not nodes:
        return node_told(command, os.environ)
    return max(nodes) if len(nodes) == 1 else 0


def _hand_over(watched: Watched, options: argparse.Namespace, node: int) -> None:
    text = rendered(options, sys.stderr, lambda: document(watched), lambda style: report(watched, style))
    if options.output_file:
        _write(options.output_file, text, "--output-file", node)
    elif options.check and not _exit_code(watched) and not watched.unexplained:
        say(in_one_line(watched))
    else:
        write_aside(text)
    if options.html:
        from gpudoctor.run.page import page_of

        _write(options.html, page_of(watched), "--html", node)
    if options.trace:
        _write(options.trace, trace_of(watched.recording), "--trace", node)


def _write(path: str, text: str, option: str, node: int) -> None:
    target = file_of_node(path, node)
    write_file(target, text, option)
    if target != path:
        say(f"gpudoctor: {option} of node {node} is in {target}, beside that of the first")


def _exit_code(watched: Watched) -> int:
    """4 where the program ended at what only a GPU has; else the script's own, and 1 where that is 0 but a mistake was
    seen that is worth it."""
    if untried(watched.recording) is not None:
        return CANNOT_BE_TRIED
    status = watched.recording.status
    if status:
        return status
    # A job that was ended because it hung has no exit code of its own.
    if watched.recording.hang:
        return 1
    confirmed = (each.finding for each in watched.suspicions if each.state == CONFIRMED)
    return int(any(each.severity.weight >= Severity.WARNING.weight for each in (*watched.found, *confirmed)))
