"""The stubs: what they may say, that their table is never stale, and that they are true of what is installed here."""

import importlib
import inspect
import marshal
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.lint.library.library_names import canonical
from gpudoctor.manifest import compiled, effects
from gpudoctor.manifest.compiled import Declared, class_made_by
from gpudoctor.manifest.effects import KINDS, WORDS, CollectiveEffect, Effect, kind_of
from gpudoctor.manifest.stub_files import StubError, read_stubs, stub_files
from tests.support.models import every_model

TABLE = read_stubs(compiled.STUBS)
EVERYTHING = {**TABLE["functions"], **TABLE["methods"]}
OLDER = {
    "lightning.pytorch.Trainer",
    "lightning.pytorch.Trainer.fit",
    "lightning.pytorch.Trainer.test",
    "lightning.pytorch.Trainer.validate",
    "transformers.Trainer",
}
"""What takes arguments of earlier versions as well."""
GONE = ("lightning.pytorch.lite.",)
"""Modules of earlier versions."""


def table_of(folder: Path, **stubs: str) -> dict[str, dict[str, Any]]:
    for name, text in stubs.items():
        folder.joinpath(f"{name}.pyi").write_text(text)
    return read_stubs(str(folder))


# --- what a stub may say ---------------------------------------------------------------------------------------------


def test_a_function_has_positions_and_effects(tmp_path: Path):
    text = "@collective(writes='b', adds_up=True)\ndef f(a: Tensor, b=None, *, c=1) -> WorldSize: ...\n"
    function = Declared("lib.f", table_of(tmp_path, lib=text)["functions"]["lib.f"])
    assert [function.position(name) for name in ("a", "b", "c", "d")] == [0, 1, -1, -1]
    assert (function.positional, function.required, function.kind("a")) == (("a", "b"), 1, "Tensor")
    assert function.effect(CollectiveEffect) == CollectiveEffect(writes="b", adds_up=True)
    assert function.returns == "WorldSize"


def test_methods_take_no_self_and_are_inherited(tmp_path: Path):
    text = "class A:\n    n: GlobalRank\n    @collective()\n    def f(self, x): ...\n    g = f\nclass B(A): ...\n"
    found = table_of(tmp_path, lib=text)
    assert set(found["methods"]) == {"lib.A.f", "lib.A.g", "lib.B.f", "lib.B.g"}
    assert found["methods"]["lib.B.f"][0] == ("x", "")
    assert found["attributes"] == {"lib.A.n": "GlobalRank", "lib.B.n": "GlobalRank"}


def test_what_an_object_of_a_module_can_do(tmp_path: Path):
    text = "class C:\n    size: WorldSize\n    @collective()\n    def f(self): ...\nWORLD: C\n"
    found = table_of(tmp_path, lib=text)
    assert set(found["functions"]) == {"lib.WORLD.f"}
    assert found["values"] == {"lib.WORLD.size": "WorldSize"}


def test_what_is_the_same_everywhere(tmp_path: Path):
    found = table_of(tmp_path, lib="name: Literal['a']\ndef f() -> Literal[True]: ...\ndef g() -> bool: ...\n")
    assert found["values"] == {"lib.name": "Literal['a']"}
    assert [entry[3] for entry in found["functions"].values()] == ["Literal[True]", ""]


def test_other_names(tmp_path: Path):
    found = table_of(tmp_path, a="from b import f as f\n", c="from b import *\n", d="def f(): ...\ng = f\n")
    assert found["aliases"] == {"a.f": "b.f", "c.": "b."}
    assert found["functions"]["d.g"] == found["functions"]["d.f"]


def test_what_goes_for_one_goes_for_all_that_are_called_alike(tmp_path: Path):
    one = "@matters()\nclass C:\n    @collective()\n    def f(self): ...\n    g = h = f\n"
    found = table_of(tmp_path, one=one, other="from one import C\nD = E = C\n")
    assert found["methods"]["one.C.h"] == found["methods"]["one.C.g"] == found["methods"]["one.C.f"]
    assert found["functions"]["other.E"] == found["functions"]["other.D"] == found["functions"]["one.C"]


def test_operations_are_known_by_their_last_name():
    assert {"cat", "stack"} <= compiled.operations("joins")
    assert compiled.operations("joins", "answers") == compiled.operations("joins") | compiled.operations("answers")
    assert "cat" not in compiled.operations("method")
    assert "permute" in compiled.operations("method")


def test_another_name_of_a_member_of_another_class(tmp_path: Path):
    one = "class State:\n    def run(self, function):\n        return function(self)\n    def wait(self): ...\n"
    other = "from one import State as State\nclass Manager:\n    run = State.run\n    hold = State.wait\n"
    found = table_of(tmp_path, one=one, other=other)
    assert found["methods"]["other.Manager.run"] == found["methods"]["one.State.run"]
    assert found["bodies"]["other.Manager.run"] == found["bodies"]["one.State.run"]
    assert "other.Manager.hold" in found["methods"]
    assert found["aliases"] == {"other.State": "one.State"}


def test_a_body_is_given_what_the_stub_imports(tmp_path: Path):
    method = "    net: Model\n    def f(self, x=1):\n        return torch.f(x, Model, A)\n    def g(self): ...\n"
    others = "class B(A):\n    def f(self): ...\nclass C(A): ...\n"
    text = f"import torch\nfrom b import Net as Model\nclass A:\n{method}{others}"
    found = table_of(tmp_path, lib=text)
    written, names = found["bodies"]["lib.A.f"]
    assert written == "def f(self, x=1, *, A, Model, torch):\n    return torch.f(x, Model, A)"
    assert dict(names) == {"torch": "torch", "Model": "b.Net", "A": "lib.A"}
    assert set(found["bodies"]) == {"lib.A.f", "lib.C.f"}
    assert found["attributes"]["lib.C.net"] == "b.Net"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("@sends_mail()\ndef f(): ...\n", "lib.pyi:1: `sends_mail()` is no word of effects.py"),
        ("@collective\ndef f(): ...\n", "is no word of effects.py that is called"),
        ("@collective(loud=True)\ndef f(): ...\n", "`collective` says nothing about `loud`"),
        ("@collective(writes='b')\ndef f(a): ...\n", "`f` has no parameter `b`"),
        ("n: Rank\n", "`Rank` is neither a word of effects.py nor a class above"),
        ("if True:\n    n = 1\n", "a stub declares"),
        ("class A:\n    f = B.f\n", "`B` is nothing that the stub defines or imports"),
    ],
)
def test_what_nobody_understands_is_refused(text: str, problem: str, tmp_path: Path):
    with pytest.raises(StubError) as refused:
        table_of(tmp_path, lib=text)
    assert problem in str(refused.value)


def test_each_word_is_said_somewhere():
    said = {(word, each) for *_, kinds in EVERYTHING.values() for word, told in kinds.items() for each in ("", *told)}
    known = {(word, name) for word, kind in WORDS.items() for name in ("", *_names_of(kind))}
    assert known == said
    assert {getattr(effects, word) for word in WORDS} == set(WORDS.values())
    returned = {each for entry in EVERYTHING.values() for each in entry[3].split(",")}
    values = {*TABLE["values"].values(), *TABLE["attributes"].values(), *returned}
    assert set(map(kind_of, values)) - {""} == set(KINDS)


def _names_of(kind: type[Effect]) -> Iterator[str]:
    return iter(inspect.get_annotations(kind))


def test_each_function_has_a_model():
    """Else a stub would say what nobody hears; of what makes an object of a class, that is asked."""
    models = every_model()
    assert not {name for name in TABLE["functions"] if models.find(name) is None and class_made_by(name) == name}
    assert set(TABLE["values"]) <= set(models.names)


def test_one_word_of_a_function_has_a_model():
    """Methods do all that their words say; of a function the model of one word answers, and another went unheard."""
    models = every_model()
    words = {
        name: [word for word in effects if word in models.words] for name, (*_, effects) in TABLE["functions"].items()
    }
    assert not {name: each for name, each in words.items() if len(each) > 1}


def test_one_name_is_known():
    for name in (*TABLE["functions"], *TABLE["methods"]):
        assert canonical(name) == name
    assert canonical("lightning_fabric.fabric.Fabric") == "lightning.fabric.Fabric"


@pytest.mark.slow
def test_type_checkers_read_them(tmp_path: Path):
    modules = [module for _, module in stub_files(compiled.STUBS)]
    # Without these a type checker takes the installed library for the rest of it.
    folders = {os.path.dirname(path) for path, _ in stub_files(compiled.STUBS)} - {compiled.STUBS}
    assert not [folder for folder in folders if not os.path.exists(f"{folder}/__init__.pyi")]
    text = "".join(f"import {module}\n" for module in modules)
    tmp_path.joinpath("uses.py").write_text(f"{text}\n\nsize: int = horovod.torch.size()\nwrong: str = hvd.rank()\n")
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=", f"--cache-dir={tmp_path}", "uses.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600,
        env={"MYPYPATH": f"{compiled.STUBS}:{Path(compiled.HERE).parents[1]}"},
    )  # fmt: skip
    errors = [line for line in run.stdout.splitlines() if "error" in line]
    assert len(errors) == 2, run.stdout
    assert 'has type "int", variable has type "str"' in errors[0]


# --- the table -------------------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout of our own, with a stub."""
    stubs = tmp_path / "stubs" / "lib"
    stubs.mkdir(parents=True)
    stubs.joinpath("__init__.pyi").write_text("@collective()\ndef f(): ...\n")
    for name in compiled._MADE_OF:
        tmp_path.joinpath(name).touch()
    for name, path in (("HERE", tmp_path), ("STUBS", tmp_path / "stubs")):
        monkeypatch.setattr(compiled, name, str(path))
    monkeypatch.setattr(compiled, "_KEPT", str(tmp_path / "__pycache__" / "compiled.table"))
    compiled.table.cache_clear()
    yield tmp_path
    compiled.table.cache_clear()


def names() -> set[str]:
    compiled.table.cache_clear()
    return set(compiled.functions("collective"))


def test_a_kept_table_is_read_as_long_as_it_is_fresh(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    assert names() == {"lib.f"}
    with monkeypatch.context() as patched:
        patched.setattr(compiled, "_read_anew", lambda: pytest.fail("read anew"))
        assert names() == {"lib.f"}
    stub = checkout / "stubs" / "lib" / "__init__.pyi"
    before = compiled.stamp_of_stubs()
    stub.write_text("@collective()\ndef other(): ...\n")
    assert names() == {"lib.other"}
    assert compiled.stamp_of_stubs() != before
    stub.with_name("part.pyi").write_text("@collective()\ndef g(): ...\n")
    assert names() == {"lib.other", "lib.part.g"}
    stub.unlink()
    assert names() == {"lib.part.g"}


@pytest.mark.parametrize("data", [b"", b"{", marshal.dumps(1), marshal.dumps(("gone", 1, {}))])
def test_a_damaged_table_is_read_anew(checkout: Path, data: bytes):
    checkout.joinpath("__pycache__").mkdir()
    checkout.joinpath("__pycache__", "compiled.table").write_bytes(data)
    assert names() == {"lib.f"}


def test_a_wheel_brings_its_table(checkout: Path):
    checkout.joinpath(compiled.SHIPPED).write_bytes(compiled.built())
    checkout.joinpath("stubs", "lib", "__init__.pyi").write_text("")
    assert names() == {"lib.f"}
    assert compiled.stamp_of_stubs() == 0


# --- the libraries ---------------------------------------------------------------------------------------------------


def installed(name: str) -> object | None:
    """The function or method of this dotted name; skips where its library is missing."""
    root = name.partition(".")[0]
    if root == "hvd":
        pytest.skip("a name that horovod is imported by")
    pytest.importorskip(root, reason=f"{root} is not installed here")
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ImportError as error:
            if not name.startswith(error.name or ""):
                return None  # it needs another library, which is not installed here
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)


@pytest.mark.slow  # frameworks load torch
@pytest.mark.parametrize("root", sorted({name.partition(".")[0] for name in EVERYTHING}))
def test_signatures_are_those_of_the_library(root: str):
    # What bodies of the stub share is its own.
    names = (each for each in EVERYTHING if "._" not in each and each not in OLDER and not each.startswith(GONE))
    wrong = {name: _difference(name) for name in names if name.partition(".")[0] == root}
    assert not {name: each for name, each in wrong.items() if each}


def _is_static(method: str) -> bool:
    owner, _, name = method.rpartition(".")
    return isinstance(inspect.getattr_static(installed(owner), name, None), staticmethod)


def _difference(name: str) -> str:
    """Where a stub and the library differ; what ends in `**more` names just what somebody asks for."""
    said, found = Declared(name, EVERYTHING[name]), installed(name)
    if found is None:
        return ""
    try:
        parameters = [*inspect.signature(found).parameters.values()]  # type: ignore[arg-type]
    except ValueError:
        return ""  # functions of C tell nothing
    if name in TABLE["methods"] and not hasattr(found, "__self__") and not _is_static(name):
        parameters = parameters[1:]
    named = [each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    if parameters and not named:
        return ""  # `*args, **kwargs` of a decorator
    positional = [each for each in named if each.kind is not each.KEYWORD_ONLY]
    has = [each.name for each in positional], len([each for each in positional if each.default is each.empty])
    if "**" not in said.names:
        return "" if (list(said.positional), said.required) == has else f"{said.positional}: {has}"
    catches_all = any(each.kind is each.VAR_KEYWORD for each in parameters)
    missing = {*said.names} - {each.name for each in named} - {"", "**"}
    wrong_place = list(said.positional) != has[0][: len(said.positional)]
    return f"{has}, {missing}" if wrong_place or (missing and not catches_all) else ""
