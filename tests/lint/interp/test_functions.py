"""Functions, methods, closures, partials and decorators, and what objects and containers carry between them."""

import pytest

FUNCTIONS = {
    "the function of a command": """
        import argparse
        def train(args):
            return 1
        def add(commands, name, result):
            commands.add_parser(name).set_defaults(func=lambda args: result)
        parser = argparse.ArgumentParser()
        commands = parser.add_subparsers()
        commands.add_parser("train").set_defaults(func=train)
        add(commands, "test", 2)
        args = parser.parse_args()
        reveal(args.func(args))  #: 1 if train is chosen | 2 if not (train is chosen)
        """,
    "an object that is made once": """
        import os
        class Once:
            only = None
            def __new__(cls, *args):
                if not isinstance(cls.only, cls):
                    cls.only = super(Once, cls).__new__(cls)
                    cls.rank = int(os.environ["RANK"])
                return cls.only
            def __init__(self, size=3):
                self.size = size
        class Late(object):
            only = None
            def __new__(cls):
                if cls.only is None:
                    cls.only = object.__new__(cls)
                    cls.only.kind = "late"
                return cls.only
        class Under(Once):
            def __new__(cls, *args):
                made = super().__new__(cls, *args)
                made.under = True
                return made
        first, second = Once(4), Once(5)
        reveal(first.size)  #: 5
        reveal(second.rank)  #: global rank
        reveal(Late().kind)  #: 'late'
        reveal((Late() is Late(), Under().under))  #: (True, True)
        """,
    "a library that runs what it is given": """
        import optuna
        import wandb
        from memory_profiler import memory_usage
        found = {}
        def train(trial=None, *, steps=1):
            found["steps"] = steps
        def search(trial):
            found["trial"] = trial
        wandb.agent("sweep", function=train)
        reveal(found["steps"])  #: 1
        peak = max(memory_usage((train, (), {"steps": 2})))
        reveal(found["steps"])  #: 2
        optuna.create_study().optimize(search, n_trials=3)
        reveal(found["trial"])  #: unknown
        """,
    "arguments of every kind": """
        def build(a, /, b, *rest, c=3, **more):
            reveal((a, b, c))  #: (1, 2, 3) ; (1, 2, 4)
            reveal(rest)  #: () ; (8, 9)
            reveal(more)  #: {} ; {'d': 5}
        build(1, 2)
        build(1, 2, 8, 9, c=4, d=5)
        """,
    "arguments that are spread": """
        def build(depth, width, name="net"):
            return depth, width, name
        sizes = (1, 2)
        options = {"width": 4, "name": "big"}
        reveal(build(*sizes))  #: (1, 2, 'net')
        reveal(build(3, **options))  #: (3, 4, 'big')
        reveal(build(*[5], **dict(width=6)))  #: (5, 6, 'net')
        """,
    "a function whose name a setting ends": """
        import argparse
        import tools
        args = argparse.ArgumentParser().parse_args()
        found = getattr(tools, f"init_{args.launcher}")()
        reveal(found)  #: 1 if init_slurm is chosen | 2 if not (init_slurm is chosen)
        # file: tools.py
        def init_slurm():
            return 1
        def init_torchrun():
            return 2
        def other():
            return 3
        """,
    "settings that are spread": """
        import yaml
        def build(depth, width=2, *, name="net"):
            return depth, width, name
        settings = yaml.safe_load("x")
        reveal(build(**settings))  #: (setting depth, 2 | setting width, 'net' | setting name)
        reveal(build(1, width=3, **settings))  #: (1, 3, 'net' | setting name)
        """,
    "fields of a dataclass that are spread": """
        import torch
        from dataclasses import dataclass
        @dataclass
        class Snapshot:
            epoch: int
            scale: float = 1.0
        snapshot = Snapshot(**torch.load("x.pt"))
        reveal(snapshot.epoch)  #: setting epoch
        reveal(snapshot.scale)  #: 1.0 | setting scale
        """,
    "a dictionary that a loop fills": """
        from collections import defaultdict
        meters = defaultdict(list)
        meters["lr"] = 1
        for x in open("x"):
            meters["loss"] = 2
        for name, meter in meters.items():
            reveal((name, meter))  #: ('lr', 1) ; ('loss', 2)
        reveal(meters["loss"])  #: 2
        meters["rate"] = 3
        reveal((meters["lr"], meters["loss"], meters["rate"]))  #: (1, 2, 3)
        """,
    "returns on several paths": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        def pick(big):
            if big:
                return 2
            return 1
        reveal(pick(args.big))  #: 2 if big | 1 if not (big)
        reveal(pick(True))  #: 2
        """,
    "a function that ends without a return": """
        def quiet():
            pass
        reveal(quiet())  #: None
        """,
    "closures and nonlocal names": """
        def counter():
            count = 0
            def up():
                nonlocal count
                count += 1
                return count
            return up
        up = counter()
        reveal(up())  #: 1
        reveal(up())  #: 2
        reveal(counter()())  #: 1
        """,
    "global names": """
        model = None
        def make():
            global model
            model = "made"
        reveal(model)  #: None
        make()
        reveal(model)  #: 'made'
        """,
    "lambdas, partials and functions as arguments": """
        from functools import partial
        def scale(x, by=1):
            return x * by
        def twice(f, x):
            return f(f(x))
        reveal(partial(scale, by=3)(2))  #: 6
        reveal(partial(partial(scale, 4), by=5)())  #: 20
        reveal(twice(lambda x: x + 1, 1))  #: 3
        reveal(twice(partial(scale, by=2), 1))  #: 4
        """,
    "decorators": """
        import functools
        def logged(f):
            @functools.wraps(f)
            def inner(*args, **kwargs):
                return (f.__name__, f(*args, **kwargs))[1]
            return inner
        def times(n):
            def outer(f):
                return lambda x: f(x) * n
            return outer
        @logged
        def plain(x):
            return x
        @times(3)
        @functools.lru_cache(maxsize=None)
        def scaled(x):
            return x + 1
        reveal(plain(4))  #: 4
        reveal(scaled(1))  #: 6
        """,
    "a decorator that lets rank 0 pass": """
        import torch.distributed as dist
        def rank_zero_only(f):
            def inner(*args):
                if dist.get_rank() == 0:
                    return f(*args)
            return inner
        @rank_zero_only
        def save(x):
            reveal()  #: dist.get_rank() == 0
            return x
        reveal(save(1))  #: None if not (dist.get_rank() == 0) | 1 if dist.get_rank() == 0
        """,
    "generators": """
        def numbers(n):
            yield 1
            yield n
        for each in numbers(5):
            reveal(each)  #: 1 ; 5
        for index, each in enumerate(numbers(6)):
            reveal(each)  #: 1 ; 6
        """,
    "a generator's own loop goes on in its caller": """
        def forever(items):
            while True:
                yield from_items(items)
        def from_items(items):
            return items[0]
        for each in forever(["first"]):
            reveal(each)  #: 'first'
        """,
    "context managers of the project": """
        import contextlib
        import torch.distributed as dist
        @contextlib.contextmanager
        def opened(x):
            state.append("in")
            yield x + 1
            state.append("out")
        state = []
        with opened(1) as value:
            reveal(value)  #: 2
            reveal(state)  #: ['in']
        reveal(state)  #: ['in', 'out']
        class Timer:
            def __enter__(self):
                self.on = True
                return self
            def __exit__(self, *exc):
                self.on = False
        with Timer() as timer:
            reveal(timer.on)  #: True
        reveal(timer.on)  #: False
        """,
    "managers of contextlib": """
        import contextlib
        import torch
        class Log:
            def __enter__(self):
                self.on = True
                return self
            def __exit__(self, *exc):
                self.on = False
        @contextlib.contextmanager
        def opened(x):
            yield x
        with contextlib.closing(3) as three, contextlib.nullcontext(4) as four:
            reveal((three, four))  #: (3, 4)
        with contextlib.ExitStack() as stack:
            reveal(stack.enter_context(opened(5)))  #: 5
            log = stack.enter_context(Log())
            reveal(log.on)  #: True
            stack.enter_context(contextlib.suppress(OSError))
            stack.callback(print, 1)
        """,
    "rank 0 first": """
        import contextlib
        import torch.distributed as dist
        @contextlib.contextmanager
        def rank_zero_first():
            if dist.get_rank() != 0:
                dist.barrier()
            yield
            if dist.get_rank() == 0:
                dist.barrier()
        with rank_zero_first():
            reveal()  #: always
            data = 3
        reveal(data)  #: 3
        reveal()  #: always
        """,
}


@pytest.mark.parametrize("source", FUNCTIONS.values(), ids=FUNCTIONS)
def test_calls_are_followed(paper, source: str):
    assert paper(source).program.lost == ()


OBJECTS = {
    "an attribute that only some paths set": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        class Net:
            stride = 1
            def __init__(self):
                if args.big:
                    self.stride = 2
                    self.extra = 3
        net = Net()
        reveal(net.stride)  #: 2 if args.big | 1 if not (args.big)
        reveal(net.extra)  #: 3 if args.big
        """,
    "set on some paths only, where a library has given it": """
        import argparse
        import torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--quiet", action="store_true")
        args = parser.parse_args()
        optimizer = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), 0.1)
        if args.quiet:
            optimizer.step = len
        reveal(optimizer.step)  #: Library(builtins.len) if args.quiet | Method if not (args.quiet)
        """,
    "methods of one object": """
        import types
        class Net:
            n = 2
        def double(self):
            return self.n * 2
        net = Net()
        net.double = types.MethodType(double, net)
        reveal(net.double())  #: 4
        reveal(double.__get__(net)())  #: 4
        """,
    "a dictionary that makes what is missing": """
        from collections import defaultdict
        class Meter:
            def update(self, x):
                self.last = x
        meters = defaultdict(Meter)
        meters["loss"].update(3)
        reveal(meters["loss"].last)  #: 3
        for name in open("names"):
            meters[name].update(4)
        reveal(defaultdict(list)["x"])  #: []
        """,
    "attributes of self": """
        class Trainer:
            epochs = 2
            def __init__(self, model, lr=1):
                self.model = model
                self.lr = lr
                self.setup()
            def setup(self):
                self.rounds = self.epochs * self.lr
        trainer = Trainer("net", lr=3)
        reveal(trainer.model)  #: 'net'
        reveal(trainer.rounds)  #: 6
        trainer.model = "other"
        reveal(trainer.model)  #: 'other'
        reveal(Trainer("third").model)  #: 'third'
        """,
    "inheritance and super": """
        class Base:
            def __init__(self, a):
                self.a = a
            def name(self):
                return "base"
        class Middle(Base):
            def name(self):
                return "middle of " + super().name()
        class Last(Middle):
            def __init__(self, a, b):
                super().__init__(a)
                self.b = b
            def name(self):
                return "last of " + super(Last, self).name()
        last = Last(1, 2)
        reveal((last.a, last.b))  #: (1, 2)
        reveal(last.name())  #: 'last of middle of base'
        """,
    "properties, class methods and static methods": """
        import torch.distributed as dist
        class Ranks:
            @property
            def is_main(self):
                return self.rank() == 0
            @staticmethod
            def rank():
                return dist.get_rank()
            @classmethod
            def make(cls):
                return cls()
        ranks = Ranks.make()
        reveal(ranks)  #: Ranks()
        reveal(ranks.is_main)  #: self.rank() == 0
        reveal(Ranks.rank())  #: global rank
        """,
    "properties, class methods and static methods above another decorator": """
        def passed_on(function):
            def passing(*args, **more):
                return function(*args, **more)
            return passing
        class Decorated:
            @staticmethod
            @passed_on
            def plain(value):
                return value
            @classmethod
            @passed_on
            def of_class(cls, value):
                return cls, value
            @property
            @passed_on
            def read(self):
                return 1
        decorated = Decorated()
        reveal((decorated.plain(1), Decorated.plain(2)))  #: (1, 2)
        reveal(decorated.of_class(3))  #: (Decorated, 3)
        reveal(decorated.read)  #: 1
        """,
    "bound methods as values": """
        class Log:
            def __init__(self):
                self.lines = []
            def add(self, line):
                self.lines.append(line)
            def __call__(self, line):
                self.add(line)
        log = Log()
        add = log.add
        add("a")
        log("b")
        reveal(log.lines)  #: ['a', 'b']
        """,
    "dataclass configurations": """
        from dataclasses import dataclass, field
        @dataclass
        class Base:
            seed: int = 0
        @dataclass
        class Config(Base):
            lr: float = 0.1
            sizes: list = field(default_factory=list)
            name: str = "net"
            def __post_init__(self):
                self.path = "out/" + self.name
        config = Config(lr=0.5, name="big")
        reveal(config.lr)  #: 0.5
        reveal(config.seed)  #: 0
        reveal(config.path)  #: 'out/big'
        """,
    "named tuples and namespaces": """
        from argparse import Namespace
        from types import SimpleNamespace
        from typing import NamedTuple
        class Sizes(NamedTuple):
            depth: int
            width: int = 4
        reveal(Sizes(3).depth)  #: 3
        reveal(Sizes(3).width)  #: 4
        options = Namespace(lr=0.1)
        options.momentum = 0.9
        reveal(options.lr)  #: 0.1
        reveal(options.momentum)  #: 0.9
        reveal(SimpleNamespace(a=1).a)  #: 1
        """,
    "dictionaries and tuples": """
        def setup():
            return {"rank": 1, "sizes": (2, 3)}, [4, 5]
        state, (first, *rest) = setup()
        reveal(state["rank"])  #: 1
        reveal(state["sizes"][1])  #: 3
        reveal(state.get("none", 7))  #: 7
        reveal(first)  #: 4
        reveal(rest)  #: [5]
        state["rank"] = 6
        state.update(extra=8)
        reveal(state)  #: {'rank': 6, 'sizes': (2, 3), 'extra': 8}
        a, b = b, a = 1, 2
        reveal((a, b))  #: (2, 1)
        """,
    "what has another number of items is not taken apart": """
        import sys
        def of(data):
            return [1, 2, 3] if len(data) == 3 else (4, 5)
        one, two, three = of(sys.argv)
        reveal(two)  #: 2 if len(data) == 3
        first, *_, last = (6,) if len(sys.argv) == 2 else (7, 8)
        reveal(last)  #: 8 if not (len(sys.argv) == 2)
        (only,) = 1, 2
        reveal(only)  #: 1 | 2
        """,
    "slices, and one that is an error": """
        items = [1, 2, 3, 4]
        reveal(items[1::2])  #: [2, 4]
        reveal(items[::-1][0])  #: 4
        nobody = 0
        reveal(items[nobody::nobody][0])  #: 1 | 2 | 3 | 4
        """,
    "attributes by name": """
        class Config:
            lr = 1
        config = Config()
        setattr(config, "depth", 2)
        reveal(getattr(config, "depth"))  #: 2
        reveal(hasattr(config, "lr"))  #: True
        """,
    "two objects of one class": """
        class Net:
            def __init__(self, n):
                self.n = n
        nets = [Net(n) for n in (1, 2)]
        reveal(nets[0].n)  #: 1
        reveal(nets[1].n)  #: 2
        """,
}


@pytest.mark.parametrize("source", OBJECTS.values(), ids=OBJECTS)
def test_objects_carry_what_they_were_given(paper, source: str):
    assert paper(source).program.lost == ()


def test_a_batch_may_hold_what_a_model_is_asked_for(paper):
    paper(
        """
        from torch.utils.data import DataLoader
        def forward(ids=None, labels=None):
            reveal(ids)  #: None | Tensor
            reveal(labels)  #: 3
        for batch in DataLoader([1]):
            forward(**batch, labels=3)
            forward(**{key: value.cuda() for key, value in batch.items()}, labels=3)
        """
    )
