"""Commands of Docker Compose: the files that they name, and what they run in a service."""

from __future__ import annotations

from gpudoctor.lint.launchfiles.shell_words import ShellCommand, Word
from gpudoctor.lint.launchfiles.start import StartOptions
from gpudoctor.lint.launchfiles.syntax import Syntax, options_of, values_of, words_of
from gpudoctor.record import dataclass

_COMPOSE = Syntax(words_of("all-resources compatibility dry-run verbose"), {"f": "file", "p": "project-name"})
_RUN = Syntax(
    words_of(
        "rm d detach T no-TTY build no-deps service-ports P use-aliases i interactive quiet-pull quiet-build "
        "remove-orphans privileged it"
    ),
    {"e": "env", "u": "user", "v": "volume", "w": "workdir", "l": "label", "p": "publish"},
)
IN_SERVICE = frozenset({"run", "exec"})


@dataclass(frozen=True)
class ComposeCommand:
    """A command of Compose: the files that it lays over each other (None for one that is not known), what it does with
    them, and the words behind that."""

    files: tuple[str | None, ...]
    does: str
    words: tuple[Word, ...]

    @property
    def in_service(self) -> tuple[StartOptions, tuple[Word, ...]]:
        """The options of `run` and `exec`, and the service with the words that run in it."""
        options, following, _ = options_of(self.words, _RUN)
        return options, following


def compose_command(command: ShellCommand) -> ComposeCommand | None:
    """What a command of Compose says; None for every other command."""
    words = command.words[command.words[0].text == "sudo" :]
    names = [word.text for word in words[:2]]
    if names == ["docker", "compose"]:
        words = words[2:]
    elif names[:1] == ["docker-compose"]:
        words = words[1:]
    else:
        return None
    _, following, _ = options_of(words, _COMPOSE)
    files = tuple(each.text for each in values_of(words[: len(words) - len(following)], ("-f", "--file")))
    told = command.environment.get("COMPOSE_FILE")
    if not files and told is not None:
        files = tuple(told.word.text.split(":")) if told.word.text else (None,)
    return ComposeCommand(files, (following[0].text or "") if following else "", following[1:])
