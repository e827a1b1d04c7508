"""Who searches for an error text ends at the rule whose mistake leads to it."""

import re
from pathlib import Path

import pytest

from gpudoctor.logs.error_texts import meaning_of
from gpudoctor.registry import ERROR_TEXTS
from tests.support.rule_pages import Page, pages

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "rules"
PAGES = pages()
each_page_with_texts = pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.rule.code) for page in PAGES if page.rule.errors]
)

# Those that people ask about most often, with the rule that answers first.
COMMONEST = {
    "Expected to have finished reduction in the prior iteration": "GPU112",
    "Expected to mark a variable ready only once": "GPU708",
    "Parameter indices which did not receive grad": "GPU112",
    "Watchdog caught collective operation timeout": "GPU501",
    "Some NCCL operations have failed or timed out": "GPU501",
    "watchdog got stuck for 480 seconds": "GPU501",
    "Connection closed by peer": "GPU501",
    "Detected mismatch between collectives on ranks": "GPU512",
    "Default process group has not been initialized": "GPU401",
    "trying to initialize the default process group twice": "GPU410",
    "environment variable RANK expected, but not set": "GPU403",
    "Address already in use": "GPU425",
    "EADDRINUSE": "GPU425",
    "waiting for clients": "GPU429",
    "Duplicate GPU detected": "GPU204",
    "invalid device ordinal": "GPU423",
    "module must have its parameters and buffers on device cuda:0": "GPU208",
    "Expected all tensors to be on the same device": "GPU201",
    "Cannot re-initialize CUDA in forked subprocess": "GPU216",
    "CUDA out of memory": "GPU710",
    "is killed by signal: Bus error": "GPU431",
    "exited unexpectedly": "GPU431",
    "has finished its bootstrapping phase": "GPU405",
    "No backend type associated with device type cpu": "GPU510",
    "sampler option is mutually exclusive with shuffle": "GPU303",
    "grad can be implicitly created only for scalar outputs": "GPU108",
    "does not require grad and does not have a grad_fn": "GPU507",
    "has been modified by an inplace operation": "GPU117",
    "Error(s) in loading state_dict": "GPU603",
    "PytorchStreamReader failed": "GPU601",
    "unrecognized arguments: --local-rank=0": "GPU411",
    "destroy_process_group() was not called before program exit": "GPU402",
    "find_unused_parameters=True was specified in DDP constructor": "GPU113",
    "'DistributedDataParallel' object has no attribute": "GPU104",
}


@pytest.mark.parametrize(("text", "code"), COMMONEST.items())
def test_the_commonest_are_answered(text: str, code: str) -> None:
    codes = [page.rule.code for page in PAGES if any(text in each for each in page.rule.errors)]
    assert code in codes


@each_page_with_texts
def test_the_page_lists_them_word_for_word(page: Page) -> None:
    shown = page.text.partition(f"## {ERROR_TEXTS}\n\n")[2].partition("\n\n")[0].split("\n")
    assert shown == [f"* `{text}`" for text in page.rule.errors]
    for text in page.rule.errors:
        assert text == " ".join(text.split())
        assert "`" not in text, "it would end the quotation"
        assert len(text) > 20, "who searches for it finds everything"
    assert len({*page.rule.errors}) == len(page.rule.errors)


@pytest.mark.parametrize("page", [pytest.param(page, id=page.rule.code) for page in PAGES])
def test_what_its_programs_end_with_is_among_them(page: Page) -> None:
    """Each proof was seen to crash with its text."""
    folder = FIXTURES / page.path.parent.name / page.path.stem
    for file in folder.rglob("bad_*.py"):
        head = file.read_text(encoding="utf-8").partition("\n")[0]
        # One word is what the rank wrote, and no text to search for.
        for text in re.findall(r'crash "([^"]+ [^"]+)"', head):
            assert any(_bare(text) in _bare(each) for each in page.rule.errors), f"{file.name} ends with {text}"


def _bare(text: str) -> str:
    """A text without the names and numbers of one program."""
    return re.sub(r"'\w+'(?= object| has|$)|(?<=attribute )'\w+'|\d+", "#", text)


@each_page_with_texts
def test_the_reader_of_logs_agrees(page: Page) -> None:
    """What a log is taken for by `gpudoctor read` may be the mistake of this rule, where it names rules at all."""
    codes = {each.rule.code: each.rule.errors for each in PAGES}
    for text in page.rule.errors:
        meaning = meaning_of(text)
        named = {meaning.code, *meaning.likely} - {""} if meaning is not None else set()
        assert not named or any(text in codes.get(code, ()) for code in named), f"{text}: {sorted(named)}"
