"""Finding, checking and selecting rules, mostly with packs that a test writes."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpudoctor import card_index, registry
from gpudoctor.diagnostic import Severity
from gpudoctor.errors import ConfigError, InternalError, UsageError
from gpudoctor.registry import Registry, Selection, card_of, cards_in, find_rules, load, page_of
from gpudoctor.rule import RuleCard

RULE = '''"""{summary}

## What goes wrong
"""

from gpudoctor.diagnostic import Severity
from gpudoctor.rule import Rule


class {cls}(Rule):
    code = "{code}"
    severity = Severity.{severity}
'''

WritePack = Callable[..., Path]


def rule(code: str, name: str, severity: str = "ERROR", summary: str = "An offence.") -> str:
    cls = "".join(part.capitalize() for part in name.split("-"))
    return RULE.format(code=code, severity=severity, summary=summary, cls=cls)


@pytest.fixture
def write_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WritePack]:
    """Writes a pack `toy_rules` with one family, from texts by file name."""
    monkeypatch.syspath_prepend(str(tmp_path / "rules"))

    def write(**texts: str) -> Path:
        family = tmp_path / "rules" / "toy_rules" / "toys"
        family.mkdir(parents=True, exist_ok=True)
        (family.parent / "__init__.py").touch()
        (family / "__init__.py").touch()
        for name, text in texts.items():
            (family / f"{name}.py").write_text(text, encoding="utf-8")
        return family.parent

    yield write
    forget_toys()


def forget_toys() -> None:
    """As a new process would begin."""
    for name in [name for name in sys.modules if name.startswith("toy_rules")]:
        del sys.modules[name]
    importlib.invalidate_caches()


def card(code: str, name: str, severity: Severity = Severity.ERROR, **more: str) -> RuleCard:
    return RuleCard(code, name, severity, family="toys", module=f"toy_rules.toys.{name}", summary="", **more)


TOYS = Registry(
    (
        card("GPU101", "doll-broken"),
        card("GPU301", "car-lost", Severity.WARNING),
        card("GPU302", "car-found", Severity.PERF, since_torch="2.4"),
        card("GPU311", "kite-torn", Severity.INFO),
    )
)


def codes(*layers: Selection, target_torch: str = "") -> str:
    return " ".join(each.code[3:] for each in TOYS.select(*layers, target_torch=target_torch))


class TestBuiltIn:
    def test_rules_are_found_in_the_order_of_their_codes(self) -> None:
        found = [card.code for card in find_rules().cards]
        assert {"GPU001", "GPU002", "GPU003"} <= set(found)
        assert found == sorted(set(found))

    def test_starting_with_the_index_imports_no_rule(self) -> None:
        find_rules()
        code = "from gpudoctor.registry import find_rules; find_rules(); import sys; print(*sys.modules)"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
        loaded = run.stdout.split()
        assert not [name for name in loaded if name.startswith("gpudoctor_rules.") and name.count(".") > 1]
        assert "importlib.metadata" not in loaded

    def test_what_the_index_says_is_what_the_files_say(self) -> None:
        for each in find_rules().cards:
            assert card_of(each.module, "gpudoctor_rules") == each
            assert load(each).name == each.name
            assert page_of(each).startswith(each.summary)


class TestPack:
    def test_without_an_index(self, write_pack: WritePack) -> None:
        write_pack(car_lost=rule("TOY301", "car-lost", "INFO", "A car is lost."), _helper="", notes="") / "toys"
        (write_pack() / "toys" / "notes.py").unlink()
        (found,) = cards_in("toy_rules")
        assert (found.code, found.name, found.severity, found.family) == ("TOY301", "car-lost", Severity.INFO, "toys")
        assert found.summary == "A car is lost."
        assert load(found).code == "TOY301"

    def test_a_second_start_imports_no_rule(self, write_pack: WritePack) -> None:
        write_pack(car_lost=rule("TOY301", "car-lost"), car_found=rule("TOY302", "car-found"))
        first = list(cards_in("toy_rules"))
        forget_toys()
        assert list(cards_in("toy_rules")) == first
        assert "toy_rules.toys.car_lost" not in sys.modules

    def test_what_changed_since_is_read_anew(self, write_pack: WritePack) -> None:
        pack = write_pack(car_lost=rule("TOY301", "car-lost"), car_gone=rule("TOY303", "car-gone"))
        list(cards_in("toy_rules"))
        forget_toys()
        # As long as before, so that only the time tells.
        changed = write_pack(car_lost=rule("TOY309", "car-lost"), car_found=rule("TOY302", "car-found"))
        os.utime(changed / "toys" / "car_lost.py", ns=(1, 1))
        (pack / "toys" / "car_gone.py").unlink()
        assert [each.code for each in cards_in("toy_rules")] == ["TOY302", "TOY309"]

    def test_rules_that_import_one_another_are_kept_when_they_have_changed(self, write_pack: WritePack) -> None:
        def written(time: int) -> None:
            lost = rule("TOY302", "car-lost")
            importing = rule("TOY301", "car-found") + "\n\nfrom toy_rules.toys.car_lost import Severity as Level\n"
            pack = write_pack(car_lost=lost, car_found=importing)
            for name in ("car_found", "car_lost"):
                os.utime(pack / "toys" / f"{name}.py", ns=(time, time))

        written(1)
        list(cards_in("toy_rules"))
        forget_toys()
        written(2)
        list(cards_in("toy_rules"))
        forget_toys()
        list(cards_in("toy_rules"))
        assert "toy_rules.toys.car_lost" not in sys.modules

    def test_who_has_loaded_a_rule_that_has_changed_keeps_nothing_for_others(self, write_pack: WritePack) -> None:
        pack = write_pack(car_lost=rule("TOY301", "car-lost"))
        load(*cards_in("toy_rules"))
        write_pack(car_lost=rule("TOY309", "car-lost"))
        os.utime(pack / "toys" / "car_lost.py", ns=(1, 1))
        list(cards_in("toy_rules"))
        forget_toys()
        assert [each.code for each in cards_in("toy_rules")] == ["TOY309"]

    @pytest.mark.parametrize(
        "damage",
        [
            pytest.param(lambda data: data[: len(data) // 2], id="cut short"),
            pytest.param(lambda data: b"", id="empty"),
            pytest.param(lambda data: data.replace(b"summary", b"resume!"), id="of another version"),
        ],
    )
    def test_an_index_that_cannot_be_read_is_made_anew(
        self, write_pack: WritePack, damage: Callable[[bytes], bytes]
    ) -> None:
        pack = write_pack(car_lost=rule("TOY301", "car-lost"))
        first = list(cards_in("toy_rules"))
        kept = pack / "__pycache__" / card_index.SHIPPED
        whole = kept.read_bytes()
        kept.write_bytes(damage(whole))
        assert list(cards_in("toy_rules")) == first
        assert kept.read_bytes() == whole

    def test_a_folder_that_cannot_be_written_to(self, write_pack: WritePack) -> None:
        (write_pack(car_lost=rule("TOY301", "car-lost")) / "__pycache__").write_text("in the way")
        assert [each.code for each in cards_in("toy_rules")] == ["TOY301"]

    @pytest.mark.parametrize("archived", [False, True])
    def test_an_index_that_was_shipped_is_believed(
        self, write_pack: WritePack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archived: bool
    ) -> None:
        pack = write_pack(car_lost=rule("TOY301", "car-lost"))
        (pack / card_index.SHIPPED).write_bytes(registry.index_of("toy_rules"))
        forget_toys()
        if archived:
            archive = shutil.make_archive(str(tmp_path / "toys"), "zip", tmp_path / "rules", "toy_rules")
            shutil.rmtree(pack)
            monkeypatch.syspath_prepend(archive)
        found = list(cards_in("toy_rules"))
        assert [each.code for each in found] == ["TOY301"]
        assert "toy_rules.toys.car_lost" not in sys.modules
        assert load(found[0]).code == "TOY301"

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            pytest.param(rule("toy301", "car-lost"), "`code` is 'toy301'", id="code"),
            pytest.param(rule("TOY301", "car-lost").replace("severity", "seriousness"), "`severity`", id="severity"),
            pytest.param(rule("TOY301", "car-lost").partition('"""\n\n')[2], "no docstring", id="page"),
            pytest.param('"""Nothing."""', "holds 0", id="none"),
            pytest.param(rule("TOY301", "car-lost") + "\n\nclass B(CarLost): ...\n", "holds 2", id="two"),
            pytest.param("def (", "car_lost.py:1", id="syntax"),
            pytest.param("import nowhere_at_all", "cannot be imported", id="import"),
        ],
    )
    def test_a_wrong_rule_is_named_with_its_place(self, write_pack: WritePack, text: str, complaint: str) -> None:
        write_pack(car_lost=text)
        with pytest.raises(ConfigError) as caught:
            list(cards_in("toy_rules"))
        assert complaint in str(caught.value)
        assert "rule pack `toy_rules`" in str(caught.value)
        assert "car_lost" in str(caught.value)

    def test_the_file_names_the_rule(self, write_pack: WritePack) -> None:
        write_pack(Car_Lost=rule("TOY301", "car-lost"))
        with pytest.raises(ConfigError, match=r"`Car_Lost\.py`, it must be words in small letters"):
            list(cards_in("toy_rules"))

    def test_the_line_of_the_class_is_named(self, write_pack: WritePack) -> None:
        write_pack(car_lost=rule("toy301", "car-lost"))
        with pytest.raises(ConfigError, match=r"car_lost\.py:10: "):
            list(cards_in("toy_rules"))

    def test_a_wrong_rule_of_ours_is_a_bug(self, write_pack: WritePack, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(registry, "BUILT_IN", "toy_rules")
        write_pack(car_lost=rule("TOY301", "car-lost"))
        with pytest.raises(InternalError, match="it must look like GPU301"):
            list(cards_in("toy_rules"))

    def test_codes_and_names_are_unique(self, write_pack: WritePack, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(registry, "_installed_packs", lambda path: ["toy_rules"])
        write_pack(unreadable_file=rule("TOY301", "unreadable-file"))
        with pytest.raises(ConfigError, match="`unreadable-file` is taken already by gpudoctor_rules"):
            find_rules()

    def test_a_card_that_lies_is_noticed(self, write_pack: WritePack) -> None:
        write_pack(car_lost=rule("TOY301", "car-lost"))
        lying = RuleCard("TOY302", "car-lost", Severity.ERROR, "toys", "toy_rules.toys.car_lost", "")
        with pytest.raises(ConfigError, match="has another rule there"):
            load(lying)


class TestEntryPoints:
    def test_a_distribution_offers_a_pack(self, write_pack: WritePack, tmp_path: Path) -> None:
        write_pack(car_lost=rule("TOY301", "car-lost"))
        info = tmp_path / "rules" / "toys-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[gpudoctor.rules]\ntoys = toy_rules\n")
        assert find_rules().find("TOY301").name == "car-lost"

    def test_other_distributions_cost_no_more_than_a_look(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        info = tmp_path / "other-1.0.dist-info"
        info.mkdir()
        (info / "entry_points.txt").write_text("[console_scripts]\ngpudoctor = gpudoctor.cli:main\n")
        (tmp_path / "bare-1.0.dist-info").mkdir()
        assert registry._installed_packs([str(tmp_path), str(tmp_path / "missing")]) == []


class TestSelection:
    def test_advice_is_off_by_default(self) -> None:
        assert codes() == "101 301 302"

    @pytest.mark.parametrize(
        ("selection", "expected"),
        [
            (Selection(select=("ALL",)), "101 301 302 311"),
            (Selection(select=("GPU3",)), "301 302 311"),
            (Selection(select=("gpu30", "kite-torn")), "301 302 311"),
            (Selection(select=()), ""),
            (Selection(extend=("GPU311",)), "101 301 302 311"),
            (Selection(ignore=("GPU3",)), "101"),
            (Selection(select=("ALL",), ignore=("GPU30",)), "101 311"),
            (Selection(select=("GPU301",), ignore=("GPU3",)), "301"),
            (Selection(select=("GPU301",), ignore=("car-lost",)), ""),
            (Selection(ignore=("ALL",), extend=("car-lost",)), "301"),
        ],
    )
    def test_the_longer_selector_wins(self, selection: Selection, expected: str) -> None:
        assert codes(selection) == expected

    def test_the_later_layer_wins(self) -> None:
        file = Selection(select=("GPU3",), ignore=("GPU301",), origin="pyproject.toml")
        assert codes(file) == "302 311"
        assert codes(file, Selection(ignore=("GPU311",))) == "302"
        assert codes(file, Selection(select=("GPU301",))) == "301"
        assert codes(file, Selection(extend=("GPU301",))) == "301 302 311"

    def test_rules_of_a_later_torch_are_left_out(self) -> None:
        assert codes(target_torch="2.3") == "101 301"
        assert codes(target_torch="2.4.1") == "101 301 302"
        assert codes(target_torch="2.10") == "101 301 302"

    def test_an_unknown_selector_is_refused_with_the_nearest(self) -> None:
        with pytest.raises(UsageError, match=r"--ignore: no rule .* `car-lots`; did you mean `car-lost`\?"):
            codes(Selection(ignore=("car-lots",)))
        with pytest.raises(ConfigError, match=r"x\.toml: select: no rule .* `GPU7`"):
            codes(Selection(select=("GPU7",), origin="x.toml"))
        with pytest.raises(UsageError):
            codes(Selection(select=("",)))

    def test_finding_one(self) -> None:
        assert TOYS.find("gpu301") is TOYS.find("Car-Lost")
        with pytest.raises(UsageError, match="did you mean `car-lost`"):
            TOYS.find("carlost")


class TestExamples:
    PAGE = "An offence.\n\n## What goes wrong\n\nMuch.\n\n{examples}## Fix\n\nStop.\n"
    EXAMPLES = '## Bad\n\n    lose("car")\n\n## Good\n\n    keep("car")\n\n'

    def test_those_of_the_page(self, write_pack: WritePack) -> None:
        page = self.PAGE.format(examples=self.EXAMPLES)
        write_pack(car_lost=rule("TOY301", "car-lost", summary=page))
        assert page_of(*cards_in("toy_rules")).startswith(page)

    def test_none(self, write_pack: WritePack) -> None:
        page = self.PAGE.format(examples="")
        write_pack(car_lost=rule("TOY301", "car-lost", summary=page))
        assert page_of(*cards_in("toy_rules")).startswith(page)

    def test_those_that_the_pack_was_built_with(self, write_pack: WritePack) -> None:
        pack = write_pack(car_lost=rule("TOY301", "car-lost", summary=self.PAGE.format(examples="")))
        (pack / "examples.json").write_text(
            '{"toys/car_lost": ["lose(\\"car\\")", "keep(\\"car\\")"]}', encoding="utf-8"
        )
        assert page_of(*cards_in("toy_rules")).startswith(self.PAGE.format(examples=self.EXAMPLES))

    def test_those_among_the_fixtures_without_what_is_for_the_tests(self, write_pack: WritePack) -> None:
        pack = write_pack(car_lost=rule("TOY301", "car-lost", summary=self.PAGE.format(examples="")))
        folder = pack.parents[1] / "fixtures" / "rules" / "toys" / "car_lost"
        folder.mkdir(parents=True)
        (folder / "bad_page.py").write_text('lose("car")  # GPU301: lost  # GPU302: never found\n', encoding="utf-8")
        (folder / "good_page.py").write_text('keep("car")  # ok: GPU301 it is kept\n', encoding="utf-8")
        assert page_of(*cards_in("toy_rules")).startswith(self.PAGE.format(examples=self.EXAMPLES))
        table = json.loads(registry.examples_of("toy_rules"))
        assert table == {"toys/car_lost": ['lose("car")', 'keep("car")']}
