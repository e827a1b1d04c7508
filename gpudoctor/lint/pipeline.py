"""The pipeline of lint, as an outline: files, programs, rules, findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.discovery.select import list_files
from gpudoctor.lint.discovery.walk import find_files
from gpudoctor.lint.results.answer import answer_of
from gpudoctor.lint.runtime.cache import Cache
from gpudoctor.lint.schedule import examine_in_order
from gpudoctor.lint.source.file import Sources
from gpudoctor.lint.source.file_queries import remembering

if TYPE_CHECKING:
    from gpudoctor.lint.request import Outcome, Request, Watch


@remembering()
def lint(request: Request, watch: Watch = lambda done, total: None) -> Outcome:
    """Lint the files of a request."""
    found = find_files(request)
    # One cache for all entries: programs of a project import the same helpers.
    sources = Sources(request.given)
    with Cache(request, sources) as cache:
        listed = list_files(found, request, sources, cache)
        examined = examine_in_order(listed, request, sources, cache, watch)
    return answer_of(found, listed, examined, request, sources)
