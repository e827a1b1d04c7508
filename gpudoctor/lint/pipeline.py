"""The pipeline of lint, as an outline: files, programs, rules, findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from gpudoctor.lint.discovery.find_files import find_files
from gpudoctor.lint.discovery.select import list_files
from gpudoctor.lint.entries.schedule import examine_in_order
from gpudoctor.lint.request import OnProgress, Outcome, Request
from gpudoctor.lint.results.answer import answer_of
from gpudoctor.lint.runtime.cache import Cache
from gpudoctor.lint.runtime.entry_result import EntryResult
from gpudoctor.lint.source.file import Sources
from gpudoctor.lint.source.file_queries import remembering


@remembering()
def lint(request: Request, watch: OnProgress = lambda done, total, name: None) -> Outcome:
    """Lint the files of a request."""
    found = find_files(request)
    # One cache for all entries: programs of a project import the same helpers.
    sources = Sources(request.given)
    launched = None
    if found.launch_files:
        # Imported late: mostly programs are linted.
        from gpudoctor.lint.discovery.launch_starts import read_launch_files

        launched, found, request = read_launch_files(found, sources, request)
    with Cache(request, sources) as cache:
        listed = list_files(found, request, sources, cache)

        def anew(paths: Sequence[str]) -> Iterator[EntryResult]:
            # Imported late: where all is known already, the interpreter is not needed.
            from gpudoctor.lint.entries.analyze import examine_all

            return examine_all(paths, request, sources)

        examined = examine_in_order(listed, request, sources, partial(cache.results, examine=anew), watch)
    if launched is not None:
        from gpudoctor.lint.entries.launch_rules import judged_launches

        examined += judged_launches(launched, examined, request)
    return answer_of(found, listed, examined, request, sources)
