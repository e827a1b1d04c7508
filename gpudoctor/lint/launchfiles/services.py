"""Containers of Kubernetes, what is asked of containers in all YAML files, and what VS Code starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from gpudoctor.diagnostic import Location
from gpudoctor.lint.launchfiles.command_lists import command_of, followed_by
from gpudoctor.lint.launchfiles.documents import Document, documents
from gpudoctor.lint.launchfiles.launchers import launches_in
from gpudoctor.lint.launchfiles.placed_text import Piece, PlacedText, filled_in
from gpudoctor.lint.launchfiles.shell import Script, read_script
from gpudoctor.lint.launchfiles.shell_words import ShellCommand, ShellVariable, bound_to, show_gpus
from gpudoctor.lint.launchfiles.start import Container, ProgramStart
from gpudoctor.record import replace

Words = list[tuple[str, list[Piece]]]
# What the operator of such a job tells each process.
_OPERATED = ("PyTorchJob", "TrainJob", "RayJob")
_TOLD = ("PET_NPROC_PER_NODE", "PET_NNODES", "PET_NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")


def number_of(value: Document | None) -> int | None:
    """The number that a scalar says."""
    text = value.text if value is not None else None
    return int(text) if text is not None and text.isdecimal() else None


def of_kubernetes(root: Document, beside: Sequence[Document] = ()) -> Iterator[ProgramStart]:
    """What the containers of a manifest start, and scripts that it holds. `beside` are the others of its file."""
    kind = (root["kind"].text or "") if root["kind"] is not None else ""
    held = root["data"] if kind == "ConfigMap" else None
    for name, script in held.items() if held is not None else ():
        if name.endswith(".sh") or (script.text or "").startswith("#!"):
            placed = PlacedText(script.shown, script.pieces)
            yield from launches_in(read_script(placed), placed, {})
    trainer = root.at_path("spec", "trainer") if kind == "TrainJob" else None
    if trainer is not None:
        yield from _of_trainer(trainer)
    if kind == "MPIJob":
        yield from _of_mpi(root)
        return
    job = root.at_path("spec", "entrypoint") if kind == "RayJob" else None
    if job is not None:
        yield from started_in(None, job, _of_ray(root), Container("the job", job.at, None))
    copies, copies_at = _copies(root, kind) or (None, None)
    pods = list(_containers(root))
    for pod, each in pods:
        variables = {**_from_maps(each["envFrom"], beside), **environment_of(each["env"])}
        if kind in _OPERATED:
            each_node = root.at_path("spec", "nprocPerNode") or root.at_path("spec", "elasticPolicy", "nProcPerNode")
            if each_node is not None and number_of(each_node):
                variables.setdefault("PET_NPROC_PER_NODE", bound_to(each_node.text, each_node.at))
            if copies is not None and copies_at is not None:
                variables.setdefault("PET_NNODES", bound_to(str(copies), copies_at))
            for name in _TOLD:
                variables.setdefault(name, bound_to(None, each.at, name))
        _show_limit(variables, each)
        container = replace(_container(pod, each), copies=copies, copies_at=copies_at, alike=len(pods) == 1)
        source = each["source"]
        entry, given = (each["command"], each["args"]) if source is None else (None, source)
        yield from started_in(entry, given, variables, container, each["workingDir"])


def _containers(root: Document) -> Iterator[tuple[Document, Document]]:
    """The containers below, each with its pod. A step of Argo has one, or a script in one."""
    for pod in root.walk():
        containers, alone, script = pod["containers"], pod["container"], pod["script"]
        yield from ((pod, each) for each in (containers.members() if containers is not None else ()))
        yield from ((pod, each) for each in (alone, script) if each is not None and each.text is None)


def _from_maps(sources: Document | None, beside: Sequence[Document]) -> dict[str, ShellVariable]:
    """The variables that a container takes from maps of the same file."""
    maps = {name.text: each["data"] for each in beside if (name := each.at_path("metadata", "name")) is not None}
    named = [each.at_path("configMapRef", "name") for each in (sources.members() if sources is not None else ())]
    found: dict[str, ShellVariable] = {}
    for each in named:
        found |= environment_of(maps.get(each.text)) if each is not None else {}
    return found


def _of_ray(root: Document) -> dict[str, ShellVariable]:
    """The variables of a job of Ray, which stand in a document of their own."""
    held = root.at_path("spec", "runtimeEnvYAML")
    told = documents(held.text or "", held.shown) if held is not None else []
    variables = told[0]["env_vars"] if told else None
    if held is None or variables is None:
        return {}
    return {name: bound_to(each.text, held.at) for name, each in variables.items()}


def _show_limit(variables: dict[str, ShellVariable], container: Document) -> None:
    limit = container.at_path("resources", "limits", "nvidia.com/gpu")
    count = number_of(limit)
    if limit is not None and count is not None:
        show_gpus(variables, count, limit.at)


def _container(pod: Document, container: Document) -> Container:
    label = container["name"]
    named = f"the container `{label.text}`" if label is not None and label.text else "the container"
    at = label.at if label is not None else container.at
    return Container(named, at, _pod_memory(pod, container), "a volume of `emptyDir: {medium: Memory}` at `/dev/shm`")


def _of_mpi(root: Document) -> Iterator[ProgramStart]:
    """`mpirun` in the launcher's pod starts the processes in those of the workers."""
    pods = [root.at_path("spec", "mpiReplicaSpecs", name) for name in ("Launcher", "Worker")]
    launching, working = (list(_containers(each)) if each is not None else [] for each in pods)
    slots = root.at_path("spec", "slotsPerWorker")
    count = number_of(slots)
    for _, each in launching if len(working) == 1 else ():
        variables = environment_of(each["env"])
        _show_limit(variables, working[0][1])
        container = replace(_container(*working[0]), slots=count, slots_at=slots.at if slots is not None else None)
        yield from started_in(each["command"], each["args"], variables, container, each["workingDir"])


def _of_trainer(trainer: Document) -> Iterator[ProgramStart]:
    """A `TrainJob` says what its nodes run, and leaves the pods to a runtime."""
    variables = environment_of(trainer["env"])
    nodes, each_node = trainer["numNodes"], trainer["numProcPerNode"]
    for name, said in (("PET_NNODES", nodes), ("PET_NPROC_PER_NODE", each_node)):
        if said is not None and number_of(said) is not None:
            variables[name] = bound_to(said.text, said.at)
    for name in _TOLD:
        variables.setdefault(name, bound_to(None, trainer.at, name))
    for kind in ("limits", "requests"):
        given = trainer.at_path("resourcesPerNode", kind, "nvidia.com/gpu")
        gpus = number_of(given)
        if given is not None and gpus is not None:
            show_gpus(variables, gpus, given.at)
    at = nodes.at if nodes is not None else trainer.at
    container = Container("the trainer", trainer.at, None, copies=number_of(nodes), copies_at=at)
    yield from started_in(trainer["command"], trainer["args"], variables, container)


def _copies(root: Document, kind: str) -> tuple[int, Location] | None:
    """In how many pods the job runs at once, and where that is said."""
    times = 1
    if kind == "Job":
        # Those of Volcano have several kinds of tasks.
        tasks = root.at_path("spec", "tasks")
        counts = [each["replicas"] for each in tasks.members()] if tasks is not None else []
        counts = counts or [root.at_path("spec", "parallelism")]
    elif kind == "JobSet":
        jobs = root.at_path("spec", "replicatedJobs")
        listed = jobs.members() if jobs is not None else []
        # Jobs of several kinds are several trainings, or one that leads the others.
        if len(listed) != 1:
            return None
        counts = [listed[0].at_path("template", "spec", "parallelism")]
        times = number_of(listed[0]["replicas"]) or 1
    elif kind == "StatefulSet":
        counts = [root.at_path("spec", "replicas")]
    elif kind == "LeaderWorkerSet":
        counts = [root.at_path("spec", "leaderWorkerTemplate", "size")]
    elif kind == "PyTorchJob":
        specs = root.at_path("spec", "pytorchReplicaSpecs")
        counts = [each["replicas"] for _, each in specs.items()] if specs is not None else []
        if root.at_path("spec", "elasticPolicy") is not None:
            return None
    else:
        return None
    known = [(count, each.at) for each in counts if each is not None and (count := number_of(each)) is not None]
    if not known or len(known) < len(counts):
        return None
    return times * sum(count for count, _ in known), known[-1][1]


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
    """What the configurations of a `launch.json` start, and the tasks of a `tasks.json`."""
    tasks = root["tasks"]
    for each in tasks.members() if tasks is not None else ():
        options = each["options"]
        variables = environment_of(options["env"] if options is not None else None)
        said, given = each["command"], each["args"]
        alone = given is None or not given.members()
        for start in started_in(None if alone else said, said if alone else given, variables, None):
            yield replace(start, folder=in_workspace(options["cwd"] if options is not None else None))
    listed, compounds = root["configurations"], root["compounds"]
    groups = [texts_in(each["configurations"]) for each in (compounds.members() if compounds is not None else [])]
    for each in listed.members() if listed is not None else ():
        label = each["name"].text if each["name"] is not None else None
        # Those of a compound are started at once, and no others.
        group = next((number for number, names in enumerate(groups) if label in names), None)
        kind, request = each["type"], each["request"]
        if kind is None or kind.text not in ("python", "debugpy") or (request is not None and request.text != "launch"):
            continue
        variables = environment_of(each["env"])
        program = each["program"] or each["module"] or kind
        words: Words = [("python", program.pieces)]
        for key in ("program", "module"):
            value = each[key]
            if value is not None and value.text is not None:
                words += [("-m", value.pieces)] if key == "module" else []
                words.append((value.text, value.pieces))
        words += words_in(each["args"])
        words = [(text.removeprefix("${workspaceFolder}/"), pieces) for text, pieces in words]
        if len(words) > 1:
            text, command = command_of(shown, words, variables, in_workspace(each["cwd"]))
            command = replace(command, background=group is not None, waits=-1 if group is None else group)
            yield from launches_in(Script((command,), (), ()), text, {})


def in_workspace(folder: Document | None) -> str:
    """A folder as an editor names it, seen from its own file, which lies in a folder for itself."""
    text = (folder.text or "") if folder is not None else ""
    below = text.removeprefix("${workspaceFolder}").removeprefix("${workspaceRoot}").lstrip("/")
    return f"../{below}" if below and "$" not in below else ".."


def started_in(
    entry: Document | None,
    given: Document | None,
    variables: dict[str, ShellVariable],
    container: Container | None,
    inside: Document | None = None,
) -> Iterator[ProgramStart]:
    """What a container starts, by what stands in the place of its image's words, and the folder `inside` of it."""
    folder = (inside.text or "") if inside is not None else ""
    if entry is None and given is not None and given.text is not None:
        text = PlacedText(given.shown, _pieces(given))
        yield from launches_in(read_script(text, dict(variables), folder=folder), text, {}, container)
        return
    made = command_in((entry, given), variables)
    if made is not None:
        text, command = made
        yield from launches_in(Script((replace(command, folder=folder),), (), ()), text, {}, container)


def command_in(
    values: Sequence[Document | None], variables: dict[str, ShellVariable]
) -> tuple[PlacedText, ShellCommand] | None:
    """The command whose words stand in one value after the other, which may be of several files."""
    found: tuple[PlacedText, ShellCommand] | None = None
    for shown, together in groupby((each for each in values if each is not None), key=lambda each: each.shown):
        words = [word for each in together for word in words_in(each)]
        if words:
            text, command = command_of(shown, words, variables)
            found = text, command if found is None else followed_by(found[1], command)
    return found


def words_in(value: Document | None) -> Words:
    if value is None:
        return []
    if value.text is not None:
        own = read_script(PlacedText("", _pieces(value))).commands
        found: Words = []
        for command in own:
            for word in command.words:
                found.append((word.shown, [Piece(word.shown, word.at.line, word.at.column)]))
        return found
    return [(each.text.replace("$$", "$"), _pieces(each)) for each in value.members() if each.text is not None]


_ESCAPED = re.compile(r"\$\$")


def _pieces(value: Document) -> list[Piece]:
    """A text of Compose or Kubernetes, which hands `$$` on as `$`."""
    return [piece for each in value.pieces for piece in filled_in(each, _ESCAPED, lambda _: "$")]


def texts_in(value: Document | None) -> list[str]:
    if value is None:
        return []
    texts = [each.text for part in [value, *value.members()] for each in [part, *(v for _, v in part.items())]]
    return [text for text in texts if text]


def environment_of(value: Document | None) -> dict[str, ShellVariable]:
    """Variables as mappings, as lists of `NAME=value`, or as lists of `name` and `value`."""
    found: dict[str, ShellVariable] = {}
    if value is None:
        return found
    for key, each in value.items():
        if each.text is not None:
            found[key] = bound_to(each.text, each.at)
    for each in value.members():
        if each.text is not None:
            name, equals, text = each.text.partition("=")
            found[name] = bound_to(text if equals else None, each.at)
        else:
            named, given = each["name"], each["value"]
            if named is not None and named.text:
                found[named.text] = bound_to(given.text if given is not None else None, each.at)
    return found
