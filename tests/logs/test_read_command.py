"""`gpudoctor read` as its user has it."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpudoctor import cli
from tests.logs.samples import PEER, TRACEBACK, prefixed, timeout
from tests.tools import make_schema


def test_json_holds_what_the_page_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "job.log"
    log.write_text(prefixed("[rank0]: ", PEER) + prefixed("[rank1]: ", TRACEBACK))
    assert cli.main(["read", "--output-format", "json", str(log)]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["first"]["rank"], said["first"]["line"], said["sure"]) == (1, 20, True)
    assert [each["ranks"] for each in said["following"]] == [[0]]
    _holds_to_its_schema(said)


def test_json_of_a_log_without_errors_and_of_ranks_that_wait(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("step 1 loss 0.3\n", timeout(0, 880)):
        log = tmp_path / "job.log"
        log.write_text(text)
        cli.main(["read", "--output-format", "json", str(log)])
        _holds_to_its_schema(json.loads(capsys.readouterr().out))


def _holds_to_its_schema(said: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(make_schema.file_of("read").read_text(encoding="utf-8"))
    jsonschema.validate(said, schema)
    assert said.keys() == schema["properties"].keys()


def test_the_code_that_fits_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str], fixtures: Path) -> None:
    log = tmp_path / "job.log"
    program = fixtures / "programs" / "broken_ddp"
    log.write_text(timeout(0, 880))
    assert cli.main(["read", str(log), "--code", str(program)]) == 1
    assert "lint finds GPU501" in " ".join(capsys.readouterr().out.split())


def test_what_explains_the_error_comes_before_what_stands_at_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (
        "import torch",
        "import torch.distributed as dist",
        "from torch import nn",
        "class Net(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.used, self.unused = nn.Linear(8, 2), nn.Linear(8, 2)",
        "    def forward(self, x):",
        "        return self.used(x)",
        'dist.init_process_group("gloo")',
        "model = nn.parallel.DistributedDataParallel(Net())",
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)",
        "for _ in range(3):",
        "    model(torch.randn(4, 8)).sum().backward(); optimizer.step()",
    )
    program, log = tmp_path / "train.py", tmp_path / "job.log"
    program.write_text("\n".join(lines))
    raised = "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one."
    log.write_text(
        f'[rank0]: Traceback (most recent call last):\n[rank0]:   File "{program}", line 14, in <module>\n'
        f"[rank0]:     model(torch.randn(4, 8)).sum().backward(); optimizer.step()\n[rank0]: {raised}\n"
    )
    assert cli.main(["read", str(log), "--code", str(program), "--output-format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [each["code"] for each in found] == ["GPU112", "GPU709"]


def test_a_log_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.log").write_text("")
    assert cli.main(["read", str(tmp_path / "jop.log")]) == 2
    assert "did you mean" in capsys.readouterr().err


def test_of_an_error_that_nobody_knows_the_page_says_where_it_began(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "job.log"
    inner = (
        '  File "/opt/conda/lib/python3.11/site-packages/foolib/deep.py", line 9, in work\n    bar()\nfoolib.Odd: 7\n'
    )
    log.write_text(TRACEBACK.partition("KeyError")[0] + inner)
    assert cli.main(["read", str(log)]) == 1
    page = " ".join(capsys.readouterr().out.split())
    assert "/job/train.py:20" in page
    assert "no entry for this error. It was raised inside of foolib, which this line called." in page
    cli.main(["read", "--output-format", "json", str(log)])
    said = json.loads(capsys.readouterr().out)["first"]
    assert (said["known"], said["library"], said["means"]) == (False, "foolib", "")
