"""Files as they lie on people's disks: encodings, line ends, and things that are no files at all."""

import ast
import os
import socket
import warnings
from pathlib import Path

import pytest

from gpudoctor.lint.source import size_limits
from gpudoctor.lint.source.file import SourceFile, Unreadable, parse_text, read_source, shown_path


def read(data: bytes) -> SourceFile | Unreadable:
    return parse_text(data, "/project/train.py", "train.py")


def good(data: bytes) -> SourceFile:
    source = read(data)
    assert isinstance(source, SourceFile), source
    return source


def bad(data: bytes) -> Unreadable:
    source = read(data)
    assert isinstance(source, Unreadable)
    return source


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(b"", "", id="empty"),
        pytest.param(b"\n\n", "\n\n", id="blank"),
        pytest.param(b"x = 1", "x = 1", id="no newline at the end"),
        pytest.param(b"x = 1\r\ny = 2\r\n", "x = 1\ny = 2\n", id="windows"),
        pytest.param(b"x = 1\ry = 2\r", "x = 1\ny = 2\n", id="old macintosh"),
        pytest.param(b"x = 1\r\ny = 2\nz = 3\r", "x = 1\ny = 2\nz = 3\n", id="all line ends"),
        pytest.param(b"\xef\xbb\xbfx = 1\n", "x = 1\n", id="byte order mark"),
        pytest.param("x = 'größe'\n".encode(), "x = 'größe'\n", id="utf-8"),
        pytest.param(b"\xef\xbb\xbf# coding: utf-8\nx = 1\n", "# coding: utf-8\nx = 1\n", id="mark and declaration"),
        pytest.param(b"x = 1\n\n# coding: klingon\n", "x = 1\n\n# coding: klingon\n", id="third line"),
        pytest.param(b"# encoding: UTF8\r\nx = 1\r\n", "# encoding: UTF8\nx = 1\n", id="declared on windows"),
        pytest.param(
            ("# coding " + "ü" * 4000).encode() + b"\n", "# coding " + "ü" * 4000 + "\n", id="long first line"
        ),
        pytest.param(b"x = 1\n\x0cy = 2\n", "x = 1\n\x0cy = 2\n", id="form feed"),
    ],
)
def test_text(data: bytes, text: str) -> None:
    assert good(data).text == text


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("latin-1", "# -*- coding: latin-1 -*-\nx = 'é'\n"),
        ("cp1251", "#!/usr/bin/env python\n# vim: set fileencoding=cp1251 :\nx = 'Я'\n"),
        ("gbk", "# coding=gbk\nx = '批'\n"),
        ("shift-jis", "\n# coding: shift-jis\nx = '学習'\n"),
        ("utf-8", "# coding: utf-8-unix\nx = '学習'\n"),
    ],
)
def test_declared_encoding(encoding: str, text: str) -> None:
    assert good(text.encode(encoding)).text == text


@pytest.mark.parametrize(
    ("data", "line", "column", "part"),
    [
        pytest.param("x = 'é'\n".encode("latin-1"), 1, 6, "byte 0xe9 is not valid utf-8", id="undeclared latin-1"),
        pytest.param(b"# coding: utf-8\r\n\r\nx = '\xfc'\r\n", 3, 6, "0xfc", id="lying declaration"),
        pytest.param("# coding: ascii\nx = 'größe'\n".encode(), 2, 8, "not valid ascii", id="ascii declared"),
        pytest.param(b"# coding: klingon\nx = 1\n", 1, 1, "unknown encoding: klingon", id="unknown encoding"),
        pytest.param(b"# coding: rot13\nk = 1\n", 1, 1, "`rot13`", id="not a text encoding"),
        pytest.param(b"\xef\xbb\xbfx = 1\ny = '\xfc'\n", 2, 6, "0xfc is not valid utf-8", id="lying mark"),
        pytest.param(b"\xef\xbb\xbf# coding: latin-1\n", 1, 1, "utf-8", id="mark against declaration"),
        pytest.param("x = 1\n".encode("utf-16"), 1, 1, "UTF-16", id="utf-16"),
        pytest.param("x = 1\n".encode("utf-16-le"), 1, 1, "UTF-16", id="utf-16 without mark"),
        pytest.param(b"x = 1\ny = \x002\n", 2, 5, "NUL", id="nul byte"),
    ],
)
def test_undecodable(data: bytes, line: int, column: int, part: str) -> None:
    found = bad(data)
    assert (found.line, found.column) == (line, column)
    assert part in found.message


def test_the_interpreter_agrees_about_encodings(tmp_path: Path) -> None:
    """What Python would run is read, and what it would refuse is not."""
    for number, data in enumerate(
        [
            b"x = '\xfc'\n",
            b"# coding: latin-1\nx = '\xfc'\n",
            b"#\n# coding: utf8\nx = '\xc3\xbc'\n",
            b"x\n# coding: latin-1\n'\xfc'\n",
        ]
    ):
        path = tmp_path / f"f{number}.py"
        path.write_bytes(data)
        try:
            tree = ast.parse(data)
        except SyntaxError:
            assert isinstance(read_source(str(path)), Unreadable), data
        else:
            source = read_source(str(path))
            assert isinstance(source, SourceFile), data
            assert ast.dump(source.tree) == ast.dump(tree)


def test_warnings_of_the_parser_are_not_shown() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        good(b"x = '\\d'\ny = 1 is 1\nassert (x, 'y')\n")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"x = " + b"(" * 500 + b")" * 500, id="brackets"),
        pytest.param(b"x = " + b"[" * 100_000, id="open brackets"),
        pytest.param(b"x = " + b"-" * 100_000 + b"1", id="signs"),
        pytest.param(b"x = " + b"1+" * 100_000 + b"1", id="sum"),
        pytest.param(b"x" + b".y" * 100_000, id="attributes"),
        pytest.param(b"".join(b" " * n + b"if x:\n" for n in range(200)) + b" " * 200 + b"pass\n", id="indentation"),
        pytest.param(b"x = " + b"9" * 10_000, id="long number"),
        pytest.param(b"# coding: utf-7\nx = '+2AA-'\n", id="lone surrogate"),
    ],
)
def test_too_deep_is_unreadable_or_read_but_never_raises(data: bytes) -> None:
    source = read(data)
    assert isinstance(source, SourceFile) or source.message


def test_lines_are_counted_as_the_parser_does() -> None:
    source = good("a = 1\x0c\n\x0bb = '\u2028'\n".encode().replace(b"\x0b", b"") + b"c = 3\n")
    assert source.lines[2] == "c = 3"
    assert source.tree.body[2].lineno == 3


def test_locations_are_in_characters() -> None:
    source = good("größe = 'ü'; x = f(1)\n".encode())
    second = source.tree.body[1]
    place = source.location(second)
    assert (place.path, place.line, place.column, place.end_column) == ("train.py", 1, 14, 22)
    assert source.lines[0][place.column - 1 : place.end_column - 1] == "x = f(1)"


def test_sources_are_equal_only_to_themselves() -> None:
    assert good(b"x = 1") != good(b"x = 1")
    assert len({good(b""), good(b"")}) == 2


def test_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.py"
    path.touch()
    source = read_source(str(path))
    assert isinstance(source, SourceFile)
    assert source.tree.body == []


def test_not_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "dangling.py").symlink_to("nowhere.py")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket.py"))
        assert message(tmp_path / "socket.py") == "this is a pipe, a socket or a device, not a file"
    assert message(tmp_path / "pipe.py") == "this is a pipe, a socket or a device, not a file"
    assert message(tmp_path / "folder.py") == "this is a folder, not a file"
    assert "circle" in message(tmp_path / "loop.py")
    assert message(tmp_path / "dangling.py") == "it is a link to a file that is not there"
    assert "pipe" in message(Path("/dev/zero"))
    assert message(Path("/dev/null/x")) == "not a directory"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="everything is readable to root")
def test_no_permission(tmp_path: Path) -> None:
    path = tmp_path / "secret.py"
    path.write_text("x = 1")
    path.chmod(0)
    assert message(path) == "permission denied"


def test_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "big.py"
    monkeypatch.setattr(size_limits, "MAX_FILE_BYTES", 3 * 1024**2)
    line = b"# %s\n" % (b"x" * 1021)
    path.write_bytes(line * (3 * 1024 + 1))
    assert "larger than 3 MiB" in message(path)
    found = read_source(str(path))
    assert isinstance(found, Unreadable)
    assert found.by_limit
    path.write_bytes(line * (3 * 1024))
    assert isinstance(read_source(str(path)), SourceFile)


def test_five_megabytes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "five.py"
    path.write_bytes(b"'" + b"x" * 5_000_000 + b"'\n")
    assert isinstance(read_source(str(path)), SourceFile)


def test_links_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real.py").write_text("x = 1")
    (tmp_path / "link.py").symlink_to("real.py")
    monkeypatch.chdir(tmp_path)
    source = read_source("link.py")
    assert isinstance(source, SourceFile)
    assert source.path == str(tmp_path / "real.py")
    assert source.shown == "link.py"


def test_shown_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    (here / "sub").mkdir(parents=True)
    (tmp_path / "way").symlink_to(here)
    monkeypatch.chdir(here)
    assert shown_path("sub/../sub/a.py") == "sub/a.py"
    assert shown_path(str(here / "sub" / "a.py")) == "sub/a.py"
    assert shown_path(str(tmp_path / "way" / "a.py")) == "a.py"
    assert shown_path("../other.py") == str(tmp_path / "other.py")
    assert shown_path(str(tmp_path / "hereafter.py")) == str(tmp_path / "hereafter.py")
    monkeypatch.chdir("/")
    assert shown_path("/x/a.py") == "x/a.py"


def test_names_that_are_no_text_can_be_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"mod\xe8le.py")
    try:
        Path(name).write_text("x = 1")
    except OSError:
        pytest.skip("the file system takes no such name")
    source = read_source(name)
    assert isinstance(source, SourceFile)
    assert source.shown.encode() == b"mod\\udce8le.py"


def message(path: Path) -> str:
    source = read_source(str(path))
    assert isinstance(source, Unreadable)
    assert (source.line, source.column) == (1, 1)
    return source.message


OF_DATABRICKS = """# Databricks notebook source
# MAGIC %md
# COMMAND ----------
%pip install torch
!deepspeed --num_gpus=8 \\
    --module training.trainer \\
    --epochs 2
count = 1
"""


def test_a_notebook_that_databricks_keeps_as_python_is_read_without_its_commands() -> None:
    last = good(OF_DATABRICKS.encode()).tree.body[-1]
    assert (type(last).__name__, last.lineno) == ("Assign", 8)
    bad(OF_DATABRICKS.replace("# Databricks notebook source", "# A program").encode())
