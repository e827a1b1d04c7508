"""What hydra composes of the setting files of a project."""

from pathlib import Path
from textwrap import dedent

import pytest

from gpudoctor.lint.source.group_options import OPEN, GroupOptions, SaidAtStart
from gpudoctor.lint.source.hydra_configs import composed

BASE = {
    "train.yaml": """
        defaults:
          - model: small
          - _self_
          - optional local: default
          - experiment: null
        rate: 0.1
        name: ${model.name}-run
        width: ${model.width}
        where: ${oc.env:HOME}
        """,
    "model/small.yaml": "_target_: nets.Net\nwidth: 8\nname: small\n",
    "model/large.yaml": "defaults:\n  - small\n  - _self_\nwidth: 64\ndeep: true\n",
    "experiment/first.yaml": "# @package _global_\ndefaults:\n  - override /model: large\nrate: 0.2\n",
}


def _composed(folder: Path, files: dict[str, str], chosen: dict[str, str] | None = None) -> object:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(dedent(text), encoding="utf-8")
    return composed(
        str(folder), "train", lambda path: Path(path).read_text("utf-8") if Path(path).is_file() else None, chosen or {}
    )


def test_what_options_of_a_group_say(tmp_path: Path) -> None:
    assert _composed(tmp_path, BASE) == {
        "model": {
            "_target_": "nets.Net",
            "width": GroupOptions("model", (("small", 8), ("large", 64))),
            "name": "small",
            "deep": GroupOptions("model", (("small", OPEN), ("large", True))),
        },
        "rate": 0.1,
        "name": OPEN,
        "width": GroupOptions("model", (("small", 8), ("large", 64))),
        "where": "${oc.env:HOME}",
    }


def test_an_option_that_adds_to_what_is_there(tmp_path: Path) -> None:
    text = "defaults:\n  - _self_\n  - data: all\ntrainer:\n  _target_: Trainer\n  devices: 2\n"
    few = "# @package _global_\ntrainer:\n  limit: 0.2\n"
    assert _composed(
        tmp_path, {"train.yaml": text, "data/all.yaml": "# @package _global_\n", "data/few.yaml": few}
    ) == {
        "trainer": {
            "_target_": "Trainer",
            "devices": 2,
            "limit": GroupOptions("data", (("all", OPEN), ("few", 0.2))),
        }
    }


def test_a_file_that_the_user_has_to_choose(tmp_path: Path) -> None:
    experiments = {
        "train.yaml": "defaults:\n  - _self_\n  - exp: null\nrate: 1\n",
        "exp/base.yaml": "# @package _global_\nrate: 2\nmodel:\n  _target_: Net\n  width: 8\n",
        "exp/wide.yaml": "# @package _global_\nmodel:\n  _target_: Net\n  width: 9\n",
    }
    width = GroupOptions("exp", (("base", 8), ("wide", 9)))
    assert _composed(tmp_path, experiments) == {"rate": 1, "model": {"_target_": "Net", "width": width}}
    chosen = {"rate": 2, "model": {"_target_": "Net", "width": 8}}
    assert _composed(tmp_path, experiments, {"exp": "base"}) == chosen


def test_options_that_are_of_different_classes(tmp_path: Path) -> None:
    other = {
        "model/other.yaml": "_target_: nets.Other\n",
        "model/large.yaml": "_target_: nets.Net\nwidth: 8\nname: small\n",
    }
    made = _composed(tmp_path, {**BASE, **other})
    assert isinstance(made, dict)
    small = {"_target_": "nets.Net", "width": 8, "name": "small"}
    assert made["model"] == GroupOptions(
        "model", (("small", small), ("large", small), ("other", {"_target_": "nets.Other"}))
    )


@pytest.mark.parametrize(("last", "rate"), [("model: small", 0.1), ("_self_\n  - model: small", 1)])
def test_which_of_two_wins(last: str, rate: float, tmp_path: Path) -> None:
    main = f"defaults:\n  - {last}\nmodel:\n  rate: 0.1\n"
    assert _composed(tmp_path, {"train.yaml": main, "model/small.yaml": "rate: 1\n"}) == {"model": {"rate": rate}}


@pytest.mark.parametrize(
    ("entry", "path", "text", "wanted"),
    [
        ("base", "base.yaml", "size: 3\n", {"size": 3}),
        ("/parts/base", "parts/base.yaml", "size: 3\n", {"parts": {"size": 3}}),
        ("parts: base", "parts/base.yaml", "# @package _global_\nsize: 3\n", {"size": 3}),
        ("parts: base", "parts/base.yaml", "# @package trainer.inner\nsize: 3\n", {"trainer": {"inner": {"size": 3}}}),
        ("parts: [base]", "parts/base.yaml", "size: 3\n", {"parts": {"size": 3}}),
        ("hydra: default", "hydra/default.yaml", "run: 3\n", {}),
        ("override hydra/launcher: joblib", "other.yaml", "", {}),
        ("parts: ???", "parts/base.yaml", "size: 3\n", {}),
        ("optional parts: absent", "other.yaml", "", {}),
        ("parts: absent", "other.yaml", "", None),
        ("parts@other: base", "parts/base.yaml", "size: 3\n", None),
        ("parts: ${kind}", "parts/base.yaml", "size: 3\n", None),
        ("train", "other.yaml", "", None),
    ],
)
def test_an_entry_of_the_defaults(
    entry: str, path: str, text: str, wanted: dict[str, object] | None, tmp_path: Path
) -> None:
    assert _composed(tmp_path, {"train.yaml": f"defaults:\n  - {entry}\n", path: text}) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"), [("- 1\n", None), ("a: [\n", None), ("# none\n", {}), ("a: ${a}\n", {"a": OPEN})]
)
def test_files_that_configure_nothing(text: str, wanted: object, tmp_path: Path) -> None:
    assert _composed(tmp_path, {"train.yaml": text}) == wanted


def test_a_list_of_callbacks(tmp_path: Path) -> None:
    files = {"train.yaml": "defaults:\n  - callbacks: all\n", "callbacks/all.yaml": "- _target_: Saves\n  every: 2\n"}
    assert _composed(tmp_path, files) == {"callbacks": [{"_target_": "Saves", "every": 2}]}


def test_an_option_that_is_not_there_is_left_to_the_user(tmp_path: Path) -> None:
    files = {
        "train.yaml": "defaults:\n  - data: default\n",
        "data/cars.yaml": "size: 3\n",
        "data/cats.yaml": "size: 3\n",
    }
    assert _composed(tmp_path, files) == {"data": {"size": 3}}


def test_what_the_command_line_says(tmp_path: Path) -> None:
    made = _composed(tmp_path, BASE, {"model": "large", "rate": "0.5", "model.name": "mine", "extra.deep": "true"})
    assert made == {
        "model": {"_target_": "nets.Net", "width": 64, "name": "mine", "deep": True},
        "rate": SaidAtStart(0.5),
        "name": OPEN,
        "width": 64,
        "where": "${oc.env:HOME}",
        "extra": {"deep": SaidAtStart(True)},
    }
    first = _composed(tmp_path, {}, {"experiment": "first"})
    assert isinstance(first, dict)
    assert first["rate"] == 0.2
