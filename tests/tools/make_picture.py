"""Draw the terminal picture of the README: one finding, as a terminal in colour shows it.

    python tests/tools/make_picture.py [--check]

With --check nothing is written, and the exit code is 1 where the picture says something else than lint does.
"""

import io
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ("lint", "--select=GPU501", "fixtures/programs/broken_ddp/train.py")
"""One finding of the program that the README tells its readers to lint: the one whose causes stand in three places."""

PICTURE = ROOT / ".github" / "lint.svg"
COLUMNS = 88


def main(arguments: list[str]) -> int:
    """Draw the picture, or say that it is out of date."""
    drawn = draw(recorded())
    if "--check" not in arguments:
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(drawn, encoding="utf-8")
        return 0
    # The words only: another version of rich draws the frame in another way.
    if PICTURE.exists() and words(PICTURE.read_text(encoding="utf-8")) == words(drawn):
        return 0
    print(f"{PICTURE.name} is out of date: run `python tests/tools/make_picture.py`", file=sys.stderr)
    return 1


def recorded() -> str:
    """What the example prints on a terminal, escape sequences included."""
    command = [sys.executable, "-m", "gpudoctor", *EXAMPLE, "--color=always", "--no-cache"]
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False, encoding="utf-8")
    if run.returncode != 1:
        raise SystemExit(f"make_picture: lint ended with {run.returncode}\n{run.stderr}")
    return f"\033[1m$ gpudoctor {' '.join(EXAMPLE)}\033[0m\n{run.stdout.rstrip()}\n"


def draw(output: str) -> str:
    """The output as an SVG, in which text stays text."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(Text.from_ansi(output))
    return _without_fonts(console.export_svg(title="gpudoctor lint", theme=MONOKAI, unique_id="lint"))


def _without_fonts(svg: str) -> str:
    # A picture in a README must not ask another host for fonts; each viewer has one of fixed width.
    start, _, rest = svg.partition("<style>")
    fonts, _, rules = rest.rpartition("@font-face")
    return f"{start}<style>{rules[rules.index('}') + 1 :]}" if fonts else svg


def words(svg: str) -> list[str]:
    """The text of each line of the picture, without what is spaces only."""
    texts = ("".join(node.itertext()) for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("}text"))
    return [text for text in texts if text.strip()]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
