"""Changes that the editor offers at a finding, and for a whole file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lsprotocol import types

from gpudoctor.server.analysis_messages import EditorSpan, Offer
from gpudoctor.server.open_texts import uri_at
from gpudoctor.server.told_findings import SOURCE, Uris, range_of

FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.{SOURCE}"
KINDS = [types.CodeActionKind.QuickFix, FIX_ALL]


def wants(kind: str, only: Sequence[str] | None) -> bool:
    """The editor asks for actions of this kind: for all, for this one, or for one above it."""
    return not only or any(kind == each or kind.startswith(f"{each}.") for each in only)


def actions_of(
    offers: Iterable[Offer], diagnostics: Iterable[types.Diagnostic], uris: Uris, *, versioned: bool
) -> list[types.CodeAction]:
    """What can be done about findings: safe fixes first, then the others, and comments that silence last."""
    at = {(each.code, each.range.start.line, each.range.start.character): each for each in diagnostics}
    ordered = sorted(offers, key=lambda offer: (offer.silences, not offer.safe))
    return [
        types.CodeAction(
            offer.title if offer.safe or offer.silences else f"{offer.title} (changes what the program does)",
            types.CodeActionKind.QuickFix,
            [found] if (found := at.get((offer.code, offer.at.line, offer.at.character))) else None,
            is_preferred=True if offer.safe else None,
            edit=edit_of(offer.edits, uris, versioned=versioned),
        )
        for offer in ordered
    ]


def fix_all(edits: Sequence[tuple[EditorSpan, str]], uris: Uris, *, versioned: bool) -> types.CodeAction:
    """The action that fixes all of a file that can be fixed safely."""
    edit = edit_of(edits, uris, versioned=versioned)
    return types.CodeAction("gpudoctor: fix all that can be fixed safely", FIX_ALL, edit=edit)


def edit_of(edits: Iterable[tuple[EditorSpan, str]], uris: Uris, *, versioned: bool) -> types.WorkspaceEdit:
    """Changes of texts, which the editor refuses where one of them has changed since, if it knows versions."""
    changes: dict[str, list[types.TextEdit]] = {}
    # The same edit may be a part of several fixes.
    for span, text in dict.fromkeys(edits):
        changes.setdefault(uri_at(span, uris), []).append(types.TextEdit(range_of(span), text))
    if not versioned:
        return types.WorkspaceEdit(changes)
    versions = dict(uris.values())
    return types.WorkspaceEdit(
        document_changes=[
            types.TextDocumentEdit(types.OptionalVersionedTextDocumentIdentifier(uri, versions.get(uri)), each)
            for uri, each in changes.items()
        ]
    )
