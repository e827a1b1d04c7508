"""What was found, as the editor shows it, and what it shows already: a document is told where that has changed."""

from __future__ import annotations

from collections.abc import Container, Mapping

from lsprotocol import types

from gpudoctor.page_address import page_address
from gpudoctor.server.analysis_messages import Checked, EditorSpan, Told
from gpudoctor.server.open_texts import DocumentPlace, uri_at

SOURCE = "gpudoctor"
_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "perf": types.DiagnosticSeverity.Information,
    "info": types.DiagnosticSeverity.Hint,
}
Uris = dict[DocumentPlace, tuple[str, "int | None"]]
Found = dict[str, list[types.Diagnostic]]
"""What was found, by document."""


def range_of(span: EditorSpan) -> types.Range:
    """Its lines and columns."""
    start = types.Position(span.line, span.character)
    return types.Range(start, types.Position(span.end_line, span.end_character))


def diagnostic_of(told: Told, uris: Uris, site: str | None = None) -> types.Diagnostic:
    """A finding with the places that led to it, also in other files."""
    address = page_address(told.name, site) if told.code.startswith("GPU") else ""
    related = [
        types.DiagnosticRelatedInformation(types.Location(uri_at(span, uris), range_of(span)), message)
        for message, span in told.related
    ]
    return types.Diagnostic(
        range_of(told.span),
        told.message,
        _SEVERITIES[told.severity],
        told.code,
        types.CodeDescription(address) if address else None,
        SOURCE,
        related_information=related or None,
        data={"name": told.name, "fixable": told.fixable},
    )


def by_document(checked: Checked, uris: Uris) -> Found:
    """What there is to say of each document, open or not. What is open and clean is there, too."""
    found: Found = {uri: [] for uri, _ in uris.values()}
    for told in checked.found:
        found.setdefault(uri_at(told.span, uris), []).append(diagnostic_of(told, uris))
    return found


class Published:
    """What was sent to the editor, and of which version of each document."""

    def __init__(self) -> None:
        self._sent: dict[str, tuple[int | None, list[types.Diagnostic]]] = {}

    def news(
        self, found: Found, versions: Mapping[str, int | None], left_out: Container[str] = ()
    ) -> list[types.PublishDiagnosticsParams]:
        """What is to be sent, so that the editor shows this and nothing else; `left_out` are told in another way.

        An editor moves what it shows as the text moves: of a newer version it is told again, also where it is the same.
        """
        now = {uri: (versions.get(uri), each) for uri, each in found.items() if uri not in left_out}
        gone = [
            types.PublishDiagnosticsParams(uri, []) for uri, (_, sent) in self._sent.items() if sent and uri not in now
        ]
        new = [(uri, told) for uri, told in now.items() if self._sent.get(uri) != told]
        self._sent = now
        return gone + [types.PublishDiagnosticsParams(uri, each, version) for uri, (version, each) in new]
