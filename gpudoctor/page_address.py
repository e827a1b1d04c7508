"""Where the page of a rule can be read. One setting: the site."""

from __future__ import annotations

SITE = ""
"""The address of the site with the pages; empty as long as there is none. Until then `gpudoctor explain` shows them."""


def page_address(name: str, site: str | None = None) -> str:
    """The address of the page of the rule with this name; empty where there is no site."""
    base = (SITE if site is None else site).rstrip("/")
    return f"{base}/rules/{name}/" if base else ""


def rule_address(code: str, name: str) -> str:
    """The same of a rule that may be of somebody else's pack, of which the site knows nothing."""
    return page_address(name) if code.startswith("GPU") else ""


def read_more(code: str, name: str) -> str:
    """Where to read on about a rule: an address, or the command that shows the same page."""
    return rule_address(code, name) or f"gpudoctor explain {code}"
