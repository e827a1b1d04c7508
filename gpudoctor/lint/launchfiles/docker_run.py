"""What `docker run` says of the container that it starts: its GPUs, its shared memory, its variables."""

from __future__ import annotations

from collections.abc import Sequence

from gpudoctor.diagnostic import Location
from gpudoctor.lint.launchfiles import command_options as known
from gpudoctor.lint.launchfiles.shell_words import Environment, ShellVariable, Word, bound_to, show_gpus
from gpudoctor.lint.launchfiles.start import Container, StartOptions
from gpudoctor.lint.launchfiles.syntax import options_of, values_of
from gpudoctor.record import replace


def docker_run(words: Sequence[Word]) -> tuple[StartOptions, tuple[Word, ...], Container, Environment]:
    """The options of `docker run`, the image and what follows it, and the container with what it is told."""
    options, following, closed = options_of(words[2:], known.DOCKER)
    told = variables_told(words[2:])
    shared, given = shared_memory(options), known.GIVES_GPUS & options.keys()
    plain = closed and words[0].shown.rpartition("/")[2] == "docker" and "NVIDIA_VISIBLE_DEVICES" not in told
    devices = options["gpus"].text if "gpus" in options else None
    chosen = (devices or "").strip("\"'").removeprefix("device=").strip("\"'")
    if chosen and "gpus" in options and all(each.isdecimal() for each in chosen.split(",")):
        count = int(chosen) if "device" not in (devices or "") else len(chosen.split(","))
        show_gpus(told, count, options["gpus"].at)
    container = Container(
        "`docker run`",
        span(words[0].at, words[1].at),
        shared if closed or shared else None,
        "`--ipc=host` or `--shm-size=8g`",
        gpus="given" if given else "" if plain else None,
        gpus_remedy="`--gpus all`",
        told_in=tuple(values_of(words[2:], ("--env-file",))),
    )
    return options, following, container, told


def variables_told(words: Sequence[Word]) -> dict[str, ShellVariable]:
    """What a container is told by `-e NAME=value`."""
    return {
        each.text.partition("=")[0]: bound_to(each.text.partition("=")[2], each.at)
        for each in values_of(words, ("-e", "--env"))
        if each.text is not None and "=" in each.text
    }


def shared_memory(options: StartOptions) -> str | None:
    for name in ("shm-size", "ipc"):
        option = options.get(name)
        if option is not None:
            return option.text if option.text else None
    volumes = [
        option.value.shown for name, option in options.items() if name in ("volume", "mount", "tmpfs") and option.value
    ]
    return "mounted" if any("/dev/shm" in each for each in volumes) else ""


def span(first: Location, last: Location) -> Location:
    return replace(first, end_line=last.end_line, end_column=last.end_column)
