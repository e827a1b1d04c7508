"""Lightning: what its stub cannot say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.function import Class, Instance, Namespace, class_of
from gpudoctor.lint.domain.group import ManagedObject
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource
from gpudoctor.lint.domain.value import NONE, Anonymous, Const, Value, Values, single_of, text_of
from gpudoctor.lint.flow.valueset import ValueSet, union
from gpudoctor.lint.interface.contents import known_items, possible_pairs
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, said_by_stub, singleton
from gpudoctor.lint.library.frameworks import option_names
from gpudoctor.lint.library.missing_attributes import note_opened
from gpudoctor.lint.library.stub_bodies import follow
from gpudoctor.lint.library.stub_models import managed_method
from gpudoctor.record import replace

_ROOTS = frozenset({"lightning", "pytorch_lightning"})
_RANK_ZERO = (
    *(f"lightning.{part}.utilities{room}" for part in ("pytorch", "fabric") for room in ("", ".rank_zero")),
    "lightning.pytorch.utilities.distributed", "lightning_utilities.core.rank_zero",
)  # fmt: skip
_OF_THE_FILE = frozenset({"checkpoint_path", "map_location", "hparams_file", "strict", "weights_only"})


@MODELS.method(ManagedObject, "fit", "validate", "test", "predict")
def _train_or_evaluate(call: Call[ManagedObject]) -> Values:
    """Each of the models that it may be is trained on a path of its own."""
    model = call.arg(0, "model") if call.receiver.framework == "lightning" else None
    if model is None:
        return managed_method(call)
    answer = said_by_stub(call)
    call.do.for_each_value(model, lambda each: _follow(call, each), call.node)
    return answer


def _follow(call: Call[ManagedObject], model: Value) -> Values:
    if isinstance(model, Module):
        behind = {name: _where_given(values) for name, values in call.keywords.items() if name != "model"}
        others = tuple(map(_where_given, call.args if "model" in call.keywords else call.args[1:]))
        given = Arguments((singleton(model), *others), behind, call.arguments.rest)
        follow(replace(call, arguments=given), call.full_name, call.receiver)
    return singleton(NONE)


def _where_given(values: Values) -> Values:
    """Data that are None on some paths only: where they are, nothing is trained."""
    given = ValueSet([each for each in values.bindings if each.value != NONE])
    return given if given.bindings else values


@MODELS.callable("lightning.pytorch.Trainer.add_argparse_args")
def _with_its_options(call: Call) -> Values:
    """The parser, with options of which no more is said in the program."""
    parser = call.arg(0, "parent_parser")
    note_opened(call.do, parser or ())
    return parser or NOT_ANSWERED


def _is_lightning(cls: Class) -> bool:
    return any(name.partition(".")[0] in _ROOTS for name in cls.library_bases)


@MODELS.method(Class, "from_argparse_args")
def _from_options(call: Call[Class]) -> Values:
    """`DataModule.from_argparse_args(args, transform=t)`: each parameter is the option of its name, where there is
    one."""
    options = call.arg(0, "args")
    if options is None or not _is_lightning(call.receiver):
        return NOT_ANSWERED
    held = single_of(options)
    known = option_names(call, held) if isinstance(held, Namespace) else None

    def chosen(name: str, default: Values | None) -> Values:
        if name in call.keywords:
            return call.keywords[name]
        if default is not None and known is not None and name not in known:
            return default
        return union([call.do.attribute(each, name, call.node) for each in options])

    return call.do.modules.object_of_settings(call.receiver, call.node, chosen)


@MODELS.method(Class, "load_from_checkpoint")
def _load_from_checkpoint(call: Call[Class]) -> Values:
    """An object of the class, where its weights were loaded to: what is not given here comes from the file."""
    if not _is_lightning(call.receiver):
        return NOT_ANSWERED
    given = {name: values for name, values in call.keywords.items() if name not in _OF_THE_FILE}
    made = call.do.call(singleton(call.receiver), Arguments((), given, call.rest or ()), call.node)
    # Left out, they are loaded to where they were saved.
    saved = call.unknown(Anonymous("device", call.allocation_site()), "the device of a checkpoint")
    where = Arguments((call.arg(1, "map_location") or saved,))
    for each in made:
        if isinstance(each, Module):
            call.do.call(call.do.attribute(each, "to", call.node), where, call.node)
    return made


@MODELS.method((Module, Instance), "save_hyperparameters")
def _save_hyperparameters(call: Call[Module | Instance]) -> Values:
    """`self.hparams` has what the constructor was given, or one thing that was given to this."""
    cls = class_of(call.receiver)
    if cls is None or not _is_lightning(cls):
        return NOT_ANSWERED
    given = call.do.execution.parameters
    only = call.args[0] if len(call.args) == 1 and text_of(call.args[0].single) is None else None
    if only is None:
        made = Namespace(call.allocation_site(), call.place, "self.hparams", "lightning")
        for name, values in _hyperparameters(call, given):
            call.do.set_own_attribute(made, name, values)
        only = singleton(made)
    call.do.set_own_attribute(call.receiver, "hparams", only)
    return singleton(NONE)


def _hyperparameters(call: Call, given: dict[str, Values]) -> Iterator[tuple[str, Values]]:
    """What is kept: all, or what is chosen by name; of `**more` each entry."""
    ignored = call.keywords.get("ignore") or singleton(NONE)
    chosen, left_out = _texts(call.args), _texts(known_items(call.do, single_of(ignored)) or (ignored,))
    for name, values in given.items():
        behind = [(text_of(key.single), held) for key, held in possible_pairs(call.do, single_of(values) or NONE)]
        for each, held in behind if name.startswith("**") else [(name, values)]:
            if each is not None and (not chosen or each in chosen) and each not in left_out:
                yield each, held


def _texts(given: Iterable[Values]) -> set[str]:
    return {text for each in given if (text := text_of(each.single)) is not None}


_ON_RANK_ZERO = """def rank_zero_only(*args, decorated, rank, **kwargs):
    if rank == 0:
        return decorated(*args, **kwargs)"""


@MODELS.decorator(*(f"{where}.rank_zero_only" for where in _RANK_ZERO))
def _rank_zero_only(call: Call) -> Values:
    rank: Value = Rank(RankKind.GLOBAL, RankSource.FRAMEWORK, place=call.place)
    given = singleton(rank if call.do.several_processes else Const(0))
    return singleton(call.do.modules.function_at(_ON_RANK_ZERO, call.node, decorated=call.args[0], rank=given))
