"""Images that a script builds and runs, and the files of Compose that it names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpudoctor.lint.launchfiles.command_lists import followed_by
from gpudoctor.lint.launchfiles.compose_commands import compose_command
from gpudoctor.lint.launchfiles.docker_run import docker_run
from gpudoctor.lint.launchfiles.launch_file import LaunchFile
from gpudoctor.lint.launchfiles.launchers import launches_in
from gpudoctor.lint.launchfiles.placed_text import PlacedText
from gpudoctor.lint.launchfiles.shell import Script
from gpudoctor.lint.launchfiles.shell_words import ShellCommand, Word
from gpudoctor.lint.launchfiles.start import BuiltService, ProgramStart
from gpudoctor.lint.launchfiles.syntax import Syntax, options_of
from gpudoctor.record import replace

_BUILD = Syntax(
    frozenset({"no-cache", "pull", "quiet", "q", "load", "push", "rm", "force-rm"}), {"t": "tag", "f": "file"}
)


def run_images(commands: Iterable[ShellCommand]) -> Iterator[BuiltService]:
    """The images that these commands build, in the containers in which they run them."""
    dockerfiles: dict[str, str] = {}
    for command in commands:
        words = command.words[1:] if command.words[0].text == "sudo" else command.words
        verb = [word.text for word in words[:3]]
        if verb[:2] == ["docker", "run"]:
            yield from _run(words, dockerfiles)
        elif verb[:2] == ["docker", "build"] or verb == ["docker", "buildx", "build"]:
            options, following, _ = options_of(words[2 if verb[1] == "build" else 3 :], _BUILD)
            tag, file = (options[name].text if name in options else None for name in ("tag", "file"))
            context = following[0].text if following else None
            if tag is not None and context is not None:
                dockerfiles[tag] = file or f"{context}/Dockerfile"


def _run(words: Sequence[Word], dockerfiles: dict[str, str]) -> Iterator[BuiltService]:
    options, following, container, told = docker_run(words)
    image = following[0].text if following else None
    if image in dockerfiles and "entrypoint" not in options:
        given = tuple(replace(each, inside=()) for each in following[1:])
        command = (PlacedText("", []), ShellCommand(given, given[0].at, told)) if given else None
        yield BuiltService(dockerfiles[str(image)], container, told, command)


def in_image(file: LaunchFile, service: BuiltService) -> Iterator[ProgramStart]:
    """What an image starts in the container of a service, which may give it other words than its own."""
    text, command = service.command or (PlacedText("", []), None)
    first = file.whole if command is None else file.entry
    if first is not None:
        whole = followed_by(first, command) if command is not None else first
        whole = replace(whole, environment={**first.environment, **service.environment})
        yield from launches_in(Script((whole,), (), ()), text, {}, service.container)


def compose_stacks(commands: Iterable[ShellCommand]) -> Iterator[tuple[str, ...]]:
    """The files that commands of Docker Compose lay over each other, as they name them; none where they name none."""
    for command in commands:
        found = compose_command(command)
        if found is not None and None not in found.files and (found.files or found.does in ("up", "run")):
            yield tuple(map(str, found.files))
