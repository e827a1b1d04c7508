"""What an editor asks the server for: fixes, pages, findings of a document or of all, the line above a program."""

import asyncio
from pathlib import Path

import pytest
from lsprotocol import types

from tests.server.test_while_typing import BAD, GOOD, LOOP, line_of
from tests.support.editor import ROOT, edit, editing, until

pytestmark = pytest.mark.slow

RULES = ROOT / "fixtures" / "rules"
AT_LOOP = line_of(BAD, LOOP)
VERSIONED = types.ClientCapabilities(
    workspace=types.WorkspaceClientCapabilities(
        workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True)
    )
)
PULLING = types.ClientCapabilities(
    text_document=types.TextDocumentClientCapabilities(
        diagnostic=types.DiagnosticClientCapabilities(related_document_support=True)
    ),
    workspace=types.WorkspaceClientCapabilities(
        diagnostics=types.DiagnosticWorkspaceClientCapabilities(refresh_support=True)
    ),
)


def test_fixes_are_offered_and_do_what_they_say(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with editing(tmp_path, VERSIONED) as editor:
            # Characters of one unit and of two stand before it; the file itself is not there.
            text = "'é𝄞'\n" + BAD
            uri = editor.open("train.py", text)
            await editor.codes("train.py", "GPU302")
            fix, silence = await editor.actions("train.py", AT_LOOP + 1, "quickfix")
            assert (fix.is_preferred, silence.is_preferred) == (True, None)
            assert [each.code for each in fix.diagnostics] == ["GPU302"]
            assert silence.title == "Silence this finding (GPU302 missing-set-epoch)"
            fixed, silent = editor.applied(fix)["train.py"], editor.applied(silence)["train.py"]
            assert "sampler.set_epoch(epoch)" in fixed
            assert silent == text.replace(silent_line(text), silent_line(silent))
            assert "# gpudoctor: ignore[GPU302]" in silent_line(silent)
            assert await editor.actions("train.py", 0, "quickfix") == []
            (all_fixed,) = await editor.actions("train.py", 0, "source.fixAll")
            assert (all_fixed.kind, editor.applied(all_fixed)["train.py"]) == ("source.fixAll.gpudoctor", fixed)
            for each in (fixed, silent):
                editor.type("train.py", each)
                await editor.codes("train.py")
                assert await editor.actions("train.py", AT_LOOP + 1) == []
            assert uri.endswith("train.py")

    edit(scenario())


def silent_line(text: str) -> str:
    return next(line for line in text.splitlines() if LOOP in line)


def test_fixes_that_change_what_a_program_does_are_not_preferred(tmp_path: Path) -> None:
    from gpudoctor.api import LintOptions, Safety, Session

    path = RULES / "throughput" / "debug_flag_left_on" / "bad_page.py"
    with Session(LintOptions(jobs=1, cache=False, fixes=True), config=None) as session:
        (finding,) = session.lint_paths([path]).findings
    assert finding.fix.safety is Safety.UNSAFE

    async def scenario() -> None:
        async with editing(tmp_path) as editor:
            editor.open("train.py", path.read_text())
            await editor.told("train.py", bool)
            actions = await editor.actions("train.py", finding.location.line - 1, "quickfix")
            (fix,) = [each for each in actions if each.title.startswith(finding.fix.title)]
            assert fix.is_preferred is None
            assert fix.title.endswith("(changes what the program does)")
            assert editor.applied(fix)["train.py"] != path.read_text()
            for each in await editor.actions("train.py", 0, "source.fixAll.gpudoctor"):
                assert finding.fix.edits[0].text not in editor.applied(each)["train.py"]

    edit(scenario())


def test_pages_beside_the_mouse(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with editing(tmp_path) as editor:
            comment = "x = 1  # gpudoctor: ignore[missing-set-epoch, GPU501]\n"
            editor.open("train.py", comment + BAD + "# GPU601 beside code\nmissing = 2\n")
            await editor.told("train.py", bool)
            at_finding = await editor.hover("train.py", AT_LOOP + 1, 2)
            assert at_finding.startswith("# GPU302 missing-set-epoch")
            assert "```" in at_finding
            assert at_finding.endswith("`gpudoctor explain GPU302`")
            assert await editor.hover("train.py", 0, comment.index("missing")) == at_finding
            assert (await editor.hover("train.py", 0, comment.index("GPU501") + 3)).startswith("# GPU501 ")
            beside = len((comment + BAD).splitlines())
            assert (await editor.hover("train.py", beside, 4)).startswith("# GPU601 ")
            assert await editor.hover("train.py", 0, 0) == ""
            editor.open("pyproject.toml", '[tool.gpudoctor]\nignore = ["missing-set-epoch"]\n', "toml")
            assert await editor.hover("pyproject.toml", 1, 14) == at_finding

    edit(scenario())


def test_findings_are_pulled(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(BAD)

    async def scenario() -> None:
        async with editing(tmp_path, PULLING) as editor:
            client, known = editor.client, ""

            async def pulled() -> types.DocumentDiagnosticReport:
                document = types.TextDocumentIdentifier(editor.uri("train.py"))
                asked = types.DocumentDiagnosticParams(document, previous_result_id=known or None)
                return await client.text_document_diagnostic_async(asked)

            editor.open("train.py", BAD)
            report = await pulled()
            assert [each.code for each in report.items] == ["GPU302"]
            known = report.result_id
            assert (await pulled()).kind == "unchanged"
            editor.type("train.py", GOOD)
            report = await pulled()
            assert (report.kind, report.items) == ("full", ())
            # What is pulled is not pushed as well.
            assert not [each for each in editor.published if each.uri == editor.uri("train.py")]
            files = await client.workspace_diagnostic_async(types.WorkspaceDiagnosticParams([]))
            found = {each.uri: [one.code for one in each.items] for each in files.items}
            assert found == {editor.uri("other.py"): ["GPU302"]}
            ids = [types.PreviousResultId(each.uri, each.result_id) for each in files.items]
            # The next answer waits until there is something new.
            waiting = asyncio.ensure_future(client.workspace_diagnostic_async(types.WorkspaceDiagnosticParams(ids)))
            await asyncio.sleep(0.2)
            assert not waiting.done()
            (tmp_path / "other.py").write_text(GOOD)
            editor.save("train.py")
            (news,) = (await waiting).items
            assert (news.uri, news.items) == (editor.uri("other.py"), ())

    edit(scenario())


def test_what_is_above_a_program(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BAD)

    async def scenario() -> None:
        async with editing(tmp_path) as editor:
            uri = editor.open("train.py", BAD)
            asked = types.CodeLensParams(types.TextDocumentIdentifier(uri))
            told, plan, watch = [each.command for each in await editor.client.text_document_code_lens_async(asked)]
            assert told.title == "1 rank per GPU (torchrun), 1 finding"

            async def done(command: types.Command) -> str:
                asked = types.ExecuteCommandParams(command.command, command.arguments)
                return await editor.client.workspace_execute_command_async(asked)

            assert (await done(plan)).startswith("train.py, when torchrun starts one process per GPU\n")
            assert await done(watch) == "gpudoctor run torchrun --nproc-per-node 2 train.py"
            editor.open("helper.py", "import torch\n\n\ndef help(x):\n    return x\n")
            asked = types.CodeLensParams(types.TextDocumentIdentifier(editor.uri("helper.py")))
            assert await editor.client.text_document_code_lens_async(asked) == ()

    edit(scenario())


def test_notebooks(tmp_path: Path) -> None:
    head, loop = BAD.split(LOOP)
    sources = ["# A title", head, LOOP + loop]
    kinds = [types.NotebookCellKind.Markup, types.NotebookCellKind.Code, types.NotebookCellKind.Code]

    async def scenario() -> None:
        async with editing(tmp_path, VERSIONED) as editor:
            book = editor.uri("train.ipynb")
            uris = [f"{book.replace('file:', 'vscode-notebook-cell:')}#{number}" for number in range(3)]
            cells = [types.NotebookCell(kind, uri) for kind, uri in zip(kinds, uris, strict=True)]
            texts = [types.TextDocumentItem(uri, "python", 1, text) for uri, text in zip(uris, sources, strict=True)]
            editor.texts.update(zip(uris, sources, strict=True))
            editor.versions.update(dict.fromkeys(uris, 1))
            notebook = types.NotebookDocument(book, "jupyter-notebook", 1, cells)
            editor.client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(notebook, texts[1:]))

            def shown() -> dict[str, list[str]]:
                return {each.uri: [one.code for one in each.diagnostics] for each in editor.published}

            await until(lambda: shown().get(uris[2]) == ["GPU302"] or None)
            at = types.Range(types.Position(0, 0), types.Position(0, 0))
            asked = types.CodeActionParams(types.TextDocumentIdentifier(uris[2]), at, types.CodeActionContext([]))
            fix, silence, everything = await editor.client.text_document_code_action_async(asked)
            for action, part in ((fix, "set_epoch"), (silence, "ignore[GPU302]"), (everything, "set_epoch")):
                (changed,) = editor.applied(action).values()
                assert part in changed
            change = types.NotebookDocumentCellContentChanges(
                types.VersionedTextDocumentIdentifier(uri=uris[2], version=2),
                [types.TextDocumentContentChangeWholeDocument(next(iter(editor.applied(fix).values())))],
            )
            cells_changed = types.NotebookDocumentCellChanges(text_content=[change])
            editor.client.notebook_document_did_change(
                types.DidChangeNotebookDocumentParams(
                    types.VersionedNotebookDocumentIdentifier(version=2, uri=book),
                    types.NotebookDocumentChangeEvent(cells=cells_changed),
                )
            )
            await until(lambda: shown().get(uris[2]) == [] or None)

    edit(scenario())
