"""`gpudoctor probe`: does this machine train on all its GPUs, correctly and at full speed?"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from gpudoctor.cli.command import Command, add_choice, at_least, one_of, words
from gpudoctor.cli.error_boundary import INTERRUPTED
from gpudoctor.cli.output import refuse_bad_target, refuse_no_page, rendered, write_file, write_out
from gpudoctor.cli.terminal import COLOURS
from gpudoctor.errors import UsageError, nearest

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable
    from types import FrameType

    from gpudoctor.probe.options import News, Wishes
    from gpudoctor.probe.results import ProbeReport


class Probe(Command):
    """Test whether this machine trains correctly and fast on all its GPUs."""

    def declare(self, parser: argparse.ArgumentParser) -> None:
        add = parser.add_argument
        add(
            "--ranks",
            "--nproc-per-node",
            metavar="N",
            type=at_least(1),
            help="how many processes; default: one for each GPU, or two on the CPU",
        )
        add(
            "--strategy",
            metavar="single|data_parallel|ddp|fsdp2",
            type=words,
            help="separated by commas; default: all but fsdp2",
        )
        add("--workload", metavar="linear|cifar10|transformer", type=words, help="separated by commas; default: all")
        add("--data", metavar="cifar10:PATH", help="also train on the files of CIFAR-10 in this folder")
        add(
            "--require",
            metavar="NAME>=X",
            action="append",
            default=[],
            help="fail unless this figure is reached, such as ddp-efficiency>=0.8; repeatable",
        )
        add("--quick", action="store_true", help="measure less, for a first look")
        add("--thorough", action="store_true", help="measure longer, including a minute of full load")
        add(
            "--timeout",
            metavar="SECONDS",
            type=at_least(1),
            help="after so long a stage, or the start, counts as hung; default: by stage",
        )
        add(
            "--output-format",
            metavar="full|json",
            type=one_of("full", "json"),
            default="full",
            help="default: full; gpudoctor/schemas/probe.json describes the JSON",
        )
        add("--output-file", metavar="FILE", help="write there, not to standard output")
        add("--html", metavar="FILE", help="also write a page with charts")
        add("--compare", metavar="FILE", help="the JSON of an earlier probe: report what got worse since")
        add("--from", metavar="FILE", dest="recorded", help="show the JSON of an earlier probe; examines nothing")
        add_choice(parser, "--color", *COLOURS)

    def run(self, options: argparse.Namespace) -> int:
        from gpudoctor.probe.check_names import with_full_names
        from gpudoctor.probe.compare import compare
        from gpudoctor.probe.gates import gated, read_gate
        from gpudoctor.probe.report_reader import read_report
        from gpudoctor.record import replace

        gates = [read_gate(text) for text in options.require]
        wishes = _wishes(options)
        if options.output_file:
            refuse_bad_target(options.output_file)
        if options.html:
            refuse_no_page(options.html)
        old = read_report(options.compare) if options.compare else None
        report = read_report(options.recorded) if options.recorded else _watched(wishes)
        if report is None:
            # One of the ranks that torchrun or srun has started: the first of them reports.
            return 0
        report = replace(report, checks=(*report.checks, *with_full_names(gated(gates, report.checks))))
        if old is not None:
            report = replace(report, comparison=compare(old, report, options.compare))
        _hand_over(report, options)
        return INTERRUPTED if report.interrupted else int(report.failed)


def _wishes(options: argparse.Namespace) -> Wishes:
    from gpudoctor.probe.measurement_plan import DEFAULT_STRATEGIES, STRATEGIES, WORKLOADS
    from gpudoctor.probe.options import Wishes

    if options.quick and options.thorough:
        raise UsageError("--quick and --thorough exclude each other")
    return Wishes(
        ranks=options.ranks,
        workloads=_known("--workload", options.workload, WORKLOADS) or WORKLOADS,
        # Efficiency is told against a single device: it always takes part.
        strategies=(
            "single",
            *_without_single(_known("--strategy", options.strategy, STRATEGIES) or DEFAULT_STRATEGIES),
        ),
        pace="quick" if options.quick else "thorough" if options.thorough else "normal",
        data=_data(options.data),
        timeout=options.timeout,
    )


def _known(option: str, given: list[str] | None, right: Iterable[str]) -> tuple[str, ...]:
    for word in given or ():
        if word not in right:
            raise UsageError(f"{option}: {word!r} is none of {', '.join(right)}{nearest(word, right)}")
    return tuple(dict.fromkeys(given or ()))


def _without_single(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name != "single")


def _data(given: str | None) -> str:
    if not given:
        return ""
    from gpudoctor.probe.workloads.cifar10_files import folder_of

    kind, _, path = given.partition(":")
    if kind != "cifar10" or not path:
        raise UsageError(f"--data {given}: write it as `cifar10:PATH`, with the folder that holds the files")
    return os.path.abspath(folder_of(path))


def _watched(wishes: Wishes) -> ProbeReport | None:
    """The examination, with a live view where standard error is a terminal."""
    from gpudoctor.probe.launcher_env import place_given
    from gpudoctor.probe.run_probe import examine, examine_given

    place = place_given(os.environ)
    if place is not None and wishes.ranks is not None:
        raise UsageError(f"--ranks: {place.by} has started {place.size} ranks already; leave the option out")
    # A batch system ends jobs with SIGTERM: the ranks and the temporary folder must go then, too.
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)

    def work(*tell: Callable[[News], None]) -> ProbeReport | None:
        return examine(wishes, *tell) if place is None else examine_given(place, wishes, *tell)

    if not sys.stderr.isatty() or (place is not None and place.rank != 0):
        return work()
    from gpudoctor.cli.live_view import LiveView

    with LiveView() as view:
        return work(view.tell)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # torchrun passes Ctrl-C on as SIGTERM, which must not come in between while the report is made.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def _hand_over(report: ProbeReport, options: argparse.Namespace) -> None:
    from gpudoctor.cli.probe_summary import summary
    from gpudoctor.probe import report_json

    text = rendered(options, sys.stdout, lambda: report_json.rendered(report), lambda style: summary(report, style))
    if options.output_file:
        write_file(options.output_file, text)
    else:
        write_out(text)
    if options.html:
        from gpudoctor.probe.page import page_of

        write_file(options.html, page_of(report), "--html")
