"""Modules of packages that register something are told from scripts that lie in a package."""

from __future__ import annotations

import ast

import pytest

from gpudoctor.lint.discovery.classify import only_registers


@pytest.mark.parametrize(
    "text",
    [
        "table.update(other)\n",
        "register(name='x')\n",
        "try:\n    logging.basicConfig()\nexcept OSError:\n    pass\n",
        "from . import ops\nfor each in ops.ALL:\n    register(each)\n",
        "from .ops import ALL\nfor each in ALL:\n    globals()[each] = make(each)\n",
        "names.append(3)\nadd_constraint(names)\n",
    ],
)
def test_calls_that_register_make_no_program(text: str):
    assert only_registers(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "main()\n",
        "trainer.fit(model)\n",
        "Trainer().run_training()\n",
        "register(1)\nfor x in range(3):\n    pass\n",
        "from .nets import Net\nfor batch in load():\n    step(batch)\n",
        "if __name__ == '__main__':\n    go()\n",
        "x = 1\n",
    ],
)
def test_what_starts_something_is_a_program(text: str):
    assert not only_registers(ast.parse(text))
