"""The page of a look at a machine's GPUs: what was assumed and seen, then all facts. Made without any library."""

import json
from collections.abc import Mapping
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark } body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto;
padding: 0 1rem } table { border-collapse: collapse; width: 100% } td, th { text-align: left; vertical-align: top;
padding: .3rem .6rem; border-bottom: 1px solid #8886; overflow-wrap: anywhere } pre { overflow-x: auto;
background: #8881; padding: .6rem } .bad { color: #c22; font-weight: 600 } .none { opacity: .7 }
"""
_CLASSES = {"does not hold": "bad", "not seen": "none"}


def page_of(document: Mapping[str, Any]) -> str:
    """One self-contained page of HTML."""
    survey = document["survey"]
    title = f"gpudoctor on {survey['names'][0] if survey['names'] else 'a machine without a GPU'}"
    rows = "".join(
        f'<tr><td class="{_CLASSES.get(each["state"], "")}">{escape(each["state"])}</td><td>{escape(each["says"])}</td>'
        f"<td>{escape(each['seen'])}</td><td>{escape(each['where'])}</td></tr>"
        for each in document["assumptions"]
    )
    parts = "".join(map(_part, document["parts"]))
    needs = "".join(f"<li>{escape(each)}</li>" for each in survey["missing"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style><h1>{escape(title)}</h1>"
        f"<p>{escape(document['summary'])}</p>"
        f"<ul>{needs}</ul><h2>Assumed and seen</h2>"
        f"<table><tr><th>State<th>Assumption<th>Seen<th>Where</tr>{rows}</table>"
        f"{parts}</html>\n"
    )


def _part(part: Mapping[str, Any]) -> str:
    facts = "".join(
        f"<h3>{escape(name)}</h3><pre>{escape(json.dumps(each, indent=1)[:6000])}</pre>"
        for name, each in part["facts"].items()
    )
    return f"<h2>{escape(part['name'])}</h2><p>{escape(part['asks'])}: {escape(part['ended'])}</p>{facts}"
