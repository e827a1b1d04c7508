"""Finds the rules and selects among them.

A *pack* is an import package with a folder for each family and a file for each rule. The built-in one is
`gpudoctor_rules`; others are named by the entry-point group `gpudoctor.rules`. Of each pack an index of cards is kept
(`card_index.py`), so that a rule's file is imported only when the rule has something to look at.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING

from gpudoctor.card_index import keep, read_kept, read_shipped, stamp_of, written
from gpudoctor.diagnostic import Severity
from gpudoctor.errors import ConfigError, GpudoctorError, InternalError, UsageError, nearest
from gpudoctor.record import dataclass, replace
from gpudoctor.rule import BUILT_IN, Rule, RuleCard

if TYPE_CHECKING:
    from types import ModuleType

    from gpudoctor.card_index import Stamp

ENTRY_POINTS = "gpudoctor.rules"
ERROR_TEXTS = "Error texts"
"""The section of a page that the declaration of its rule makes."""

_BUILT_IN_CODE = r"GPU\d{3}"
_ANY_CODE = r"[A-Z]{2,10}\d{3,4}"
_FILE_NAME = r"[a-z][a-z0-9]*(_[a-z0-9]+)*"
# More than any beginning of a code is long, so a rule that is named wins over its family.
_EXACT = 1000
_LISTED = "; `gpudoctor rules` lists them"


@dataclass(frozen=True)
class Selection:
    """What one source asks for: the command line, or the configuration file that `origin` names.

    `select` None keeps what was chosen before. Where two selectors meet on a rule, the longer one wins.
    """

    select: tuple[str, ...] | None = None
    extend: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    origin: str = ""

    def __bool__(self) -> bool:
        return bool(self.select is not None or self.extend or self.ignore)


@dataclass(frozen=True)
class Registry:
    """The rules that there are, by their cards in the order of their codes."""

    cards: tuple[RuleCard, ...]

    @cached_property
    def by_code(self) -> Mapping[str, RuleCard]:
        return {card.code: card for card in self.cards}

    @cached_property
    def by_name(self) -> Mapping[str, RuleCard]:
        return {card.name: card for card in self.cards}

    def find(self, text: str, *, besides: Iterable[str] = ()) -> RuleCard:
        """The rule of this code or name. `besides` are other names that may have been meant where it is none."""
        card = self.by_code.get(text.upper()) or self.by_name.get(text.lower())
        if card is None:
            hint = nearest(text, besides) or self._hint(text) or _LISTED
            raise UsageError(f"there is no rule `{text}`{hint}")
        return card

    def family(self, begin: str) -> tuple[RuleCard, ...]:
        """The rules whose codes begin so, as all of `GPU5`."""
        return tuple(card for card in self.cards if card.code.startswith(begin.upper()))

    def select(self, *layers: Selection, target_torch: str = "") -> tuple[RuleCard, ...]:
        """The rules that run: all but advice, changed by each layer in turn."""
        # Advice is opt-in: a first run on a sound project must be silent.
        chosen = {card.code for card in self.cards if card.severity is not Severity.INFO}
        named: set[str] = set()
        for layer in layers:
            chosen = self._applied(layer, chosen)
            if layer.select or layer.extend:
                named |= self._applied(layer, set())
        cards = (card for card in self.cards if card.code in chosen and _holds_in(card, target_torch))
        return tuple(replace(card, named=True) if card.code in named else card for card in cards)

    def codes_of(self, selectors: Iterable[str], where: str, origin: str = "") -> dict[str, int]:
        """The codes that these selectors mean, each with the weight of the most exact one; `where` is for errors."""
        weights: dict[str, int] = {}
        for selector in selectors:
            for code, weight in self._meant(selector, where, origin):
                weights[code] = max(weight, weights.get(code, -1))
        return weights

    def _applied(self, layer: Selection, before: set[str]) -> set[str]:
        flag = "" if layer.origin else "--"
        wanted = self.codes_of(layer.select or (), f"{flag}select", layer.origin)
        wanted.update(self.codes_of(layer.extend, f"{flag}extend-select", layer.origin))
        unwanted = self.codes_of(layer.ignore, f"{flag}ignore", layer.origin)
        kept = before if layer.select is None else set()
        return {
            code
            for code in self.by_code
            if wanted.get(code, -1) > unwanted.get(code, -1) or (code in kept and code not in unwanted)
        }

    def _meant(self, selector: str, where: str, origin: str) -> Iterator[tuple[str, int]]:
        if selector.upper() == "ALL":
            return ((code, 0) for code in self.by_code)
        exact = self.by_name.get(selector.lower()) or self.by_code.get(selector.upper())
        if exact is not None:
            return iter([(exact.code, _EXACT)])
        found = [(code, len(selector)) for code in self.by_code if code.startswith(selector.upper())]
        if not found or not selector:
            problem = f"{where}: no rule has the code or the name `{selector}`{self._hint(selector)}"
            raise ConfigError(f"{origin}: {problem}") if origin else UsageError(problem)
        return iter(found)

    def _hint(self, wrong: str) -> str:
        # A code with other digits is another mistake, so the nearest one would be a guess.
        if wrong[:3].upper() == "GPU" and wrong[3:].isdigit():
            return _LISTED
        return nearest(wrong, [*self.by_code, *self.by_name, "ALL"])


def find_rules() -> Registry:
    """All rules: those that come with gpudoctor, and those of installed packs."""
    # Built-in rules first, so that a twin in a pack is the one that is blamed.
    cards = [card for pack in (BUILT_IN, *_installed_packs(sys.path)) for card in cards_in(pack)]
    _refuse_twins(cards)
    return Registry(tuple(sorted(cards, key=lambda card: card.code)))


def cards_in(pack: str) -> Iterable[RuleCard]:
    """The cards of a pack's rules: from its index, or from the rule's file where that has changed since."""
    package = _imported(pack, pack)
    folder = package.__path__[0]
    shipped = read_shipped(package)
    if shipped:
        return shipped
    kept = read_kept(folder)
    files = list(rule_files(pack, folder))
    fresh = {module for module, stamp in files if module in kept and kept[module][0] == stamp}
    # A process that has loaded it, such as an editor's server, does not read what the file says now. Asked before any
    # is read here: one rule's file may import another's.
    outdated = any(module in kept and module not in fresh and module in sys.modules for module, _ in files)
    known = {module: kept[module] if module in fresh else (stamp, card_of(module, pack)) for module, stamp in files}
    if known != kept and not outdated:
        keep(folder, known)
    return [card for _, card in known.values()]


def index_of(pack: str) -> bytes:
    """What an index of the pack holds that is built with it."""
    folder = _imported(pack, pack).__path__[0]
    return written((stamp, card_of(module, pack)) for module, stamp in rule_files(pack, folder))


def examples_of(pack: str) -> bytes:
    """What the table of examples holds that a pack is built with."""
    from gpudoctor.page_examples import table_of

    package = _imported(pack, pack)
    return table_of(package, [module for module, _ in rule_files(pack, package.__path__[0])])


def rule_files(pack: str, folder: str) -> Iterator[tuple[str, Stamp]]:
    """The dotted names of a pack's rule files in order, each with what tells that it has changed."""
    if not os.path.isdir(folder):  # inside an archive, of which whoever packs it ships an index
        return
    for family in _entries(folder):
        if family.name[0] not in "_." and family.is_dir():
            for file in _entries(family.path):
                name = file.name
                if name[0] != "_" and name.endswith(".py"):
                    yield f"{pack}.{family.name}.{name[:-3]}", stamp_of(file.stat())


def card_of(module: str, pack: str) -> RuleCard:
    """The card of a rule, from its file, once it is known to be declared as it should be."""
    rule = _rule_class(_imported(module, pack), pack)
    flaw = _flaw(rule, sys.modules[module], pack)
    if flaw:
        raise _invalid(pack, _place(rule), flaw)
    page = sys.modules[module].__doc__ or ""
    asks = {each for each in ("in_code", "in_launch", "in_run") if getattr(rule, each) is not getattr(Rule, each)}
    if rule.crash or rule.drift:
        asks.add("in_run")
    return RuleCard(
        code=rule.code,
        name=rule.name,
        severity=rule.severity,
        family=module.split(".")[-2],
        module=module,
        summary=page.strip().partition("\n")[0],
        since=rule.since,
        fix_safety=rule.fix_safety,
        shows_in_run="in_run" in asks,
        since_torch=rule.since_torch,
        needs=tuple(sorted(each.__name__ for each in rule.needs)),
        looks_at=tuple((kind.__name__, what) for kind, what in rule.looks_at),
        stops=rule.stops,
        of_ranks=rule.of_ranks,
        run_only=asks == {"in_run"},
        of_launch="in_launch" in asks,
        of_program=bool(asks - {"in_launch"}),
    )


def load(card: RuleCard) -> Rule:
    """The rule itself."""
    known = _CHECKED.get(card.module)
    if known is not None and known[0] is card and known[1] is sys.modules.get(card.module):
        return known[2]()
    pack = card.module.partition(".")[0]
    rule = _rule_class(_imported(card.module, pack), pack)
    # The index chose the rule; were it wrong, another rule than was selected would run.
    if (rule.code, rule.name, rule.severity) != (card.code, card.name, card.severity):
        raise _invalid(pack, _place(rule), "the index of its pack has another rule there: install the pack anew")
    _CHECKED[card.module] = card, sys.modules[card.module], rule
    return rule()


_CHECKED: dict[str, tuple[RuleCard, ModuleType, type[Rule]]] = {}
"""Rules that were loaded and are what their cards say: each is asked for once for each program."""


def page_of(card: RuleCard) -> str:
    """The page of a rule, in Markdown."""
    # Imported late: a lint shows no page.
    from gpudoctor.page_examples import with_examples

    rule = load(card)
    pack = card.module.partition(".")[0]
    page = with_examples(sys.modules[card.module].__doc__ or "", _imported(pack, pack), card.module)
    return _with_errors(page, rule.errors)


def _with_errors(page: str, errors: Sequence[str]) -> str:
    """The page with the error texts of the rule behind what goes wrong."""
    head, first, body = page.partition("## What goes wrong\n")
    story, heading, rest = body.partition("\n## ")
    if not errors or not first or not heading:
        return page
    listed = "\n".join(f"* `{text}`" for text in errors)
    return f"{head}{first}{story}\n## {ERROR_TEXTS}\n\n{listed}\n{heading}{rest}"


def _entries(folder: str) -> Sequence[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return sorted(entries, key=attrgetter("name"))


_LOADED: dict[str, ModuleType] = {}
"""Modules that are imported to their end."""


def _imported(module: str, pack: str) -> ModuleType:
    try:
        # Asked for each program: most are there, and `import_module` takes longer to find that out than most rules run.
        # `sys.modules` alone holds what another thread has only begun to import, too.
        found = sys.modules.get(module)
        if found is None or _LOADED.get(module) is not found:
            found = _LOADED[module] = import_module(module)
        return found
    except SyntaxError as error:
        raise _invalid(pack, f"{error.filename}:{error.lineno}", error.msg) from error
    except ImportError as error:
        raise _invalid(pack, module, f"cannot be imported: {error}") from error


@cache
def _rule_class(module: ModuleType, pack: str) -> type[Rule]:
    """The one rule of a file."""
    rules = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == module.__name__
    ]
    if len(rules) != 1:
        raise _invalid(pack, f"{module.__file__}:1", f"a rule file holds one rule, this one holds {len(rules)}")
    return rules[0]


def _flaw(rule: type[Rule], module: ModuleType, pack: str) -> str:
    code, file = getattr(rule, "code", ""), module.__name__.rpartition(".")[2]
    pattern = _BUILT_IN_CODE if pack == BUILT_IN else _ANY_CODE
    if not re.fullmatch(pattern, code):
        return f"`code` is {code!r}, it must look like {'GPU301' if pack == BUILT_IN else 'ABC301'}"
    if not re.fullmatch(_FILE_NAME, file):
        return f"the file is called `{file}.py`, it must be words in small letters with _ between: they name the rule"
    if not isinstance(getattr(rule, "severity", None), Severity):
        return "`severity` is missing: one of Severity.ERROR, WARNING, PERF, INFO"
    if not (module.__doc__ or "").strip():
        return "the file has no docstring: it is the page that `gpudoctor explain` shows"
    return ""


def _place(rule: type[Rule]) -> str:
    # Only on the way to an error, so that start-up does not pay for reading sources.
    from inspect import getsourcefile, getsourcelines

    return f"{getsourcefile(rule)}:{getsourcelines(rule)[1]}"


def _invalid(pack: str, place: str, problem: str) -> GpudoctorError:
    if pack == BUILT_IN:
        return InternalError(f"{place}: {problem}")
    return ConfigError(f"rule pack `{pack}`: {place}: {problem}")


def _refuse_twins(cards: Iterable[RuleCard]) -> None:
    seen: dict[str, RuleCard] = {}
    for card in cards:
        for label in (card.code, card.name):
            other = seen.setdefault(label, card)
            if other is not card:
                pack = card.module.partition(".")[0]
                raise _invalid(pack, card.module, f"`{label}` is taken already by {other.module}")


def _installed_packs(path: Iterable[str]) -> list[str]:
    """Import packages that other distributions offer as packs of rules."""
    if not any(_offers_rules(folder) for folder in path):
        return []
    # importlib.metadata costs more than a small lint: it is asked only once a pack is known to be there.
    from importlib.metadata import entry_points

    return sorted({point.value.partition(":")[0].strip() for point in entry_points(group=ENTRY_POINTS)} - {BUILT_IN})


def _offers_rules(folder: str) -> bool:
    try:
        names = os.listdir(folder or ".")
    except OSError:  # an archive, or a folder that is not there
        return False
    return any(_declares(os.path.join(folder, name)) for name in names if name.endswith((".dist-info", ".egg-info")))


def _declares(distribution: str) -> bool:
    # A look at the bytes; what they mean is asked of importlib.metadata, once it is worth its price.
    try:
        with open(os.path.join(distribution, "entry_points.txt"), "rb") as file:
            return f"[{ENTRY_POINTS}]".encode() in file.read()
    except OSError:
        return False


def _holds_in(card: RuleCard, target_torch: str) -> bool:
    if not target_torch or not card.since_torch:
        return True
    return _version(card.since_torch) <= _version(target_torch)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])
