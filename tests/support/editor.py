"""An editor for tests of the server: the client of pytest-lsp, which starts the server and speaks with it over its
standard streams, with what tests ask of it again and again."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest_lsp = pytest.importorskip("pytest_lsp", reason="the client of the tests is not installed")

from lsprotocol import types  # noqa: E402
from pygls.uris import from_fs_path, to_fs_path  # noqa: E402

ROOT = Path(__file__).parents[2]
SECONDS = 240.0
"""After which an answer will not come any more."""


class Editor:
    """An editor with some texts open."""

    def __init__(self, client: Any, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.versions: dict[str, int] = {}
        self.texts: dict[str, str] = {}
        self.published: list[types.PublishDiagnosticsParams] = []

    def uri(self, name: str) -> str:
        return from_fs_path(os.path.realpath(self.folder / name)) or ""

    def open(self, name: str, text: str, language: str = "python") -> str:
        uri = self.uri(name)
        self.versions[uri], self.texts[uri] = 1, text
        item = types.TextDocumentItem(uri, language, 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    def type(self, name: str, text: str) -> None:
        """The text is another one from now on."""
        uri = self.uri(name)
        self.versions[uri] += 1
        self.texts[uri] = text
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(uri=uri, version=self.versions[uri]),
                [types.TextDocumentContentChangeWholeDocument(text)],
            )
        )

    def save(self, name: str) -> None:
        self.client.text_document_did_save(
            types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(self.uri(name)))
        )

    def close(self, name: str) -> None:
        self.client.text_document_did_close(
            types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(self.uri(name)))
        )

    async def told(self, name: str, accept: Callable[[list[types.Diagnostic]], bool] = lambda found: True) -> Any:
        """What the server says of the newest text of a document, or of another that is as wanted."""
        uri = self.uri(name)

        def found() -> Any:
            for each in reversed(self.published):
                newest = each.version is None or each.version == self.versions.get(uri)
                if each.uri == uri and newest:
                    return list(each.diagnostics) if accept(list(each.diagnostics)) else None
            return None

        return await until(found)

    async def codes(self, name: str, *wanted: str) -> None:
        """Wait until these are the codes that are shown of a document."""
        await self.told(name, lambda found: [each.code for each in found] == list(wanted))

    async def actions(self, name: str, line: int, *only: str) -> list[types.CodeAction]:
        """What the editor would offer at a line."""
        at = types.Range(types.Position(line, 0), types.Position(line, 0))
        context = types.CodeActionContext([], only=list(only) or None)
        asked = types.CodeActionParams(types.TextDocumentIdentifier(self.uri(name)), at, context)
        return await self.client.text_document_code_action_async(asked) or []

    async def hover(self, name: str, line: int, column: int) -> str:
        """The text beside the mouse; empty where there is none."""
        at = types.HoverParams(types.TextDocumentIdentifier(self.uri(name)), types.Position(line, column))
        answer = await self.client.text_document_hover_async(at)
        return answer.contents.value if answer else ""

    def applied(self, action: types.CodeAction) -> dict[str, str]:
        """The texts as a change makes them, by name."""
        changes: dict[str, list[Any]] = dict(action.edit.changes or {})
        for change in action.edit.document_changes or []:
            assert change.text_document.version == self.versions.get(change.text_document.uri)
            changes[change.text_document.uri] = list(change.edits)
        return {Path(to_fs_path(uri) or "").name: edited(self.texts[uri], edits) for uri, edits in changes.items()}


def edited(text: str, edits: list[types.TextEdit]) -> str:
    """As an editor does it: all edits are of the same text. In tests no character of theirs has two units."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)

    def offset(at: types.Position) -> int:
        return min(starts[at.line] + at.character, len(text))

    for edit in sorted(edits, key=lambda each: offset(each.range.start), reverse=True):
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    return text


async def until(found: Callable[[], Any]) -> Any:
    """What `found` gives as soon as it is not None."""
    for _ in range(int(SECONDS / 0.01)):
        if (answer := found()) is not None:
            return answer
        await asyncio.sleep(0.01)
    raise AssertionError("the server has not said what was waited for")


@asynccontextmanager
async def editing(
    folder: Path, capabilities: types.ClientCapabilities | None = None, settings: Any = None
) -> AsyncIterator[Editor]:
    """Inside, an editor has a folder open, and the server runs."""
    client = pytest_lsp.make_test_lsp_client()
    editor = Editor(client, folder)

    def publish(params: types.PublishDiagnosticsParams) -> None:
        editor.published.append(params)

    client.protocol.fm._features[types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS] = publish
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "rules")])}
    await client.start_io(sys.executable, "-m", "gpudoctor", "server", env=env, cwd=folder)
    root = from_fs_path(os.path.realpath(folder)) or ""
    await client.initialize_session(
        types.InitializeParams(
            capabilities or types.ClientCapabilities(),
            workspace_folders=[types.WorkspaceFolder(root, folder.name)],
            root_uri=root,
            initialization_options=settings,
        )
    )
    try:
        yield editor
    finally:
        await client.shutdown_session()
        await client.stop()


def edit(scenario: Awaitable[None]) -> None:
    """Play what an editor does."""

    async def play() -> None:
        await asyncio.wait_for(scenario, 2 * SECONDS)

    asyncio.run(play())
