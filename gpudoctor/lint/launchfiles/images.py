"""Images that a script builds and runs: what their Dockerfile says is started in the container that it makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpudoctor.lint.launchfiles.launchers import Syntax, docker_run, options_of
from gpudoctor.lint.launchfiles.start import BuiltService

if TYPE_CHECKING:
    from gpudoctor.lint.launchfiles.shell_words import ShellCommand, Word

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
    _, following, container, told = docker_run(words)
    image, *given = [word.text for word in following] or [None]
    # Words that begin with a dash go to what the image runs; others run in its place.
    if image in dockerfiles and (not given or (given[0] or "").startswith("-")):
        yield BuiltService(dockerfiles[str(image)], container, told)
