"""All launch files of a request, as the rules about launching ask them."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from gpudoctor.diagnostic import Edit, Fix, Location, Safety
from gpudoctor.lint.events.program_facts import AsStarted, ProgramFacts
from gpudoctor.lint.launchfiles.launch_file import LaunchFile, SettingsFile
from gpudoctor.lint.launchfiles.reading import found_from, names_of
from gpudoctor.lint.launchfiles.shell_words import Hole, ShellVariable, Word
from gpudoctor.lint.launchfiles.start import BuiltService, ProgramStart, StartedBy, is_option
from gpudoctor.lint.source.launch_names import is_of_editor
from gpudoctor.record import dataclass, field, replace

T = TypeVar("T")


@dataclass(frozen=True)
class Launched:
    """The launch files of a request, and what is known of the programs that they start, by their paths."""

    files: tuple[LaunchFile, ...]
    facts: Mapping[str, ProgramFacts] = field(default_factory=dict)
    images: tuple[LaunchFile, ...] = ()
    """The Dockerfiles that copy something."""

    @property
    def launches(self) -> Iterator[tuple[LaunchFile, ProgramStart]]:
        """Each start of a program, with its file: that of an image in each container that is made of it."""
        built: dict[str | None, list[BuiltService]] = {}
        for file in self.files:
            for each in file.built:
                built.setdefault(found_from(file, each.dockerfile), []).append(each)
        for file in self.files:
            for launch in file.launches:
                services = built.get(file.path, ()) if launch.container is None else ()
                for service in services:
                    environment = {**launch.environment, **service.environment}
                    yield file, replace(launch, container=service.container, environment=environment)
                if not services:
                    yield file, launch

    def path_of(self, file: LaunchFile, launch: ProgramStart) -> str | None:
        """The program that is started, where its file is there."""
        name = launch.script.text if launch.script is not None else None
        if name is None:
            # `"$(dirname "$0")/train.py"`
            own = launch.script.beside if launch.script is not None and not launch.module else None
            return found_from(file, own) if own else None
        # From a folder that is not known, most start what is their own.
        folder = launch.folder or ""
        if launch.module:
            inside = name.replace(".", "/")
            names = [f"{inside}.py", f"{inside}/__main__.py", f"src/{inside}.py", f"src/{inside}/__main__.py"]
        else:
            names = list(names_of(file, name, contained=launch.container is not None))
        written = next((each for each in names if posixpath.normpath(each) in file.writes), None)
        if written is not None:
            # In paths, the notebook stands for the folder that it writes to.
            return os.path.join(
                file.path, os.path.normpath(os.path.basename(written) if written[0] == "/" else written)
            )
        found = next((path for each in names if (path := self._found_from(file, each, folder)) is not None), None)
        return found or self._in_image(file, posixpath.normpath(posixpath.join(folder, names[0])))

    def _in_image(self, file: LaunchFile, inside: str) -> str | None:
        """The file that lies under this name in an image, as a Dockerfile beside the launch file has put it there."""
        way = file.path, inside, "in an image"
        if inside[0] == "/" and way not in self._found:
            beside = (each for each in self.images if file.path.startswith(_around(each.path)))
            near = sorted(beside, key=lambda each: len(_around(each.path)), reverse=True)
            copied = (
                found_from(image, posixpath.join(source.lstrip("/"), inside[len(place) + 1 :]))
                for image in near
                for place, source in image.copied
                if f"{inside}/".startswith(f"{place}/")
            )
            self._found[way] = next(filter(None, copied), None)
        return self._found.get(way)

    def _found_from(self, file: LaunchFile, name: str, folder: str) -> str | None:
        """The same as the function: each rule asks for each start, and all of a folder look in the same folders."""
        way = os.path.dirname(file.path), name, folder
        if way not in self._found:
            self._found[way] = found_from(file, name, folder)
        return self._found[way]

    @cached_property
    def _found(self) -> dict[tuple[str, str, str], str | None]:
        return {}

    def program_of(self, file: LaunchFile, launch: ProgramStart) -> ProgramFacts | None:
        """What is known of the program that is started."""
        path = self.path_of(file, launch)
        return self.facts.get(path) if path is not None else None

    def settings_of(self, file: LaunchFile, name: str, of: str) -> tuple[LaunchFile, SettingsFile] | None:
        """The settings file that a launch names."""
        path = found_from(file, name)
        for other in self.files:
            if other.path == path:
                return next(((other, each) for each in other.settings if each.of == of), None)
        return None

    def is_training(self, file: LaunchFile, launch: ProgramStart) -> bool:
        """It starts a program that trains, as far as can be seen: where nothing is known of the program, a launcher of
        several processes does."""
        facts = self.program_of(file, launch)
        if facts is None:
            return launch.launcher is not StartedBy.PYTHON and launch.script is not None
        return facts.trains

    def tries_out(self, file: LaunchFile, launch: ProgramStart) -> bool:
        """It is for looking at a program: an editor's debugger starts it, or it starts one process of what another
        command trains in several."""
        if is_of_editor(file.path):
            return True
        path = self.path_of(file, launch)
        if path is None or _in_several(launch):
            return False
        return any(_in_several(other) and self.path_of(at, other) == path for at, other in self.launches)

    @property
    def started(self) -> dict[str, tuple[AsStarted, ...]]:
        """The ways in which the programs are started, by their paths."""
        found: dict[str, list[ProgramStart]] = {}
        configured: dict[int, Mapping[str, str]] = {}
        for file, launch in self.launches:
            path = self.path_of(file, launch)
            # What hands a function over is followed to there.
            if path is not None and not launch.of_function:
                found.setdefault(path, []).append(launch)
                configured[id(launch)] = self._configured(file, launch)
        return {path: _ways(starts, configured) for path, starts in found.items()}

    # --- settings of a launch ---

    def accelerate_settings(self, file: LaunchFile, launch: ProgramStart) -> SettingsFile | None:
        """The settings of `accelerate config` that a launch names."""
        config = launch.option("config-file")
        named = config.text if config is not None else None
        found = self.settings_of(file, named, "accelerate") if named is not None else None
        return found[1] if found is not None else None

    def engine_settings(self, file: LaunchFile, launch: ProgramStart) -> SettingsFile | None:
        """The DeepSpeed file that a launch hands over, itself or in its accelerate settings."""
        name, _ = engine_file_of(launch)
        above = self.accelerate_settings(file, launch)
        if name is None and above is not None:
            name = above.text(IN_ACCELERATE) or None
        found = self.settings_of(file, name, "deepspeed") if name is not None else None
        return found[1] if found is not None else None

    def _configured(self, file: LaunchFile, launch: ProgramStart) -> Mapping[str, str]:
        if launch.launcher is not StartedBy.ACCELERATE:
            return {}
        above, engine = self.accelerate_settings(file, launch), self.engine_settings(file, launch)
        found = {key: each.text for key, each in above.values.items()} if above is not None else {}
        found |= {name: option.text for key, name in _SAID.items() if (option := launch.option(key)) and option.text}
        if launch.option("use-deepspeed") is not None:
            found["distributed_type"] = "DEEPSPEED"
        if launch.option("use-fsdp") is not None:
            found["distributed_type"] = "FSDP"
        found |= {new: found[old] for old, new in _OF_ENGINE.items() if old in found}
        of_engine = {f"engine.{key}": each.text for key, each in engine.values.items()} if engine is not None else {}
        return found | of_engine | ({"engine": "a file"} if of_engine else {})

    # --- edits ---

    def _stands(self, at: Location, text: str) -> bool:
        """This text stands there, letter for letter."""
        return at.line == (at.end_line or at.line) and self._text(at) == text

    def _text(self, at: Location) -> str | None:
        file = next((each for each in self.files if each.shown == at.path), None)
        if file is None or not 0 < at.line <= len(file.lines):
            return None
        return file.lines[at.line - 1][at.column - 1 : at.end_column - 1]

    def _line(self, at: Location) -> str:
        file = next(each for each in self.files if each.shown == at.path)
        return file.lines[at.line - 1]

    def without_words(self, words: Iterable[Word], safety: Safety, title: str) -> Fix | None:
        """Leave words out, with the blanks behind them."""
        spans: list[Location] = []
        for word in words:
            if word.text is None or not self._stands(word.at, word.text):
                return None
            last = spans[-1] if spans else None
            # Neighbours go together.
            if last is not None and last.line == word.at.line and not self._between(last, word.at).strip(" \t"):
                spans[-1] = replace(last, end_column=word.at.end_column)
            else:
                spans.append(word.at)
        return Fix(safety, title, tuple(self._removal(span) for span in spans)) if spans else None

    def _between(self, one: Location, other: Location) -> str:
        return self._line(one)[one.end_column - 1 : other.column - 1]

    def _removal(self, at: Location) -> Edit:
        line, column, end = self._line(at), at.column, at.end_column
        before, after = line[: column - 1], line[end - 1 :]
        quoted = _quote_around(line, at)
        if quoted:
            before, after = before[:-1], after[1:]
        behind = after.strip(" \t,") if quoted else after.strip()
        if (before.strip() == "-" or (quoted and not before.strip())) and (not behind or behind.startswith("#")):
            # A list with a line for each word.
            return Edit(Location(at.path, at.line, 1, at.line + 1, 1), "")
        rest = after.lstrip(" \t")
        if rest.startswith(",") and before.rstrip(" \t").endswith(("[", ",")):
            after = rest[1:].lstrip(" \t")
        elif quoted and rest.startswith("]") and before.rstrip(" \t").endswith(","):
            before, after = before.rstrip(" \t")[:-1], rest
        elif rest and not rest.startswith("#"):
            after = rest
        else:
            # The last one of its line takes the blanks before it.
            before = before.rstrip(" \t")
        return Edit(Location(at.path, at.line, len(before) + 1, at.line, len(line) - len(after) + 1), "")

    def moved(self, words: Iterable[Word], before: Word, safety: Safety, title: str) -> Fix | None:
        """Take words from where they are to before another word."""
        listed = list(words)
        removed = self.without_words(listed, safety, title)
        start = self._text(before.at)
        # A part of the path may be the editor's to fill in.
        ends = start is not None and (before.text is None or start.endswith(before.text))
        if removed is None or start is None or not ends or not self._stands(before.at, start):
            return None
        return Fix(safety, title, (self._insertion(before.at, [str(word.text) for word in listed]), *removed.edits))

    def _insertion(self, at: Location, words: list[str]) -> Edit:
        """These words in front of what stands there, as items of their own where it is one of a list."""
        line, column = self._line(at), at.column
        quote = _quote_around(line, at)
        column -= len(quote)
        ahead = line[: column - 1]
        if ahead.strip() == "-":
            text, column = "".join(f"{ahead}{quote}{each}{quote}\n" for each in words), 1
        elif quote and not ahead.strip():
            text, column = "".join(f"{ahead}{quote}{each}{quote},\n" for each in words), 1
        else:
            text = "".join(f"{quote}{each}{quote}, " if quote else f"{each} " for each in words)
        return Edit(Location(at.path, at.line, column, at.line, column), text)

    def without_setting(self, name: str, bound: ShellVariable, title: str) -> Fix | None:
        """Take away what sets a variable: its line, or the part in front of a command."""
        at = bound.at
        text = self._text(at)
        if text is None or at.line != (at.end_line or at.line) or not text.startswith(f"{name}="):
            return None
        line = self._line(at)
        before, after = line[: at.column - 1], line[at.end_column - 1 :]
        alone = not after.strip(" ;") or after.strip(" ;").startswith("#")
        if before.strip() in ("", "export", "ENV", "-") and alone:
            return Fix(Safety.UNSAFE, title, (Edit(Location(at.path, at.line, 1, at.line + 1, 1), ""),))
        if before.strip() in ("export", "ENV") or after.strip().startswith(("#", "&&", ";", "|")):
            return None
        blanks = len(after) - len(after.lstrip(" \t"))
        place = Location(at.path, at.line, at.column, at.line, at.end_column + blanks)
        return Fix(Safety.UNSAFE, title, (Edit(place, ""),)) if after.strip() else None


def _around(dockerfile: str) -> str:
    """The project of a Dockerfile, which may lie in a folder of it."""
    return os.path.join(os.path.dirname(os.path.dirname(dockerfile)), "")


def _quote_around(line: str, at: Location) -> str:
    """The quotes of an item in a list of words: `["torchrun", "train.py"]`."""
    before, after = line[: at.column - 1][-1:], line[at.end_column - 1 :][:1]
    return before if before and before in "\"'" and before == after else ""


IN_ACCELERATE = "deepspeed_config.deepspeed_config_file"
"""Where the settings of accelerate name those of DeepSpeed."""
_NAMES_SETTINGS = ("--deepspeed_config", "--deepspeed", "--ds_config", "--deepspeed-config", "--deepspeed_config_file")
_SAID = {
    "mixed-precision": "mixed_precision",
    "zero-stage": "deepspeed_config.zero_stage",
    "gradient-accumulation-steps": "deepspeed_config.gradient_accumulation_steps",
    "gradient-clipping": "deepspeed_config.gradient_clipping",
}
"""Options of `accelerate launch`, and the settings that they stand for."""
_OF_ENGINE = {
    "deepspeed_config.zero_stage": "engine.zero_optimization.stage",
    "deepspeed_config.gradient_accumulation_steps": "engine.gradient_accumulation_steps",
    "deepspeed_config.gradient_clipping": "engine.gradient_clipping",
}


def engine_file_of(launch: ProgramStart) -> tuple[str | None, str]:
    """The DeepSpeed file that the program or its launcher is told, and the option that says so."""
    option = launch.option("deepspeed-config-file")
    if option is not None:
        return option.text, option.name
    for word, following in zip(launch.arguments, (*launch.arguments[1:], None), strict=False):
        for flag in _NAMES_SETTINGS:
            # `--deepspeed` also stands alone.
            if word.text == flag and following is not None and not is_option(following.text or ""):
                return following.text, flag
            if (value := word.after(f"{flag}=")) is not None:
                return value.text, flag
    return None, ""


def settings_named(launched: Launched, file: LaunchFile) -> Iterator[str]:
    """The settings files that the launches in a file name, by their paths."""
    for launch in file.launches:
        config, above = launch.option("config-file"), launched.accelerate_settings(file, launch)
        names = (config.text if config is not None else None, engine_file_of(launch)[0])
        for name in (*names, above.text(IN_ACCELERATE) if above is not None else None):
            path = found_from(file, name) if name else None
            if path is not None:
                yield path


MOST_WAYS = 3
"""In which one program is followed: each is an execution of its own."""


def _ways(starts: list[ProgramStart], configured: Mapping[int, Mapping[str, str]]) -> tuple[AsStarted, ...]:
    """The starts of a program by how many processes they make, those of several first."""
    groups: dict[tuple[bool, int | None, str], list[ProgramStart]] = {}
    for start in sorted(starts, key=_in_several, reverse=True):
        processes = _processes(start, configured[id(start)])
        groups.setdefault((_in_several(start), processes, start.tasks_of), []).append(start)
    several = [group for (together, *_), group in groups.items() if together]
    alone = [group for (together, *_), group in groups.items() if not together]
    kept = MOST_WAYS - len(alone)
    if len(several) > kept:
        several = [*several[: kept - 1], [start for group in several[kept - 1 :] for start in group]]
    ways = [*several, *alone]
    files = [{start.file for start in group} for group in ways]
    shared = {file for file in set[str]().union(*files) if sum(file in each for each in files) > 1}
    # Lines of a notebook are those of its cells.
    shared = {file for file in shared if not file.endswith(".ipynb")}
    of_one = _options_of(alone) - _options_of(several)
    return tuple(_agreed(group, shared, configured, of_one, differs=len(ways) > 1) for group in ways)


def _options_of(groups: list[list[ProgramStart]]) -> frozenset[str]:
    return frozenset(name for group in groups for start in group for name in start.given)


def _agreed(
    starts: list[ProgramStart], shared: set[str], configured: Mapping[int, Mapping[str, str]], of_one: frozenset[str],
    *, differs: bool,
) -> AsStarted:  # fmt: skip
    """What all of these starts of a program have in common. Of a file with other starts the line is named."""
    given = [each.given for each in starts]
    several = list(map(_in_several, starts))
    shown = {len(each.visible) if each.visible is not None else None for each in starts}
    counts, nodes = {_processes(each, configured[id(each)]) for each in starts}, set(map(_on_each_node, starts))
    return AsStarted(
        starts=tuple(dict.fromkeys(each.at.start if each.file in shared else each.file for each in starts)),
        several=all(several),
        alone=any(each.launcher is StartedBy.PYTHON for each in starts),
        given=_common(given),
        words=_same({_words_of(each) for each in starts}),
        configured=_common([configured[id(each)] for each in starts]),
        complete=not any(word.open for each in starts for word in each.arguments) and _alike(given),
        surely=all(map(_surely_in_several, starts)),
        processes=_same(counts),
        per_node=_same(nodes),
        for_each_gpu=all(map(_for_each_gpu, starts)),
        gpus=_same(shown),
        differs=differs,
        of_one=of_one,
        tasks_of=starts[0].tasks_of if all(several) and len({each.tasks_of for each in starts}) == 1 else "",
    )


def _same(found: set[T | None]) -> T | None:
    return next(iter(found)) if len(found) == 1 else None


def _words_of(start: ProgramStart) -> tuple[str, ...] | None:
    """All that the program is given, with what it is where nothing is set from outside."""
    words = start.arguments
    # `"$@"` at the end of a script that is given nothing itself.
    if words and words[-1].parts in ((Hole("@"),), (Hole("*"),)):
        words = words[:-1]
    texts = [text for each in words if (text := each.usual) is not None]
    return tuple(texts) if len(texts) == len(words) else None


def _alike(given: Sequence[Mapping[str, object]]) -> bool:
    return all(each.keys() == given[0].keys() for each in given)


def _common(given: Sequence[Mapping[str, T]]) -> dict[str, T]:
    return {name: value for name, value in given[0].items() if all(each.get(name) == value for each in given)}


def _processes(start: ProgramStart, configured: Mapping[str, str]) -> int | None:
    """How many there are on all machines; None for one, and where it is not known."""
    number = start.world_size
    if number is None and start.option("num-processes") is None:
        # What the settings of `accelerate launch` say is the number on all machines.
        said = configured.get("num_processes", "")
        number = int(said) if said.isdecimal() else None
    return number if _in_several(start) and number != 1 else None


def _on_each_node(start: ProgramStart) -> int | None:
    return start.tasks_per_node if start.launcher is StartedBy.PYTHON else start.processes


def _in_several(start: ProgramStart) -> bool:
    if start.launcher is StartedBy.PYTHON:
        return start.started_by("srun", "mpirun") is not None and start.world_size != 1
    return start.processes is None or start.processes > 1


def _for_each_gpu(start: ProgramStart) -> bool:
    """It makes one process for each GPU of a single machine."""
    option = start.option("nproc-per-node")
    shown = start.visible is not None and start.processes == len(start.visible)
    return start.nodes == 1 and (shown or (option is not None and option.counts_gpus))


def _surely_in_several(start: ProgramStart) -> bool:
    """It is known to make more than one process, or one for each GPU."""
    option = start.option("nproc-per-node")
    number = start.processes
    return (number is not None and number > 1) or (option is not None and option.counts_gpus)
