"""From files to findings, with a stand-in for the interpreter."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpudoctor.diagnostic import Location
from gpudoctor.errors import InternalError
from gpudoctor.lint import pipeline
from gpudoctor.lint.discovery import importers
from gpudoctor.lint.discovery.importers import Importers
from gpudoctor.lint.entries import started_entry
from gpudoctor.lint.interp.budget import OutOfBudget
from gpudoctor.lint.request import Outcome, Request
from gpudoctor.lint.source.file import Sources
from gpudoctor.record import replace
from gpudoctor.registry import find_rules
from gpudoctor.rule import RuleCard

pytestmark = pytest.mark.usefixtures("on_paper")

MAIN = 'import torch\nif __name__ == "__main__":\n    seed()\n'
Write = Callable[..., Path]


@pytest.fixture
def lint(seed_rule: RuleCard) -> Callable[..., Outcome]:
    """Lints paths with the rule of the stand-in and those about files and comments."""
    own = tuple(card for card in find_rules().cards if card.family == "tool")

    def run(*paths: str, **settings: object) -> Outcome:
        rules = (*own, seed_rule)
        return pipeline.lint(Request(paths=paths or (".",), rules=rules, known=rules, **settings))

    return run


def places(outcome: Outcome) -> list[str]:
    return [f"{finding.location.path}:{finding.location.line} {finding.code}" for finding in outcome.findings]


def test_a_program_is_linted(write: Write, lint: Callable[..., Outcome]) -> None:
    write(train=MAIN)
    outcome = lint()
    assert places(outcome) == ["train.py:3 GPU950"]
    assert outcome.findings[0].world == "torchrun"
    assert (outcome.files, outcome.problems, outcome.failures) == (1, (), ())


def test_a_helper_is_read_through_the_program_that_imports_it(write: Write, lint: Callable[..., Outcome]) -> None:
    write(train="import torch\nimport helper\n" + MAIN, helper="import torch\nseed()\n", other="import torch\nseed()\n")
    outcome = lint()
    assert places(outcome) == ["helper.py:2 GPU950", "other.py:2 GPU950", "train.py:5 GPU950"]
    assert outcome.findings[0].world == "torchrun"


def test_a_script_that_another_script_imports_is_no_program(write: Write, lint: Callable[..., Outcome]) -> None:
    write(a_settings="import torch\n# world single\nseed()\n", train="import torch\nimport a_settings\nseed()\n")
    assert [finding.world for finding in lint().findings] == ["torchrun", "torchrun"]


def test_two_scripts_that_import_each_other(write: Write, lint: Callable[..., Outcome]) -> None:
    write(one="import torch\nseed()\n", two="import torch\nimport one\nseed()\n")
    assert places(lint()) == ["one.py:2 GPU950", "two.py:3 GPU950"]


def test_a_finding_in_a_file_that_was_not_asked_for(write: Write, lint: Callable[..., Outcome]) -> None:
    write(train="import torch\nimport pkg.model\n" + MAIN, pkg__model="import torch\nseed()\n")
    outcome = lint("train.py")
    assert places(outcome) == ["pkg/model.py:2 GPU950", "train.py:5 GPU950"]
    assert outcome.read == ("pkg/model.py", "train.py")
    assert outcome.files == 1


@pytest.mark.parametrize(
    ("worlds", "told"),
    [(("torchrun",), "torchrun"), (("single", "torchrun"), ""), (("single",), ""), (("spawn", "single"), "")],
)
def test_what_happens_however_it_is_launched_names_no_world(
    write: Write, lint: Callable[..., Outcome], worlds: tuple[str, ...], told: str
) -> None:
    write(train="".join(f"# world {world}\n" for world in worlds) + MAIN)
    assert [finding.world for finding in lint().findings] == [told]


def test_files_without_a_word_about_training_are_not_parsed(write: Write, lint: Callable[..., Outcome]) -> None:
    write(broken="def (\n", train=MAIN)
    outcome = lint()
    assert places(outcome) == ["train.py:3 GPU950"]
    assert outcome.files == 2


def test_a_thin_script_starts_training_through_its_helpers(write: Write, lint: Callable[..., Outcome]) -> None:
    thin = 'import trainer\nif __name__ == "__main__":\n    seed(thin)\n'
    write(main=thin, trainer="import engine.loop\n", engine__loop="import torch\n")
    assert "main.py:3 GPU950" in places(lint())
    assert "main.py:3 GPU950" in places(lint("main.py"))


def test_an_unreadable_file_is_a_finding(write: Write, lint: Callable[..., Outcome]) -> None:
    write(train="import torch\nfor x in y:\nprint(x)\n")
    assert places(lint()) == ["train.py:3 GPU001"]


def test_an_unreadable_helper_is_a_finding_once(write: Write, lint: Callable[..., Outcome]) -> None:
    write(
        a="import torch\nimport helper\n" + MAIN, b="import torch\nimport helper\n" + MAIN, helper="import torch\n(\n"
    )
    assert places(lint()).count("helper.py:2 GPU001") == 1


def test_a_missing_path_does_not_hide_the_others(write: Write, lint: Callable[..., Outcome]) -> None:
    write(train=MAIN)
    outcome = lint("trian.py", "train.py")
    assert places(outcome) == ["train.py:3 GPU950"]
    assert [str(each) for each in outcome.problems] == [
        "trian.py: there is no such file or folder; did you mean `train.py`?"
    ]


def test_comments_silence(write: Write, lint: Callable[..., Outcome]) -> None:
    text = MAIN.replace("seed()", "seed()  # gpudoctor: ignore[{}]")
    write(a=text.format("GPU950"), b=text.format("seed-is-set"), c=text.format("GPU9"), d=text.format("GPU001"))
    assert places(lint()) == ["d.py:3 GPU950", "d.py:3 GPU002"]


def test_comments_silence_in_imported_files(write: Write, lint: Callable[..., Outcome]) -> None:
    write(train="import torch\nimport helper\n" + MAIN, helper="seed()  # gpudoctor: ignore[GPU950]\n")
    assert places(lint("train.py")) == ["train.py:5 GPU950"]


def test_unknown_suppression(write: Write, lint: Callable[..., Outcome]) -> None:
    write(train="import torch\nx = 1  # gpudoctor: ignore[seed-is-sett]\n")
    outcome = lint()
    assert places(outcome) == ["train.py:2 GPU003"]
    assert "seed-is-set" in outcome.findings[0].remedy


def test_no_comment_is_called_unused_where_not_all_was_seen(write: Write, lint: Callable[..., Outcome]) -> None:
    write(train=f"x = 1  # gpudoctor: ignore[GPU950]\n{MAIN}")
    assert "train.py:1 GPU002" in places(lint())
    assert "train.py:1 GPU002" not in places(lint(launch="single"))


def test_per_file_ignores(write: Write, lint: Callable[..., Outcome]) -> None:
    folder = write(train=MAIN, tests__run=MAIN)
    ignores = (("tests/*", frozenset({"GPU950"})),)
    assert places(lint(per_file_ignores=ignores, folder=str(folder))) == ["train.py:3 GPU950"]


def test_excluded_files_are_left_out_wherever_they_come_from(write: Write, lint: Callable[..., Outcome]) -> None:
    write(train="import torch\nimport vendor.model\n" + MAIN, vendor__model=MAIN)
    assert places(lint(exclude=("vendor",))) == ["train.py:5 GPU950"]
    assert places(lint("vendor/model.py", exclude=("vendor",))) == []


def test_standard_input(write: Write, lint: Callable[..., Outcome]) -> None:
    write(helper="import torch\nseed()\n")
    text = b"import torch\nimport helper\nseed()\n"
    outcome = lint("-", stdin=text, stdin_name="train.py")
    assert places(outcome) == ["helper.py:2 GPU950", "train.py:3 GPU950"]
    assert outcome.lines(Location("train.py", 3))[2] == "seed()"
    assert places(lint("-", stdin=b"import torch\nseed()\n")) == ["<stdin>:2 GPU950"]
    assert places(lint("-", stdin=b"import torch\n(")) == ["<stdin>:2 GPU001"]


def test_a_bug_in_a_rule_does_not_hide_what_else_is_found(write: Write, lint: Callable[..., Outcome]) -> None:
    write(bad='import torch\nif __name__ == "__main__":\n    seed(crash)\n', train=MAIN)
    outcome = lint()
    assert places(outcome) == ["train.py:3 GPU950"]
    (failure,) = outcome.failures
    assert isinstance(failure, InternalError)
    assert "rule GPU950 (seed_pack.seeds.seed_is_set) on bad.py: KeyError" in str(failure)
    assert "seeds/seed_is_set.py" in str(failure)


def test_a_bug_in_the_interpreter_names_the_file(write: Write, lint: Callable[..., Outcome]) -> None:
    write(bad=f"# the interpreter crashes\n{MAIN}", train=MAIN)
    outcome = lint()
    assert places(outcome) == ["train.py:3 GPU950"]
    assert "bad.py" in str(outcome.failures[0])


def test_rules_without_their_events_are_not_imported(
    write: Write, seed_rule: RuleCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(train=MAIN)
    asked: list[str] = []
    monkeypatch.setattr("gpudoctor.lint.entries.ask_rules.load", lambda card: asked.append(card.code))
    idle = replace(seed_rule, needs=("Wrap", "Collective"))
    assert pipeline.lint(Request((".",), rules=(idle,), known=(idle,))).findings == ()
    assert asked == []


def test_many_entries_over_processes(write: Write, lint: Callable[..., Outcome]) -> None:
    write(**{f"train{number:02}": MAIN for number in range(60)})
    seen: list[tuple[int, int, str]] = []
    alone = lint(jobs=1)
    assert len(alone.findings) == 60
    outcome = pipeline.lint(Request((".",), rules=(), known=(), jobs=2), lambda *told: seen.append(told))
    assert outcome.files == 60
    assert (seen[0], seen[7], seen[-1]) == ((0, 60, "train00.py"), (7, 60, "train07.py"), (60, 60, ""))
    assert lint(jobs=2).findings == alone.findings


def test_a_process_that_is_killed_takes_nothing_with_it(write: Write, lint: Callable[..., Outcome]) -> None:
    write(**{f"train{number:02}": f"# its process is killed\n{MAIN}" if number == 30 else MAIN for number in range(60)})
    outcome = lint(jobs=2)
    assert len(outcome.findings) == 60
    assert outcome.failures == ()


def test_the_collector_works_again_afterwards(write: Write, lint: Callable[..., Outcome]) -> None:
    import gc

    write(train=MAIN)
    lint()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_what_cannot_be_read_is_told_also_where_no_rule_says_so(write: Write, seed_rule: RuleCard) -> None:
    write(train="import torch\n(\n")
    outcome = pipeline.lint(Request((".",), rules=(seed_rule,), known=(seed_rule,)))
    assert (outcome.findings, outcome.problems) == ((), ())
    assert outcome.unread[0].path == "train.py"


@pytest.mark.parametrize("error", [RecursionError, MemoryError])
def test_a_limit_is_no_bug_and_is_told(
    error: type[Exception], write: Write, lint: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(*_: object) -> None:
        raise error

    write(train=MAIN)
    monkeypatch.setattr("gpudoctor.lint.entries.started_entry.programs_of", ends)
    outcome = lint()
    assert outcome.failures == ()
    assert [each.path for each in outcome.partly] == ["train.py"]
    assert "not followed to its end" in outcome.partly[0].message


def test_a_library_that_a_limit_interrupts_has_no_bug(
    write: Write, lint: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(*_: object) -> None:
        try:
            raise OutOfBudget("more than 2 seconds of execution")
        finally:
            raise KeyError("what it clears up with")

    write(train=MAIN)
    monkeypatch.setattr("gpudoctor.lint.entries.started_entry.programs_of", ends)
    outcome = lint()
    assert outcome.failures == ()
    assert "more than 2 seconds of execution" in outcome.partly[0].message


@pytest.mark.parametrize("part", ["entries.started_entry.programs_of", "results.remedy_words.in_words_of"])
def test_no_part_of_it_takes_for_ever(
    part: str, write: Write, lint: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(*_: object, **__: object) -> None:
        while True:
            pass

    write(train=MAIN)
    monkeypatch.setattr(started_entry, "MAX_ALL_SECONDS", 0.3)
    monkeypatch.setattr(started_entry, "MIN_PART_SECONDS", 0.2)
    monkeypatch.setattr(f"gpudoctor.lint.{part}", hang)
    outcome = lint(fixes=True)
    assert outcome.failures == ()
    assert "seconds of execution" in outcome.partly[0].message
    assert places(outcome) == ([] if part == "entries.started_entry.programs_of" else ["train.py:3 GPU950"])


def test_programs_are_looked_for_in_a_project_not_in_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "helper.py").write_text("def save(): ...\n")
    (tmp_path / "train.py").write_text("import torch, helper\nif __name__ == '__main__':\n    helper.save()\n")
    helper = (tmp_path / "helper.py").resolve()
    assert Importers(Sources({})).of(helper) == [str(tmp_path.resolve() / "train.py")]
    monkeypatch.setattr(importers, "MOST_FILES", 2)
    walked: list[str] = []

    def files_below(folder: str, *, respect_gitignore: bool) -> Iterator[str]:
        assert respect_gitignore
        for number in range(1000):
            walked.append(folder)
            yield f"{folder}/{number}.py"

    monkeypatch.setattr(importers, "files_below", files_below)
    found = Importers(Sources({}))
    assert found.of(helper) == found.of(helper) == []
    # No further than it takes to see that they are too many, and once.
    assert len(walked) == 3
