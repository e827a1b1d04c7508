"""The site of the documentation: it is built offline of what is in the repository, and its links lead somewhere."""

import importlib.util
import json
import re
import sys
from html import unescape
from pathlib import Path

import pytest

from gpudoctor.cli.command import COMMANDS
from gpudoctor.logs.error_texts import ERROR_TEXTS, meaning_of
from gpudoctor.registry import find_rules, load
from tests.support.sources import ROOT
from tests.tools import make_site
from tests.tools.site_error_texts import WHOLE, examples_of
from tests.tools.site_markdown import page

CARDS = [card for card in find_rules().cards if card.module.startswith("gpudoctor_rules.")]
# A page for each of them, and no other that all pages link to.
FRAMEWORKS = {
    "Accelerate": r"^\s*(?:from|import) accelerate\b",
    "Lightning and Fabric": r"^\s*(?:from|import) (?:lightning|pytorch_lightning|lightning_fabric)\b",
    "Transformers and TRL": r"^\s*(?:from|import) (?:transformers|trl)\b",
    "DeepSpeed": r"^\s*(?:from|import) deepspeed\b",
    "FSDP and FSDP2": r"fully_shard|FullyShardedDataParallel",
    "Horovod": r"^\s*(?:from|import) horovod\b",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if sys.version_info < (3, 11):
        pytest.skip("Zensical needs Python 3.11")
    if importlib.util.find_spec("zensical") is None:
        pytest.skip("Zensical is not installed: pip install -c constraints.txt -e '.[docs]'")
    out = tmp_path_factory.mktemp("site") / "site"
    make_site.build(out)
    return out


def _text(file: Path) -> str:
    """What a reader sees of a page, in one line."""
    body = file.read_text(encoding="utf-8").partition("<article")[2].partition("</article")[0]
    return " ".join(unescape(re.sub(r"<[^>]*>", "", body)).split())


def test_no_folder_is_deleted_that_holds_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").touch()
    with pytest.raises(SystemExit, match="2"):
        make_site.main([str(tmp_path)])
    assert "holds something else than a site" in capsys.readouterr().err
    assert (tmp_path / "train.py").exists()


@pytest.mark.slow
def test_links_lead_somewhere(built: Path) -> None:
    assert make_site.broken_links(built) == []


@pytest.mark.slow
def test_a_broken_link_is_told(built: Path) -> None:
    lost = built / "lost" / "index.html"
    lost.parent.mkdir()
    lost.write_text('<a href="../start/#nowhere">1</a><a href="../gone/">2</a><a href="../start/">3</a>')
    broken = make_site.broken_links(built)
    lost.unlink()
    assert broken == [
        "lost/index.html: ../gone/ leads nowhere",
        "lost/index.html: ../start/#nowhere leads nowhere",
    ]


@pytest.mark.slow
def test_each_rule_has_a_page_and_a_redirect_by_its_code(built: Path) -> None:
    errors = _text(built / "errors" / "index.html")
    for card in CARDS:
        text = _text(built / "rules" / card.name / "index.html")
        for part in (card.code, "What goes wrong", "How it shows", "Silent when", "Sources"):
            assert part in text, (card.code, part)
        redirect = (built / card.code / "index.html").read_text(encoding="utf-8")
        assert f'url=../rules/{card.name}/"' in redirect
        for each in load(card).errors:
            assert each in text
            assert each in errors


@pytest.mark.slow
def test_the_search_of_the_site_knows_error_texts(built: Path) -> None:
    index = json.loads((built / "search.json").read_text(encoding="utf-8"))
    found = {each["location"].partition("#")[0] for each in index["items"] if "Duplicate GPU detected" in each["text"]}
    assert "rules/all-ranks-on-one-gpu/" in found
    # What `gpudoctor read` explains without a rule is found, and what has changed is in nobody's way.
    found = {each["location"].partition("#")[0] for each in index["items"] if "RendezvousConnection" in each["text"]}
    assert found == {"errors/"}
    assert not any(each["location"].startswith("changelog/") for each in index["items"])


@pytest.mark.parametrize("text", WHOLE)
def test_whole_lines_are_explained(text: str, built: Path) -> None:
    assert meaning_of(text) is not None
    assert text in _text(built / "errors" / "index.html")


@pytest.mark.parametrize(
    "text",
    [
        "ChildFailedError",
        "ProcessRaisedException",
        "exitcode: -9",
        "exitcode: -11",
        "Caught RuntimeError in DataLoader worker process",
        "Caught RuntimeError in replica",
        "taking the entire process down",
        "Setting OMP_NUM_THREADS environment variable",
        "Address family not supported by protocol",
        "torch.distributed.launch is deprecated",
        "Detected call of `lr_scheduler.step()` before `optimizer.step()`",
    ],
)
def test_texts_that_name_no_cause_are_answered(text: str, built: Path) -> None:
    assert text in _text(built / "errors" / "index.html")


def test_examples_of_error_texts_are_found_by_their_pattern() -> None:
    examples = {known.pattern: examples_of(known.pattern) for known in ERROR_TEXTS}
    # What comes before or after it in a log has no example.
    found = {pattern: [bool(re.search(pattern, f" {each} ")) for each in shown] for pattern, shown in examples.items()}
    assert not [pattern for pattern, each in found.items() if not each or not all(each)]


@pytest.mark.slow
def test_examples_are_shown_as_a_difference(built: Path) -> None:
    shown = (built / "rules" / "missing-set-epoch" / "index.html").read_text(encoding="utf-8")
    assert re.search(r'<span class="gi">.*sampler\.set_epoch', shown)


@pytest.mark.slow
def test_the_reference_has_all_options(built: Path) -> None:
    text = _text(built / "reference" / "command-line" / "index.html")
    for name in COMMANDS:
        assert f"gpudoctor {name}" in text
    for option in ("--select", "--baseline", "--hang-after", "--require", "--output-file"):
        assert option in text
    assert "%(default)" not in text


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_what_is_checked_in_a_framework_has_a_program(name: str) -> None:
    guide = (ROOT / "gpudoctor" / "guides" / "frameworks.md").read_text(encoding="utf-8")
    part = guide.partition(f"## {name}\n")[2].partition("\n## ")[0]
    told = set(re.findall(r"GPU\d{3}", part.partition("Shown by:")[2].partition("\n\n")[0]))
    shown = set()
    for file in (ROOT / "fixtures" / "rules").rglob("*.py"):
        inside = file.relative_to(ROOT / "fixtures" / "rules").parts
        if not any(each.startswith("bad_") for each in inside) or ".fixed" in file.name:
            continue
        text = file.read_text(encoding="utf-8")
        # What several programs of one framework begin with stands in a file of its own.
        begins = re.search(r"^from (\w+_prelude) import", text, re.MULTILINE)
        prelude = ROOT / "fixtures" / "rules" / f"{begins[1]}.py" if begins else None
        imports = prelude.read_text(encoding="utf-8") if prelude is not None else ""
        if re.search(FRAMEWORKS[name], imports + text, re.MULTILINE):
            shown.update(re.findall(r"# (GPU\d{3}): ", text))
    assert told
    assert told <= shown


def test_codes_and_files_become_links() -> None:
    targets = {"docs/run.md": "run.md", "gpudoctor/guides/hang.md": "guides/hang.md"}
    text = "GPU302, `GPU302` and GPU999: [a hang](hang.md), [run](../../docs/run.md#options), [x](../../README.md)\n"
    made = page(text, "gpudoctor/guides/scaling.md", "guides/scaling.md", targets, {"GPU302": "missing-set-epoch"})
    assert made == (
        "[GPU302](../rules/missing-set-epoch.md), `GPU302` and GPU999: [a hang](hang.md), [run](../run.md#options), x\n"
    )
