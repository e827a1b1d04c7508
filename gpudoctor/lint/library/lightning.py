"""Lightning's `Trainer`: what it calls of a program, in its order, as a program that is followed in its place."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from gpudoctor.lint.contents import find_in_class, find_method, known_items
from gpudoctor.lint.domain.abstract_state import NO, ManagerState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import ListOf, TupleOf
from gpudoctor.lint.domain.function import BoundMethod, Class, Function, Library, Method, class_of
from gpudoctor.lint.domain.group import ManagedObject
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.optim import Optimizer
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource
from gpudoctor.lint.domain.value import FALSE, NONE, Anonymous, Const, Unknown, Value, Values, single_of
from gpudoctor.lint.events.knowledge import LoopRun
from gpudoctor.lint.library.frameworks import RUNS_BY_ITSELF, prepared, take_charge
from gpudoctor.lint.library.stub_models import managed_method
from gpudoctor.lint.library_call import MODELS, NOT_ANSWERED, Call, flatten, singleton

_ROOTS = frozenset({"lightning", "pytorch_lightning"})
_RANK_ZERO = (
    *(f"lightning.{part}.utilities{room}" for part in ("pytorch", "fabric") for room in ("", ".rank_zero")),
    "lightning.pytorch.utilities.distributed", "lightning_utilities.core.rank_zero",
)  # fmt: skip
_OF_THE_FILE = frozenset({"checkpoint_path", "map_location", "hparams_file", "strict", "weights_only"})
_BATCH = ("batch", "batch_idx", "dataloader_idx")
_HANDED: dict[str, tuple[str, ...]] = {
    "setup": ("stage",), "on_before_backward": ("loss",), "on_before_zero_grad": ("optimizer0",),
    "on_before_optimizer_step": ("optimizer0",), "training_epoch_end": ("outs",), "validation_epoch_end": ("outs",),
    "test_epoch_end": ("outs",),
    **{f"{kind}_step": _BATCH for kind in ("training", "validation", "test", "predict")},
    **{f"on_{kind}_batch_start": _BATCH for kind in ("train", "validation", "test", "predict")},
    **{f"on_{kind}_batch_end": ("out", *_BATCH) for kind in ("train", "validation", "test", "predict")},
}  # fmt: skip
"""What is handed to a hook of the module, as the programs below call it; a callback gets trainer and module first. Of a
hook that takes fewer, the first ones."""
_KINDS = {"validate": "validation", "test": "test", "predict": "predict"}
_LOADERS = {
    "train": ("train_dataloader", "train_dataloaders"), "validation": ("val_dataloader", "val_dataloaders"),
    "test": ("test_dataloader", "dataloaders"), "predict": ("predict_dataloader", "dataloaders"),
}  # fmt: skip
"""The method that makes the loader, and the argument that it may come in."""


@MODELS.method(ManagedObject, "fit", "validate", "test", "predict")
def _train_or_evaluate(call: Call[ManagedObject]) -> Values:
    # What one process does alone asks no other rank.
    alone = call.do.flag(call.receiver, ManagerState.alone) is not NO
    answer = singleton(NONE) if alone else managed_method(call)
    model = call.arg(0, "model") if call.receiver.framework == "lightning" else None
    if model is not None:
        call.do.for_each_value(model, lambda each: _follow(call, each), call.node)
    return answer


@MODELS.callable(RUNS_BY_ITSELF)
def _command_line(call: Call) -> Values:
    """`LightningCLI(Net, Data)` makes both with what the command line says, and trains."""
    made = take_charge(call)
    model, data = call.arg(0, "model_class"), call.arg(1, "datamodule_class")
    # Which of the classes below it the command line picks, nobody has written.
    if model is None or call.is_true(-1, "subclass_mode_model") or call.constant(-1, "run") is False:
        return made
    settings = Arguments((), {}, ())
    trainer = call.do.call(singleton(Library("lightning.pytorch.Trainer")), settings, call.node)
    given = {"model": call.do.call(model, settings, call.node)}
    if data is not None and not call.is_true(-1, "subclass_mode_data"):
        given["datamodule"] = call.do.call(data, settings, call.node)
    call.do.call(call.do.attribute(next(iter(trainer)), "fit", call.node), Arguments((), given), call.node)
    return made


def _follow(call: Call[ManagedObject], model: Value) -> Values:
    if isinstance(model, Module):
        _FollowedCall(call, model).follow()
    return singleton(NONE)


@MODELS.method(Class, "load_from_checkpoint")
def _load_from_checkpoint(call: Call[Class]) -> Values:
    """An object of the class: what is not given here comes from the file."""
    if not any(name.partition(".")[0] in _ROOTS for name in call.receiver.library_bases):
        return NOT_ANSWERED
    given = {name: values for name, values in call.keywords.items() if name not in _OF_THE_FILE}
    return call.do.call(singleton(call.receiver), Arguments((), given, call.rest or ()), call.node)


@MODELS.decorator(*(f"{where}.rank_zero_only" for where in _RANK_ZERO))
def _rank_zero_only(call: Call) -> Values:
    rank: Value = Rank(RankKind.GLOBAL, RankSource.FRAMEWORK, place=call.place)
    lines = ["if rank == 0:", "    return decorated(*args, **kwargs)"]
    function = _written("rank_zero_only", "*args, decorated, rank, **kwargs", lines, call.node)
    given = singleton(rank if call.do.several_processes else Const(0))
    return singleton(call.do.modules.function_of(function, decorated=call.args[0], rank=given))


class _FollowedCall:
    """One call of `fit`, `validate`, `test` or `predict`. What its programs have names for stands in `named`."""

    def __init__(self, call: Call[ManagedObject], model: Module) -> None:
        self._call, self._do, self._model = call, call.do, model
        self._named: dict[str, Values] = {
            "trainer": singleton(call.receiver), "model": singleton(model), "torch": singleton(Library("torch")),
            "stage": singleton(Const(call.name)), "dataloader_idx": singleton(Const(0)),
            **{name: self._unknown(name) for name in ("epochs", "device", "outs")},
        }  # fmt: skip
        self._give_model(singleton(call.receiver))
        data = self._data_module()
        if data is not None:
            self._named["data"] = singleton(data)
        held = call.do.state(call.receiver, ManagerState.callbacks)
        for number, values in enumerate(known_items(call.do, single_of(held)) or ()):
            self._named[f"callback{number}"] = values

    def _give_model(self, trainer: Values) -> None:
        """What the module has of the trainer that runs it."""
        managed, node = self._call.receiver, self._call.node
        given = {name: self._do.attribute(managed, name, node) for name in ("global_rank", "local_rank")}
        given |= {name: singleton(Method(managed, name)) for name in ("all_gather", "manual_backward")}
        for name, values in {"trainer": trainer, **given}.items():
            if find_method(self._do, self._model, name) is None:
                self._do.set_own_attribute(self._model, name, values)

    def _unknown(self, name: str) -> Values:
        term = Anonymous(name, self._call.allocation_site())
        return singleton(Unknown(term, "what Lightning chooses", name, config=True))

    def _data_module(self) -> Value | None:
        """It may stand where the loaders do."""
        named, behind = self._call.arg(3, "datamodule"), self._call.arg(1, "")
        if named is not None:
            return named.single
        known = behind.single if behind is not None else None
        makes = known is not None and any(find_method(self._do, known, method) for method, _ in _LOADERS.values())
        return known if makes else None

    def follow(self) -> None:
        training = self._call.name == "fit"
        made = self._execute(self._preparing(training))
        if training:
            found = (value for value in flatten(self._do, list(made)) if isinstance(value, Optimizer))
            self._named |= {f"optimizer{number}": singleton(each) for number, each in enumerate(dict.fromkeys(found))}
        kinds = ("train", "validation") if training else (_KINDS[self._call.name],)
        loaders = {kind: loader for kind in kinds if (loader := self._loader(kind)) is not None}
        self._named |= {f"{kind}_loader": loader for kind, loader in loaders.items()}
        self._execute(self._fitting(loaders) if training else self._evaluating(kinds[0], loaders))
        step = self._method("model", "training_step" if training else f"{kinds[0]}_step")
        if step is not None and kinds[0] in loaders:
            self._call.emit(LoopRun, step=step.place)

    def _loader(self, kind: str) -> Values | None:
        method, argument = _LOADERS[kind]
        position = 2 if kind == "validation" and self._call.name == "fit" else 1
        # Before version 1.4 the argument had the name of the method.
        given = self._call.arg(position, argument) or self._call.keywords.get(method)
        if given is None or given == self._named.get("data"):
            lines = [f"return {line}" for owner in ("data", "model") for line in self._calls(owner, method)]
            given = self._execute(lines[:1]) if lines else None
        if given is None:
            return None
        # Several loaders are gone over one after the other.
        if isinstance(given.single, (ListOf, TupleOf)):
            given = self._do.items_of(given, self._call.node)
        return given.map(lambda value: prepared(self._call, self._call.receiver, value))

    # --- the programs -------------------------------------------------------------------------------------------------

    def _preparing(self, training: bool) -> Iterator[str]:
        alone = [line for owner in ("data", "model") for line in self._calls(owner, "prepare_data")]
        if alone:
            yield "if trainer.local_rank == 0:"
            yield from _indented(alone)
        yield from self._calls("data", "setup")
        yield from self._hooks("setup")
        yield from self._calls("model", "configure_model")
        if training:
            yield from (f"return {line}" for line in self._calls("model", "configure_optimizers"))

    def _fitting(self, loaders: Collection[str]) -> Iterator[str]:
        yield "model.to(device)"
        yield from self._hooks("on_fit_start")
        yield from self._hooks("on_train_start")
        yield "model.train()"
        yield "for epoch in range(epochs):"
        yield from _indented(self._epoch(loaders))
        yield from self._hooks("on_train_end")
        yield from self._hooks("on_fit_end")

    def _epoch(self, loaders: Collection[str]) -> Iterator[str]:
        yield from self._hooks("on_train_epoch_start")
        if "train" in loaders:
            yield "for batch_idx, batch in enumerate(train_loader):"
            yield from _indented(self._training_step())
        if "validation" in loaders:
            yield from self._evaluating("validation", loaders)
            yield "model.train()"
        yield from self._hooks("training_epoch_end")
        yield from self._hooks("on_train_epoch_end")
        yield "pass"

    def _training_step(self) -> Iterator[str]:
        yield from self._hooks("on_train_batch_start")
        yield from (f"out = {line}" for line in self._calls("model", "training_step"))
        if self._is_automatic():
            yield "loss = out['loss'] if isinstance(out, dict) else out"
            yield "if loss is not None:"
            yield from _indented(self._optimization())
        yield from self._hooks("on_train_batch_end")

    def _optimization(self) -> Iterator[str]:
        optimizers = [name for name in self._named if name.startswith("optimizer")]
        yield from (f"{name}.zero_grad()" for name in optimizers)
        yield from self._hooks("on_before_backward")
        yield "loss.backward()"
        yield from self._hooks("on_after_backward")
        yield from self._hooks("on_before_optimizer_step")
        yield from (f"{name}.step()" for name in optimizers)

    def _evaluating(self, kind: str, loaders: Collection[str]) -> Iterator[str]:
        yield "model.eval()"
        yield "with torch.no_grad():"
        yield from _indented(self._hooks(f"on_{kind}_epoch_start"))
        if kind in loaders:
            yield f"    for batch_idx, batch in enumerate({kind}_loader):"
            yield from _indented(_indented(self._evaluation_step(kind)))
        yield from _indented(self._hooks(f"{kind}_epoch_end"))
        yield from _indented(self._hooks(f"on_{kind}_epoch_end"))
        yield "    pass"

    def _evaluation_step(self, kind: str) -> Iterator[str]:
        yield from self._hooks(f"on_{kind}_batch_start")
        yield "out = None"
        yield from (f"out = {line}" for line in self._calls("model", f"{kind}_step"))
        yield from self._hooks(f"on_{kind}_batch_end")

    def _is_automatic(self) -> bool:
        name = "automatic_optimization"
        cls = class_of(self._model)
        values = self._do.own_attribute(self._model, name) or (find_in_class(self._do, cls, name) if cls else None)
        return values is None or values.single != FALSE

    # --- its calls ----------------------------------------------------------------------------------------------------

    def _hooks(self, name: str) -> Iterator[str]:
        """Of the callbacks first, and then of the module."""
        for owner in (*(each for each in self._named if each.startswith("callback")), "model"):
            yield from self._calls(owner, name)

    def _calls(self, owner: str, name: str) -> Iterator[str]:
        """The call of a method, where the program has written it."""
        method = self._method(owner, name)
        if method is not None:
            handed = (*(("trainer", "model") if owner.startswith("callback") else ()), *_HANDED.get(name, ()))
            there = [each for each in handed if each != "optimizer0" or each in self._named]
            parameters = method.node.args
            count = len(parameters.posonlyargs) + len(parameters.args) - 1
            yield f"{owner}.{name}({', '.join(there if parameters.vararg else there[:count])})"

    def _method(self, owner: str, name: str) -> Function | None:
        known = self._named[owner].single if owner in self._named else None
        found = find_method(self._do, known, name) if known is not None else None
        method = found.single if found is not None else None
        function = method.function if isinstance(method, BoundMethod) else None
        return function if isinstance(function, Function) else None

    def _execute(self, lines: Iterable[str]) -> Values:
        """Follow a program that stands where Lightning is called."""
        function = _written(self._call.name, ", ".join(self._named), [*lines, "return None"], self._call.node)
        made = self._do.modules.function_of(function)
        return self._do.call(singleton(made), Arguments((), dict(self._named)), self._call.node)


def _written(name: str, parameters: str, lines: Iterable[str], at: ast.AST) -> ast.FunctionDef:
    """A function of these lines, all of which stand where the program calls the library."""
    function = ast.parse("\n".join([f"def {name}({parameters}):", *_indented(lines)])).body[0]
    assert isinstance(function, ast.FunctionDef)
    for node in ast.walk(function):
        if hasattr(node, "lineno"):
            ast.copy_location(node, at)
    return function


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)
