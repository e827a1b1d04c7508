"""Guesses by name: what rests on one is likely, and no other place makes one of a list of endings."""

import ast
from pathlib import Path

import pytest

from gpudoctor.api import Session
from gpudoctor.diagnostic import Confidence
from gpudoctor.lint.discovery.content_signs import speaks_of_training
from gpudoctor.lint.domain import heuristics
from gpudoctor.lint.domain.heuristics import Heuristic
from tests.support.sources import sources

ALL = {name: each for name, each in vars(heuristics).items() if isinstance(each, Heuristic)}

PROGRAM = """
import torch
from {library} import {optimizer}

model = torch.nn.Linear(2, 2)
optimizer = {optimizer}(model.parameters(), lr=0.1)
for x in torch.zeros(10, 2):
    model(x).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("library", "optimizer", "confidence"),
    [("torch.optim", "SGD", Confidence.DEFINITE), ("lion_pytorch", "Lion", Confidence.LIKELY)],
)
def test_what_rests_on_a_guess_is_likely(library: str, optimizer: str, confidence: Confidence, tmp_path: Path):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM.format(library=library, optimizer=optimizer))
    found = [each for each in Session(config=None).lint_paths([str(program)]).findings if each.code == "GPU709"]
    assert [each.confidence for each in found] == [confidence]
    doubt = f"`{library}.{optimizer}` is taken for an optimizer by its name."
    assert [each.doubt for each in found] == [doubt if confidence is Confidence.LIKELY else ""]


@pytest.mark.parametrize(
    ("heuristic", "fits", "fits_not"),
    [
        (heuristics.NO_MODULE, "transformers.BertConfig", "transformers.BertModel"),
        (heuristics.NO_MODULE, "diffusers.SchedulerMixin", "diffusers.ModelMixin"),
        (heuristics.READY_MODEL, "transformers.LlamaForCausalLM", "transformers.AutoTokenizer"),
        (heuristics.LOSS, "torch.nn.functional.nll_loss", "torch.nn.functional.softmax"),
        (heuristics.DATASET, "fairseq.data.Dataset", "fairseq.data.DatasetConfig"),
        (heuristics.NORMALISED, "torchvision.models.vgg16_bn", "torchvision.models.vgg16"),
    ],
)
def test_what_a_name_says(heuristic: Heuristic, fits: str, fits_not: str):
    assert heuristic.fits(fits)
    assert not heuristic.fits(fits_not)


def test_a_file_is_searched_for_what_names_that_train_are_made_of():
    """What `speaks_of_training` passes over, no name in it can be taken for something that trains."""
    words = (
        *heuristics.TRAINS.names,
        *heuristics.TRAINS.beginnings,
        *heuristics.TRAINS.endings,
        *heuristics.TRAINS.parts,
    )
    assert words
    assert all(speaks_of_training(word.encode()) for word in words)


def test_each_says_what_it_means():
    assert all(each.means and not each.means.endswith(".") for each in ALL.values())
    assert {each.confidence for each in ALL.values()} == {Confidence.DEFINITE, Confidence.LIKELY}


def test_no_other_model_goes_by_a_list_of_endings():
    """Two endings of class names in a call of `endswith` are a guess by name."""
    found = [
        f"{source.name}:{node.lineno}"
        for source in sources().values()
        if source.name.startswith(("gpudoctor.lint.library.", "gpudoctor.lint.analyses."))
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "endswith"
        for given in node.args
        if isinstance(given, ast.Tuple) and any(_is_ending_of_class(each) for each in given.elts)
    ]
    assert found == []


def _is_ending_of_class(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value[:1].isupper()


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("mmcv.runner.init_dist", True),
        ("company.initDistributed", True),
        ("company.DistLauncher", True),
        ("colossal.launch", True),
        ("monai.compute_hausdorff_distance", False),
        ("transformers.DistilBertModel", False),
        ("launchpad.open", False),
    ],
)
def test_a_helper_that_begins_the_group_says_so_in_words(name: str, begins: bool) -> None:
    assert heuristics.begins_group(name) is begins
