"""What is known after a run: what was seen, and what became of what lint suspected. Reports for people and machines
are made of it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from gpudoctor.diagnostic import Finding, Location, Severity
from gpudoctor.logs.error_texts import meaning_by_kind, meaning_of
from gpudoctor.logs.error_texts.collective_prints import unlike_calls
from gpudoctor.logs.error_texts.error_text import FailureRole
from gpudoctor.record import dataclass
from gpudoctor.run.going_on import gone_on
from gpudoctor.run.hang_verdict import verdict_of
from gpudoctor.run.recording import Process, Recording, Waiting
from gpudoctor.run.recording.process_ends import Crash
from gpudoctor.run.untried import untried

_REFUSED = 2
"""The exit code with which argparse, and Python itself, refuse how they were started."""
_OF_SIGNALS = 128
"""From here on an exit code stands for a signal."""
CONFIRMED, CLEARED, NOT_REACHED = "confirmed", "cleared", "not reached"


@dataclass(frozen=True)
class Suspicion:
    """A finding of lint, and what the run says of it: confirmed, cleared, or not reached."""

    finding: Finding
    state: str


@dataclass(frozen=True)
class Watched:
    """All that is known after a run. `lines` gives the lines around a place; `error_untold` says that it ended with an
    error, and that what was found is of rules that know of none."""

    recording: Recording
    found: tuple[Finding, ...]
    suspicions: tuple[Suspicion, ...]
    lines: Callable[[Location], Sequence[str]]
    linted: bool
    error_untold: bool = False

    @property
    def unexplained(self) -> str:
        """What no rule knows of its end, or of weights that drift apart."""
        confirmed = any(each.state == CONFIRMED for each in self.suspicions)
        slow = all(each.severity is Severity.PERF for each in self.found)
        return unexplained(self.recording, confirmed=confirmed) or (_drifted(self.recording) if slow else "")


def what_ran(recording: Recording) -> str:
    """Who trained, how much, and how it ended, as a sentence."""
    ranks = len(recording.ranks)
    if not ranks:
        return f"No process of this command trained with PyTorch: no optimizer stepped; {_ending(recording)}."
    backend = recording.ranks[0].backend
    over = f" ({backend})" if backend else ""
    who = (
        f"{ranks} rank{'' if ranks == 1 else 's'}{over}"
        if ranks > 1 or backend
        else "one process without a process group"
    )
    if recording.others_elsewhere:
        who = f"{ranks} of {recording.ranks[0].world} ranks{over}, those of this node,"
    steps = max(each.made for each in recording.ranks)
    on = " on virtual GPUs" if recording.virtual else ""
    told = f"{who}{on} made {steps} step{'' if steps == 1 else 's'} in {recording.seconds:.1f} s; {_ending(recording)}."
    if recording.virtual:
        told += " Speed and memory were not looked at."
    if recording.runs_eagerly:
        told += " Nothing was compiled: what `torch.compile` is given runs eagerly here."
    if recording.skipped_kernels:
        names = ", ".join(f"`{each}`" for each in recording.skipped_kernels)
        told += f" A stand-in took the place of {names} and computes nothing: losses and weights are not the real ones."
    return told


def _ending(recording: Recording) -> str:
    if recording.status is None:
        return "the job was ended by gpudoctor"
    return "exit code 0" if recording.status == 0 else f"the script failed with exit code {recording.status}"


def hangs_untold(watched: Watched) -> bool:
    """The ranks did not advance, and no finding is about a line where one of them stood, or names where all of them
    did: others only lead there."""
    stood = {_line_of(each.place) for each in watched.recording.hang if each.place is not None}
    told = any(
        _line_of(each.location) in stood or stood <= {_line_of(one.location) for one in each.related}
        for each in watched.found
    )
    return bool(watched.recording.hang) and not (stood and told)


def _line_of(place: Location) -> tuple[str, int]:
    return os.path.realpath(place.path), place.line


def unexplained(recording: Recording, *, confirmed: bool = False) -> str:
    """A hang or an error that no rule knows: where, and that we have nothing to add to it; empty without one.
    `confirmed`: it is what lint has suspected."""
    if (verdict := verdict_of(recording.hang)) is not None:
        return " ".join(
            [*map(where, recording.hang), f"The ranks did not advance, and no rule knows why. {verdict.text}"]
        )
    if (end := untried(recording)) is not None:
        return end.text
    first = first_crash(recording)
    if first is None:
        # Of who was ended so the others may know nothing yet when their launcher ends them.
        native = " ".join(_by_native_code(recording)) if recording.status else ""
        return native or _ended_itself(recording)
    process, crash = first
    alone = "A process that the script started" if crash.of_child else "The script"
    who = f"Rank {process.rank}" if process.rank is not None else alone
    at = f" at {crash.place.path}:{crash.place.line}" if crash.place else ""
    text = f"{crash.type}: {crash.text}"
    known = meaning_of(text)
    meaning = known or meaning_by_kind(text)
    told = f"{meaning.means} {meaning.do}".rstrip() if meaning else ""
    if known is None and not confirmed:
        told = f"No rule knows this error. {told}".rstrip()
    if (unlike := unlike_calls(each.text for _, each in recording.crashes())) is not None:
        return f"The {unlike.text}. {_places_of_calls(recording)} {meaning.do if meaning else ''}".rstrip()
    if meaning is not None and meaning.role is FailureRole.WAIT and (gone := _gone(recording)):
        told = f"{meaning.means} {gone}"
    if crash.lost_connection and (gone := _gone(recording)):
        told = gone
    return f"{who} ended with {crash.summary}{at}. {told}"


def _places_of_calls(recording: Recording) -> str:
    """Where the calls stand in which the ranks ended, as a sentence."""
    found = [(each.rank, crash.place) for each, crash in recording.crashes() if each.rank is not None]
    told = [f"rank {rank} at {place.path}:{place.line}" for rank, place in sorted(found) if place is not None]
    return f"They made these calls here: {', '.join(told)}." if told else ""


def _ended_itself(recording: Recording) -> str:
    """Of ranks that came to their end before the first step, and raised nothing: they have printed why, and left."""
    if not recording.status or not 0 < recording.status < _OF_SIGNALS or any(each.made for each in recording.ranks):
        return ""
    left = [each.rank for each in recording.ranks if each.over and each.rank is not None]
    if recording.ranks and not left:
        return ""
    who = recording.named(left) if left else "The program"
    told = f"{who} ended before the first step, and raised no error that was seen"
    if recording.ranks or recording.status == _REFUSED:
        return (
            f"{told}: a program ends so where it refuses an option, or lacks one. It has said above which; its own "
            "options stand after its name, those of gpudoctor before it."
        )
    return f"{told}: it ended itself, and has said why above."


def _drifted(recording: Recording) -> str:
    drift = recording.drift
    if drift is None or not any(rank.wraps for rank in recording.ranks):
        return ""
    # Ranks that divide the model, or average it themselves now and then, may differ in between.
    if recording.averages_by_hand or any(rank.cut_up for rank in recording.ranks):
        return ""
    at = f" ({drift.place.path}:{drift.place.line})" if drift.place else ""
    return (
        f"After step {drift.step} the ranks held different values in parameter {drift.name}{at}, though the model is "
        "wrapped; what lint says of the code may tell why. Weights that were loaded or changed on some ranks only end "
        "so, and parameters that the wrapper does not average."
    )


def shown_by_the_end(
    findings: Sequence[Finding], errors_of: Callable[[str], Iterable[str]], recording: Recording
) -> frozenset[Finding]:
    """The findings whose rules predict the error with which the job ended; `errors_of` gives those of a code.

    Of several, those that name a line which it came through; where none does, the only one that predicts it, if the
    error is known to mean something.
    """
    first = first_crash(recording)
    if first is None or untried(recording) is not None:
        return frozenset()
    text = f"{first[1].type}: {first[1].text}"
    meaning = meaning_of(text)

    def predicted(code: str) -> bool:
        if meaning is None:
            return any(_without_names(each) == _without_names(text) for each in errors_of(code))
        usual = code == meaning.code or code in meaning.likely
        return usual or any(meaning_of(each) is meaning for each in errors_of(code))

    candidates = [each for each in findings if predicted(each.code)]
    on_its_way = [each for each in candidates if _named_by(each, first[1])]
    alone = meaning is not None and len({each.code for each in candidates}) == 1
    return frozenset(on_its_way or (candidates if alone else ()))


def _without_names(text: str) -> str:
    """An error's text, whatever it names."""
    return re.sub(r"'[^']*'", "''", text)


def _named_by(finding: Finding, crash: Crash) -> bool:
    named = [finding.location, *(each.location for each in finding.related)]
    return any(_covers(place, frame.location) for place in named for frame in crash.frames if frame.own)


def first_crash(recording: Recording) -> tuple[Process, Crash] | None:
    """The error that ended the job; whose peer had gone was not the first."""
    crashes = (each for each in recording.crashes() if recording.status or (recording.status == 0 and each[1].of_child))
    return min(crashes, key=lambda each: (each[1].lost_connection, each[1].at), default=None)


def _covers(place: Location, line: Location) -> bool:
    within = place.line <= line.line <= max(place.line, place.end_line)
    return within and os.path.realpath(place.path) == os.path.realpath(line.path)


def _gone(recording: Recording) -> str:
    """Ranks that others missed, and how they had ended; empty where none is known."""
    silent = [each for each in recording.ranks if each.crash is None]
    left = {each.rank: each.left for each in silent if each.left is not None and each.rank is not None}
    over = [each.rank for each in silent if each.over and each.rank is not None and each.rank not in left]
    dead = [each.rank for each in silent if not each.over and each.rank is not None and each.fatal is None]
    stopped = [each.rank for each in silent if each.rank in dead and each.terminated is not None]
    told = [f"{recording.named([rank])} had left by `sys.exit` at {at.path}:{at.line}." for rank, at in left.items()]
    told += [f"{recording.named(over)} had reached the end of its program."] if over else []
    if dead and recording.told_to_end is not None:
        went_on = {each.rank for each in gone_on(recording)}.issuperset(dead)
        how = "killed before, for it went on after SIGTERM" if went_on else "ended before, as SIGTERM told it to"
        told.append(f"{recording.named(dead)} had {'been ' if went_on else ''}{how}.")
    elif dead and dead == stopped:
        told.append(f"{recording.named(dead)} had been ended by SIGTERM, which launchers send when a rank has failed.")
    elif dead:
        how = (
            "killed from outside (`dmesg` shows whether memory ran out), by gloo, which met another collective, or by "
            "`os._exit`"
        )
        told.append(f"{recording.named(dead)} had ended before, without an exception: {how}.")
    return " ".join([*told, *_by_native_code(recording)])


def _by_native_code(recording: Recording) -> Iterator[str]:
    """Ranks that raised nothing, and were ended by a signal of their own."""
    for each in recording.ranks:
        rank, end = each.rank, each.fatal
        if each.crash is not None or rank is None or end is None:
            continue
        at = f" at {end.place.path}:{end.place.line}" if end.place else ""
        why = ": gloo does so where another rank calls another collective, or brings another size" if end.aborts else ""
        yield f"{recording.named([rank])} had been ended by native code ({end.signal}){at}{why}."


def where(each: Waiting) -> str:
    """Where a rank stood when the ranks did not advance, as a sentence."""
    at = f" at {each.place.path}:{each.place.line}" if each.place else ""
    inside = f" in `{each.function}`" if each.function not in ("", "<module>") else ""
    if each.told:
        return f"Rank {each.rank} {each.told}{at}{inside}."
    if each.asks_somebody:
        return f"Rank {each.rank} waits{at}{inside} for somebody to type: a debugger has stopped it."
    if each.at_its_end:
        return f"Rank {each.rank} has come to the end of its program, and a thread of it still runs."
    if each.collective is not None:
        return f"Rank {each.rank} waits in {each.collective.name} number {each.collective.number}{at}{inside}."
    if each.receives:
        return f"Rank {each.rank} waits for what another rank sends{at}{inside}."
    if each.waits:
        return f"Rank {each.rank} waits for other ranks{at}{inside}."
    if each.silence:
        last = f"; it is{at}{inside}, in a call that does not let Python go on" if each.place else ""
        asleep = f"; it sleeps in {each.kernel} of the kernel" if each.kernel else ""
        return f"Rank {each.rank} {each.silence}{last}{asleep}."
    does = "waits for the workers of its loader" if each.loads else "is"
    worker = f"; one of them is at {each.worker.path}:{each.worker.line}" if each.worker else ""
    return f"Rank {each.rank} {does}{at or ' outside of your code'}{inside}{worker}."


def faults(recording: Recording) -> str:
    """Our own errors while we watched, as a sentence; empty without one."""
    found = {*recording.faults, *(fault for each in recording.ranks for fault in each.faults)}
    return f"Not all could be seen, because of an error in gpudoctor: {'; '.join(sorted(found))}" if found else ""
