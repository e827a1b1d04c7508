"""What holds in some versions of a library only, asked of the requirements of a project."""

from pathlib import Path

import pytest

from tests.support.linting import linted

RULES = Path(__file__).resolve().parents[3] / "fixtures" / "rules"
LOSS = RULES / "frameworks" / "custom_loss_not_scaled"
PREPARED = RULES / "launch" / "name_bound_on_some_ranks"
SAVED = RULES / "checkpoint" / "sharded_state_on_some_ranks"


@pytest.mark.parametrize(
    ("program", "wanted", "found"),
    [
        ("bad_classifier.py", "transformers>=5\n", True),
        ("bad_classifier.py", "transformers\n", True),
        ("bad_classifier.py", "transformers>=4.46,<5\n", False),
        ("bad_classifier.py", "transformers==4.57.1\n", False),
        ("bad_page.py", "transformers>=4.46,<5\n", True),
    ],
)
def test_models_whose_losses_are_divided(program: str, wanted: str, found: bool, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(wanted, encoding="utf-8")
    entry = tmp_path / "train.py"
    entry.write_text((LOSS / program).read_text(encoding="utf-8"), encoding="utf-8")
    said = [each.code for each in linted(entry, folder=tmp_path, select=("GPU951",)).seen]
    assert said == (["GPU951"] if found else [])


@pytest.mark.parametrize(
    ("wanted", "found"), [("pytorch-lightning==0.7.5\n", False), ("pytorch-lightning==1.9\n", True)]
)
def test_where_lightning_prepares_data(wanted: str, found: bool, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(wanted, encoding="utf-8")
    entry = tmp_path / "train.py"
    entry.write_text((PREPARED / "bad_prepared_by_lightning.py").read_text(encoding="utf-8"), encoding="utf-8")
    said = {each.code for each in linted(entry, folder=tmp_path, select=("GPU470",)).seen}
    assert said == ({"GPU470"} if found else set())


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("torch\n", False), ("pytorch-lightning==1.4.2\n", False), ("pytorch-lightning==1.9.3\n", True)],
)
def test_where_lightning_waits_in_a_save(wanted: str, found: bool, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(wanted, encoding="utf-8")
    entry = tmp_path / "train.py"
    entry.write_text((SAVED / "good_lightning_of_old.py").read_text(encoding="utf-8"), encoding="utf-8")
    said = {each.code for each in linted(entry, folder=tmp_path, select=("GPU501", "GPU605")).seen}
    assert bool(said) is found
