"""Where the pages of the rules are to be read: the one place that knows the address of the documentation's site."""

from __future__ import annotations

ADDRESS = ""
"""Such as `https://example.org/gpudoctor`; empty as long as the site is built and not published."""


def address_of(code: str, name: str) -> str:
    """The page of a rule that comes with gpudoctor; empty for others, and while the site has no address."""
    return f"{ADDRESS.rstrip('/')}/rules/{name}/" if ADDRESS and code.startswith("GPU") else ""


def read_more(code: str, name: str) -> str:
    """Where to read on about a rule: an address, or the command that shows the same page."""
    return address_of(code, name) or f"gpudoctor explain {code}"
