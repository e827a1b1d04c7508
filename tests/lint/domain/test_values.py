"""Values: which are the same, what they depend on, and how wrappers and samplers are taken apart."""

from types import SimpleNamespace

import pytest

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.container import Range, Slice
from gpudoctor.lint.domain.data import Loader, Sampler
from gpudoctor.lint.domain.device import CPU, Device
from gpudoctor.lint.domain.module import Module, Wrapper, WrapperKind
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource, Size, SizeKind
from gpudoctor.lint.domain.symbols import Setting
from gpudoctor.lint.domain.tensor import Tensor, TensorOrigin
from gpudoctor.lint.domain.value import FALSE, NONE, TRUE, Anonymous, Const, Text, Truth, Unknown, Value
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.flow.condition import Atom, Divergence, Literal
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.questions.names import name_of

HERE, THERE = Location("train.py", 1), Location("train.py", 2)
RANK = Rank(RankKind.GLOBAL, RankSource.ENVIRONMENT)
LOSS = Unknown(Anonymous("loss"), dependence=Divergence.LOCAL)


@pytest.mark.parametrize(
    ("one", "other"),
    [(TRUE, Const(1)), (FALSE, Const(0)), (Const(1), Const(1.0)), (NONE, FALSE), (Const("1"), Const(1))],
)
def test_constants_of_different_types_differ(one: Const, other: Const):
    assert one != other
    assert len({one, other}) == 2


@pytest.mark.parametrize("value", ["nan", complex(0, float("nan"))])
def test_what_is_no_number_is_the_same_constant_each_time(value: object):
    number = complex if isinstance(value, complex) else float
    one, other = Const(number(value)), Const(number(str(value)))  # type: ignore[call-overload]
    assert one == other
    assert hash(one) == hash(other)
    assert one != Const(0.0)


def test_constants_are_known_by_type_and_value():
    assert Const(3) == Const(3)
    assert hash(Const("a")) == hash(Const("a"))
    assert Const(3) != 3
    assert repr(Const("a")) == "'a'"


def test_unknown_values_are_the_same_where_their_keys_are():
    one, again = Unknown(Setting("lr"), "why", "args.lr", config=True), Unknown(Setting("lr"))
    assert one == again
    assert len({one, again, Unknown(Setting("seed"))}) == 2
    assert one != ("setting", "lr")


def test_made_values_are_known_by_identity_and_kind():
    module = Module("first", HERE, "model")
    assert module == Module("first", THERE, "another label")
    assert module != Module("second", HERE, "model")
    assert module != Loader("first", HERE, "model")
    assert repr(module) == "Module(model at line 1)"


def test_a_rank_is_the_same_wherever_it_was_read():
    assert Rank(RankKind.LOCAL, RankSource.ENVIRONMENT, place=HERE) == Rank(RankKind.LOCAL, RankSource.SLURM)
    assert Rank(RankKind.LOCAL, RankSource.SLURM) != Rank(RankKind.GLOBAL, RankSource.SLURM)
    assert Rank(RankKind.LOCAL, RankSource.SLURM) != Rank(RankKind.LOCAL, RankSource.SLURM, as_text=True)


def values(value: Value) -> ValueSet[Value]:
    return ValueSet.of(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Const(1), Divergence.NONE),
        (RANK, Divergence.RANK),
        (Size(SizeKind.WORLD), Divergence.NONE),
        (LOSS, Divergence.LOCAL),
        (Truth(Literal(Atom("x", Divergence.RANK), False)), Divergence.RANK),
        (Text((Const("out/"), RANK, LOSS)), Divergence.RANK | Divergence.LOCAL),
        (Device("cuda", RANK), Divergence.RANK),
        (Device("cuda"), Divergence.NONE),
        (Range(values(RANK), values(Const(8))), Divergence.RANK),
        (Slice(None, values(LOSS), values(RANK)), Divergence.LOCAL | Divergence.RANK),
        (Slice(None, None, None), Divergence.NONE),
    ],
    ids=repr,
)
def test_what_ranks_may_disagree_about(value: Value, expected: Divergence):
    assert value.divergence == expected


def test_a_device_knows_its_kind_and_index():
    assert CPU.is_cpu
    assert not CPU.is_accelerator
    assert Device("cuda", Const(1)).is_accelerator
    assert not Device("meta").is_accelerator
    assert Device("cuda", Const(1)).literal_index == 1
    assert Device("cuda", RANK).literal_index is None
    assert Device("cuda").literal_index is None
    assert Device("cuda", Const(1), HERE) == Device("cuda", Const(1), THERE)


def test_wrappers_are_taken_off_one_by_one():
    model = Module("model", HERE, "model")
    compiled = Wrapper("compiled", HERE, "model", WrapperKind.COMPILED, model)
    wrapped = Wrapper("ddp", THERE, "model", WrapperKind.DDP, compiled)
    assert wrapped.core == model
    assert wrapped.chain == (wrapped, compiled)
    assert wrapped.wrapped_by(WrapperKind.COMPILED)
    assert not wrapped.wrapped_by(WrapperKind.FSDP, WrapperKind.DATA_PARALLEL)
    assert wrapped.core == model.core == model


def test_which_wrappers_average_gradients():
    assert {kind for kind in WrapperKind if kind.synchronises} == {
        WrapperKind.DDP,
        WrapperKind.FSDP,
        WrapperKind.PREPARED,
    }


def test_the_sampler_inside_batch_samplers():
    inner = Sampler("inner", HERE, "sampler", "DistributedSampler", True)
    batches = Sampler("outer", HERE, "batches", "BatchSampler", None, inner=inner)
    nested = Sampler("last", HERE, "batches", "BatchSampler", None, inner=batches)
    assert nested.base == inner
    assert inner.base == inner


def test_which_worlds_have_several_processes():
    assert [world for world in LaunchWorld if world.several_processes] == [LaunchWorld.TORCHRUN, LaunchWorld.SPAWN]


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("model", "`model`"),
        ("self.net[0]", "`self.net[0]`"),
        ("models[i + 1]", "`models[i + 1]`"),
        ("a list", "a list"),
        ("", "the model"),
    ],
)
def test_what_a_message_calls_a_value(label: str, shown: str) -> None:
    assert name_of(SimpleNamespace(label=label)) == shown
    assert name_of(None, "the optimizer") == "the optimizer"


def test_what_is_no_tensor_is_no_share():
    place = Location("train.py", 1)
    loader = Loader("loader", place, "loader")
    entry = Tensor("entry", place, "entry", TensorOrigin.OUTPUT, batch_of=loader, shards=frozenset([loader]))
    assert entry.as_plain().plain
    assert not entry.as_plain().shards
