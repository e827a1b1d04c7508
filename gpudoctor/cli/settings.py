"""From the options of `lint` and a configuration file to what is asked of lint. The command line wins."""

from __future__ import annotations

import argparse
import sys

from gpudoctor.cli.command import flattened
from gpudoctor.config import Config, find_config, read_config
from gpudoctor.errors import UsageError
from gpudoctor.lint.lint_options import LintOptions, request_of
from gpudoctor.lint.request import Request
from gpudoctor.lint.source.file_queries import most_bytes
from gpudoctor.record import dataclass, replace
from gpudoctor.registry import Registry, find_rules
from gpudoctor.report.formats import WITH_EDITS

STDIN = "-"


@dataclass(frozen=True)
class Settings:
    """What is asked of lint, and how its answer is shown."""

    request: Request
    config: Config
    output_format: str
    output_file: str
    fail_on: str
    colour: str
    quiet: bool
    verbose: bool
    statistics: bool
    fix: bool = False
    unsafe_fixes: bool = False
    diff: bool = False
    add_ignores: bool = False
    baseline: str = ""
    update_baseline: bool = False
    since: str = ""


def settings_for(options: argparse.Namespace) -> Settings:
    """The settings that the options and the configuration make together."""
    paths = _paths(options)
    _refuse_mixed(options, paths)
    config = _config(options, paths)
    return Settings(
        request=_request(options, paths, config, find_rules()),
        config=config,
        output_format=options.output_format or config.output_format or "full",
        output_file=options.output_file or "",
        fail_on=options.fail_on or config.fail_on or "warning",
        colour=options.color,
        quiet=options.quiet,
        verbose=options.verbose,
        statistics=options.statistics,
        fix=options.fix,
        unsafe_fixes=(options.unsafe_fixes or config.unsafe_fixes) and not options.no_unsafe_fixes,
        diff=options.diff,
        add_ignores=options.add_ignores,
        baseline=options.baseline or "",
        update_baseline=options.update_baseline,
        since=options.since or "",
    )


def _refuse_mixed(options: argparse.Namespace, paths: tuple[str, ...]) -> None:
    """Options that do not go together."""
    if options.unsafe_fixes and not (options.fix or options.diff or options.show_settings):
        raise UsageError("--unsafe-fixes says which fixes are made: give `--fix` or `--diff` as well")
    if options.update_baseline and not options.baseline:
        raise UsageError("--update-baseline: which one? give `--baseline FILE` as well")
    fixes = options.fix or (options.diff and not options.add_ignores)
    for name in ("add_ignores", "baseline", "since"):
        if fixes and getattr(options, name):
            raise UsageError(f"--{name.replace('_', '-')} chooses among findings, fixes are made of all: leave one out")
    if options.add_ignores and options.unsafe_fixes:
        raise UsageError("--add-ignores fixes nothing: leave --unsafe-fixes out")
    if options.update_baseline and (options.since or options.add_ignores):
        raise UsageError("--update-baseline records all that is found: leave --since and --add-ignores out")
    for name in ("add_ignores", "since"):
        if STDIN in paths and getattr(options, name):
            raise UsageError(f"--{name.replace('_', '-')}: standard input is not a file of a project")
    if options.watch:
        _refuse_with_watch(options, paths)
    if options.fix and not options.diff and STDIN in paths:
        if len(paths) > 1:
            raise UsageError("--fix: what comes from standard input is fixed alone, without other paths")
        if options.output_format not in (None, "full", "concise") and not options.output_file:
            raise UsageError("--fix: standard output is for the fixed text; `--output-file` takes the report")


def _refuse_with_watch(options: argparse.Namespace, paths: tuple[str, ...]) -> None:
    """What writes files would be seen as a change."""
    for name in ("fix", "diff", "add_ignores", "update_baseline", "output_file"):
        if getattr(options, name):
            raise UsageError(f"--watch only reports: leave --{name.replace('_', '-')} out")
    if STDIN in paths:
        raise UsageError("--watch: what comes from standard input does not change")


def _paths(options: argparse.Namespace) -> tuple[str, ...]:
    if options.stdin_filename is None:
        return tuple(options.paths) or (".",)
    if set(options.paths) - {STDIN}:
        raise UsageError("--stdin-filename names what comes from standard input: give `-` and no other path")
    return (STDIN,)


def _config(options: argparse.Namespace, paths: tuple[str, ...]) -> Config:
    if options.no_config:
        return Config()
    if options.config:
        return read_config(options.config)
    first = paths[0] if paths[0] != STDIN else options.stdin_filename or "."
    return find_config(first)


def _request(options: argparse.Namespace, paths: tuple[str, ...], config: Config, registry: Registry) -> Request:
    chosen = LintOptions(
        select=flattened(options.select) if options.select else None,
        extend_select=flattened(options.extend_select),
        ignore=flattened(options.ignore),
        exclude=flattened(options.exclude),
        launch=options.launch or "",
        respect_gitignore=not options.no_respect_gitignore,
        jobs=options.jobs,
        cache=not options.no_cache,
        fixes=(options.output_format or config.output_format) in WITH_EDITS,
    )
    request = request_of(paths, chosen, config, registry)
    if STDIN not in paths:
        return request
    name = options.stdin_filename or ""
    return replace(request, stdin=_standard_input(name), stdin_name=name or "<stdin>")


def _standard_input(name: str) -> bytes:
    """All of it, up to what a file of this name may hold."""
    most = most_bytes(name)
    data = sys.stdin.buffer.read(most + 1)
    if len(data) > most:
        raise UsageError(f"-: standard input is larger than {most // 1024**2} MiB; so much text is data, not a program")
    return data
