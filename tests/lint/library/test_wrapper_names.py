"""What every module has is known whole: an attribute that is not among it is said to end the program."""

import pytest

from gpudoctor.lint.library.wrapper_names import every_module_has


@pytest.mark.slow
def test_what_every_module_has() -> None:
    from torch import nn

    assert [name for name in dir(nn.Module()) if not name.startswith("__") and not every_module_has(name)] == []
