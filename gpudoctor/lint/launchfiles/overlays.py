"""Files of Docker Compose that are laid over each other, and images that are run with other words than their own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from gpudoctor.lint.launchfiles.called_scripts import CalledScripts
from gpudoctor.lint.launchfiles.compose import included_in, services_in, with_services
from gpudoctor.lint.launchfiles.documents import Document
from gpudoctor.lint.launchfiles.images import in_image
from gpudoctor.lint.launchfiles.launch_file import LaunchFile
from gpudoctor.lint.launchfiles.reading import found_from, known_commands
from gpudoctor.lint.launchfiles.start import BuiltService, ProgramStart
from gpudoctor.record import replace

_BY_DEFAULT = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")


def put_together(files: Sequence[LaunchFile], called: CalledScripts) -> list[LaunchFile]:
    """The files, where services are read with what other files say of them: those that are laid over theirs, and those
    that they extend; and where images are run with other words than their own."""
    compose = {file.path: file for file in files if file.services is not None}
    files = _with_overlays(files, compose, called)
    files = [_with_images(file, files, called) if file.built else file for file in files]
    files = _with_services(files, compose, called)
    return [replace(file, launches=tuple(known_commands(file.launches, called.console_of(file)))) for file in files]


def _with_overlays(
    files: Sequence[LaunchFile], compose: dict[str, LaunchFile], called: CalledScripts
) -> list[LaunchFile]:
    """With the services of files that are laid over each other, at the lowest of them."""
    stacks = list(dict.fromkeys(_stacks(files, compose)))
    inside = {path for stack in stacks for path in stack}
    for file in compose.values():
        inside |= {found_from(file, name) or "" for name in (included_in(file.services) if file.services else ())}
    stacks += [(path,) for path in compose if path not in inside]
    made = {path: replace(file, launches=(), built=()) for path, file in compose.items()}
    for stack in stacks:
        root, base = _laid(stack, compose), stack[0]
        if root is not None:
            read = with_services(made[base], root, called.beside(compose[base]))
            launches = [each for launch in read.launches for each in called.followed(read, launch)]
            made[base] = replace(read, launches=tuple(launches))
    return [made.get(file.path, file) for file in files]


def _with_services(
    files: Sequence[LaunchFile], compose: dict[str, LaunchFile], called: CalledScripts
) -> list[LaunchFile]:
    """With what is said of the services in which commands of Compose run programs."""
    usual = dict(_usual(compose))
    return [
        replace(file, launches=tuple(_in_service(file, each, compose, usual, called) for each in file.launches))
        for file in files
    ]


def _laid(stack: Sequence[str], compose: dict[str, LaunchFile]) -> Document | None:
    root: Document | None = None
    for path in stack:
        layer = compose[path].services
        root = layer.over(root) if layer is not None and root is not None else layer or root
    return root


def _in_service(
    file: LaunchFile, launch: ProgramStart, compose: dict[str, LaunchFile], usual: dict[str, tuple[str, ...]],
    called: CalledScripts,
) -> ProgramStart:  # fmt: skip
    """The start, with what the files of Compose say of the service in which it runs."""
    if launch.container is None or not launch.container.service:
        return launch
    *names, service = launch.container.service
    stack = _found_stack(file, names, compose, usual)
    root = _laid(stack, compose) if stack else None
    known = services_in(root, called.beside(compose[stack[0]])) if root is not None else ()
    for each in known:
        if each.name == service:
            return replace(launch, container=each.container, environment={**each.variables, **launch.environment})
    return launch


def _found_stack(
    file: LaunchFile, names: Sequence[str], compose: dict[str, LaunchFile], usual: dict[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """The files that a command lays over each other; none where one of them is not known."""
    paths = [found_from(file, each) for each in names]
    if names:
        return tuple(map(str, paths)) if all(path in compose for path in paths) else ()
    # It takes what lies there, from wherever it is called.
    base = next((path for each in _BY_DEFAULT if (path := found_from(file, each)) in compose), None)
    return usual.get(base, (base,)) if base is not None else ()


def _stacks(files: Sequence[LaunchFile], compose: dict[str, LaunchFile]) -> Iterator[tuple[str, ...]]:
    """The files that are laid over each other, the lowest first: where a command says so, and by their names."""
    usual = dict(_usual(compose))
    named: set[str] = set()
    for file in files:
        for names in file.composes:
            stack = _found_stack(file, names, compose, usual)
            if stack:
                named |= set(stack)
                yield stack
    for base, stack in usual.items():
        if base not in named:
            named |= set(stack)
            yield stack
    for path, file in compose.items():
        below = _below(path, file, compose) if path not in named else None
        if below is not None:
            yield (below, path)


def _usual(compose: dict[str, LaunchFile]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Files that Compose lays over others by itself."""
    for path in compose:
        folder, name = os.path.split(path)
        stem = name.rpartition(".")[0]
        for ending in (".override.yml", ".override.yaml"):
            other = os.path.join(folder, stem + ending)
            if name in _BY_DEFAULT and other in compose:
                yield path, (path, other)


def _below(path: str, file: LaunchFile, compose: dict[str, LaunchFile]) -> str | None:
    """The one file beside it that says what services are which it only changes."""
    if file.services is None or all(each.whole for each in services_in(file.services)):
        return None
    partly = {each.name for each in services_in(file.services) if not each.whole}
    beside = [
        other
        for other, each in compose.items()
        if other != path and os.path.dirname(other) == os.path.dirname(path) and each.services is not None
        and partly <= {service.name for service in services_in(each.services) if service.whole}
    ]  # fmt: skip
    return beside[0] if len(beside) == 1 else None


def _with_images(file: LaunchFile, files: Sequence[LaunchFile], called: CalledScripts) -> LaunchFile:
    """With what images start that are run with other words than their own."""
    launches = list(file.launches)
    kept: list[BuiltService] = []
    for each in file.built:
        path = found_from(file, each.dockerfile)
        image = next((other for other in files if other.path == path), None)
        starts = in_image(image, each) if image is not None else ()
        found = [start for launch in starts for start in called.followed(image or file, launch)]
        if found:
            launches = [launch for launch in launches if launch.container != each.container] + found
        elif each.as_image:
            kept.append(each)
    return replace(file, launches=tuple(launches), built=tuple(kept))
