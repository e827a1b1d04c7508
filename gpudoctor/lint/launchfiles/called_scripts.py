"""Scripts that launch files source and call: what they set and start there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpudoctor.lint.launchfiles.launch_file import LaunchFile
from gpudoctor.lint.launchfiles.launchers import directives_of, launches_in, runs_on_each, told_by_slurm
from gpudoctor.lint.launchfiles.placed_text import PlacedText
from gpudoctor.lint.launchfiles.reading import found_from, known_commands, names_of, read_launch_file
from gpudoctor.lint.launchfiles.shell import Scripts, read_script
from gpudoctor.lint.launchfiles.shell_words import Word, filled_in_before
from gpudoctor.lint.launchfiles.start import ProgramStart, StartedBy
from gpudoctor.lint.launchfiles.task_tables import console_scripts
from gpudoctor.lint.launchfiles.variable_files import variables_of
from gpudoctor.lint.source.file import SourceFile, Sources
from gpudoctor.lint.source.launch_names import SHELL, launch_kind
from gpudoctor.record import replace

_MAX_DEPTH = 3
"""Scripts that call each other are followed so deep."""


class CalledScripts:
    """The scripts of a request that others source or call."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._opened: dict[str, SourceFile] = {}
        self._console: dict[str, Mapping[str, str]] = {}

    def read(self, path: str, source: SourceFile) -> LaunchFile:
        """A launch file, with what the scripts that it sources and calls say."""
        beside = LaunchFile(path, source.shown, "")
        console = self.console_of(beside)
        file = read_launch_file(path, source.shown, source.commands, self.beside(beside), console)
        launches = [each for launch in file.launches for each in self.followed(file, launch)]
        written = source.cells.written if source.cells is not None else ()
        return replace(file, launches=tuple(launches), writes=frozenset(each.name for each in written))

    def followed(self, file: LaunchFile, launch: ProgramStart) -> Iterator[ProgramStart]:
        """What a start comes to: what a script starts, and with what files of variables and of hosts say."""
        for name in launch.container.told_in if launch.container is not None else ():
            text = self._text(file, name, launch.folder)
            outside = dict(variables_of(text)) if text is not None else {}
            launch = replace(launch, environment={**outside, **launch.environment})
        if launch.launcher is StartedBy.SCRIPT:
            yield from self._called(file, launch, 0)
        else:
            yield self._on_hosts(file, launch)

    def _on_hosts(self, file: LaunchFile, launch: ProgramStart) -> ProgramStart:
        mpi = launch.started_by("mpirun")
        option = launch.option("hostfile") or (mpi.options.get("hostfile") if mpi is not None else None)
        text = self._text(file, option.value, launch.folder) if option is not None and option.value else None
        return replace(launch, hosts=tuple(_slots(text.text))) if text is not None else launch

    def console_of(self, file: LaunchFile) -> Mapping[str, str]:
        """The commands that the project of a file installs, with the modules that they start."""
        path = found_from(file, "pyproject.toml")
        if path is None:
            return {}
        if path not in self._console:
            source = self._sources.read(path, late=True)
            text = source.text if isinstance(source, SourceFile) else ""
            self._console[path] = console_scripts(text) if "scripts]" in text else {}
        return self._console[path]

    def told_apart(self, files: Sequence[LaunchFile]) -> list[LaunchFile]:
        """The files, where a script that others call starts nothing by itself, with the scripts among them that were
        opened beside them."""
        called = {launch.at for file in files for launch in file.launches if launch.at.path != file.shown}
        found = [
            replace(
                file,
                launches=tuple(each for each in file.launches if each.at.path != file.shown or each.at not in called),
            )
            for file in files
        ]
        known = {file.path for file in files}
        return found + [
            replace(
                read_launch_file(path, source.shown, source.text),
                launches=(),
                settings=(),
                built=(),
                composes=(),
                services=None,
            )
            for path, source in self._opened.items()
            if path not in known
        ]

    def beside(self, file: LaunchFile) -> Scripts:
        """Other files, as one names them."""
        return lambda name, folder: self._text(file, name, folder)

    def _text(
        self, file: LaunchFile, name: Word, folder: str | None, only: str = "", *, contained: bool = False
    ) -> PlacedText | None:
        text = name.text
        if text is None:
            # It lies beside the script, from wherever it is started.
            text, folder = name.beside, ""
        names = names_of(file, text, contained=contained) if text and folder is not None else ()
        path = next((path for each in names if (path := found_from(file, each, folder)) is not None), None)
        source = self._sources.read(path, late=True) if path is not None and path != file.path else None
        if path is None or not isinstance(source, SourceFile):
            return None
        if only and launch_kind(path, source.text[:64].encode()) != only:
            return None
        self._opened[path] = source
        return PlacedText.whole(source.shown, source.text)

    def _called(self, file: LaunchFile, start: ProgramStart, depth: int) -> Iterator[ProgramStart]:
        """What a script starts that this one calls."""
        contained = start.container is not None
        text = self._text(file, start.script, start.folder, SHELL, contained=contained) if start.script else None
        if text is None or depth >= _MAX_DEPTH:
            return
        on_each = runs_on_each(start.starters)
        known = filled_in_before(start.environment) if on_each and not start.per_node else dict(start.environment)
        directives = start.directives
        if (start.word.text or "").endswith("sbatch"):
            # What is said on the command line counts more than what the batch file says.
            directives = {**directives_of(read_script(text), text), **directives}
            known = {**told_by_slurm(directives), **known}
        script = read_script(
            text,
            known,
            folder=start.folder,
            per_node=on_each,
            conditional=start.conditional,
            looped=start.looped,
            background=start.background,
            positional=None if any(word.open for word in start.arguments) else start.arguments,
            scripts=self.beside(file),
        )
        started = launches_in(script, text, directives, start.container, start.starters)
        for each in known_commands(started, self.console_of(file)):
            if each.launcher is StartedBy.SCRIPT:
                yield from self._called(file, each, depth + 1)
            else:
                yield self._on_hosts(file, each)


def _slots(text: str) -> Iterator[int]:
    """How many processes each line of a hostfile takes: `node-1 slots=8`."""
    for line in text.splitlines():
        host, *said = line.partition("#")[0].split()[:2] or [""]
        if host:
            count = said[0].partition("=")[2] if said else host.partition(":")[2]
            yield int(count) if count.isdecimal() else 1
