"""A drawing of matplotlib as inline SVG that follows the page: its font, its colours, light or dark."""

from __future__ import annotations

import contextlib
import io
import logging
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from gpudoctor.html.figures import clean
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Each stands for a variable of the page's style sheet, which a drawing cannot name itself.
INK, FAINT, PAPER = "#00fe01", "#00fe02", "#00fe03"
SERIES = ("#00fe11", "#00fe12", "#00fe13", "#00fe14", "#00fe15")
_VARIABLES = {
    INK: "var(--ink)",
    FAINT: "var(--faint)",
    PAPER: "var(--paper)",
    **{colour: f"var(--series-{number})" for number, colour in enumerate(SERIES, start=1)},
}
MARKERS = ("o", "s", "^", "D", "v")
DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))
"""Lines differ in their marks and dashes as well, for those who do not see the colours."""

WIDTH = 336
"""Units of a drawing, which are pixels on a phone: no wider than a small screen, so that text keeps its size."""
TEXT = 14
_SETTINGS = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    # Which it measures text by; the page then sets its own.
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": TEXT,
    "axes.titlesize": TEXT,
    "axes.labelsize": TEXT,
    "xtick.labelsize": TEXT,
    "ytick.labelsize": TEXT,
    "legend.fontsize": TEXT,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.alpha": 0.4,
    "legend.frameon": False,
    "lines.linewidth": 2,
    "lines.markersize": 7,
}
_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"#([\w-]+)")


@dataclass(frozen=True)
class Chart:
    """A drawing with its heading. `told` says in words what it shows."""

    title: str
    svg: str
    told: str


@contextlib.contextmanager
def canvas(height: int) -> Iterator[Figure]:
    """An empty drawing of that height, made with our settings whatever the user's own say."""
    # When it is loaded for the first time it builds a cache, of which it would tell on standard error.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield Figure(figsize=(WIDTH / 72, height / 72), dpi=72, layout="constrained")


def as_svg(figure: Figure, key: str, told: str) -> str:
    """The drawing as an element of the page. `key` is its own on the page, `told` what is read out instead of it."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": key}):
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True)
    root = ElementTree.fromstring(buffer.getvalue())
    _tidy(root, key)
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": clean(told)}
    text = ElementTree.tostring(root, encoding="unicode")
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, variable)
    return text


def _tidy(root: ElementTree.Element, key: str) -> None:
    """Drop what would reach out of the drawing: names, styles for the whole page, addresses of vocabularies."""
    wanted = {
        name for element in root.iter() for value in element.attrib.values() for name in _REFERENCE.findall(value)
    }
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{_SVG}metadata", f"{_SVG}style"):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        _rename(element, wanted, key)


def _rename(element: ElementTree.Element, wanted: set[str], key: str) -> None:
    """Names that are referred to, made the drawing's own; the others would stand on the page several times."""
    name = element.attrib.pop("id", "")
    if name in wanted:
        element.attrib["id"] = f"{key}-{name}"
    if target := element.attrib.pop(_XLINK, ""):
        element.attrib["href"] = f"#{key}-{target[1:]}"
    for attribute in ("clip-path", "style"):
        if "url(#" in element.attrib.get(attribute, ""):
            element.attrib[attribute] = element.attrib[attribute].replace("url(#", f"url(#{key}-")


def label(name: str) -> str:
    """A name as a drawing can hold it: XML knows no control characters."""
    return clean(name).replace("\n", " ")
