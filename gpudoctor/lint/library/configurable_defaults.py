"""Functions and classes whose parameters a file of gin sets, or the command line by argbind: a default is what holds
where nobody says anything."""

from __future__ import annotations

from gpudoctor.lint.domain.abstract_state import SettingState
from gpudoctor.lint.domain.function import Class, Function, Library
from gpudoctor.lint.domain.symbols import Setting
from gpudoctor.lint.domain.value import Const, Unknown, Values, single_of
from gpudoctor.lint.events.process import SettingDefault
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, singleton
from gpudoctor.record import replace


@MODELS.callable("gin.external_configurable", "argbind.bind")
def _bound(call: Call) -> Values:
    """`AdamW = argbind.bind(torch.optim.AdamW, "generator")`; without a function it makes a decorator."""
    return _configurable(call) if isinstance(call.first, (Class, Function, Library)) else NOT_ANSWERED


@MODELS.decorator("gin.configurable", "gin.register", "argbind.bind")
def _configurable(call: Call) -> Values:
    made = single_of(call.args[0])
    if isinstance(made, Function):
        return singleton(_with_open_defaults(call, made, made.label))
    start = single_of(call.do.own_attribute(made.scope, "__init__")) if isinstance(made, Class) else None
    if isinstance(made, Class) and isinstance(start, Function):
        opened = _with_open_defaults(call, start, made.label)
        call.do.set_own_attribute(made.scope, "__init__", singleton(opened))
    return call.args[0]


def _with_open_defaults(call: Call, function: Function, named: str) -> Function:
    names = function.node.args
    positional = [each.arg for each in (*names.posonlyargs, *names.args)]
    last = positional[len(positional) - len(function.defaults) :]
    written = zip(last, function.defaults, strict=True)
    return replace(
        function,
        defaults=tuple([_open_default(call, f"{named}.{name}", held) for name, held in written]),
        keyword_defaults=tuple(
            [(name, _open_default(call, f"{named}.{name}", held)) for name, held in function.keyword_defaults]
        ),
    )


def _open_default(call: Call, text: str, default: Values) -> Values:
    """A setting, called as the file calls it."""
    left_out = default.single
    if not isinstance(left_out, Const):
        return default
    setting = Unknown(Setting(text), "chosen at the start", text, config=True)
    call.do.set_state(setting, SettingState.left_out, default)
    call.emit(SettingDefault, value=setting, text=text, left_out=left_out)
    return singleton(call.do.launch.setting(setting, call.place, left_out))
