"""Which findings count: those that a baseline does not know, and those of lines that were changed."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gpudoctor.lint.request import Outcome, Request


class Triage:
    """Leaves findings out of an answer: those that a baseline holds, and those that have to do with no line that was
    changed since a git revision.

    It is made before the work, and what it takes is asked there: a bad baseline or revision fails at once.
    """

    def __init__(self, request: Request, baseline: str = "", since: str = "") -> None:
        self._request = request
        self._baseline = baseline
        # Imported late, both: most lints show all that is found.
        if baseline:
            from gpudoctor.triage.baseline import read_baseline

            self._known = read_baseline(baseline)
        self._since = None
        if since:
            from gpudoctor.triage.git_changes import changed_since

            self._since = changed_since(since, _folder_of(request))

    def chosen(self, outcome: Outcome) -> Outcome:
        """The answer without what is left out."""
        if self._baseline:
            from gpudoctor.triage.baseline import without_known

            outcome = without_known(outcome, self._known, self._baseline, self._request)
        if self._since is not None:
            from gpudoctor.triage.git_changes import only_changed

            outcome = only_changed(outcome, self._since, _texts_of(self._request))
        return outcome


def _folder_of(request: Request) -> str:
    """A folder of the project: that of the first path, which need not be there."""
    first = request.paths[0] if request.paths else ""
    folder = os.path.abspath(request.stdin_name if first == "-" else first)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def _texts_of(request: Request) -> Mapping[str, bytes]:
    """What counts instead of the files, by their paths without links."""
    if "-" not in request.paths:
        return request.edited
    return {**request.edited, os.path.realpath(request.stdin_name): request.stdin}
