"""Links to pages: one setting says where they are."""

import pytest

pytest.importorskip("lsprotocol", reason="the extra `lsp` is not installed")

from gpudoctor.page_address import page_address
from gpudoctor.server.analysis_messages import EditorSpan, Told
from gpudoctor.server.analysis_work import units
from gpudoctor.server.open_texts import DocumentPlace
from gpudoctor.server.told_findings import Published, diagnostic_of

AT = EditorSpan("/x/train.py", 0, 3, 4, 3, 9)
TOLD = Told("GPU302", "missing-set-epoch", "perf", "It is slow.", AT, (("here", AT),), True)
URIS = {DocumentPlace("/x/train.py", 0): ("file:///x/a%20link.py", 7)}


def test_a_code_links_to_its_page_where_there_is_a_site() -> None:
    assert page_address("missing-set-epoch", "") == ""
    found = diagnostic_of(TOLD, URIS, "https://pages.example/")
    assert found.code_description.href == "https://pages.example/rules/missing-set-epoch/"
    assert diagnostic_of(TOLD, URIS, "").code_description is None
    # The editor's own name of a document counts, also where it is a link.
    assert [each.location.uri for each in found.related_information or ()] == ["file:///x/a%20link.py"]


def test_what_was_told_is_told_again_of_a_newer_text_only() -> None:
    published, one = Published(), diagnostic_of(TOLD, URIS)
    uri = "file:///x/train.py"
    (first,) = published.news({uri: [one]}, {uri: 1})
    assert (first.uri, first.diagnostics, first.version) == (uri, [one], 1)
    assert published.news({uri: [one]}, {uri: 1}) == []
    assert [each.version for each in published.news({uri: [one]}, {uri: 2})] == [2]
    assert [each.diagnostics for each in published.news({}, {})] == [[]]
    assert published.news({}, {}) == []


@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 6), ("utf-16", 3), ("utf-32", 2)])
def test_columns_are_counted_as_the_editor_counts(encoding: str, column: int) -> None:
    assert units("é𝄞x", 3, encoding) == column
    assert units("plain", 3, encoding) == 2
