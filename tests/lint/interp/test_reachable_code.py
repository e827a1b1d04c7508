"""What the code of a program names that may run, where no call was seen to lead there."""

import pytest

PLACES = {
    "a function that nobody has": ("def end(): dist.destroy_process_group()", False),
    "a function of such a one": ("def end(): dist.destroy_process_group()\ndef stop(): end()", False),
    "a comment": ("pass  # destroy_process_group", False),
    "documentation": ('"""Never calls destroy_process_group."""', False),
    "an import": ("from torch.distributed import destroy_process_group", False),
    "a function that code not read is given": (
        "import unread\ndef end(): dist.destroy_process_group()\nunread.register(end)",
        True,
    ),
    "a text": ('unread = getattr(dist, "destroy_process_group", None)', True),
    "another name": (
        "from torch.distributed import destroy_process_group as end\nimport unread\nunread.register(end)",
        True,
    ),
    "a registry": ("import unread\n@unread.register\ndef end(): dist.destroy_process_group()", True),
    "a method that a library calls": (
        "import unread\nclass Guard(unread.A):\n    def leave(self): dist.destroy_process_group()\nunread.run(Guard)",
        True,
    ),
}


@pytest.mark.parametrize(("code", "may"), PLACES.values(), ids=list(PLACES))
def test_a_name_counts_where_code_may_run(paper, code: str, may: bool) -> None:
    found = paper(f"import torch.distributed as dist\n{code}\n")
    assert found.program.may_name("destroy_process_group") is may
