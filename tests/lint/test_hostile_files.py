"""Files that somebody broke, on purpose or not: each costs no more than itself, never the findings of others."""

import contextlib
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor import cli
from gpudoctor.lint.source import size_limits
from gpudoctor.lint.source.file import SourceFile, Unreadable, parse_text
from tests.support.linting import lint, working_in
from tests.support.notebooks import notebook

pytestmark = pytest.mark.slow

WRONG = (
    "import torch.distributed as dist\ndist.init_process_group('gloo')\nif dist.get_rank() == 0:\n    dist.barrier()\n"
)
TORCH = b"import torch\n"


def outputs(text: str) -> bytes:
    """A notebook of which a cell has put this out."""
    return notebook("import torch").replace('"outputs": [', f'"outputs": [{text}, ', 1).encode()


def cell(source: str) -> bytes:
    return notebook("import torch", source).encode()


UNREADABLE = {
    "deep.ipynb": outputs("[" * 100_000 + "]" * 100_000),
    "nul.ipynb": cell("x = '\0'"),
    "surrogate.ipynb": cell("x = '?'").replace(b"?", b"\\ud800"),
    "rot13.py": b"# coding: rot13\n" + TORCH,
    "undefined.py": b"# coding: undefined\n" + TORCH,
    "unknown.py": b"# coding: " + b"a" * 100_000 + b"\n" + TORCH,
    "declaration.py": b"# coding: \xff\xfe\n" + TORCH,
    "binary.py": TORCH + bytes(range(256)),
    "utf16.py": TORCH.decode().encode("utf-16"),
    "no_mark.py": TORCH.decode().encode("utf-16-le"),
    "signs.py": TORCH + b"x = " + b"-" * 100_000 + b"1",
    "attributes.py": TORCH + b"x" + b".y" * 100_000,
    "digits.py": TORCH + b"x = " + b"9" * 10_000,
    "surrogates.py": b"# coding: utf-7\nimport torch\nx = '+2AA-'\n",
}
READABLE = {
    "int.ipynb": outputs("9" * 5_000),
    "float.ipynb": outputs("1e99999, NaN, -Infinity"),
    "names.py": TORCH + b"import importlib, sys\nimportlib.import_module('a\\0b')\nsys.path.insert(0, '\\ud800')\n"
    b"importlib.import_module('\\ud800')\nimport " + b"a" * 5_000 + b"\nfrom " + b"." * 2_000 + b" import x\n",
}


@pytest.mark.parametrize("name", [*UNREADABLE, *READABLE])
def test_other_files_keep_their_findings(name: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WRONG)
    (tmp_path / name).write_bytes({**UNREADABLE, **READABLE}[name])
    found = [(each.path, each.code) for each in lint(tmp_path, folder=tmp_path)]
    assert ("train.py", "GPU501") in found
    assert ((name, "GPU001") in found) == (name in UNREADABLE)
    assert len(found) == 1 + (name in UNREADABLE)


def test_what_is_told_of_a_file_is_short(tmp_path: Path) -> None:
    for name, data in UNREADABLE.items():
        (tmp_path / name).write_bytes(data)
    found = lint(tmp_path, folder=tmp_path)
    assert {each.path for each in found} == set(UNREADABLE)
    assert max(len(each.message) for each in found) < 300
    assert all("UTF-16" in each.message for each in found if each.path in ("utf16.py", "no_mark.py"))


@pytest.mark.parametrize("data", [b"x = (\n", b"\xff\xfe" + "x = 1\n".encode("utf-16-le"), b"\0"])
def test_a_named_file_is_told_whatever_it_is_about(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_bytes(data)
    (tmp_path / "train.py").write_text(WRONG)
    assert [each.code for each in lint(tmp_path / "plain.py", folder=tmp_path)] == ["GPU001"]
    # It lies about, and nobody asked for it.
    assert [each.code for each in lint(tmp_path, folder=tmp_path)] == ["GPU501"]


def read(path: str, data: bytes) -> SourceFile | Unreadable:
    return parse_text(data, f"/project/{path}", path)


TOO_LARGE: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "lines": ("a.py", lambda: b"a\n" * 2_000_000, "words and signs"),
    "one line": ("a.py", lambda: b"[" + b"a," * 2_000_000 + b"]", "words and signs"),
    "standard input": ("a.py", lambda: b"x" * (size_limits.MAX_FILE_BYTES + 1), "larger than 8 MiB"),
    "values": ("a.ipynb", lambda: outputs("0, " * 3_000_000 + "0"), "2,000,000 values"),
    "one cell": ("a.ipynb", lambda: notebook("a\n" * 500_000).encode(), "its cells have more than"),
    "cells": ("a.ipynb", lambda: notebook(*["a\n" * 50] * 5_000).encode(), "its cells have more than"),
}
"""Made where they are asked for: each worker of pytest imports this file, and one reads them."""


@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_would_take_gigabytes_is_not_parsed(name: str) -> None:
    path, made, message = TOO_LARGE[name]
    source = read(path, made())
    assert isinstance(source, Unreadable)
    assert source.by_limit
    assert message in source.message


def test_a_long_program_is_read() -> None:
    line = b"model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])\n"
    assert isinstance(read("a.py", line * 15_000), SourceFile)


@pytest.mark.parametrize("quote", ["'", '"'])
def test_text_without_an_end_in_a_cell_is_no_long_wait(quote: str) -> None:
    # The time grew with the square of the line: this took half a minute.
    source = read("a.ipynb", notebook("!ls\nx = " + quote + f"\\{quote}" * 60_000).encode())
    assert isinstance(source, SourceFile)
    assert len(source.flaws) == 1


IMPORTS: dict[str, Callable[[int], str]] = {
    "import": lambda number: f"import m{number}\n",
    "from": lambda number: f"from m{number} import x\n",
    "star": lambda number: f"from m{number} import *\n",
    "late": lambda number: f"def f():\n    import m{number}\n    return m{number}.f()\nf()\n",
}
LIBRARY = (
    "import torch\nfrom m1 import *\nclass Net(torch.nn.Module):\n    def forward(self, y):\n        return x(y)\n"
)


def lay_chain(folder: Path, kind: str, length: int, *, circle: bool) -> None:
    for number in range(1, length + 1):
        last = number == length
        text = "x = 1\ndef f(): pass\n" if last and not circle else IMPORTS[kind](1 if last else number + 1)
        (folder / f"m{number}.py").write_text(f"import torch\n{text}")


@pytest.mark.parametrize("kind", IMPORTS)
@pytest.mark.parametrize(
    ("length", "circle"), [(50, False), (140, False), (140, True), (400, False), (400, True), (2_000, False)]
)
def test_chains_of_imports(kind: str, length: int, circle: bool, tmp_path: Path) -> None:
    lay_chain(tmp_path, kind, length, circle=circle)
    (tmp_path / "train.py").write_text(IMPORTS[kind](1) + WRONG)
    assert [(each.path, each.code) for each in lint(tmp_path / "train.py", folder=tmp_path)] == [("train.py", "GPU501")]


def test_a_chain_of_imports_below_a_library_file(tmp_path: Path) -> None:
    lay_chain(tmp_path, "star", 400, circle=False)
    (tmp_path / "net.py").write_text(LIBRARY)
    assert _limits(tmp_path, "net.py") == []


def test_a_chain_that_is_not_followed_to_its_end_is_told(tmp_path: Path) -> None:
    lay_chain(tmp_path, "import", 600, circle=False)
    (tmp_path / "train.py").write_text(IMPORTS["import"](1) + WRONG)
    assert _limits(tmp_path, "train.py") == ["train.py"]


def _limits(folder: Path, name: str) -> list[str]:
    """The files that were not followed to their end."""
    error = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(error), working_in(folder):
        cli.main(["lint", "--no-cache", "--jobs=1", name])
    return [line.split(": ")[1] for line in error.getvalue().splitlines() if "not followed to its end" in line]
