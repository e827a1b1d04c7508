"""From what a caller chooses, and a configuration file, to what is asked of lint. The caller's word wins."""

from __future__ import annotations

import os

from gpudoctor.config import Config
from gpudoctor.errors import UsageError
from gpudoctor.lint.request import Request
from gpudoctor.lint.runtime.cache import cache_folder
from gpudoctor.record import dataclass
from gpudoctor.registry import Registry, Selection


@dataclass(frozen=True)
class LintOptions:
    """How to lint. What is None or empty is left to the configuration file, then to gpudoctor.

    `select`, `extend_select` and `ignore` name rules by code, beginning of a code, or name. `exclude` holds patterns,
    which count from the working directory. `launch` says how programs are started. `jobs` is the most processes to work
    in; 0 leaves it to lint. `cache` keeps results from run to run, in the user's cache folder. `fixes` writes the edits
    of fixes into the findings. `baseline` is a file of findings that are known and left out; with `since`, only those
    are left that have to do with lines changed since this git revision.
    """

    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    launch: str = ""
    respect_gitignore: bool = True
    jobs: int = 0
    cache: bool = True
    fixes: bool = False
    baseline: str = ""
    since: str = ""


def request_of(
    paths: tuple[str, ...], options: LintOptions, config: Config, registry: Registry, caller: str = ""
) -> Request:
    """What is asked of lint. `caller` says who chose, in errors; empty for the command line."""
    rules = registry.select(
        Selection(config.select, config.extend_select, config.ignore, config.origin),
        Selection(options.select, options.extend_select, options.ignore, caller),
        target_torch=config.target_torch,
    )
    in_code = tuple(card for card in rules if not card.run_only)
    if rules and not in_code:
        names = " ".join(card.code for card in rules)
        raise UsageError(f"{names} is seen in a run only: start the program with `gpudoctor run`")
    per_file = tuple(
        (pattern, frozenset(registry.codes_of(selectors, "per-file-ignores", config.origin)))
        for pattern, selectors in config.per_file_ignores
    )
    return Request(
        paths=paths,
        rules=in_code,
        known=registry.cards,
        launch=options.launch or config.launch or "auto",
        exclude=(*(_from_here(glob, config.folder) for glob in config.exclude), *options.exclude),
        respect_gitignore=config.respect_gitignore and options.respect_gitignore,
        per_file_ignores=per_file,
        folder=config.folder,
        jobs=options.jobs,
        cache=cache_folder() if options.cache else "",
        fixes=options.fixes,
    )


def _from_here(glob: str, folder: str) -> str:
    """A pattern that counts from the configuration file's folder, as it counts from the working directory."""
    # Without a slash a pattern means a name anywhere, and with one at its beginning it counts from nowhere.
    if "/" not in glob.rstrip("/") or glob.startswith("/"):
        return glob
    return os.path.relpath(os.path.join(folder, glob)).replace(os.sep, "/")
