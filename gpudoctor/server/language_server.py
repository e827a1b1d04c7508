"""The language server: what the editor tells and asks, and what it is answered."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.uris import from_fs_path

from gpudoctor import __version__
from gpudoctor.config import OWN_FILES, SHARED_FILE
from gpudoctor.errors import ConfigError, GpudoctorError
from gpudoctor.registry import Registry, find_rules
from gpudoctor.server import code_lenses, hover_pages, quick_fixes
from gpudoctor.server.analysis_messages import AnalysisJob, Checked, EditorSettings
from gpudoctor.server.analysis_process import AnalysisProcess, Superseded
from gpudoctor.server.client_settings import settings_of
from gpudoctor.server.open_texts import OpenTexts, path_of
from gpudoctor.server.told_findings import SOURCE, Found, Published, Uris, by_document

DEBOUNCE = 0.15
"""Seconds after the last change until the text is analysed: as long as a fast typist needs for a letter."""
_CONTENT_MODIFIED = -32801
_WATCHED = (f"**/{SHARED_FILE}", *(f"**/{name}" for name in OWN_FILES), "**/*.py", "**/*.ipynb")
# Nothing is imported from the folder of the user, which Python would look into.
_PLAN = """import sys; sys.path.pop(0); import os
from gpudoctor.cli import main
os.chdir(sys.argv[1] or "."); sys.exit(main(["plan", sys.argv[2], "--color", "never"]))"""
_NOTEBOOKS = types.NotebookDocumentSyncOptions(
    notebook_selector=[
        types.NotebookDocumentFilterWithNotebook(
            notebook="jupyter-notebook", cells=[types.NotebookCellLanguage(language="python")]
        )
    ]
)


class _Protocol(LanguageServerProtocol):
    """Forgets what was done about a notification: pygls 2.1 keeps a future of each change of a text for ever."""

    def _execute_handler(self, msg_id: str | int, *args: Any, **kwargs: Any) -> None:
        super()._execute_handler(msg_id, *args, **kwargs)
        future = self._request_futures.get(msg_id)
        if future is not None:
            future.add_done_callback(lambda _: self._request_futures.pop(msg_id, None))


class EditorServer(LanguageServer):
    """One editor's server. Two of them in a process share nothing."""

    def __init__(self, debounce: float = DEBOUNCE) -> None:
        super().__init__("gpudoctor", __version__, notebook_document_sync=_NOTEBOOKS, protocol_cls=_Protocol)
        self._debounce = debounce
        self._rules: Registry = find_rules()
        self._settings = EditorSettings()
        self._process = AnalysisProcess()
        self._searching = AnalysisProcess()
        self._published = Published()
        self._generation = 0
        self._checking: asyncio.Task[None] | None = None
        self._checked, self._found, self._uris = Checked(), Found(), Uris()
        self._answered: dict[str, list[types.Diagnostic]] = {}
        self._workspace_pulled = False
        self._saved = asyncio.Event()
        self._told_problems: set[str] = set()
        _register(self)

    # --- what the editor can do ---

    @property
    def _pulls(self) -> bool:
        text = self.client_capabilities.text_document
        return text is not None and text.diagnostic is not None

    @property
    def _versioned(self) -> bool:
        workspace = self.client_capabilities.workspace
        edit = workspace.workspace_edit if workspace else None
        return bool(edit and edit.document_changes)

    @property
    def texts(self) -> OpenTexts:
        """What is open."""
        return OpenTexts(self.workspace)

    @property
    def _root(self) -> str:
        root = self.workspace.root_path or next((path_of(each) for each in self.workspace.folders), "")
        return os.path.realpath(root) if root and os.path.isdir(root) else ""

    # --- the life of a session ---

    def begin(self, params: types.InitializeParams) -> None:
        """Read the settings that come with the start."""
        self._set(params.initialization_options)

    async def begun(self, _: types.InitializedParams) -> None:
        """Ask to be told of files that change, and start the process before it is needed."""
        workspace = self.client_capabilities.workspace
        watched = workspace.did_change_watched_files if workspace else None
        if watched and watched.dynamic_registration:
            watchers = [types.FileSystemWatcher(pattern) for pattern in _WATCHED]
            options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
            registration = types.Registration("gpudoctor", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
            await self.client_register_capability_async(types.RegistrationParams([registration]))
        if not self.texts.analysed():
            self.changed(0)

    async def end(self, *_: object) -> None:
        """End the processes."""
        if self._checking is not None:
            self._checking.cancel()
        await asyncio.gather(self._process.close(), self._searching.close())

    def set_again(self, params: types.DidChangeConfigurationParams) -> None:
        """The user has changed a setting of the editor."""
        if params.settings is not None:
            self._set(params.settings)
        self.changed(0)

    def _set(self, given: Any) -> None:
        try:
            self._settings = settings_of(given)
        except ConfigError as error:
            self._tell([str(error)])

    # --- texts and findings ---

    def opened(self, *_: object) -> None:
        """A text was opened or closed: what is known of the others is still true."""
        self.changed(0)

    def typed(self, *_: object) -> None:
        """A text has changed, and will in a moment again."""
        self.changed(self._debounce)

    def saved(self, *_: object) -> None:
        """A text was saved, or files have changed that are not open."""
        self._saved.set()
        self.changed(0)

    def changed(self, delay: float) -> None:
        """Analyse what is open, as it is after a delay; an analysis of what was there before is ended."""
        self._generation += 1
        self._process.interrupt()
        if self._checking is not None:
            self._checking.cancel()
        self._checking = asyncio.ensure_future(self._check(delay))

    async def _check(self, delay: float) -> None:
        await asyncio.sleep(delay)
        texts, uris = self.texts.analysed(), self.texts.uris()
        try:
            checked: Checked = await self._process.ask(self._job("check", tuple(sorted(texts)), texts))
        except Superseded:
            return
        except GpudoctorError as error:
            self._tell([str(error)])
            return
        self._checked, self._uris, self._found = checked, uris, by_document(checked, uris)
        self._tell(checked.problems)
        self._log(checked.failures)
        self._show()

    async def up_to_date(self) -> int:
        """Wait until all texts are analysed as they are now; which state of them that is."""
        while self._checking is not None and not self._checking.done():
            await asyncio.wait({self._checking})
        return self._generation

    def _show(self) -> None:
        """Push what the editor does not ask for: findings in files that are not open, or all of them."""
        open_now = {uri for uri, _ in self._uris.values()}
        left_out = open_now if self._pulls else set()
        if self._workspace_pulled:
            left_out = set(self._found)
        for told in self._published.news(self._found, dict(self._uris.values()), left_out):
            self.text_document_publish_diagnostics(told)
        stale = [uri for uri, sent in self._answered.items() if uri in open_now and sent != self._found.get(uri, [])]
        if stale and self._refreshes("diagnostics"):
            self.workspace_diagnostic_refresh(None)
        if self._refreshes("code_lens"):
            self.workspace_code_lens_refresh(None)

    def _refreshes(self, what: str) -> bool:
        workspace = self.client_capabilities.workspace
        able = getattr(workspace, what, None) if workspace else None
        return bool(able and able.refresh_support)

    def _job(self, kind: str, paths: tuple[str, ...], texts: Mapping[str, bytes], **more: Any) -> AnalysisJob:
        encoding = str(getattr(self.workspace.position_encoding, "value", self.workspace.position_encoding))
        return AnalysisJob(kind, paths, dict(texts), self._settings, encoding, self._root, **more)

    def _tell(self, problems: Sequence[str]) -> None:
        """Each problem once, until it is gone."""
        for problem in problems:
            if problem not in self._told_problems:
                message = types.ShowMessageParams(types.MessageType.Warning, f"gpudoctor: {problem}")
                self.window_show_message(message)
        self._told_problems = set(problems)

    def _log(self, failures: Sequence[str]) -> None:
        for failure in failures:
            self.window_log_message(types.LogMessageParams(types.MessageType.Error, f"a bug in gpudoctor: {failure}"))

    # --- what the editor asks ---

    async def diagnose(self, params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
        """What there is to say of a document."""
        await self.up_to_date()
        uri = params.text_document.uri
        diagnostics = self._answered[uri] = self._found.get(uri, [])
        known = _result_id(diagnostics)
        if params.previous_result_id == known:
            return types.RelatedUnchangedDocumentDiagnosticReport(known)
        return types.RelatedFullDocumentDiagnosticReport(diagnostics, result_id=known)

    async def diagnose_workspace(self, params: types.WorkspaceDiagnosticParams) -> types.WorkspaceDiagnosticReport:
        """What there is to say of all files. Where nothing has changed since, the answer waits until something has."""
        known = {each.uri: each.value for each in params.previous_result_ids}
        while True:
            self._saved.clear()
            items = await self._workspace_items(known)
            if items or not known:
                return types.WorkspaceDiagnosticReport(items)
            await self._saved.wait()

    async def _workspace_items(self, known: Mapping[str, str]) -> list[types.WorkspaceDocumentDiagnosticReport]:
        folders = tuple(path_of(uri) for uri in self.workspace.folders) or ((self._root,) if self._root else ())
        texts, uris = self.texts.analysed(), self.texts.uris()
        job = self._job("search", folders, texts)
        checked: Checked = await self._searching.ask(job)
        self._tell(checked.problems)
        self._workspace_pulled = True
        self._show()
        found = by_document(checked, uris)
        versions = dict(uris.values())
        gone = {uri: list[types.Diagnostic]() for uri in known if uri not in found}
        return [
            types.WorkspaceFullDocumentDiagnosticReport(
                uri, each, version=versions.get(uri), result_id=_result_id(each)
            )
            for uri, each in {**found, **gone}.items()
            if known.get(uri, _result_id([])) != _result_id(each)
        ]

    async def offer(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """Changes at a place, or for the whole document."""
        generation = await self.up_to_date()
        uri, only = params.text_document.uri, params.context.only
        diagnostics, uris = self._found.get(uri, []), self._uris
        place = self.texts.place_of(uri)
        rows = params.range.start.line, params.range.end.line
        near = [each for each in diagnostics if rows[0] <= each.range.start.line <= rows[1]]
        texts = self.texts.analysed()
        actions: list[types.CodeAction] = []
        try:
            if near and quick_fixes.wants("quickfix", only):
                job = self._job("offers", (place.path,), texts, rows=rows, cell=place.cell)
                offers = await self._process.ask(job)
                actions += quick_fixes.actions_of(offers, near, uris, versioned=self._versioned)
            fixable = any(isinstance(each.data, dict) and each.data.get("fixable") for each in diagnostics)
            if fixable and quick_fixes.wants(quick_fixes.FIX_ALL, only):
                edits = await self._process.ask(self._job("fix_all", (place.path,), texts))
                actions += [quick_fixes.fix_all(edits, uris, versioned=self._versioned)] if edits else []
        except Superseded:
            raise _modified() from None
        if generation != self._generation:
            raise _modified()
        return actions

    def explain(self, params: types.HoverParams) -> types.Hover | None:
        """The page of the rule that stands at a place, or that has found something there."""
        uri, position = params.text_document.uri, params.position
        document = self.workspace.get_text_document(uri)
        if position.line < len(document.lines):
            line = document.lines[position.line]
            column = self.workspace.position_codec.position_from_client_units(document.lines, position).character
            settings = os.path.basename(path_of(uri)) in (SHARED_FILE, *OWN_FILES) or document.language_id == "toml"
            named = hover_pages.named_at(line, column, self._rules, anywhere=settings)
            if named is not None:
                card, at = named
                at.start.line = at.end.line = position.line
                shown = self.workspace.position_codec.range_to_client_units(document.lines, at)
                return types.Hover(hover_pages.page([card]), shown)
        here = hover_pages.found_at(position, self._found.get(uri, []))
        cards = [self._rules.by_code[code] for code in dict.fromkeys(str(each.code) for each in here)]
        return types.Hover(hover_pages.page(cards), here[0].range) if here else None

    async def lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        """What stands above a program."""
        await self.up_to_date()
        uri = params.text_document.uri
        place = self.texts.place_of(uri)
        text = self.workspace.get_text_document(uri).source
        return [] if place.cell else list(code_lenses.lenses_of(place.path, text, uri, self._checked))

    async def show_plan(self, uri: str) -> str:
        """What was understood of a program, as it is saved: shown by the editor, or handed to it."""
        path = path_of(uri)
        command = [sys.executable, "-c", _PLAN, self._root, path]
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        out, err = await process.communicate()
        plan = (out or err).decode("utf-8", "replace")
        window = self.client_capabilities.window
        if window and window.show_document and window.show_document.support:
            folder = tempfile.mkdtemp(prefix="gpudoctor-plan-")
            page = Path(folder, f"{Path(path).stem}.plan.txt")
            page.write_text(plan, "utf-8")
            await self.window_show_document_async(types.ShowDocumentParams(from_fs_path(str(page)) or ""))
        return plan

    def watch_run(self, uri: str) -> str:
        """How to watch a run: the server has no terminal."""
        path = path_of(uri)
        program = code_lenses.program_at(path, self._checked.programs)
        command = code_lenses.watching(path, program, self._root)
        message = types.ShowMessageParams(types.MessageType.Info, f"Type in a terminal: {command}")
        self.window_show_message(message)
        return command


def _modified() -> JsonRpcException:
    return JsonRpcException("the text has changed meanwhile", _CONTENT_MODIFIED)


def _result_id(diagnostics: Sequence[types.Diagnostic]) -> str:
    # Equal findings are the same answer, also of another server.
    import hashlib

    return hashlib.blake2b(repr(diagnostics).encode(), digest_size=12).hexdigest()


def _plain(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function, because pygls writes on what it is given."""

    def handled(params: Any) -> Any:
        return method(params)

    async def awaited(params: Any) -> Any:
        return await method(params)

    return awaited if asyncio.iscoroutinefunction(method) else handled


def _register(server: EditorServer) -> None:
    """Tell pygls what the server can do."""
    feature = server.feature
    feature(types.INITIALIZE)(_plain(server.begin))
    feature(types.INITIALIZED)(_plain(server.begun))
    feature(types.SHUTDOWN)(_plain(server.end))
    for method in (
        types.TEXT_DOCUMENT_DID_OPEN,
        types.TEXT_DOCUMENT_DID_CLOSE,
        types.NOTEBOOK_DOCUMENT_DID_OPEN,
        types.NOTEBOOK_DOCUMENT_DID_CLOSE,
        types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS,
    ):
        feature(method)(_plain(server.opened))
    feature(types.TEXT_DOCUMENT_DID_CHANGE)(_plain(server.typed))
    feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)(_plain(server.typed))
    feature(types.TEXT_DOCUMENT_DID_SAVE)(_plain(server.saved))
    feature(types.NOTEBOOK_DOCUMENT_DID_SAVE)(_plain(server.saved))
    feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)(_plain(server.saved))
    feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)(_plain(server.set_again))
    pull = types.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=True, identifier=SOURCE)
    feature(types.TEXT_DOCUMENT_DIAGNOSTIC, pull)(_plain(server.diagnose))
    feature(types.WORKSPACE_DIAGNOSTIC)(_plain(server.diagnose_workspace))
    feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(quick_fixes.KINDS))(_plain(server.offer))
    feature(types.TEXT_DOCUMENT_HOVER)(_plain(server.explain))
    feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions())(_plain(server.lenses))
    server.command(code_lenses.SHOW_PLAN)(_plain(server.show_plan))
    server.command(code_lenses.WATCH_RUN)(_plain(server.watch_run))
