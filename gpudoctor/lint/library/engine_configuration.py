"""The configuration of DeepSpeed, where it stands in the program or in a file that the program names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpudoctor.lint.domain.abstract_state import SettingState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import DictOf
from gpudoctor.lint.domain.value import Anonymous, Const, Unknown, Value, Values, single_of, text_of
from gpudoctor.lint.interface.contents import default_of, pairs
from gpudoctor.lint.interface.library_call import Call, singleton
from gpudoctor.record import dataclass

_ENGINE, _OF_ENGINE = "engine", "engine."
_UNDECIDED = Anonymous("configuration", "deepspeed")
"""What is no plain value."""


@dataclass(frozen=True)
class EngineSettings:
    """What DeepSpeed is configured for, flat: `zero_optimization.stage`; None where it is not all known. `path` is the
    file that says it, without links; empty where the program itself does."""

    values: dict[str, Values] | None = None
    path: str = ""
    launched: bool = False
    """The launcher hands over a file with it."""

    @property
    def entries(self) -> Arguments | None:
        """The same, as events have it."""
        return Arguments(keywords=dict(self.values)) if self.values is not None else None


def configuration(call: Call, given: Values | None) -> EngineSettings:
    """The configuration of DeepSpeed that stands in the program or in a file that it names."""
    value = single_of(given)
    name = _named(call, value)
    path, document = (call.do.modules.settings_in(name) if name is not None else None) or ("", None)
    if isinstance(document, dict):
        return EngineSettings(_written(call, value, dict(_flat("", document))), path)
    found: dict[str, Values] = {}
    return EngineSettings(found if _flattened(call, value, "", found) else None)


def launched_configuration(call: Call) -> EngineSettings:
    """The configuration that the launcher hands over, as far as its settings files say."""
    said = call.do.launch.configured.items()
    known = {key.removeprefix(_OF_ENGINE): singleton(_plain(text)) for key, text in said if key.startswith(_OF_ENGINE)}
    return EngineSettings(known or None, launched=_ENGINE in call.do.launch.configured)


def _plain(text: str) -> Const:
    if text.lower() in ("true", "false"):
        return Const(text.lower() == "true")
    try:
        return Const(int(text))
    except ValueError:
        pass
    try:
        return Const(float(text))
    except ValueError:
        return Const(text)


def _named(call: Call, value: Value | None) -> str | None:
    """The file that holds it all: `config="ds.json"`, `config=json.load(open("ds.json"))`, or the one of the options
    `--deepspeed --deepspeed_config ds.json` that the launch gives."""
    if value is None:
        chosen = call.do.launch.option(("--deepspeed_config",)) if call.arg(0, "args") is not None else None
        return chosen if isinstance(chosen, str) else None
    read = call.do.state(value, SettingState.read_from) if isinstance(value, DictOf) else None
    if read is not None:
        return text_of(read.single)
    # Of a file that the user chooses, what he chooses by default.
    return text_of(value) or text_of(default_of(call.do, value))


def _written(call: Call, value: Value | None, written: Mapping[str, object]) -> dict[str, Values]:
    """What stands in the file, with what the program has put in its place."""
    found: dict[str, Values] = {}
    _flattened(call, value, "", found)
    for name, held in written.items():
        plain = Const(held) if held is not None else Unknown(_UNDECIDED, "a part of the configuration")
        put = single_of(found.get(name))
        if put is None or put.is_mutable or default_of(call.do, put) == plain:
            found[name] = singleton(plain)
    return found


def _flattened(call: Call, value: Value | None, under: str, found: dict[str, Values]) -> bool:
    entries = pairs(call.do, value)
    for key, held in entries or ():
        name = text_of(key.single)
        if name is None:
            return False
        only = held.single
        if isinstance(only, DictOf) and not _flattened(call, only, f"{under}{name}.", found):
            return False
        found[f"{under}{name}"] = held
    return entries is not None


def _flat(above: str, members: Mapping[str, object]) -> Iterator[tuple[str, str | int | float | bool | None]]:
    """The plain values by their keys with those above them (`fp16.enabled`), and None for what is no plain value."""
    for name, value in members.items():
        if isinstance(value, dict):
            yield f"{above}{name}", None
            yield from _flat(f"{above}{name}.", value)
        else:
            yield f"{above}{name}", value if isinstance(value, (str, int, float, bool)) else None
