"""What a project's own scripts and texts say of how its programs are started."""

from pathlib import Path

import pytest

from gpudoctor.lint.source.documented_starts import DocumentedStarts
from tests.support.linting import lint


def test_the_nearest_folder_that_speaks_of_a_program_counts(tmp_path: Path) -> None:
    for folder in ("one/deep/down", "two"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "run.sh").write_text(
        "torchrun --nproc_per_node 2 first.py\npython -m torch.distributed.launch sub.py\n"
    )
    (tmp_path / "two" / "run.sh").write_text("python -m torch.distributed.launch train.py")
    (tmp_path / "one" / "README.md").write_text("accelerate launch --num_processes 2 \\\n  third.py\n")

    def launchers(file: str, is_marked: bool = True) -> frozenset[str]:
        return DocumentedStarts(str(tmp_path / file), str(tmp_path), is_marked).launchers()

    assert launchers("one/deep/down/first.py") == {"torchrun"}
    assert launchers("two/train.py") == {"launch"}
    assert launchers("one/third.py") == {"accelerate"}
    assert launchers("other.py") == {"accelerate", "launch", "torchrun"}
    assert launchers("other.py", is_marked=False) == set()


TOOL = """
import json
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
model = DDP(torch.nn.Linear(4, 4))
{trains}
with open("classes.json", "w") as out:
    json.dump(model(torch.ones(1, 4)).tolist(), out)
"""
TRAINS = "model(torch.ones(1, 4)).sum().backward()"
TRAINING = "    torchrun --nproc_per_node 8 train.py\n"
AS_IN_TEXT = "Then run `CUDA_VISIBLE_DEVICES=0 python -u tools/classes.py --fast`, which takes a minute.\n"


@pytest.mark.parametrize(
    ("readme", "trains", "alone"),
    [
        (TRAINING + AS_IN_TEXT, "", True),
        (TRAINING + "    $ python tools/classes.py\n", "", True),
        (TRAINING + "    python3 tools/classes.py && python report.py\n", "", True),
        # What trains may be started in several all the same.
        (TRAINING + AS_IN_TEXT, TRAINS, False),
        # Nothing of it is started in several, or this one is.
        (AS_IN_TEXT, "", False),
        (TRAINING + AS_IN_TEXT + "    torchrun --nproc_per_node 2 tools/classes.py\n", "", False),
        # Each of these starts as many as it is asked for.
        (TRAINING + "    srun python tools/classes.py\n", "", False),
        (TRAINING + "    python start.py tools/classes.py\n", "", False),
        (TRAINING + "# python tools/classes.py\n", "", False),
        (TRAINING, "", False),
    ],
)
def test_a_tool_that_is_started_by_itself(readme: str, trains: str, alone: bool, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "README.md").write_text(readme)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "classes.py").write_text(TOOL.format(trains=trains))
    found = lint(tmp_path / "tools" / "classes.py", folder=tmp_path, select=("GPU601",))
    assert [each.code for each in found] == ["GPU601"] * (not alone)
