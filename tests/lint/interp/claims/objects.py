"""Functions, classes and their objects."""

import argparse
import collections
import dataclasses
import enum
import functools
import types
import typing
import weakref

Item = typing.TypeVar("Item", covariant=True)


class Base:
    def path(self):
        return "A"


class Left(Base):
    def path(self):
        return super().path() + "B"


class Right(Base):
    def path(self):
        return super().path() + "C"


class Both(Right, Left):
    def path(self):
        return super().path() + "D"


claim(Both().path() == "ABCD")


class Mode(enum.Enum):
    TRAIN = "train"
    EVAL = "eval"


claim(Mode("train") is Mode.TRAIN and Mode.TRAIN.name == "TRAIN" and Mode.EVAL.value == "eval")
claim(Mode["EVAL"] == Mode.EVAL and len(Mode) == 2 and [each.value for each in Mode] == ["train", "eval"])


@dataclasses.dataclass
class Config:
    lr: float = 0.1
    steps: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.twice = self.lr * 2


one, two = Config(), Config(lr=0.2)
one.steps.append(1)
claim(two.steps == [] and one.steps == [1])
claim(two.lr == 0.2 and one.twice == 0.2 and Config(lr=1.0) == Config(lr=1.0))
claim(dataclasses.replace(one, lr=0.5).twice == 1.0 and dataclasses.asdict(two)["lr"] == 0.2)


def generator():
    received = yield 1
    yield received


running = generator()
next(running)
claim(running.send(5) == 5)


def counter():
    count = 0

    def increase():
        nonlocal count
        count += 1
        return count

    return increase


increase = counter()
increase()
increase()
claim(increase() == 3)


def takes(a, *b, c=1, **d):
    return (a, b, c, d)


claim(takes(1, 2, 3, c=4, e=5) == (1, (2, 3), 4, {"e": 5}))


def keeps(value, kept=[]):
    kept.append(value)
    return kept


keeps(1)
claim(keeps(2) == [1, 2])


def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


claim(factorial(4) == 24)
claim((lambda value, *, times=2: value * times)(3) == 6)
claim(functools.partial(sorted, reverse=True)([1, 2]) == [2, 1])


class Counted:
    count = 0

    def __init__(self):
        Counted.count += 1


Counted()
Counted()
claim(Counted.count == 2)


class Full(Counted):
    @property
    def value(self):
        return self._value

    @value.setter
    def value(self, value):
        self._value = value + 1

    @classmethod
    def make(cls):
        return cls()

    @staticmethod
    def same(value):
        return value

    def __len__(self):
        return 0

    def __contains__(self, value):
        return value == 1

    def __eq__(self, other):
        return True

    def __bool__(self):
        return True

    def __call__(self, value):
        return value

    def __getattr__(self, name):
        return name

    def __getitem__(self, index):
        return index


full = Full.make()
full.value = 1
claim(full.value == 2 and isinstance(full, Full) and type(full) is Full)
claim(Full.same(3) == 3 and len(full) == 0 and 1 in full and 2 not in full and full == 5 and bool(full))
claim(full(4) == 4 and full.foo == "foo" and full[7] == 7)

match [1, 2]:
    case [left, right]:
        result = left + right
    case _:
        result = 0
claim(result == 3)
claim((chosen := 5) == 5 and chosen == 5)

space = types.SimpleNamespace(a=1)
space.b = 2
claim(space.a == 1 and space.b == 2)
parser = argparse.ArgumentParser()
parser.add_argument("--n", type=int, default=3)
parser.add_argument("--flag", action="store_true")
args = parser.parse_args([])
claim(args.n == 3 and args.flag is False and vars(args)["n"] == 3)
given = parser.parse_args(["--n", "5", "--flag"])
claim(given.n == 5 and given.flag)
parser.set_defaults(n=7)
claim(parser.parse_args([]).n == 7)


def kept(function):
    name = f"_{function.__name__}"

    def reader(self):
        try:
            return getattr(self, name)
        except AttributeError:
            made = function(self)
            self.__dict__[name] = made
            return made

    return property(reader)


class Lazy:
    made = 0

    def _get_size(self):
        return 3

    size = property(_get_size)

    @kept
    def whole(self):
        Lazy.made += 1
        return [self.part]

    @kept
    def part(self):
        return {"n": self.size}

    def last(self):
        try:
            return self._last
        except AttributeError:
            self._last = 5
            return 4


lazy = Lazy()
claim(lazy.size == 3 and lazy.whole == [{"n": 3}] and lazy.part["n"] == 3)
claim(lazy.whole is lazy.whole and Lazy.made == 1 and lazy.last() == 4 and lazy.last() == 5)


class Sized(typing.Protocol[Item]):
    def size(self): ...


class Measured(Sized[int], typing.Generic[Item]):
    def size(self):
        return 3


class Entries(collections.UserDict):
    pass


claim(hasattr(Measured(), "size") and not hasattr(Measured(), "weight"))
claim(type(Measured()) is not dict and type(Entries()) is not dict and type(Entries()) is Entries)


class Count:
    def __init__(self, number):
        self.number = number

    def __add__(self, other):
        return Count(self.number + other.number)

    def __radd__(self, other):
        return self if other == 0 else NotImplemented

    def __iadd__(self, more):
        self.number += more
        return self

    def __rmul__(self, times):
        return Count(times * self.number)

    def __lt__(self, other):
        return self.number < other.number

    def __eq__(self, other):
        return self.number == other.number if isinstance(other, Count) else NotImplemented

    def __neg__(self):
        return Count(-self.number)

    def __contains__(self, digit):
        return str(digit) in str(self.number)


counted = same = Count(3)
counted += 4
claim(same.number == 7 and (counted + Count(1)).number == 8 and (2 * counted).number == 14 and (-counted).number == -7)
claim(Count(1) < Count(2) and Count(2) > Count(1) and not Count(2) < Count(1))
claim(Count(1) == Count(1) and Count(1) != Count(2) and not isinstance(1, Count) and not isinstance("1", Count))
claim(7 in counted and 3 not in counted)


class Owner:
    def __init__(self):
        self.part = Part()
        self.part.owner = weakref.proxy(self)
        self.part.reference = weakref.ref(self)
        self.number = 5


class Part:
    def number(self):
        return self.owner.number

    def whose(self):
        return self.reference()


owner = Owner()
owner.number += 1
claim(owner.part.number() == 6 and owner.part.whose() is owner)


class Rounds:
    def __init__(self):
        self.begun = 0

    def __iter__(self):
        self.begun = 2 if self.begun else 1
        return self

    def __next__(self):
        return self.begun


rounds = Rounds()
stream = iter(rounds)
claim(stream is rounds and next(stream) == 1 and next(stream) == 1 and rounds.begun == 1)
once = Rounds()
for each in once:
    claim(each == 1 and once.begun == 1)
    break


class Named:
    def __init__(self):
        self.name = self.__class__.__name__

    def again(self):
        return self.__class__()


class Renamed(Named):
    pass


claim(Named().name == "Named" and Renamed().name == "Renamed" and type(Renamed().again()) is Renamed)


class Wired:
    @dataclasses.dataclass(slots=True)
    class Config:
        owner: typing.ClassVar[type | None] = None
        size: int = 1

        def build(self):
            return self.owner(self)

    def __init_subclass__(cls):
        own = cls.__dict__.get("Config")
        claim("Config" in cls.__dict__ and issubclass(own, Wired.Config) and not issubclass(own, Named))
        claim("__slots__" in own.__dict__)
        own.owner = cls


class Engine(Wired):
    @dataclasses.dataclass(slots=True)
    class Config(Wired.Config):
        speed: int = 3

    def __init__(self, config):
        self.speed = config.speed


claim(type(Engine.Config(speed=4).build()) is Engine and Engine.Config(speed=4).build().speed == 4)
claim([each.name for each in dataclasses.fields(Engine.Config)] == ["size", "speed"])
claim("build" not in Engine.Config.__dict__ and "speed" in Engine.Config.__dict__)
