"""Files of layers alone are not executed; those that come close to a mistake are."""

import ast
import shutil
import time
from pathlib import Path

import pytest

from gpudoctor.lint.discovery import prefilter
from gpudoctor.lint.discovery.classify import classify_alone
from gpudoctor.lint.discovery.prefilter import is_irrelevant, is_telling, relevant_definitions
from gpudoctor.lint.source.file import SourceFile, parse_text
from gpudoctor.lint.source.file_traits import Role
from gpudoctor.manifest import telling_names
from gpudoctor.manifest.compiled import functions
from gpudoctor.manifest.effects import RANKS
from tests.support.fixture_marks import PRELUDES, cases, label_of
from tests.support.linting import Seen, lint

LAYERS = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.first = nn.Linear(size, size)
        self.rest = nn.ModuleList([nn.Linear(size, size) for _ in range(3)])

    def forward(self, x):
        x = x.to(self.first.weight.device)
        return self.first(x).float()
"""


def parsed(text: str) -> SourceFile:
    source = parse_text(text.encode(), "/project/layers.py", "layers.py")
    assert isinstance(source, SourceFile)
    return source


def test_layers_alone_say_nothing():
    assert is_irrelevant(parsed(LAYERS))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        x = x.to(", "        x.to("),
        ("return self.first(x).float()", "dist.all_reduce(x)"),
        ("nn.ModuleList([nn.Linear(size, size) for _ in range(3)])", "[nn.Linear(size, size) for _ in range(3)]"),
        (
            "        self.rest = nn.ModuleList([",
            "        rest = [nn.Linear(1, 1)]\n        self.rest = rest; nn.ModuleList([",
        ),
        ("        super().__init__()\n", ""),
        (
            "        super().__init__()\n        self.first = nn.Linear(size, size)\n",
            "        self.first = nn.Linear(size, size)\n        super().__init__()\n",
        ),
        ("import torch\n", "import torch  # gpudoctor: ignore[GPU101]\n"),
        (
            "    def forward(self, x):",
            "    class Inner(nn.Module):\n        def __init__(self):\n            self.last = nn.Linear(1, 1)\n"
            "    def forward(self, x):",
        ),
        ("from torch import nn", "from torch import nn\nfrom torch.distributed import *"),
    ],
)
def test_what_comes_close_is_executed(old: str, new: str):
    assert old in LAYERS
    assert not is_irrelevant(parsed(LAYERS.replace(old, new)))


def test_only_what_comes_close_and_its_users_are_executed():
    text = """
import torch
from torch.distributed import send as give

def loss(x):
    return x.mean()

def hand_over(x):
    give(x, dst=1)

def step(x):
    hand_over(x)

class Clock:
    def stop(self):
        return loss(self)
"""
    assert relevant_definitions(parsed(text)) == {"hand_over", "step"}


def test_what_happens_at_the_top_concerns_all():
    assert (
        relevant_definitions(parsed("import torch\nmodel = torch.nn.DataParallel(net)\ndef f():\n    pass\n")) is None
    )


def test_frameworks_tell_in_each_function():
    text = """
from accelerate.utils import gather

def collect(x, main):
    if main:
        return gather(x)

def mean(x):
    return x.mean()
"""
    assert relevant_definitions(parsed(text)) == {"collect"}


TOLD = [name for word in (*telling_names._RELEVANT, *RANKS) for name in functions(word)]


@pytest.mark.parametrize("name", TOLD)
def test_who_calls_what_a_stub_tells_of_is_executed(name: str):
    module, _, last = name.rpartition(".")
    text = f"""
import math
from {module} import {last}

def one(x):
    return {last}(x)

def other(x):
    return math.floor(x)
"""
    assert relevant_definitions(parsed(text)) == {"one"}


@pytest.mark.slow
def test_words_are_no_names_of_everything():
    """A function that sums or joins is no reason to execute it: such names of stubs count with their library alone."""
    # Each worker of pytest imports this file, and one asks.
    import torch
    from torch import nn

    kinds = (str, list, dict, set, torch.Tensor, nn.Module, nn.functional)
    everywhere = {name for kind in kinds for name in dir(kind) if name[0].islower()}
    assert {name for name in everywhere if is_telling(name)} <= {"is_distributed"}
    # Those of graphs and of several tasks, which a job of a cluster counts as well.
    assert not [name for name in ("node", "num_nodes", "num_tasks") if is_telling(name)]


MISSED = {
    # That a class names two GPUs is none of the words.
    "GPU215/bad_page.py",
    # Nothing is missed: where all is executed, `self.children()` counts as no use of a layer.
    "GPU104/bad_never_wrapped.py",
    # That ranks meet in a function is seen where that is followed: who makes their group here lies in another file.
    "GPU601/bad_files_of_paths.py",
    "GPU601/bad_named_as_written.py",
    "GPU601/bad_pictures_and_settings.py",
}


@pytest.mark.slow
def test_no_mistake_of_a_fixture_is_dismissed(fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What is found where every function is executed is found where only those are that come close."""
    bad = [
        path
        for case in cases(fixtures)
        if case.bad and case.code != "GPU001"
        for path in case.files
        if path.suffix == ".py"
    ]
    for prelude in PRELUDES:
        shutil.copy(prelude, tmp_path)
    texts = ((path, _as_library(path)) for path in bad)
    library = {path: text for path, text in texts if text is not None and _leaves_some_out(text)}
    found = {path: _found_in(text, tmp_path) for path, text in library.items()}
    monkeypatch.setattr(prefilter, "relevant_definitions", lambda file: None)
    monkeypatch.setattr(prefilter, "is_irrelevant", lambda file: False)
    missed = {path: set(_found_in(text, tmp_path)) - set(found[path]) for path, text in library.items()}
    assert {label_of(path) for path, findings in missed.items() if findings} <= MISSED
    assert len(library) > 160
    assert sum(map(len, found.values())) > 60


def _leaves_some_out(text: str) -> bool:
    """Elsewhere all is executed, and nothing can be missed."""
    file = parsed(text)
    relevant = relevant_definitions(file)
    named = {node.name for node in file.tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    return relevant is not None and not named <= relevant


def _as_library(path: Path) -> str | None:
    """The text of a file that only defines things, or of a program whose last lines stand in a function."""
    text = path.read_text()
    body, lines = ast.parse(text).body, text.splitlines()
    defines = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    last = max((n for n, statement in enumerate(body) if isinstance(statement, defines)), default=-1)
    if last + 1 < len(body):
        first = body[last + 1].lineno - 1
        lines[first:] = ["def main():", *(f"    {line}" for line in lines[first:])]
    text = "\n".join(lines) + "\n"
    return text if classify_alone(parsed(text)).role is Role.PART else None


def _found_in(text: str, folder: Path) -> list[Seen]:
    alone = folder / "alone.py"
    alone.write_text(text)
    return [finding for finding in lint(alone, folder=folder) if finding.severity != "info"]


def chain(length: int) -> str:
    calls = "".join(f"def f{number}():\n    f{number - 1}()\n" for number in range(1, length))
    return f"import torch.distributed as dist\ndef f0(): dist.all_reduce(1)\n{calls}\ndef g(): pass\n"


def test_functions_that_call_one_another_are_all_followed():
    assert relevant_definitions(parsed(chain(500))) == {f"f{number}" for number in range(500)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        chain(8_000),
        f"import torch.distributed as dist\ndef a(): dist.all_reduce(1)\n# {'a' * 900_000}\n"
        + "".join(f"def a{'a' * number}(): pass\n" for number in range(400)),
        "from torch.distributed import (" + ",".join(f"send as s{number}" for number in range(20_000)) + ")\n",
    ],
    ids=["a long chain", "a name that stands everywhere", "many names"],
)
def test_what_would_take_long_is_executed_instead(text: str):
    file = parsed(text)
    assert file.tree
    before = time.process_time()
    assert relevant_definitions(file) is None
    assert time.process_time() - before < 6
