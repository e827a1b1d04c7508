"""How the command line finds its modules: the same ones as Python would, at the same places."""

import marshal
import py_compile
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from py_compile import PycInvalidationMode as Mode

import pytest

import gpudoctor.lint
from gpudoctor.own_modules import OwnModules
from tests.support.sources import ROOT


@pytest.mark.parametrize("name", ["gpudoctor.lint.program", "gpudoctor.lint.pipeline", "gpudoctor.lint.interp"])
def test_a_module_is_found_where_python_finds_it(name: str) -> None:
    ours, usual = (
        OwnModules.find_spec(name, gpudoctor.lint.__path__),
        PathFinder.find_spec(name, gpudoctor.lint.__path__),
    )
    assert ours is not None
    assert (ours.origin, ours.cached, ours.has_location) == (usual.origin, usual.cached, usual.has_location)
    assert ours.submodule_search_locations == usual.submodule_search_locations


@pytest.mark.parametrize("name", ["gpudoctor", "gpudoctor.lint.no_such_module", "json.decoder"])
def test_everything_else_is_left_to_the_others(name: str) -> None:
    assert OwnModules.find_spec(name, gpudoctor.lint.__path__ if "." in name else None) is None


@pytest.mark.parametrize(("module", "asked_first"), [("gpudoctor.cli", True), ("gpudoctor.api", False)])
def test_only_the_command_line_changes_how_modules_are_found(module: str, asked_first: bool) -> None:
    code = f"import {module}, sys; print(getattr(sys.meta_path[0], '__name__', '') == 'OwnModules')"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=600
    )
    assert run.stdout.strip() == str(asked_first)


def test_a_package_may_load_what_is_asked_for() -> None:
    """A module with a `__getattr__` is asked by it, also where the command line has loaded it."""
    code = "import gpudoctor.own_modules; from gpudoctor.probe import inventory; print(inventory.take_stock.__name__)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stdout == "take_stock\n", ended.stderr


@pytest.mark.parametrize("mode", [Mode.TIMESTAMP, Mode.CHECKED_HASH])
def test_bytecode_is_taken_only_of_the_source_that_is_there(mode: Mode, tmp_path: Path) -> None:
    file = tmp_path / "lately.py"
    file.write_text("answer = 1", encoding="utf-8")
    kept = Path(py_compile.compile(str(file), invalidation_mode=mode) or "")
    assert _answer_of(file) == 1
    # As good as the bytecode says of itself, whatever stands in the source.
    kept.write_bytes(kept.read_bytes()[:16] + marshal.dumps(compile("answer = 2", str(file), "exec")))
    assert _answer_of(file) == 2
    file.write_text("answer = 333", encoding="utf-8")
    assert _answer_of(file) == 333
    kept.write_bytes(kept.read_bytes()[:10])
    assert _answer_of(file) == 333


def test_a_traceback_names_a_folder_as_it_is_called_now(tmp_path: Path) -> None:
    before = tmp_path / "before"
    before.mkdir()
    (before / "moved.py").write_text("import sys; answer = sys._getframe().f_code.co_filename", encoding="utf-8")
    py_compile.compile(str(before / "moved.py"))
    now = before.rename(tmp_path / "now") / "moved.py"
    assert _answer_of(now) == str(now)


def _answer_of(file: Path) -> object:
    spec = OwnModules.find_spec(f"gpudoctor.{file.stem}", [str(file.parent)])
    assert spec is not None
    found: dict[str, object] = {}
    exec(spec.loader.get_code(spec.name), found)  # type: ignore[union-attr]
    return found["answer"]
