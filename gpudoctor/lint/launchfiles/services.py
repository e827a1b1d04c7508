"""Containers that YAML files describe, of Docker Compose and of Kubernetes, and what VS Code starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.lint.launchfiles.command_lists import command_of
from gpudoctor.lint.launchfiles.launchers import launches_in
from gpudoctor.lint.launchfiles.placed_text import Piece, PlacedText
from gpudoctor.lint.launchfiles.shell import Script, read_script
from gpudoctor.lint.launchfiles.shell_words import Hole, ShellVariable, Word
from gpudoctor.lint.launchfiles.start import BuiltService, Container, ProgramStart

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Location
    from gpudoctor.lint.launchfiles.documents import Document

Words = list[tuple[str, list[Piece]]]
# What the operator of such a job tells each process.
_OPERATED = ("PyTorchJob", "TrainJob", "MPIJob", "RayJob")
_TOLD = ("PET_NPROC_PER_NODE", "PET_NNODES", "PET_NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")


def of_compose(shown: str, root: Document) -> Iterator[ProgramStart]:
    """What the services of a compose file start."""
    services = root["services"]
    for name, service in services.items() if services is not None else ():
        variables = _variables_of(service)
        container = _container(name, services.key_place(name) if services is not None else service.at, service)
        yield from _run(shown, service["entrypoint"], service["command"], variables, container)


def built_of_compose(root: Document) -> Iterator[BuiltService]:
    """The services that run what their Dockerfile says."""
    services = root["services"]
    for name, service in services.items() if services is not None else ():
        build = service["build"]
        if build is None or service["entrypoint"] is not None:
            continue
        # Words that begin with a dash go to what the image runs; others run in its place.
        first = next((word for word, _ in _words(service["command"])), "-")
        if not first.startswith("-"):
            continue
        context, given = build.text or _text_of(build["context"]), _text_of(build["dockerfile"])
        container = _container(name, services.key_place(name) if services is not None else service.at, service)
        yield BuiltService(f"{context or '.'}/{given or 'Dockerfile'}", container, _variables_of(service))


def _variables_of(service: Document) -> dict[str, ShellVariable]:
    """The environment of a service, with the GPUs that it is given."""
    variables = _environment(service["environment"])
    devices = service.at_path("deploy", "resources", "reservations", "devices")
    for each in devices.members() if devices is not None else ():
        count, chosen = each["count"], each["device_ids"]
        if count is not None and count.text is not None and count.text.isdecimal():
            _show_gpus(variables, int(count.text), count.at)
        elif chosen is not None and chosen.members():
            _show_gpus(variables, len(chosen.members()), chosen.at)
    return variables


def _show_gpus(variables: dict[str, ShellVariable], count: int, at: Location) -> None:
    """A container sees so many, numbered from 0, unless it is told by name which."""
    devices = ",".join(map(str, range(min(count, 64))))
    variables.setdefault("CUDA_VISIBLE_DEVICES", ShellVariable((Word((devices,), at),), at, True))


def _container(name: str, at: Location, service: Document) -> Container:
    shared = next((each for key in ("shm_size", "ipc") if (each := service[key]) is not None), None)
    mounted = [each for key in ("volumes", "tmpfs") for each in _texts(service[key]) if "/dev/shm" in each]
    # Another file or another service may say more.
    unknown = service["extends"] is not None
    said = None if unknown else ((shared.text or "") if shared is not None else ("mounted" if mounted else ""))
    devices = service.at_path("deploy", "resources", "reservations", "devices")
    given = devices is not None or any(service[key] is not None for key in ("gpus", "runtime", "devices", "privileged"))
    told = "NVIDIA_VISIBLE_DEVICES" in _environment(service["environment"]) or service["env_file"] is not None
    return Container(
        f"the service `{name}`", at, said, "`shm_size: 8gb` or `ipc: host`",
        gpus="given" if given else None if unknown or told else "", gpus_remedy="`gpus: all`",
    )  # fmt: skip


def _text_of(value: Document | None) -> str:
    return (value.text or "") if value is not None else ""


def of_kubernetes(shown: str, root: Document) -> Iterator[ProgramStart]:
    """What the containers of a manifest start."""
    kind = (root["kind"].text or "") if root["kind"] is not None else ""
    copies = _copies(root, kind)
    trainer = root.at_path("spec", "trainer") if kind == "TrainJob" else None
    if trainer is not None:
        yield from _of_trainer(shown, trainer)
    for pod in root.walk():
        containers = pod["containers"]
        for each in containers.members() if containers is not None else ():
            variables = _environment(each["env"])
            if kind in _OPERATED:
                each_node = root.at_path("spec", "nprocPerNode")
                if each_node is not None and each_node.text is not None and each_node.text.isdecimal():
                    variables.setdefault("PET_NPROC_PER_NODE", _bound(each_node.text, each_node))
                for name in _TOLD:
                    variables.setdefault(name, ShellVariable((Word((Hole(name),), each.at),), each.at, True))
            limit = each.at_path("resources", "limits", "nvidia.com/gpu")
            if limit is not None and limit.text is not None and limit.text.isdecimal():
                _show_gpus(variables, int(limit.text), limit.at)
            label = each["name"]
            named = f"the container `{label.text}`" if label is not None and label.text else "the container"
            at = label.at if label is not None else each.at
            container = Container(
                named, at, _pod_memory(pod, each), "a volume of `emptyDir: {medium: Memory}` at `/dev/shm`",
                copies=copies[0] if copies is not None else None, copies_at=copies[1] if copies is not None else None,
            )  # fmt: skip
            yield from _run(shown, each["command"], each["args"], variables, container)


def _of_trainer(shown: str, trainer: Document) -> Iterator[ProgramStart]:
    """A `TrainJob` says what its nodes run, and leaves the pods to a runtime."""
    variables = _environment(trainer["env"])
    for name in _TOLD:
        variables.setdefault(name, ShellVariable((Word((Hole(name),), trainer.at),), trainer.at, True))
    nodes, each_node = trainer["numNodes"], trainer["numProcPerNode"]
    if each_node is not None and each_node.text is not None and each_node.text.isdecimal():
        variables["PET_NPROC_PER_NODE"] = _bound(each_node.text, each_node)
    for kind in ("limits", "requests"):
        given = trainer.at_path("resourcesPerNode", kind, "nvidia.com/gpu")
        if given is not None and given.text is not None and given.text.isdecimal():
            _show_gpus(variables, int(given.text), given.at)
    count = int(nodes.text) if nodes is not None and nodes.text is not None and nodes.text.isdecimal() else None
    at = nodes.at if nodes is not None else trainer.at
    container = Container("the trainer", trainer.at, None, copies=count, copies_at=at)
    yield from _run(shown, trainer["command"], trainer["args"], variables, container)


def _copies(root: Document, kind: str) -> tuple[int, Location] | None:
    """In how many pods the job runs at once, and where that is said."""
    if kind == "Job":
        counts = [root.at_path("spec", "parallelism")]
    elif kind == "PyTorchJob":
        specs = root.at_path("spec", "pytorchReplicaSpecs")
        counts = [each["replicas"] for _, each in specs.items()] if specs is not None else []
        if root.at_path("spec", "elasticPolicy") is not None:
            return None
    else:
        return None
    known = [each for each in counts if each is not None and each.text is not None and each.text.isdecimal()]
    if not known or len(known) < len(counts):
        return None
    return sum(int(each.text or "") for each in known), known[-1].at


def _pod_memory(pod: Document, container: Document) -> str | None:
    host = pod["hostIPC"]
    if host is not None and host.text == "true":
        return "host"
    mounts = container["volumeMounts"]
    paths = [
        path.text
        for each in (mounts.members() if mounts is not None else [])
        if (path := each["mountPath"]) is not None
    ]
    return "mounted" if any(path and path.rstrip("/") in ("/dev/shm", "/dev") for path in paths) else ""


def of_editor(shown: str, root: Document) -> Iterator[ProgramStart]:
    """What the configurations of a `launch.json` start."""
    listed = root["configurations"]
    for each in listed.members() if listed is not None else ():
        kind, request = each["type"], each["request"]
        if kind is None or kind.text not in ("python", "debugpy") or (request is not None and request.text != "launch"):
            continue
        variables = _environment(each["env"])
        words: Words = [("python", kind.pieces)]
        for key in ("program", "module"):
            value = each[key]
            if value is not None and value.text is not None:
                words += [("-m", value.pieces)] if key == "module" else []
                words.append((value.text, value.pieces))
        words += _words(each["args"])
        words = [(text.removeprefix("${workspaceFolder}/"), pieces) for text, pieces in words]
        if len(words) > 1:
            # An editor's file lies in a folder of its own.
            text, command = command_of(shown, words, variables, "..")
            yield from launches_in(Script((command,), (), ()), text, {})


def _run(
    shown: str,
    entry: Document | None,
    given: Document | None,
    variables: dict[str, ShellVariable],
    container: Container,
) -> Iterator[ProgramStart]:
    if entry is None and given is None:
        return
    if entry is None and given is not None and given.text is not None:
        pieces = [Piece(piece.text, piece.line, piece.column) for piece in given.pieces]
        text = PlacedText(shown, pieces)
        known = dict(variables.items())
        yield from launches_in(read_script(text, known), text, {}, container)
        return
    words = [*_words(entry), *_words(given)]
    if words:
        text, command = command_of(shown, words, variables)
        yield from launches_in(Script((command,), (), ()), text, {}, container)


def _words(value: Document | None) -> Words:
    if value is None:
        return []
    if value.text is not None:
        own = read_script(PlacedText("", value.pieces)).commands
        found: Words = []
        for command in own:
            for word in command.words:
                found.append((word.shown, [Piece(word.shown, word.at.line, word.at.column)]))
        return found
    return [(each.text, each.pieces) for each in value.members() if each.text is not None]


def _texts(value: Document | None) -> list[str]:
    if value is None:
        return []
    texts = [each.text for part in [value, *value.members()] for each in [part, *(v for _, v in part.items())]]
    return [text for text in texts if text]


def _environment(value: Document | None) -> dict[str, ShellVariable]:
    """Variables as mappings, as lists of `NAME=value`, or as lists of `name` and `value`."""
    found: dict[str, ShellVariable] = {}
    if value is None:
        return found
    for key, each in value.items():
        if each.text is not None:
            found[key] = _bound(each.text, each)
    for each in value.members():
        if each.text is not None:
            name, equals, text = each.text.partition("=")
            found[name] = _bound(text if equals else None, each)
        else:
            named, given = each["name"], each["value"]
            if named is not None and named.text:
                found[named.text] = _bound(given.text if given is not None else None, each)
    return found


def _bound(text: str | None, value: Document) -> ShellVariable:
    parts = (text,) if text is not None and "$" not in text else (Hole(),)
    return ShellVariable((Word(parts, value.at),), value.at, True)
