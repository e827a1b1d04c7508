"""Errors that rules declare as the end of their mistake: for texts that no record of `error_texts` explains.

Many of them have other causes, too, so that a rule found here is a possibility and no more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpudoctor.registry import find_rules, load
from gpudoctor.rule import RuleCard

_FREE = re.compile(r"'[^']*'|\"[^\"]*\"|<[^>]*>?|/\S+|\d+(?:\.\d+)*")
"""What differs between programs: names, objects, paths and numbers."""
_ENOUGH = 160
"""Letters of a text that are compared: what follows often is advice."""
_MOST = 3


def rules_that_declare(text: str, known: Sequence[str] = ()) -> tuple[RuleCard, ...]:
    """The rules whose mistake may end with this error, but for the codes that are `known`; none where it is the end of
    too many."""
    found = [card for card in find_rules().cards if any(_pattern(each).search(text) for each in load(card).errors)]
    return tuple(card for card in found if card.code not in known) if len(found) <= _MOST else ()


def _pattern(declared: str) -> re.Pattern[str]:
    words = _FREE.split(declared[:_ENOUGH])
    return re.compile(r".{1,200}?".join(map(re.escape, words)))
