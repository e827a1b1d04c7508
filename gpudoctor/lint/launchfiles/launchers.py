"""From a command to the start of a program: launchers, what starts them, and their options."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gpudoctor.diagnostic import Location
from gpudoctor.lint.launchfiles import command_options as known
from gpudoctor.lint.launchfiles.compose_commands import IN_SERVICE, ComposeCommand, compose_command
from gpudoctor.lint.launchfiles.detached import in_terminal, repeated
from gpudoctor.lint.launchfiles.docker_run import docker_run, span, variables_told
from gpudoctor.lint.launchfiles.placed_text import Piece, PlacedText
from gpudoctor.lint.launchfiles.quoted_script import quoted_script
from gpudoctor.lint.launchfiles.shell import Script, ScriptComment, Scripts, read_script
from gpudoctor.lint.launchfiles.shell_words import (
    Environment,
    Hole,
    ShellCommand,
    ShellVariable,
    Word,
    WordPart,
    bound_to,
    filled_in_before,
    show_gpus,
)
from gpudoctor.lint.launchfiles.start import Container, ProgramStart, StartedBy, Starter, StartOption, StartOptions
from gpudoctor.lint.launchfiles.syntax import options_of, values_of
from gpudoctor.record import dataclass, field, replace

MAX_DEPTH = 6
"""Commands that start each other are followed so deep: `srun bash -c "torchrun ..."` are three."""


def launches_in(
    script: Script,
    text: PlacedText,
    directives: StartOptions,
    container: Container | None = None,
    starters: tuple[Starter, ...] = (),
) -> Iterator[ProgramStart]:
    """The starts of programs, and of scripts that may start some, among the commands of a script."""
    reader = _CommandReader(text, directives, container, script.scripts)
    for command in script.commands:
        yield from reader.starts(_Wrapped(command, starters))


@dataclass
class Recipes:
    """What the recipes of a file start, its comments, and all of its commands."""

    launches: list[ProgramStart] = field(default_factory=list)
    comments: list[ScriptComment] = field(default_factory=list)
    commands: list[ShellCommand] = field(default_factory=list)

    def read(self, recipe: PlacedText, folder: str, variables: Environment) -> None:
        script = read_script(recipe, dict(variables), folder=folder)
        self.launches += launches_in(script, recipe, {})
        self.comments += script.comments
        self.commands += script.commands


def read_batch(text: PlacedText, scripts: Scripts | None = None) -> tuple[Script, dict[str, StartOption]]:
    """A script that may be a batch file, as it finds its variables set, and what it asks for."""
    script = read_script(text, scripts=scripts)
    directives = directives_of(script, text)
    shown, others = told_by_comments(script)
    told = {**shown, **told_by_slurm(directives)}
    directives |= others
    moved = directives.get("chdir")
    if told or moved is not None:
        script = read_script(text, told, folder=moved.text if moved is not None else "", scripts=scripts)
    return script, directives


def directives_of(
    script: Script, text: PlacedText, variables: dict[str, ShellVariable] | None = None
) -> dict[str, StartOption]:
    """What a batch file asks of SLURM, in comments before its first command."""
    found: dict[str, StartOption] = {}
    for comment in script.head:
        if not comment.text.startswith("#SBATCH"):
            continue
        if comment.text.split()[1:2] == ["hetjob"]:
            break
        given, _, _ = comment.text.removeprefix("#SBATCH").partition(" #")
        line = PlacedText(comment.at.path, [Piece(given, comment.at.line, comment.at.column + len("#SBATCH"))])
        inner = read_script(_as_command(line), variables)
        for command in inner.commands:
            options, _, _ = options_of(command.words[1:], known.SRUN)
            found |= {name: replace(option, at=comment.at) for name, option in options.items()}
    return found


def told_by_slurm(directives: StartOptions) -> dict[str, ShellVariable]:
    """The variables that a batch file finds set, as far as it says itself what it asks for."""
    found = _exported(directives)
    for name, variables in known.TOLD_BY_SLURM.items():
        option = directives.get(name)
        if option is not None and option.number is not None:
            bound = ShellVariable((Word((str(option.number),), option.at),), option.at, exported=True)
            found |= dict.fromkeys(variables, bound)
    return found


_ASKED = re.compile(r"\bn?gpus?=(\d+)|\bnum=(\d+)|/gpu=(\d+)")
"""What PBS, LSF, Grid Engine and OAR call the GPUs of a node."""


def show_asked(variables: dict[str, ShellVariable], text: str, at: Location) -> None:
    """A job sees the GPUs that are asked for in this text."""
    asked = _ASKED.search(text)
    if asked is not None:
        show_gpus(variables, int(next(filter(None, asked.groups()))), at)


_NODES = re.compile(r"\b(?:select|nodes|host)=(\d+)|-nnodes (\d+)")


def told_by_comments(script: Script) -> tuple[dict[str, ShellVariable], dict[str, StartOption]]:
    """What a batch file of another system than SLURM asks for: the GPUs of each node, as it finds them, and nodes."""
    variables: dict[str, ShellVariable] = {}
    directives: dict[str, StartOption] = {}
    for comment in script.head:
        if comment.text.startswith(("#PBS", "#BSUB", "#$ ", "#OAR")):
            show_asked(variables, comment.text, comment.at)
            nodes = _NODES.search(comment.text)
            if nodes is not None:
                directives["nodes"] = StartOption("nodes", Word((nodes[1] or nodes[2],), comment.at), comment.at)
    return variables, directives


def _exported(options: StartOptions) -> dict[str, ShellVariable]:
    """`--export=ALL,NAME=value`"""
    option = options.get("export")
    pairs = (option.text or "").split(",") if option is not None else ()
    return {
        name: bound_to(value, option.at)
        for name, equals, value in (each.partition("=") for each in pairs)
        if equals and option is not None
    }


def _as_command(line: PlacedText) -> PlacedText:
    """The options behind a name, so that they read as those of a command."""
    [piece] = line.stretch(0, len(line.text)) or [Piece("", 1, 1)]
    return PlacedText(line.path, [Piece("sbatch", piece.line, 1), piece])


def tasks_of_srun(words: Sequence[str]) -> tuple[dict[str, int | None], tuple[str, ...]]:
    """The options of `srun` that are numbers, by their long names, and the command that it starts."""
    nowhere = Location("", 1, 1)
    options, following, _ = options_of([Word((each,), nowhere) for each in words], known.SRUN)
    return {name: option.number for name, option in options.items()}, tuple(each.text or "" for each in following)


@dataclass(frozen=True)
class _Wrapped:
    """A command, with what starts it from the outside to the inside."""

    command: ShellCommand
    starters: tuple[Starter, ...] = ()
    depth: int = 0

    @property
    def words(self) -> tuple[Word, ...]:
        return self.command.words

    @property
    def arguments(self) -> tuple[Word, ...]:
        return self.command.words[1:]

    def inner(self, words: Sequence[Word], *starters: Starter, **changes: Any) -> _Wrapped:
        """The command that these words of it are, which it starts."""
        command = replace(self.command, words=tuple(words), **changes)
        return _Wrapped(command, (*self.starters, *starters), self.depth + 1)


class _CommandReader:
    """Reads what one command of a file starts."""

    def __init__(
        self, text: PlacedText, directives: StartOptions, container: Container | None, scripts: Scripts | None
    ) -> None:
        self._text = text
        self._directives = directives
        self._container = container
        self._scripts = scripts
        self._running: dict[str | None, Container] = {}
        """The containers that it has started so far, by their names."""

    def starts(self, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        if wrapped.depth <= MAX_DEPTH and wrapped.words:
            usual = wrapped.words[0].usual
            if usual is not None and " " in usual and wrapped.words[0].open:
                # `$LAUNCHER train.py`, with `torchrun --nproc-per-node=8` where nothing else is said.
                made = tuple(replace(wrapped.words[0], parts=(each,), open=False) for each in usual.split())
                wrapped = replace(wrapped, command=replace(wrapped.command, words=(*made, *wrapped.arguments)))
            read = _READERS.get(_base(wrapped.words[0]), _CommandReader._program)
            yield from read(self, wrapped)

    # --- commands that start the words behind them ---

    def _plain(self, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        _, following, _ = options_of(wrapped.arguments, known.OF_PLAIN)
        yield from self.starts(wrapped.inner(following))

    def _wrapper(self, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        name = _base(wrapped.words[0])
        syntax = known.WRAPPERS[name]
        _, following, _ = options_of(wrapped.arguments, syntax)
        following = following[known.OWN_WORDS.get(name, 0) :]
        if name == "coverage":
            options, following, _ = options_of(following, known.RUN_OTHERS[name])
            module = (replace(wrapped.words[0], parts=("-m",)),) if "m" in options else ()
            yield from self._python(wrapped.inner((wrapped.words[0], *module, *following)))
            return
        if name == "nsys":
            _, following, _ = options_of(following, syntax)
        environment = dict(wrapped.command.environment)
        while name == "env" and following and "=" in str(following[0].parts[0] if following[0].parts else ""):
            variable = str(following[0].parts[0]).partition("=")[0]
            value = following[0].after(f"{variable}=")
            if value is None or not variable.isidentifier():
                break
            environment[variable] = ShellVariable((value,), following[0].at, True)
            following = following[1:]
        yield from self.starts(wrapped.inner(following, environment=environment))

    def _runner(self, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        """`uv run`, `conda run`."""
        words = wrapped.arguments
        if not words or words[0].text != "run":
            yield from self._program(wrapped)
            return
        options, following, _ = options_of(words[1:], known.RUN)
        of_uv = _base(wrapped.words[0]) == "uv"
        # `uv run train.py` and `uv run -m train` are python's.
        if of_uv and "module" in options and options["module"].value is not None:
            yield from self._python(wrapped.inner((wrapped.words[0], *words[1:])))
        elif of_uv and following and (following[0].text or "").endswith(".py"):
            yield self._made(StartedBy.PYTHON, wrapped.inner(following), {}, following, True)
        else:
            yield from self.starts(wrapped.inner(following))

    def _srun(self, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        options, following, closed = options_of(wrapped.arguments, known.SRUN)
        parts = options.get("het-group")
        # Each part of a job asks for its own; the file begins with what the first one does.
        whole = parts is None or parts.text == "0"
        own = self if whole else _CommandReader(self._text, {}, self._container, self._scripts)
        yield from own.starts(wrapped.inner(following, Starter("srun", wrapped.words[0], options, closed)))

    def _mpirun(self, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        syntax = known.JSRUN if _base(wrapped.words[0]) == "jsrun" else known.MPIRUN
        options, following, closed = options_of(wrapped.arguments, syntax)
        starter = Starter("mpirun", wrapped.words[0], options, closed)
        told = _told(wrapped.arguments, wrapped.command)
        yield from self.starts(wrapped.inner(following, starter, environment=told))

    def _remote(self, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        """Another machine reads the words behind its name, and sees none of the variables of this one."""
        options, following, closed = options_of(wrapped.arguments, known.SSH)
        # A name from outside was passed over as an option may be.
        words = following[1:] if closed else following
        starter = Starter("ssh", wrapped.words[0], options, closed)
        if wrapped.command.heredoc is not None and (not words or _base(words[0]) in known.SHELLS):
            yield from self._heredoc(replace(wrapped.command, environment={}), (*wrapped.starters, starter), {})
        yield from self._words_or_script(wrapped.inner(words, starter, environment={}, per_node=True), per_node=True)

    def _on_all(self, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        """`pdsh -w node[1-4] "..."` has several machines do the same."""
        options, words, closed = options_of(wrapped.arguments, known.ON_ALL[_base(wrapped.words[0])])
        starter = Starter("ssh", wrapped.words[0], options, closed)
        looped = wrapped.command.looped or not {"node", "host"} & options.keys()
        there = wrapped.inner(words, starter, environment={}, per_node=True, looped=looped)
        yield from self._words_or_script(there, per_node=True)

    def _terminal(self, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        """What runs in terminals beside the script: what is typed into one runs after what was typed before."""
        for each in in_terminal(_base(wrapped.words[0]), wrapped.arguments):
            target = each.options.get("target")
            again = wrapped.command.looped and (each.own or target is None or target.text is None)
            starter = Starter("typed" if not each.own else "terminal", wrapped.words[0], each.options)
            there = wrapped.inner(each.words, starter, background=True, looped=again)
            yield from self._words_or_script(there, per_node=wrapped.command.per_node)

    def _words_or_script(self, wrapped: _Wrapped, *, per_node: bool) -> Iterator[ProgramStart]:
        """One word is a script for a shell, several are the words of a command."""
        if len(wrapped.words) == 1:
            yield from self._script(wrapped, wrapped.words[0], per_node=per_node)
        else:
            yield from self.starts(wrapped)

    def _repeated(self, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        """`xargs -P 4` and `parallel` start a command for each item."""
        name = _base(wrapped.words[0])
        found = repeated(name, wrapped.arguments)
        if found is None:
            return
        there = wrapped.inner(found.words, background=found.at_once, looped=True)
        first = str(found.words[0].parts[0]) if found.words[0].parts else ""
        if name == "parallel" and len(found.words) == 1:
            yield from self._script(there, found.words[0], per_node=wrapped.command.per_node)
        elif name == "parallel" and "=" in first:
            # A shell reads it: variables may come first.
            env = replace(found.words[0], parts=("env",))
            yield from self.starts(there.inner((env, *found.words)))
        else:
            yield from self.starts(there)

    # --- shells and batch files ---

    def _eval(self, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        if wrapped.arguments:
            yield from self._script(wrapped, _one_word(wrapped.arguments), per_node=wrapped.command.per_node)

    def _shell(self, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        """`bash -c "..."`, and what a shell is given to read."""
        options, following, _ = options_of(wrapped.arguments, known.SHELL)
        quoted = options["command"].value if "command" in options else None
        if quoted is None and following and any(each in options for each in known.WITH_COMMAND):
            quoted = following[0]
        if quoted is not None:
            yield from self._script(wrapped, quoted, per_node=runs_on_each(wrapped.starters))
        elif wrapped.command.heredoc is not None and not following:
            yield from self._heredoc(wrapped.command, wrapped.starters, {})
        elif following:
            yield self._made(StartedBy.SCRIPT, wrapped, {}, following, True)

    def _batch(self, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        """`sbatch --wrap="..."`, and a script that it is given to read. Each job is one for itself."""
        name = _base(wrapped.words[0])
        options, following, _ = options_of(wrapped.arguments, known.BATCH[name])
        environment = dict(wrapped.command.environment)
        told = {} if name in known.NO_SLURM else options
        gpus = options.get("gpu", options.get("l"))
        if name in known.NO_SLURM and gpus is not None:
            show_asked(environment, gpus.value.shown if gpus.value is not None else "", gpus.at)
        elif name not in known.NO_SLURM:
            environment |= told_by_slurm(options)
        command = replace(wrapped.command, environment=environment, looped=False, background=False)
        own = _CommandReader(self._text, {**self._directives, **told}, self._container, self._scripts)
        job = _Wrapped(command, depth=wrapped.depth + 1)
        wrap = options["wrap"].value if "wrap" in options else None
        if command.heredoc is not None:
            yield from self._heredoc(command, (), told)
        elif wrap is not None:
            yield from own._script(job, wrap, per_node=False)
        elif following and name == "sbatch":
            yield own._made(StartedBy.SCRIPT, job, {}, following, True)
        elif following:
            yield from own._words_or_script(job.inner(following), per_node=False)

    def _written(self, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        """`cat > job.sh <<EOF`: a script that somebody starts afterwards."""
        here = wrapped.command.heredoc
        if here is not None and re.match(r"#!\S*(?:/| )(?:ba|z)?sh\b", str(here.parts[0]).lstrip()):
            yield from self._heredoc(wrapped.command, (), {})

    def _script(self, wrapped: _Wrapped, word: Word, *, per_node: bool) -> Iterator[ProgramStart]:
        """What a script starts that is one word of a command."""
        if not word.inside:
            return
        command = wrapped.command
        early = per_node and not command.per_node
        given = filled_in_before(command.environment) if early else dict(command.environment)
        text, variables = quoted_script(word, self._text, given, early=early)
        script = read_script(
            text,
            variables,
            folder=command.folder,
            per_node=per_node,
            conditional=command.conditional,
            looped=command.looped,
            background=command.background,
            scripts=self._scripts,
        )
        own = _CommandReader(text, self._directives, self._container, self._scripts)
        for each in script.commands:
            yield from own.starts(_Wrapped(each, wrapped.starters, wrapped.depth + 1))

    def _heredoc(
        self, command: ShellCommand, starters: tuple[Starter, ...], told: StartOptions
    ) -> Iterator[ProgramStart]:
        """What a script starts that stands behind its command; `told` is what SLURM is told beside it."""
        assert command.heredoc is not None
        text, variables = quoted_script(command.heredoc, self._text, dict(command.environment), early=False)
        script = read_script(text, variables)
        directives = {**(directives_of(script, text, variables) or self._directives), **told}
        if directives or script.head:
            shown, others = told_by_comments(script)
            variables = {**variables, **told_by_slurm(directives), **shown}
            directives |= others
        script = read_script(text, variables, folder=command.folder, looped=command.looped, scripts=self._scripts)
        own = _CommandReader(text, directives, self._container, self._scripts)
        for each in script.commands:
            yield from own.starts(_Wrapped(each, starters, 1))

    # --- containers ---

    def _docker(self, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        does = wrapped.words[1].text if len(wrapped.words) > 1 else None
        composed = compose_command(wrapped.command)
        if composed is not None:
            yield from self._in_service(composed, wrapped.command)
        elif does == "run":
            options, following, container, told = docker_run(wrapped.words)
            entry, called = options.get("entrypoint"), options.get("name")
            if called is not None and called.text is not None:
                self._running[called.text] = container
            following = (*([entry.value] if entry is not None and entry.value is not None else []), *following[1:])
            # The project is mounted there, or copied.
            inside = options.get("workdir")
            yield from self._inside(wrapped, following, container, told, inside.text if inside is not None else None)
        elif does == "exec":
            told = variables_told(wrapped.words)
            _, following, _ = options_of(wrapped.words[2:], known.EXEC)
            unknown = Container(f"`{wrapped.words[0].shown} exec`", wrapped.command.at, None)
            container = self._running.get(following[0].text, unknown) if following else unknown
            yield from self._inside(wrapped, following[1:], container, told)

    def _inside(
        self,
        wrapped: _Wrapped,
        words: Sequence[Word],
        container: Container,
        told: Environment,
        folder: str | None = None,
    ) -> Iterator[ProgramStart]:
        """Nothing of the environment around a container is seen inside."""
        own = _CommandReader(self._text, self._directives, container, self._scripts)
        command = replace(wrapped.command, words=tuple(words), environment=told)
        command = replace(command, folder=folder) if folder is not None else command
        yield from own.starts(_Wrapped(command, (), 1))

    def _in_service(self, composed: ComposeCommand, command: ShellCommand) -> Iterator[ProgramStart]:
        """`docker compose run train torchrun ...`: what is said of the service stands in the files of Compose."""
        options, following = composed.in_service
        service = following[0].text if following else None
        if composed.does not in IN_SERVICE or service is None or None in composed.files or "entrypoint" in options:
            return
        container = Container(
            f"the service `{service}`", span(command.words[0].at, following[0].at), None,
            service=(*map(str, composed.files), service),
        )  # fmt: skip
        yield from self._inside(_Wrapped(command), following[1:], container, variables_told(composed.words))

    def _apptainer(self, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        """`apptainer exec image ...`: the home, the shared memory and the variables are those of the machine."""
        if len(wrapped.words) < 2 or wrapped.words[1].text not in ("exec", "run"):
            return
        options, following, closed = options_of(wrapped.words[2:], known.SINGULARITY)
        environment = dict(wrapped.command.environment)
        given = {"nv", "rocm", "nvccli"} & options.keys() or any(each.endswith("_NV") for each in environment)
        for prefix in ("APPTAINERENV_", "SINGULARITYENV_"):
            environment |= {
                name.removeprefix(prefix): bound
                for name, bound in wrapped.command.environment.items()
                if name.startswith(prefix)
            }
        said = span(wrapped.words[0].at, wrapped.words[1].at)
        container = Container(
            f"`{wrapped.words[0].shown} {wrapped.words[1].text}`", said, "host",
            gpus="given" if given else "" if closed else None, gpus_remedy="`--nv`",
        )  # fmt: skip
        own = _CommandReader(self._text, self._directives, container, self._scripts)
        yield from own.starts(wrapped.inner(following[1:], environment=environment))

    def _torchx(self, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        """`torchx run dist.ddp -j 2x8 --script train.py`, which has `torchrun` start it."""
        before, following, _ = options_of(wrapped.arguments[1:], known.TORCHX)
        if not wrapped.arguments or wrapped.arguments[0].text != "run" or not following:
            return
        options, given, _ = options_of(following[1:], known.OF_COMPONENT)
        script = options.get("script", options.get("module"))
        if following[0].text != "dist.ddp" or script is None or script.value is None:
            return
        size = options.get("j") or StartOption("j", Word(("1x2",), following[0].at), following[0].at)
        nodes, _, each = (size.text or "").rpartition("x")
        meets = {"rdzv-backend": Word(("c10d",), size.at), "rdzv-endpoint": Word((Hole("host"),), size.at)}
        counts = {"nnodes": nodes or "1", "nproc-per-node": each}
        made = {name: StartOption(name, word, size.at) for name, word in meets.items()}
        made |= {name: StartOption(name, Word((count,), size.at), size.at) for name, count in counts.items() if each}
        if "module" in options:
            made["module"] = options["module"]
        scheduler = before["s"].text if "s" in before else "local_cwd"
        told = dict(wrapped.command.environment) if (scheduler or "").startswith("local") else {}
        if "gpu" in options and options["gpu"].number:
            show_gpus(told, options["gpu"].number, options["gpu"].at)
        here = wrapped.inner(wrapped.words, environment=told)
        yield self._made(StartedBy.TORCHRUN, here, made, (script.value, *given), bool(each))

    # --- launchers and programs ---

    def _program(self, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        first, rest = wrapped.words[0], wrapped.arguments
        name = _base(first)
        script = name.endswith(known.SCRIPTS) and "/" in first.shown
        if name in _LAUNCHERS:
            launcher, syntax, verb = _LAUNCHERS[name]
            if not verb or (rest and rest[0].text == verb):
                # `lightning run model train.py`
                skipped = 0 if not verb else 2 if len(rest) > 1 and rest[1].text == "model" else 1
                options, following, closed = options_of(rest[skipped:], syntax)
                # Of its own accord it starts one for each GPU.
                closed = closed and (name != "colossalai" or "nproc-per-node" in options)
                yield self._made(launcher, wrapped, options, following, closed)
        elif _is_python(name):
            yield from self._python(wrapped)
        elif script or (name.endswith(".py") and "/" in (first.text or "")):
            yield self._made(StartedBy.SCRIPT if script else StartedBy.PYTHON, wrapped, {}, wrapped.words, True)
        elif not name and first.open and rest and _base(rest[0]) in known.STARTING:
            # `$PROFILER torchrun ...`: whatever stands before it, this is started.
            yield from self.starts(wrapped.inner(rest))
        elif not name and rest and rest[0].text == "-m":
            # `$PYTHON -m torch.distributed.run`
            yield from self._python(wrapped)
        elif name and name == first.text:
            yield self._made(StartedBy.COMMAND, wrapped, {}, wrapped.words, True)
            yield from self._in_words_of(name, wrapped)

    def _in_words_of(self, name: str, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        """What a command starts that only its words tell: `gosu user torchrun ...`, `su -c "..."`, `... -- python`."""
        there = wrapped if name not in known.ELSEWHERE else wrapped.inner(wrapped.words, environment=_asked(wrapped))
        if name in known.QUOTING:
            for word in wrapped.arguments:
                value = word.after("--command=") or word
                if " " in value.shown:
                    yield from self._script(there, value, per_node=wrapped.command.per_node)
        at = next((at for at, word in enumerate(wrapped.arguments) if word.text == "--"), None)
        if at is None and name not in known.NAMING:
            words = wrapped.arguments
            at = next((at - 1 for at in range(len(words)) if _is_launcher(words[at:])), None)
        if at is not None:
            yield from self.starts(there.inner(wrapped.arguments[at + 1 :]))

    def _python(self, wrapped: _Wrapped) -> Iterator[ProgramStart]:
        options, following, closed = options_of(wrapped.arguments, known.PYTHON)
        # What is not known may be the script, and what follows its arguments.
        if not closed or "command" in options:
            return
        name = following[0].text if following and "module" in options else None
        if name in known.RUN_OTHERS:
            # `coverage run`
            own = 2 if name == "coverage" else 1
            options, following, _ = options_of(following[own:], known.RUN_OTHERS[name])
            module = (replace(following[0], parts=("-m",)),) if following and "m" in options else ()
            yield from self._python(wrapped.inner((wrapped.words[0], *module, *following)))
            return
        if following and "module" not in options and _base(following[0]) in _LAUNCHERS:
            # `python $(which torchrun) ...`
            yield from self._program(wrapped.inner(following))
            return
        if name in _MODULES:
            launcher, syntax = _MODULES[name]
            options, following, closed = options_of(following[1:], syntax)
            yield self._made(launcher, wrapped, options, following, closed)
        elif following or "module" not in options:
            yield self._made(StartedBy.PYTHON, wrapped, options, following, closed)
            # `python submit.py --gpus 8 -- torchrun ...` has another machine start it.
            behind = tuple(itertools.dropwhile(lambda word: word.text != "--", following))[1:]
            if behind and _is_launcher(behind):
                yield from self.starts(wrapped.inner(behind, environment={}))

    def _made(
        self, launcher: StartedBy, wrapped: _Wrapped, options: StartOptions, following: Sequence[Word], closed: bool
    ) -> ProgramStart:
        command = wrapped.command
        return ProgramStart(
            at=command.at,
            launcher=launcher,
            word=command.words[0],
            options=options,
            closed=closed,
            starters=wrapped.starters,
            script=following[0] if following else None,
            arguments=tuple(following[1:]),
            environment=command.environment,
            directives=self._directives,
            module="module" in options,
            conditional=command.conditional,
            looped=command.looped,
            background=command.background,
            per_node=command.per_node,
            waits=command.waits,
            folder=command.folder,
            container=self._container,
        )


_LAUNCHERS = {
    "torchrun": (StartedBy.TORCHRUN, known.TORCHRUN, ""),
    "accelerate": (StartedBy.ACCELERATE, known.ACCELERATE, "launch"),
    "deepspeed": (StartedBy.DEEPSPEED, known.DEEPSPEED, ""),
    "ds": (StartedBy.DEEPSPEED, known.DEEPSPEED, ""),
    "composer": (StartedBy.COMPOSER, known.COMPOSER, ""),
    "fabric": (StartedBy.FABRIC, known.FABRIC, "run"),
    "lightning": (StartedBy.FABRIC, known.FABRIC, "run"),
    "colossalai": (StartedBy.TORCHRUN, known.COLOSSALAI, "run"),
}
"""Commands, with how they read their options, and the verb that they want first."""
_MODULES = {
    "torch.distributed.run": (StartedBy.TORCHRUN, known.TORCHRUN),
    "torch.distributed.launch": (StartedBy.LAUNCH, known.TORCHRUN),
    "torch.distributed.launcher": (StartedBy.LAUNCH, known.TORCHRUN),
    "accelerate.commands.launch": (StartedBy.ACCELERATE, known.ACCELERATE),
    "deepspeed.launcher.runner": (StartedBy.DEEPSPEED, known.DEEPSPEED),
    "deepspeed": (StartedBy.DEEPSPEED, known.DEEPSPEED),
}
_READERS: Mapping[str, Callable[[_CommandReader, _Wrapped], Iterator[ProgramStart]]] = {
    **dict.fromkeys(known.PLAIN, _CommandReader._plain),
    **dict.fromkeys(known.WRAPPERS, _CommandReader._wrapper),
    **dict.fromkeys(known.RUNNERS, _CommandReader._runner),
    **dict.fromkeys(known.SHELLS, _CommandReader._shell),
    **dict.fromkeys(known.MPI, _CommandReader._mpirun),
    **dict.fromkeys(known.ON_ALL, _CommandReader._on_all),
    **dict.fromkeys(("tmux", "screen"), _CommandReader._terminal),
    **dict.fromkeys(("xargs", "parallel"), _CommandReader._repeated),
    **dict.fromkeys(("docker-compose", *known.CONTAINERS), _CommandReader._docker),
    **dict.fromkeys(("apptainer", "singularity"), _CommandReader._apptainer),
    **dict.fromkeys(known.BATCH, _CommandReader._batch),
    **dict.fromkeys(("cat", "tee"), _CommandReader._written),
    "torchx": _CommandReader._torchx,
    "eval": _CommandReader._eval,
    "srun": _CommandReader._srun,
    "ssh": _CommandReader._remote,
}


def _base(word: Word) -> str:
    text = word.usual
    if text is None:
        # `$CONDA_PREFIX/bin/torchrun`, `$(which torchrun)`
        last = word.parts[-1]
        of = last.commands if isinstance(last, Hole) else ()
        text = last if isinstance(last, str) and "/" in last else ""
        if len(of) == 1 and of[0][0] in ("which", "command", "type"):
            text = of[0][-1]
    return text.rpartition("/")[2] if not text.endswith(".py") else text


def _one_word(words: Sequence[Word]) -> Word:
    """Words with blanks between them, as `eval` reads them."""
    parts: list[WordPart] = []
    spans: list[tuple[int, int]] = []
    for word in words:
        if len(word.inside) == len(word.parts):
            end = word.inside[0][0]
            parts += [" ", *word.parts] if parts else word.parts
            spans += [(end, end), *word.inside] if spans else word.inside
    return replace(words[0], parts=tuple(parts), inside=tuple(spans))


def _is_launcher(words: Sequence[Word]) -> bool:
    """A launcher with a program, as words of another command."""
    name, rest = _base(words[0]), words[1:]
    if _is_python(name):
        modules = [each.text for each in rest]
        return any(module in _MODULES for flag, module in itertools.pairwise(modules) if flag == "-m")
    verb = _LAUNCHERS[name][2] if name in _LAUNCHERS else None
    starts = verb == "" or (verb is not None and bool(rest) and rest[0].text == verb)
    return starts and any(each.shown.endswith(".py") or each.text == "-m" for each in rest)


def _is_python(name: str) -> bool:
    return name == "python" or (name.startswith("python") and name[6:].replace(".", "").isdecimal())


def runs_on_each(starters: Sequence[Starter]) -> bool:
    """Each process of what they start expands its own words."""
    return any(each.name in ("srun", "mpirun") for each in starters)


def _told(words: Sequence[Word], command: ShellCommand) -> Environment:
    """With the variables that `mpirun -x NAME=value` sets."""
    found = dict(command.environment)
    for each in values_of(words, ("-x",)):
        name, equals, value = (each.text or "").partition("=")
        if equals:
            found[name] = ShellVariable((Word((value,), each.at),), each.at, True)
    return found


def _asked(wrapped: _Wrapped) -> Environment:
    """What a service shows that is asked for GPUs: `runai submit --gpu 2`, `sky launch --gpus A100:2`."""
    told: dict[str, ShellVariable] = {}
    before = tuple(itertools.takewhile(lambda word: word.text != "--", wrapped.arguments))
    for value in values_of(before, known.ASKS_GPUS):
        count = (value.text or "").rpartition(":")[2]
        if count.isdecimal() and int(count):
            show_gpus(told, int(count), value.at)
    return told
