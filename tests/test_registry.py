"""Finding, checking and selecting rules, mostly with packs that a test writes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpudoctor import registry
from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.errors import ConfigError, InternalError, UsageError
from gpudoctor.registry import Registry, Selection, cards_in, find_rules, load, page_of
from gpudoctor.rule import RuleCard
from tests.tools import make_index

RULE = '''"""{summary}

## What goes wrong
"""

from gpudoctor.diagnostic import Severity
from gpudoctor.rule import Rule


class {cls}(Rule):
    code = "{code}"
    name = "{name}"
    severity = Severity.{severity}
'''

WritePack = Callable[..., Path]


def rule(code: str, name: str, severity: str = "ERROR", summary: str = "An offence.") -> str:
    cls = "".join(part.capitalize() for part in name.split("-"))
    return RULE.format(code=code, name=name, severity=severity, summary=summary, cls=cls)


@pytest.fixture
def write_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WritePack]:
    """Writes a pack `toy_rules` with one family, from texts by file name."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(**texts: str) -> Path:
        family = tmp_path / "toy_rules" / "toys"
        family.mkdir(parents=True, exist_ok=True)
        (family.parent / "__init__.py").touch()
        (family / "__init__.py").touch()
        for name, text in texts.items():
            folder = family.parent if name == "_index" else family
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
        return family.parent

    yield write
    for name in [name for name in sys.modules if name.startswith("toy_rules")]:
        del sys.modules[name]


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

    def test_index_is_up_to_date(self) -> None:
        assert make_index.main(["--check"]) == 0, "run `python tests/tools/make_index.py`"

    def test_starting_with_the_index_imports_no_rule(self) -> None:
        code = "from gpudoctor.registry import find_rules; find_rules(); import sys; print(*sys.modules)"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        loaded = run.stdout.split()
        assert not [name for name in loaded if name.startswith("gpudoctor_rules.") and name.count(".") > 1]
        assert "importlib.metadata" not in loaded

    def test_what_the_index_says_is_what_the_files_say(self) -> None:
        for each in find_rules().cards:
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

    def test_new_and_changed_files_are_found_beside_a_stale_index(self, write_pack: WritePack) -> None:
        text = rule("TOY301", "car-lost")
        index = (
            "from gpudoctor.diagnostic import Severity\nfrom gpudoctor.rule import RuleCard\n"
            "CARDS = (RuleCard('TOY301', 'car-lost', Severity.ERROR, 'toys', 'toy_rules.toys.car_lost', 'Indexed.',"
            f" size={len(text)}), RuleCard('TOY999', 'gone', Severity.ERROR, 'toys', 'toy_rules.toys.gone', ''))\n"
        )
        write_pack(car_lost=text, car_found=rule("TOY302", "car-found"), _index=index)
        assert [(each.code, each.summary) for each in cards_in("toy_rules")] == [
            ("TOY302", "An offence."),
            ("TOY301", "Indexed."),
        ]
        write_pack(car_lost=text + "# changed\n")
        assert [each.summary for each in cards_in("toy_rules")] == ["An offence.", "An offence."]

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            pytest.param(rule("toy301", "car-lost"), "`code` is 'toy301'", id="code"),
            pytest.param(rule("TOY301", "Car_Lost"), "`name` is 'Car_Lost'", id="name"),
            pytest.param(rule("TOY301", "car-found"), "must be called car_found.py", id="file"),
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
        with pytest.raises(ConfigError, match="the index is stale"):
            load(lying)


class TestEntryPoints:
    def test_a_distribution_offers_a_pack(self, write_pack: WritePack, tmp_path: Path) -> None:
        write_pack(car_lost=rule("TOY301", "car-lost"))
        info = tmp_path / "toys-1.0.dist-info"
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


class TestIndexGenerator:
    def test_needs_are_the_events_that_a_rule_goes_over_or_imports(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        events = (
            "from gpudoctor.lint.events.files import Load, Save; from gpudoctor.lint.events.model import Wrap\n"
            "class R:\n  def in_code(self, program):\n"
        )
        texts = {
            "named": "from gpudoctor.lint.events.event_context import Event, Loop; "
            "from gpudoctor.lint.events.files import Save; from gpudoctor.lint.events.model import Wrap\n",
            "asked": "from gpudoctor.lint.events.files import Save\ndef f(p): return p.forwards\n",
            "through": "from gpudoctor_rules.toys._shared import g\n",
            "_shared": "from gpudoctor.lint.events.files import Load\n",
            "reads_all": "from gpudoctor.lint.events.files import Save\ndef f(p): return p.log\n",
            "goes_over": events + "    for e in program.events(Save, Wrap):\n        yield program.events(Load)\n",
            "guarded": events + "    for e in program.events(Wrap) if program.has(Load) else ():\n        yield e\n",
            "returned": events + "    if not program.has(Wrap):\n        return\n    yield program.events(Load)\n",
            "outside": events + "    for e in program.events(Save):\n        yield e\n    yield from f(program)\n",
        }
        folder = tmp_path / "rules" / "gpudoctor_rules" / "toys"
        folder.mkdir(parents=True)
        for name, text in texts.items():
            (folder / f"{name}.py").write_text(text)
        monkeypatch.setattr(make_index, "ROOT", tmp_path)
        needs = {name: make_index.needs_of(f"gpudoctor_rules.toys.{name}") for name in texts}
        assert needs["named"] == ("Save", "Wrap")
        assert needs["asked"] == ("Forward", "Save")
        assert needs["through"] == ("Load",)
        assert needs["reads_all"] == ()
        assert needs["goes_over"] == ("Save", "Wrap")
        assert needs["guarded"] == ("Load",)
        assert needs["returned"] == ("Wrap",)
        assert needs["outside"] == ("Load", "Save", "Wrap")

    def test_a_card_as_source(self) -> None:
        text = make_index._entry(card("GPU101", "doll-broken", fix_safety=Safety.SAFE))
        assert "fix_safety=Safety.SAFE," in text
        assert "since" not in text
        assert max(map(len, text.splitlines())) <= 120
