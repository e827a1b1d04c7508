"""Two servers in one process, each with an editor of its own."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("pytest_lsp", reason="the client of the tests is not installed")

from lsprotocol import types
from pygls.io_ import run_async
from pygls.lsp.client import LanguageClient
from pygls.uris import from_fs_path

from gpudoctor.server.language_server import EditorServer
from tests.server.test_while_typing import BAD, GOOD
from tests.support.editor import until

pytestmark = pytest.mark.slow


def test_two_servers_in_one_process(tmp_path) -> None:
    async def scenario() -> None:
        pids = await asyncio.gather(
            session(tmp_path / "one", BAD, {"ignore": []}, ["GPU302"]),
            session(tmp_path / "two", BAD, {"ignore": ["GPU302"]}, []),
            session(tmp_path / "three", GOOD, None, []),
        )
        # An analysis of one cannot end one of another.
        assert len(set(pids)) == 3

    asyncio.run(asyncio.wait_for(scenario(), 600))


async def session(folder: Any, text: str, settings: Any, codes: list[str]) -> int | None:
    """What an editor does with a server in this process; the number of the process that analyses for it."""
    folder.mkdir()
    server = EditorServer(debounce=0.01)
    client, told = LanguageClient("test", "1"), dict[int, list[Any]]()

    @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def publish(params: types.PublishDiagnosticsParams) -> None:
        told[params.version or 0] = [each.code for each in params.diagnostics]

    to_server, to_client = asyncio.StreamReader(limit=1 << 24), asyncio.StreamReader(limit=1 << 24)
    server.protocol.set_writer(Feeding(to_client))
    client.protocol.set_writer(Feeding(to_server))
    loops = [
        asyncio.ensure_future(run_async(each._stop_event or Never(), reader, each.protocol))
        for each, reader in ((server, to_server), (client, to_client))
    ]
    root = from_fs_path(str(folder))
    await client.initialize_async(
        types.InitializeParams(types.ClientCapabilities(), root_uri=root, initialization_options=settings)
    )
    client.initialized(types.InitializedParams())
    uri = from_fs_path(str(folder / "train.py")) or ""
    client.text_document_did_open(types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "python", 1, text)))
    for version in range(2, 6):
        await until(lambda before=version - 1: True if before in told else None)
        change = [types.TextDocumentContentChangeWholeDocument(text + "#" * version)]
        identifier = types.VersionedTextDocumentIdentifier(uri=uri, version=version)
        client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, change))
    await until(lambda: True if 5 in told else None)
    assert set(map(tuple, told.values())) == {tuple(codes)}
    # Nothing is kept of a notification that has been dealt with.
    await until(lambda: True if not server.protocol._request_futures else None)
    pid = server._process.pid
    await client.shutdown_async(None)
    for each in loops:
        each.cancel()
    await asyncio.gather(*loops, return_exceptions=True)
    return pid


class Never:
    """Does not stop."""

    def is_set(self) -> bool:
        return False


class Feeding:
    """Writes what another one reads."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def write(self, data: bytes) -> None:
        self._reader.feed_data(data)

    def close(self) -> None:
        self._reader.feed_eof()
