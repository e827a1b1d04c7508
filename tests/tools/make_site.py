"""Build the documentation's site: `python tests/tools/make_site.py [FOLDER]`, by default `build/site`.

One source: the files of `docs/`, the guides that `gpudoctor explain` shows, the pages of the rules, and what the
command line and the schemas say of themselves become plain Markdown, which Zensical turns into the site. Zensical needs
Python 3.11 and no network; `pip install -c constraints.txt -e '.[docs]'` brings it.
"""

import argparse
import json
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "rules")]

from gpudoctor.page_address import SITE  # noqa: E402
from gpudoctor.registry import find_rules  # noqa: E402
from gpudoctor.rule import RuleCard  # noqa: E402
from tests.tools import site_markdown, site_reference, site_rules  # noqa: E402

DOCS, GUIDES = "docs", "gpudoctor/guides"
OWN = {
    "index": "gpudoctor",
    "start": "Five minutes",
    "lint": "Lint a program",
    "run": "Watch a run",
    "probe": "Probe a machine",
    "ci": "CI and pre-commit",
    "errors": "Error texts",
    "rules": "Rules",
    "run-matrix": "What a run detects",
    "how-it-knows": "How it knows, and what it cannot know",
    "settings": "Settings",
    "json": "JSON",
    "environment": "Exit codes and environment",
}
"""The files of `docs/` with their titles in the navigation."""
GUIDE_TITLES = {
    "scaling": "From one GPU to many",
    "hang": "A hang at night",
    "frameworks": "Frameworks",
    "editors": "Editors",
}
_FOLDERS = {"rules": "rules/index", "run-matrix": "rules/run-matrix"}
_REFERENCE = ("settings", "json", "environment")
_ONLY_A_SITE_HAS = "404.html"


def main(arguments: list[str]) -> int:
    """Build the site, and say which links of it lead nowhere."""
    parser = argparse.ArgumentParser(prog="make_site.py", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "site", metavar="FOLDER")
    out: Path = parser.parse_args(arguments).folder
    # Made anew: what is deleted must be a site.
    if out.is_dir() and any(out.iterdir()) and not (out / _ONLY_A_SITE_HAS).is_file():
        parser.error(f"{out} holds something else than a site: name a folder that is empty or new")
    build(out)
    broken = broken_links(out)
    print(*broken, sep="\n", file=sys.stderr)
    print(f"{out}: {sum(1 for _ in out.rglob('*.html'))} pages")
    return 1 if broken else 0


def build(out: Path) -> None:
    """The whole site in the folder `out`, which is made anew."""
    work = out.with_name(f"{out.name}-source")
    for folder in (out, work):
        shutil.rmtree(folder, ignore_errors=True)
    cards = [card for card in find_rules().cards if card.module.startswith("gpudoctor_rules.")]
    written = write_sources(work / "docs", cards)
    (work / "zensical.toml").write_text(_settings(cards, written), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", str(work / "zensical.toml")]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=work)
    if run.returncode or not (work / "site" / "index.html").exists():
        raise SystemExit(f"make_site: Zensical ended with {run.returncode}\n{run.stdout}{run.stderr}")
    (work / "site").rename(out)
    for card in cards:
        _redirect(out / card.code / "index.html", f"../rules/{card.name}/", card)


def write_sources(folder: Path, cards: list[RuleCard]) -> list[str]:
    """The Markdown that the site is built from, in `folder`; the paths of its pages."""
    rules = {card.code: card.name for card in cards}
    targets = _targets(cards)
    schemas = {f"schemas/{file.name}": file for file in sorted((ROOT / "gpudoctor" / "schemas").glob("*.json"))}
    targets |= {file.relative_to(ROOT).as_posix(): target for target, file in schemas.items()}
    matrix_text = (ROOT / DOCS / "run-matrix.md").read_text(encoding="utf-8")
    matrix = site_rules.measured(matrix_text)
    parts = {
        "<!-- error texts -->": site_rules.error_texts(cards),
        "<!-- schemas -->": site_reference.schema_page(schemas),
    }
    pages: dict[str, str] = {}
    for source, target in targets.items():
        if not source.endswith(".md"):
            continue
        text = (ROOT / source).read_text(encoding="utf-8")
        if source == "CONTRIBUTING.md":
            text = _adding_a_rule(text)
        if source == "CHANGELOG.md":
            text = f"---\nsearch:\n  exclude: true\n---\n\n{text}"
        text = site_markdown.page(text, source, target, targets, rules)
        for mark, generated in parts.items():
            text = text.replace(mark, generated)
        pages[target] = text
    for card in cards:
        target = f"rules/{card.name}.md"
        text = site_rules.rule_page(card, ROOT / "fixtures" / "rules", matrix)
        pages[target] = site_markdown.page(text, card.module.replace(".", "/"), target, targets, rules)
    pages["reference/command-line.md"] = site_reference.command_line()
    for target, text in pages.items():
        file = folder / target
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for target, file in schemas.items():
        (folder / target).parent.mkdir(exist_ok=True)
        shutil.copyfile(file, folder / target)
    for asset in ("site.css", "lint.svg"):
        shutil.copyfile(ROOT / (DOCS if asset == "site.css" else ".github") / asset, folder / asset)
    return sorted(pages)


def broken_links(out: Path) -> list[str]:
    """Links of the site to pages, files or parts of pages that are not there."""
    pages = {file: _Anchors(file) for file in sorted(out.rglob("*.html"))}
    found = []
    for file, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            # The page of what is not found is shown at any address, and has addresses from the root.
            if parts.scheme or parts.netloc or file.name == "404.html":
                continue
            goal = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            goal = goal / "index.html" if goal.is_dir() else goal
            anchors = pages[goal].anchors if goal in pages else set()
            if not goal.exists() or (parts.fragment and goal in pages and unquote(parts.fragment) not in anchors):
                found.append(f"{file.relative_to(out)}: {link} leads nowhere")
    return found


class _Anchors(HTMLParser):
    """The links of a page, and what can be linked to in it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = {"__comments", "__toc", "__top"}
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value and tag != "base":
                self.links.add(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def _targets(cards: list[RuleCard]) -> dict[str, str]:
    """The pages that files of the repository become."""
    targets = {}
    for name in OWN:
        folder = "reference/" if name in _REFERENCE else ""
        targets[f"{DOCS}/{name}.md"] = f"{folder}{_FOLDERS.get(name, name)}.md"
    for guide in sorted((ROOT / GUIDES).glob("*.md")):
        targets[f"{GUIDES}/{guide.name}"] = f"guides/{guide.name}"
    for card in cards:
        targets[f"rules/{card.module.replace('.', '/')}.py"] = f"rules/{card.name}.md"
    return {
        **targets,
        "CONTRIBUTING.md": "adding-a-rule.md",
        "CHANGELOG.md": "changelog.md",
        ".github/lint.svg": "lint.svg",
    }


def _adding_a_rule(text: str) -> str:
    """The part of CONTRIBUTING.md that tells how a rule is added."""
    body = text.partition("## Adding a rule\n")[2].partition("\n## ")[0]
    # What it names besides stands in the file itself.
    return f"# Adding a rule\n{body}\n"


def _settings(cards: list[RuleCard], pages: list[str]) -> str:
    """What Zensical reads: where things are, and the navigation."""
    guides = [page for page in pages if page.startswith("guides/")]
    families = [
        {title: [{card.name: f"rules/{card.name}.md"} for card in cards if card.family == family]}
        for family, title in site_rules.FAMILIES.items()
    ]
    navigation = [
        {"Home": "index.md"},
        {"Start": ["start.md", "lint.md", "run.md", "probe.md", "ci.md"]},
        {"Guides": [{GUIDE_TITLES.get(Path(page).stem, Path(page).stem.capitalize()): page} for page in guides]},
        {"Error texts": "errors.md"},
        {"Rules": ["rules/index.md", *families, {"What a run detects": "rules/run-matrix.md"}]},
        {
            "Reference": [
                {"Command line": "reference/command-line.md"},
                *({OWN[name]: f"reference/{name}.md"} for name in _REFERENCE),
            ]
        },
        {
            "About": [
                {"How it knows": "how-it-knows.md"},
                {"Adding a rule": "adding-a-rule.md"},
                {"Changelog": "changelog.md"},
            ]
        },
    ]
    head = {
        "site_name": "gpudoctor",
        "site_url": SITE or "https://gpudoctor.invalid/",
        "site_description": "Finds the mistakes in PyTorch training programs that make several GPUs train wrongly, "
        "slowly or not at all.",
        "docs_dir": "docs",
        "site_dir": "site",
        "extra_css": ["site.css"],
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in head.items()]
    return "\n".join(["[project]", *lines, f"nav = {_toml(navigation)}", _THEME])


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _redirect(file: Path, goal: str, card: RuleCard) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{card.code} {card.name}</title>\n'
        f'<meta http-equiv="refresh" content="0; url={goal}"><link rel="canonical" href="{goal}"></head>\n'
        f'<body><p><a href="{goal}">{card.code} {card.name}</a></p></body></html>\n',
        encoding="utf-8",
    )


_THEME = """
[project.theme]
language = "en"
font = false
features = [
  "content.code.copy",
  "navigation.footer",
  "navigation.indexes",
  "navigation.path",
  "navigation.prune",
  "navigation.top",
  "search.highlight",
]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Switch to dark mode"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Switch to light mode"

[project.markdown_extensions]
admonition = {}
attr_list = {}
def_list = {}
md_in_html = {}
tables = {}
toc.permalink = true
pymdownx.details = {}
pymdownx.highlight.pygments_lang_class = true
pymdownx.inlinehilite = {}
pymdownx.superfences = {}
"""


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
