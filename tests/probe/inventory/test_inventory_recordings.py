"""Typical machines, recorded: what is said of each, and that the recordings are up to date."""

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpudoctor.plain import from_plain, plain
from gpudoctor.probe.inventory import contract
from gpudoctor.probe.inventory.facts import Inventory
from gpudoctor.probe.inventory.findings.judge import weak_points
from gpudoctor.probe.inventory.overview import summary
from gpudoctor.probe.inventory.speeds import nvlink_speed

ROOT = Path(__file__).resolve().parents[3]
RECORDINGS = sorted((ROOT / "fixtures" / "recordings" / "inventories").glob("*.json"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_what_is_said_of_a_machine(path: Path) -> None:
    document = json.loads(path.read_text())
    inventory = from_plain(Inventory, document["inventory"])
    assert [point.name for point in weak_points(inventory)] == document["weak_points"]
    assert document["synthetic"], "no recording of a real machine may stand here unmarked"
    machine = contract.machine(inventory)
    assert machine.visible == len(inventory.torch_devices)
    assert json.dumps(plain(machine))
    assert summary(inventory)


def test_the_recordings_are_up_to_date(libraries: Mapping[str, Path]) -> None:
    tool = ROOT / "tests" / "tools" / "record_inventories.py"
    spec = importlib.util.spec_from_file_location("record_inventories", tool)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    recorded = {path.stem: json.loads(path.read_text())["inventory"] for path in RECORDINGS}
    now = {name: plain(each) for name, each in module.inventories().items()}
    assert now == recorded, "python tests/tools/record_inventories.py"


@pytest.mark.parametrize(
    ("machine", "speed"), [("eight-h100", 450.0), ("eight-h100-sick", 400.0), ("four-4090", None), ("one-a6000", None)]
)
def test_what_nvlinks_can_carry(machine: str, speed: float | None) -> None:
    (path,) = [each for each in RECORDINGS if each.stem == machine]
    inventory = from_plain(Inventory, json.loads(path.read_text())["inventory"])
    assert nvlink_speed(contract.machine(inventory)) == speed
