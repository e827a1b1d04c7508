"""The services of Docker Compose, and what they start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpudoctor.diagnostic import Location
from gpudoctor.lint.launchfiles.documents import Document, documents
from gpudoctor.lint.launchfiles.launch_file import LaunchFile
from gpudoctor.lint.launchfiles.services import command_in, environment_of, started_in, texts_in
from gpudoctor.lint.launchfiles.shell import Scripts
from gpudoctor.lint.launchfiles.shell_words import ShellVariable, show_gpus
from gpudoctor.lint.launchfiles.start import BuiltService, Container
from gpudoctor.lint.launchfiles.variable_files import text_named, variables_named
from gpudoctor.record import dataclass, field, replace

_MAX_DEPTH = 4
"""Services that extend others, which extend others, are followed so deep."""


@dataclass(frozen=True)
class Service:
    """A service, with what it takes over from those that it extends."""

    name: str
    said: Document
    at: Location
    whole: bool
    """All that is said of it was found."""
    outside: Mapping[str, ShellVariable] = field(default_factory=dict)
    """What its files of variables say."""

    @property
    def variables(self) -> dict[str, ShellVariable]:
        """Its environment, with the GPUs that it is given."""
        variables = {**self.outside, **environment_of(self.said["environment"])}
        devices = self.said.at_path("deploy", "resources", "reservations", "devices")
        for each in devices.members() if devices is not None else ():
            count, chosen = each["count"], each["device_ids"]
            if count is not None and count.text is not None and count.text.isdecimal():
                show_gpus(variables, int(count.text), count.at)
            elif chosen is not None and chosen.members():
                show_gpus(variables, len(chosen.members()), chosen.at)
        return variables

    @property
    def container(self) -> Container:
        said = self.said
        shared = next((each for key in ("shm_size", "ipc") if (each := said[key]) is not None), None)
        mounted = [each for key in ("volumes", "tmpfs") for each in texts_in(said[key]) if "/dev/shm" in each]
        memory = (shared.text or "") if shared is not None else "mounted" if mounted else "" if self.whole else None
        devices = said.at_path("deploy", "resources", "reservations", "devices")
        given = devices is not None or any(
            said[key] is not None for key in ("gpus", "runtime", "devices", "privileged")
        )
        told = "NVIDIA_VISIBLE_DEVICES" in environment_of(said["environment"]) or said["env_file"] is not None
        return Container(
            f"the service `{self.name}`", self.at, memory, "`shm_size: 8gb` or `ipc: host`",
            gpus="given" if given else None if told or not self.whole else "", gpus_remedy="`gpus: all`",
        )  # fmt: skip

    @property
    def built(self) -> BuiltService | None:
        """What it runs of its image, where it is built of a Dockerfile."""
        build = self.said["build"]
        if build is None or self.said["entrypoint"] is not None:
            return None
        context, given = build.text or _text_of(build["context"]), _text_of(build["dockerfile"])
        dockerfile = f"{context or '.'}/{given or 'Dockerfile'}"
        command = command_in((self.said["command"],), self.variables)
        return BuiltService(dockerfile, self.container, self.variables, command)


def _document_named(name: str | None, others: Scripts | None, at: Location) -> Document | None:
    text = text_named(name, others, at)
    read = documents(text.text, text.path) if text is not None else []
    return read[0] if read else None


def _named_in(value: Document | None) -> Iterator[Document]:
    """The names of files: one, or a list of names and of mappings that have a `path`."""
    listed = [value, *value.members()] if value is not None else []
    return (found for each in listed if (found := each["path"] or each).text)


def included_in(root: Document) -> list[str]:
    """The files of Compose that a file takes in."""
    return [each.text or "" for each in _named_in(root["include"])]


def services_in(root: Document, others: Scripts | None = None) -> Iterator[Service]:
    """The services of a file, and of those that it includes. `others` gives files that it names."""
    for name in included_in(root):
        below = _document_named(name, others, root.at)
        if below is not None and below["include"] is None:
            yield from services_in(below, others)
    services = root["services"]
    for name, said in services.items() if services is not None else ():
        at = services.key_place(name) if services is not None else said.at
        extended, whole = _extended(said, root, others, 0)
        # Without an image it is meant to be laid over another one.
        whole = whole and (extended["image"] is not None or extended["build"] is not None)
        outside = variables_named(_named_in(extended["env_file"]), others)
        yield Service(name, extended, at, whole, outside)


def _extended(service: Document, root: Document, others: Scripts | None, depth: int) -> tuple[Document, bool]:
    """The service over the one that it extends, and whether that was found."""
    told = service["extends"]
    if told is None:
        return service, True
    file, name = _text_of(told["file"]), told.text or _text_of(told["service"])
    base = root if not file else _document_named(file, others, told.at)
    below = base.at_path("services", name) if base is not None else None
    if base is None or below is None or depth >= _MAX_DEPTH:
        return service, False
    # A file that it names may name others, seen from there; few do.
    found, whole = _extended(below, base, others, depth + 1)
    return service.over(found), whole


def _text_of(value: Document | None) -> str:
    return (value.text or "") if value is not None else ""


def with_services(file: LaunchFile, root: Document, others: Scripts | None = None) -> LaunchFile:
    """With what services start that say themselves what they run, and those that run what a Dockerfile says."""
    services = list(services_in(root, others))
    launches = [
        start
        for each in services
        for start in started_in(
            each.said["entrypoint"], each.said["command"], each.variables, each.container, each.said["working_dir"]
        )
    ]
    built = [built for each in services if (built := each.built) is not None]
    # What one file does not change about the other was seen with that alone.
    new = (each for each in launches if each not in file.launches)
    return replace(
        file, launches=(*file.launches, *new), built=(*file.built, *(each for each in built if each not in file.built))
    )
