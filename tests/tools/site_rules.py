"""The pages of the rules, and the page of all error texts."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gpudoctor.api import LintOptions, Session
from gpudoctor.registry import ERROR_TEXTS, load, page_of
from gpudoctor.report import full
from gpudoctor.report.markdown import with_difference
from gpudoctor.report.text import Style, written
from gpudoctor.rule import RuleCard
from tests.tools.site_error_texts import other_texts
from tests.tools.site_markdown import code_block, sources

FAMILIES = {
    "collective": "Hangs and collective calls",
    "launch": "Starting processes and meeting",
    "wrap": "DDP, FSDP and DataParallel",
    "device": "Devices and memory",
    "data": "Data and samplers",
    "checkpoint": "Checkpoints and files",
    "gradient": "Gradients and optimizers",
    "throughput": "Speed and measurement",
    "frameworks": "Accelerate, Lightning, Transformers, DeepSpeed, FSDP2",
    "tool": "gpudoctor itself",
}
_LANGUAGES = {".py": "python", ".sh": "bash", ".sbatch": "bash", ".yaml": "yaml", ".yml": "yaml", ".json": "json"}
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_DIFFERENCE = "Bad (-) and good (+)"
# As many characters as a page of the site has beside its two columns: a line is not broken twice.
_STYLE = Style(width=80, unicode=True)


def rule_page(card: RuleCard, fixtures: Path, matrix: Mapping[str, tuple[str, str]]) -> str:
    """The page of a rule for people who have met the mistake and look for what to do."""
    text = with_difference(page_of(card)).strip()
    head, *parts = _SECTION.split(text)
    sections = {title: body.strip("\n") for title, body in zip(parts[::2], parts[1::2], strict=True)}
    example = next(fixtures.glob(f"{card.family}/{card.name.replace('-', '_')}/bad_page.*"), None)
    language = _LANGUAGES.get(example.suffix, "text") if example else "python"
    blocks = [
        f"---\ntitle: {card.name}\ndescription: {_quoted(card.summary)}\n---",
        f"# {card.name}",
        f"`{card.code}` · {_facts(card)}",
        head.strip(),
    ]
    for title, body in sections.items():
        if title == "Fix" and example is not None:
            blocks += _shown(card, example, matrix)
        blocks += [f"## {_titled(title)}", _body(title, body, load(card).errors, language)]
    return "\n\n".join(blocks) + "\n"


def error_texts(cards: Sequence[RuleCard]) -> str:
    """All error texts, by the part of training that they are about, each with the rules that it may belong to."""
    by_text: dict[str, list[RuleCard]] = {}
    for card in cards:
        for text in load(card).errors:
            by_text.setdefault(text, []).append(card)
    return "\n\n".join((*_of_families(by_text), other_texts(cards, by_text)))


def measured(text: str) -> dict[str, tuple[str, str]]:
    """The rows of the run matrix: by code, how many bad programs were named and after how many steps."""
    rows = re.findall(r"^\| (GPU\d{3}) \| \S+ \| (\d+ of \d+) \| ([^|]+) \|$", text, re.MULTILINE)
    return {code: (named, steps.strip()) for code, named, steps in rows}


def _of_families(by_text: Mapping[str, list[RuleCard]]) -> Iterator[str]:
    for family, title in FAMILIES.items():
        texts = [text for text, cards in by_text.items() if _first(cards).family == family]
        if texts:
            yield f"## {title}"
        for text in texts:
            # What the text is mostly about comes first: a deadlock before uneven batches.
            nearest = sorted(by_text[text], key=lambda card: card.family != family)
            rules = (f"- [{card.name}](rules/{card.name}.md) ({card.code}): {card.summary}" for card in nearest)
            yield "\n\n".join((code_block(text, "text"), "\n".join(rules)))


def _first(cards: list[RuleCard]) -> RuleCard:
    """The family that most rules of a text belong to has it."""
    families = [card.family for card in cards]
    return max(cards, key=lambda card: families.count(card.family))


def _facts(card: RuleCard) -> str:
    fix = f"{card.fix_safety.value} fix" if card.fix_safety else "no automatic fix"
    default = "only if selected" if card.severity.value == "info" else "on by default"
    torch = [f"since torch {card.since_torch}"] if card.since_torch else []
    return " · ".join((card.severity.value, default, fix, f"since gpudoctor {card.since}", *torch))


def _titled(title: str) -> str:
    return "Bad and good" if title == _DIFFERENCE else title


def _body(title: str, body: str, errors: tuple[str, ...], language: str) -> str:
    if title == ERROR_TEXTS:
        return "\n\n".join(code_block(text, "text") for text in errors)
    if title in ("Bad", "Good", _DIFFERENCE):
        code = "\n".join(line[4:] for line in body.split("\n"))
        return code_block(code, "diff" if title == _DIFFERENCE else language)
    return sources(body) if title == "Sources" else body


def _shown(card: RuleCard, example: Path, matrix: Mapping[str, tuple[str, str]]) -> list[str]:
    """How lint, run and probe show the mistake."""
    blocks = ["## How it shows"]
    if not card.run_only and (found := _found(card, example)):
        blocks += [f"`gpudoctor lint` says of the bad example:\n\n{code_block(found, 'output')}"]
    if card.code in matrix:
        named, steps = matrix[card.code]
        blocks.append(
            f"`gpudoctor run` names it while the program trains: {named} bad programs on two CPU ranks, after {steps} "
            f"steps."
        )
    elif card.shows_in_run or card.run_only:
        blocks.append("`gpudoctor run` names it while the program trains.")
    else:
        blocks.append("`gpudoctor run` does not look for it: only the code shows it.")
    blocks.append(
        "`gpudoctor probe` trains a program of its own, so it cannot show a mistake of yours. Where it passes, look "
        "for the cause in the program."
    )
    return blocks


def _found(card: RuleCard, example: Path) -> str:
    with Session(LintOptions(select=(card.code,), jobs=1, cache=False), config=None) as session:
        outcome = session.lint_paths([example])
    name = f"train{example.suffix}" if example.suffix == ".py" else example.name.replace("bad_page", "run")
    # The marks of the tests stand behind a line, and are no matter of the reader's.
    lines = re.sub(r"[ \t]*# (ok: )?GPU\d{3}\b.*$", "", example.read_text(encoding="utf-8"), flags=re.MULTILINE)
    shown = written(full.told(outcome.findings, lambda path: lines.splitlines(), _STYLE))
    path = outcome.findings[0].location.path if outcome.findings else ""
    return shown.replace(path, name) if path else ""


def _quoted(text: str) -> str:
    return "'" + text.replace("`", "").replace("'", "''") + "'"
