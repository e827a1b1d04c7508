"""The last lines for people: which programs were not followed, why, and what would help.

A program that was followed to its end, with no rule standing back, is not mentioned.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from itertools import groupby

from gpudoctor.coverage import Cause, Coverage, Followed, Silence
from gpudoctor.diagnostic import Problem
from gpudoctor.record import dataclass

MOST_LINES = 5
"""Causes that are told one by one: a project has many programs, and one reads like the other."""

_RUN = "`gpudoctor run {}` watches the training itself"
_REMEDIES = {
    Cause.LIMIT: f"{_RUN}, however long it takes to come there",
    Cause.ENDED: f"options were followed at their defaults; {_RUN}, with the options that you give",
    Cause.UNKNOWN_MODEL: f"{_RUN}, whichever model it is",
    Cause.UNREAD: f"{_RUN}, other people's code included",
    Cause.NOT_CALLED: f"if another script starts the training, name that one; {_RUN}",
    Cause.FRAMEWORK: f"{_RUN}, whichever code runs it",
    Cause.NO_ENTRY: "",
}
_OTHER = "if a program elsewhere starts the training, name that one"
_MEND = "fix that first: what comes after it was not looked at"
_CHOSEN = f"{_RUN}, with the settings that you give"
_ORDER = (
    Cause.LIMIT,
    Cause.ENDED,
    Cause.NOT_CALLED,
    Cause.NO_ENTRY,
    Cause.FRAMEWORK,
    Cause.UNKNOWN_MODEL,
    Cause.UNREAD,
)


def silence(programs: Sequence[Coverage], all_of_them: bool = False) -> list[str]:
    """What is to be said of programs that were not followed, or not by all rules; under each, what would help."""
    told = [[each] for each in _told(programs)] if all_of_them else _together(_told(programs))
    if all_of_them or len(told) <= MOST_LINES:
        shown, left = told, []
    else:
        # What the last line counts as not followed is named before what was, if with fewer rules.
        cut = _cut(programs)
        kept = sorted(told, key=lambda alike: alike[0].path not in cut)[: MOST_LINES - 1]
        shown = [alike for alike in told if alike in kept]
        left = [each for alike in told if alike not in kept for each in alike]
    scripts = {each.path for each in programs if each.world and each.path.endswith(".py")}
    lines: list[str] = []
    for remedy, alike in groupby(shown, key=lambda each: _remedy(each[0].path, each[0].silence, scripts)):
        group = list(alike)
        lines += (_line(each) for each in group)
        if remedy:
            one = len(group) == 1
            name = shlex.quote(group[0][0].path) if one else "SCRIPT"
            lines.append(f"  help{'' if one else f' for these {len(group)}'}: {remedy.format(name)}")
    if left:
        lines.append(f"{len(left)} more program{'s' if len(left) > 1 else ''} likewise; `--verbose` names all")
    return lines


def started_apart(programs: Iterable[Coverage], all_of_them: bool = False) -> list[str]:
    """The programs of which launch files disagree how many processes there are, and what each of them makes."""
    ways: dict[str, dict[str, None]] = {}
    for each in programs:
        if each.started and each.world and each.weight >= 0:
            ways.setdefault(each.path, {})[each.started] = None
    lines = [
        f"{path}: {', '.join(told)}: followed in each of these ways, and findings say in which they happen"
        for path, told in ways.items()
        if len(told) > 1
    ]
    return lines if all_of_them else lines[:MOST_LINES]


def _remedy(path: str, silence: Silence, scripts: set[str]) -> str:
    """What would help, with room for the name of the script; empty where nobody could do anything."""
    # The options make no difference to it.
    if silence.cause is Cause.ENDED and silence.about:
        return _MEND
    if path in scripts:
        chosen = silence.cause is Cause.UNREAD and silence.missed and silence.about
        return _CHOSEN if chosen else _REMEDIES[silence.cause]
    # What starts nothing cannot be run, and what does not train need not be.
    return _OTHER if silence.missed and silence.cause is Cause.NO_ENTRY else ""


def note(programs: Sequence[Coverage]) -> Problem | None:
    """The same for services that show one note: all of it at the first program that it is about."""
    lines = silence(programs)
    return Problem(_told(programs)[0].path, "\n".join(line.strip() for line in lines)) if lines else None


def missed(programs: Sequence[Coverage]) -> bool:
    """Some training was not reached, or some program not followed to its end."""
    return not_followed(programs) > 0


def held_back(programs: Sequence[Coverage]) -> bool:
    """In some program that was followed to its end, rules were not checked."""
    cut = _cut(programs)
    return any(each.path not in cut for each in _told(programs))


def _is_uncalled(file: Coverage) -> bool:
    return not file.world and any(each.missed for each in file.silent_for)


def not_followed(programs: Sequence[Coverage]) -> int:
    """How many programs were not followed to their end or to their training, in no world, and how many other files
    train in what no program calls."""
    return len(_cut(programs))


def _cut(programs: Sequence[Coverage]) -> set[str]:
    paths = {each.path: False for each in programs if each.world or _is_uncalled(each)}
    for each in programs:
        cut = any(silence.cause is Cause.LIMIT for silence in each.silent_for)
        if each.world and each.followed is not Followed.NOT and not cut:
            paths[each.path] = True
    return {path for path, followed in paths.items() if not followed}


@dataclass(frozen=True)
class _Silenced:
    """The silence that weighs most in a program; `besides` counts the rules that others keep from judging it."""

    path: str
    silence: Silence
    besides: int


def _told(programs: Iterable[Coverage]) -> list[_Silenced]:
    """Each program once, by what weighs most: programs for several processes first, then the others that train, and
    among them those that were not reached."""
    first: dict[str, _Silenced] = {}
    weights: dict[str, int] = {}
    for program in programs:
        weights[program.path] = max(program.weight, weights.get(program.path, 0))
        worth = [each for each in program.silent_for if _is_told(each, program)]
        if worth and program.path not in first:
            main = min(worth, key=_rank)
            besides = {code for each in worth for code in each.rules}.difference(main.rules)
            first[program.path] = _Silenced(program.path, main, len(besides))
    return sorted(first.values(), key=lambda each: (-weights[each.path], *_rank(each.silence)))


def _rank(silence: Silence) -> tuple[bool, int]:
    return not silence.missed, _ORDER.index(silence.cause)


def _is_told(silence: Silence, program: Coverage) -> bool:
    if program.weight < 0:
        return False
    # That a file of helpers starts nothing, or hands something on, is no news where it trains nothing, either.
    if silence.cause is Cause.NO_ENTRY:
        return silence.missed or bool(program.world)
    # Nor what a framework does in a program that trains nothing, such as one that draws samples.
    if silence.cause is Cause.FRAMEWORK:
        return silence.missed or bool(program.world and program.trains_at)
    return silence.cause is not Cause.UNREAD or silence.missed or bool(program.world and program.trains_at)


def _together(told: Iterable[_Silenced]) -> list[list[_Silenced]]:
    """Programs that have the same cause in common."""
    groups: dict[object, list[_Silenced]] = {}
    for program in told:
        each = program.silence
        # Where a framework is called says less than which one it is, and each program has a loop of its own.
        alike = each.cause in (Cause.FRAMEWORK, Cause.NO_ENTRY, Cause.UNREAD, Cause.UNKNOWN_MODEL)
        what = each.about if each.cause in (Cause.NO_ENTRY, Cause.UNKNOWN_MODEL) else each.what
        key = (each.cause, each.missed, what, None if alike else each.at)
        groups.setdefault(key, []).append(program)
    return list(groups.values())


def _line(alike: Sequence[_Silenced]) -> str:
    path = alike[0].path
    who = path if len(alike) == 1 else f"{path} and {len(alike) - 1} more"
    one = f"{who}: {alike[0].silence.told_in(path)}"
    return f"{one}: {_count(alike)}" if any(each.silence.rules for each in alike) else one


def _count(alike: Sequence[_Silenced]) -> str:
    counts = sorted({len(each.silence.rules) for each in alike})
    most = counts[-1]
    rules = f"{most} rule{'' if most == 1 else 's'} {'was' if most == 1 else 'were'} not checked"
    besides = max(each.besides for each in alike)
    others = f", and {besides} more for other reasons" if besides else ""
    return f"{rules if len(counts) == 1 else f'up to {rules}'}{others}"
