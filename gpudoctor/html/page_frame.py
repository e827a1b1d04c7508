"""The frame of a page: what its templates can do, and that whatever they show stays text."""

from __future__ import annotations

from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from gpudoctor.html import figures


def environment(package: str) -> Environment:
    """For the templates of `package`, which find those of this package, too: `frame.html.j2`, `parts.html.j2`."""
    found = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("gpudoctor.html")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_cleaned,
    )
    found.filters.update(
        ticked=ticked,
        number=figures.number,
        percent=figures.percent,
        size=figures.size,
        duration=figures.duration,
        moment=figures.moment,
    )
    return found


def ticked(text: str) -> Markup:
    """Text in which what stands between backticks is code."""
    parts = [escape(part) for part in figures.clean(text).split("`")]
    if len(parts) % 2 == 0:
        return Markup("`").join(parts)
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


def _cleaned(shown: Any) -> Any:
    """Names come from drivers, variables and files: what must not be seen goes before it is escaped."""
    return figures.clean(shown) if isinstance(shown, str) and not isinstance(shown, Markup) else shown
