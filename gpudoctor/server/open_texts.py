"""The texts that are open in the editor, by the paths of their files; a notebook is one text, of several documents."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from lsprotocol import types
from pygls.uris import from_fs_path, to_fs_path

from gpudoctor.lint.source.launch_names import launch_kind

if TYPE_CHECKING:
    from pygls.workspace import TextDocument, Workspace

    from gpudoctor.server.analysis_messages import EditorSpan

_PROGRAMS = (".py", ".ipynb")


class DocumentPlace(NamedTuple):
    """What a document of the editor is to gpudoctor: a file, or a cell of one, counted from 1."""

    path: str
    cell: int


class OpenTexts:
    """Reads them from the workspace of the server, which follows each change."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def analysed(self) -> dict[str, bytes]:
        """The texts that gpudoctor has something to say about."""
        found = {path: document.source.encode("utf-8", "replace") for path, document in self._programs()}
        for notebook in self._workspace.notebook_documents.values():
            found[path_of(notebook.uri)] = self._as_file(notebook)
        return found

    def uris(self) -> dict[DocumentPlace, tuple[str, int | None]]:
        """The document at each place, and its version."""
        found = {DocumentPlace(path, 0): (document.uri, document.version) for path, document in self._programs()}
        for notebook in self._workspace.notebook_documents.values():
            path = path_of(notebook.uri)
            for number, cell in enumerate(notebook.cells, 1):
                document = self._workspace.text_documents.get(unquote(cell.document))
                found[DocumentPlace(path, number)] = cell.document, document.version if document else None
        return found

    def place_of(self, uri: str) -> DocumentPlace:
        """What a document is."""
        notebook = self._workspace.get_notebook_document(cell_uri=uri)
        if notebook is None:
            return DocumentPlace(path_of(uri), 0)
        numbers = (number for number, cell in enumerate(notebook.cells, 1) if cell.document == uri)
        return DocumentPlace(path_of(notebook.uri), next(numbers, 0))

    def _programs(self) -> Iterator[tuple[str, TextDocument]]:
        for uri, document in self._workspace.text_documents.items():
            if self._workspace.get_notebook_document(cell_uri=uri) is None and is_analysed(document):
                yield path_of(document.uri), document

    def _as_file(self, notebook: types.NotebookDocument) -> bytes:
        """The notebook as it would be saved, without outputs."""
        cells = []
        for cell in notebook.cells:
            document = self._workspace.text_documents.get(unquote(cell.document))
            kind = "code" if cell.kind is types.NotebookCellKind.Code else "markdown"
            language = (document.language_id if document else None) or "python"
            metadata = {"vscode": {"languageId": language}} if language != "python" else {}
            cells.append({"cell_type": kind, "metadata": metadata, "source": document.source if document else ""})
        return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def is_analysed(document: TextDocument) -> bool:
    """A program, or a file that may start one."""
    path = path_of(document.uri)
    if path.endswith(_PROGRAMS) or document.language_id == "python":
        return True
    return bool(launch_kind(path, document.source.encode("utf-8", "replace")))


def path_of(uri: str) -> str:
    """The path of a document without links; of one that is in no file yet, the path that it would have here."""
    path = to_fs_path(uri) if uri.startswith("file:") else None
    if path is None:
        name = unquote(uri.rpartition(":")[2].rpartition("/")[2])
        path = name if name.endswith(_PROGRAMS) else f"{name}.py"
    return os.path.realpath(path)


def uri_at(span: EditorSpan, known: dict[DocumentPlace, tuple[str, int | None]]) -> str:
    """The document of a place: as the editor calls it where it is open."""
    found = known.get(DocumentPlace(span.path, span.cell))
    return found[0] if found else from_fs_path(span.path) or ""
