"""Blocks that a test expects to fail."""

from pathlib import Path

import pytest

from tests.support.linting import lint

WRAPPED_TWICE = """
    import pytest, unittest, torch, torch.nn as nn
    from torch.nn.parallel import DistributedDataParallel as DDP
    class Base(unittest.TestCase):
        def wraps_once(self):
            model = DDP(nn.Linear(2, 2))
            {block}
                model = DDP(model)
            return model
    torch.distributed.init_process_group("gloo")
    Base().wraps_once()
    """


@pytest.mark.parametrize(
    "block",
    ["with pytest.raises(ValueError):", 'with self.assertRaises(ValueError, msg="x"):', "with self.subTest():"],
)
def test_what_a_test_expects_to_fail_is_no_mistake(tmp_path: Path, block: str) -> None:
    (tmp_path / "train.py").write_text(WRAPPED_TWICE.replace("\n    ", "\n").format(block=block))
    expected = [] if "aises" in block else ["GPU105"]
    assert [finding.code for finding in lint(tmp_path / "train.py", folder=tmp_path, select=("GPU105",))] == expected
