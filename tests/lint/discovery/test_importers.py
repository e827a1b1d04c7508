"""Which program a helper that is linted alone is read through."""

from pathlib import Path

import pytest

from gpudoctor.lint.entries import analyze
from tests.support.linting import lint

HELPER = """import torch
import torch.distributed as dist

def save(model, first):
    if first:
        dist.barrier()
"""
PROGRAM = """import torch
import torch.distributed as dist
from helper import save

if __name__ == "__main__":
    dist.init_process_group("gloo")
    save(torch.nn.Linear(1, 1), dist.get_rank() == 0)
"""
MENTIONS = "import torch\n# Not the helper of old.\nif __name__ == '__main__':\n    print(torch.rand(1))\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "requirements.txt").touch()
    (tmp_path / "helper.py").write_text(HELPER)
    return tmp_path


def found(folder: Path) -> list[str]:
    return [each.code for each in lint(folder / "helper.py", folder=folder, select=("GPU501",))]


def test_programs_that_only_mention_it_do_not_crowd_out_the_one_that_imports_it(folder: Path) -> None:
    for number in range(12):
        (folder / f"a{number}.py").write_text(MENTIONS)
    (folder / "train.py").write_text(PROGRAM)
    assert found(folder) == ["GPU501"]


def test_a_program_that_leaves_the_framework_to_its_helpers(folder: Path) -> None:
    (folder / "setup_group.py").write_text(
        "import torch.distributed as dist\n"
        "def begin(): dist.init_process_group('gloo')\n"
        "def is_first(): return dist.get_rank() == 0\n"
    )
    (folder / "train.py").write_text(
        "from setup_group import begin, is_first\nfrom helper import save\n"
        "if __name__ == '__main__':\n    begin()\n    save(1, is_first())\n"
    )
    assert found(folder) == ["GPU501"]


def test_a_script_without_a_main_guard_is_a_program_too(folder: Path) -> None:
    (folder / "train.py").write_text(PROGRAM.replace('if __name__ == "__main__":', "if dist.is_available():"))
    assert found(folder) == ["GPU501"]


def test_a_program_with_test_in_its_name_is_one(folder: Path) -> None:
    (folder / "contest.py").write_text(PROGRAM)
    assert found(folder) == ["GPU501"]


def test_what_a_runner_of_tests_collects_is_no_program(folder: Path) -> None:
    (folder / "test_helper.py").write_text(PROGRAM.replace("\nif ", "\ndef test_it(): pass\n\nif "))
    assert found(folder) == []


def test_no_program_is_examined_twice_for_a_file_that_it_does_not_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program of the request that was examined has told which files it reads."""
    (folder / "helper.py").write_text(HELPER.replace("helper", "other"))
    (folder / "train.py").write_text(PROGRAM.replace("from helper import save", "from tools import save  # helper"))
    (folder / "tools.py").write_text(HELPER)
    seen = []
    examined = analyze.examine
    monkeypatch.setattr(analyze, "examine", lambda path, *rest: seen.append(path) or examined(path, *rest))
    lint(folder, folder=folder, select=("GPU501",))
    assert sorted(Path(each).name for each in seen) == ["helper.py", "train.py"]
