"""Reads a page that a command has written, as the tests of pages ask for it."""

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "link", "img", "input", "hr", "col"}
HOSTILE = "</style><script>alert(1)</script>\"'&{{ 7 * 7 }}${1}\x00\x1b[31m\u202e\udc80"


class Reader(HTMLParser):
    """Reads a page and keeps what the tests ask for; a tag that is not closed is an error."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.labels: list[str] = []
        self.references: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            value = value or ""
            assert not name.startswith("on")
            assert name not in ("src", "srcset", "data", "action", "background")
            if name == "id":
                self.ids.append(value)
            if name == "aria-label":
                self.labels.append(value)
            if name in ("href", "aria-labelledby"):
                self.references.append(value.removeprefix("#"))
            self.references += re.findall(r"url\(#([^)]*)\)", value)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data


def sizes_of_text(page: str) -> set[float]:
    """The sizes of text in drawings, in units that are pixels on a phone."""
    return {float(size) for size in re.findall(r'<text style="font[^"]*?([\d.]+)px', page)}


def assert_complete_in_itself(page: str) -> None:
    """It is HTML that asks for nothing from elsewhere, and executes nothing."""
    assert page.startswith("<!doctype html>")
    reader = Reader(page)
    assert not {"script", "link", "img", "iframe", "object", "embed"} & set(reader.tags)
    assert "http:" not in page
    assert "https:" not in page
    assert "@import" not in page
    assert all(match.startswith("#") for match in re.findall(r"url\(['\"]?([^)]*)\)", page))


def assert_names_lead_somewhere(page: str) -> None:
    """Its names are unique, and whatever is referred to is there."""
    reader = Reader(page)
    assert len(reader.ids) == len(set(reader.ids))
    assert set(reader.references) <= set(reader.ids)
