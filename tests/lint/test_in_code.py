"""What is called in an example of what to write."""

import pytest

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.optim import Optimizer
from gpudoctor.lint.questions.names import in_code

PLACE = Location("train.py", 1, 1)


@pytest.mark.parametrize(
    ("label", "called"),
    [
        ("opt", "opt"),
        ("self.optimizer", "self.optimizer"),
        ("torch.optim.SGD", "optimizer"),
        ("optim.SGD", "optimizer"),
        ("SGD", "optimizer"),
        ("", "optimizer"),
    ],
)
def test_what_has_no_name_is_called_as_most_programs_do(label: str, called: str) -> None:
    assert in_code(Optimizer("one", PLACE, label, "torch.optim.SGD"), "optimizer") == called
