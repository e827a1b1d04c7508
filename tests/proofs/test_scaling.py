"""From one GPU to many: trainings for one process, fixed for several, run on two ranks and train as before."""

import shutil
from pathlib import Path

import pytest

from gpudoctor import cli
from gpudoctor.cli.explain import guide
from tests.support.linting import lint, working_in
from tests.support.rule_pages import programs_in

from .harness import ROOT, Proof, Prover

PROGRAMS = ROOT / "fixtures" / "programs" / "one_gpu"
SAMPLES = 64
"""What each of them trains on: as one batch, whose order no sampler changes."""
NAMES = ["script.py", "functions.py", "trainer.py", "regularised.py", "where_it_can.py", "two_files/train.py"]


@pytest.mark.parametrize("name", NAMES)
def test_fixed_for_several_it_trains_as_one_process_does(name: str, prover: Prover, tmp_path: Path) -> None:
    alone = tmp_path / "alone.pt"
    claims = ("saved-once",)
    single = Proof(PROGRAMS / name, claims, launch="single", arguments=(str(alone), str(SAMPLES)))
    verdict = prover.prove(single)
    assert verdict.holds, verdict.explain()

    folder = tmp_path / "fixed"
    shutil.copytree((PROGRAMS / name).parent, folder)
    script = folder / Path(name).name
    with working_in(folder):
        arguments = ["lint", "--no-cache", "--no-config", "--launch=torchrun", "--fix", "--unsafe-fixes", "--quiet"]
        assert cli.main([*arguments, "--fail-on=error", script.name]) == 0, "errors are left"

    together = tmp_path / "together.pt"
    claims = ("parameters-agree", "parameters-change", "distinct-batches", "all-seen", "saved-once", "no-prefix")
    verdict = prover.prove(Proof(script, claims, arguments=(str(together), str(SAMPLES // 2))))
    assert verdict.holds, verdict.explain()
    # Each worker of pytest imports this file, and one runs it.
    import torch

    _assert_alike(torch.load(alone), torch.load(together))


def _assert_alike(one: object, other: object) -> None:
    """The same names hold the same numbers, but for the order in which they were added up."""
    import torch

    if isinstance(one, dict) and isinstance(other, dict):
        assert list(one) == list(other)
        for name, value in one.items():
            _assert_alike(value, other[name])
    elif isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-5)


def test_two_that_were_not_fixed_train_apart(prover: Prover, tmp_path: Path) -> None:
    arguments = (str(tmp_path / "model.pt"), str(SAMPLES // 2))
    verdict = prover.prove(Proof(PROGRAMS / "script.py", ("same-batches", "saved-twice"), arguments=arguments))
    assert verdict.holds, verdict.explain()


GUIDE = {name: program for name, program in programs_in(guide("scaling")[1]).items() if "import" in program}


@pytest.mark.parametrize("name", GUIDE)
def test_lint_finds_nothing_in_the_guide(name: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(GUIDE[name])
    assert not lint(tmp_path / "train.py", folder=tmp_path)


@pytest.mark.parametrize("name", ["DistributedDataParallel", "FSDP2"])
def test_programs_of_the_guide_train_one_model(name: str, prover: Prover, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(GUIDE[name])
    claims = ("all-seen", "distinct-batches", "saved-once", "no-prefix", "global-batch 128")
    verdict = prover.prove(Proof(tmp_path / "train.py", claims))
    assert verdict.holds, verdict.explain()
