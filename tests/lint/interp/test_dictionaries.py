"""What dictionaries hold: those of the program's own classes, and those that are made of other things."""

import pytest

from gpudoctor.lint.flow.condition import Divergence
from tests.support.paper import Revealed

DICTIONARIES = {
    "made of one of several": """
        import yaml
        config = yaml.safe_load(open("config.yaml")) or {}
        reveal(not dict(config["data"]))  #: not (dict(config['data']))
        """,
    "of which another one has the entries": """
        import company
        options = {"lr": 1, **company.options()}
        if options["name"] == "a":
            width = 1
        else:
            width = 2
        if options["kind"] == "b":
            reveal(width)  #: 1 if options['name'] == 'a' | 2 if not (options['name'] == 'a')
        """,
    "made of the names of a function": """
        import company
        def train(kind="a", lr=1, **more):
            lr = lr * 2
            return dict(locals())
        made = train(lr=company.lr(), steps=3)
        reveal(made["kind"])  #: 'a'
        reveal(made["lr"])  #: unknown
        reveal(train()["lr"])  #: 2
        """,
    "of which each entry is replaced by its key": """
        import company
        found = {}
        for name in company.names():
            found[name] = [1]
        for name in found:
            found[name] = "b"
        reveal(found["a"])  #: 'b'
        for name, value in found.items():
            found[name] = "c"
        reveal(found["a"])  #: 'c'
        for name in found.keys():
            if company.asked(name):
                found[name] = "d"
        reveal(found["a"])  #: 'd' if company.asked(name) | 'c' if not (company.asked(name))
        """,
    "by several names together": """
        import company
        table = {}
        table["model", "small"] = 1
        table["model", "large"] = 2
        reveal(table["model", "large"])  #: 2
        reveal(("model", "large") in table)  #: True
        table["loss", company.name()] = 3
        reveal(table["model", "small"])  #: 1
        """,
    "in which something is counted": """
        import company
        step = 0
        for batch in company.batches():
            if batch:
                step += 1
        reveal(step)  #: unknown if batch | unknown if not (batch)
        state = {"step": 0, "lr": 0.1, "name": "a"}
        for batch in company.batches():
            if batch:
                state["step"] += 1
            state["name"] = "b"
        reveal(state["step"])  #: unknown if batch | unknown if not (batch)
        reveal(state["lr"])  #: 0.1
        reveal(state["name"])  #: 'b'
        """,
    "made of pairs": """
        reveal(dict(zip(["a", "b"], [1, 2])))  #: {'a': 1, 'b': 2}
        reveal(dict([("a", 1)], c=3))  #: {'a': 1, 'c': 3}
        reveal(dict(enumerate("x" for _ in [1])))  #: {0: 'x'}
        import os
        found = dict((name, 1) for name in os.listdir("data"))
        reveal(not found)  #: not (found)
        reveal(found["a"])  #: 1
        """,
    "of settings whose attributes are its entries": """
        import json
        class AttrDict(dict):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self.__dict__ = self
        h = AttrDict(json.load(open("config.json")))
        reveal(h.lr)  #: setting h.lr
        h.seed = 3
        reveal(h["seed"])  #: 3
        """,
    "of a class that answers for attributes": """
        class EasyDict(dict):
            def __getattr__(self, name):
                try:
                    return self[name]
                except KeyError:
                    raise AttributeError(name)
            def __setattr__(self, name, value):
                self[name] = value
        c = EasyDict(a=1)
        c.net = EasyDict(name="x")
        c.net.update(depth=4)
        reveal(c.net.name)  #: 'x'
        reveal(c["net"].depth)  #: 4
        reveal(isinstance(c, dict))  #: True
        reveal("a" in c)  #: True
        def build(a, net, size=2):
            reveal(a)  #: 1
            reveal(net)  #: {'name': 'x', 'depth': 4}
            reveal(size)  #: 2
        build(**c)
        """,
    "of a class that has its methods from dict": """
        class dotdict(dict):
            __getattr__ = dict.get
            __setattr__ = dict.__setitem__
        d = dotdict({"x": 1})
        d.y = 2
        reveal(d.x)  #: 1
        reveal(d["y"])  #: 2
        """,
    "in each other, made by their class": """
        class Nested(dict):
            def __init__(self, settings):
                for key, value in settings.items():
                    if isinstance(value, dict):
                        value = Nested(value)
                    self[key] = value
            def __getattr__(self, key):
                return self[key]
        reveal(Nested({"a": {"b": 2}}).a.b)  #: 2
        """,
    "of a class with items of its own": """
        class Counted(dict):
            def __getitem__(self, key):
                return 5
            def copy(self):
                return "mine"
        reveal(Counted(a=1)["a"])  #: 5
        reveal(Counted(a=1).copy())  #: 'mine'
        """,
    "of a class under defaultdict": """
        import collections
        class Meter:
            total = 3
        class Meters(collections.defaultdict):
            def __init__(self):
                super().__init__(Meter)
        meters = Meters()
        meters["loss"].total = 4
        reveal((meters["loss"].total, meters["accuracy"].total))  #: (4, 3)
        """,
    "made of the fields of an object": """
        import dataclasses
        @dataclasses.dataclass
        class Optimizer:
            lr: float = 0.1
        @dataclasses.dataclass
        class Config:
            epochs: int = 5
            optimizer: Optimizer = dataclasses.field(default_factory=Optimizer)
        reveal(dataclasses.asdict(Config(epochs=7)))  #: {'epochs': 7, 'optimizer': {'lr': 0.1}}
        class Plain:
            pass
        @dataclasses.dataclass
        class Outer:
            inner: object
        reveal(isinstance(dataclasses.asdict(Outer(Plain()))["inner"], Plain))  #: True
        """,
    "from keys": """
        import sys
        reveal(dict.fromkeys(("a", "b"), 0))  #: {'a': 0, 'b': 0}
        reveal(dict.fromkeys(["x"]))  #: {'x': None}
        reveal(dict.fromkeys(sys.argv[1:], 0)["a"])  #: 0
        """,
    "put into a copy of an object": """
        import dataclasses
        @dataclasses.dataclass(frozen=True)
        class Data:
            batch: int = 8
            workers: int = 2
            shard: bool = False
        data = dataclasses.replace(Data(workers=3), **{"batch": 32})
        reveal(dataclasses.asdict(data))  #: {'batch': 32, 'workers': 3, 'shard': False}
        """,
    "by branches, handed over by name": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        settings = {}
        if args.net == "big":
            settings["size"] = 8
            settings["depth"] = 4
        else:
            settings["size"] = 2
        def build(size=None, depth=7):
            reveal(size)  #: 8 if args.net == 'big' | 2 if not (args.net == 'big')
            reveal(depth)  #: 7 | 4 if args.net == 'big'
        build(**settings)
        """,
    "after more options than values are kept one by one": """
        import company
        options = company.options()
        losses = {"l1": 1, "l2": 2}
        if options.a:
            losses["a"] = 3
        if options.b:
            losses["b"] = 4
        if options.c:
            losses["c"] = 5
        if options.d == 1:
            losses["d"] = 6
        elif options.d == 2:
            losses["d"] = 7
        if options.e == 1:
            losses["e"] = 8
        elif options.e == 2:
            losses["e"] = 9
        reveal(losses["l2"])  #: 2
        reveal(losses["a"])  #: 3 if options.a
        reveal("e" in losses)  #: 'e' in losses
        """,
    "a file of settings, whose sections become objects of another class": """
        import yaml
        class Node(dict):
            def __init__(self, entries):
                for key, entry in entries.items():
                    if type(entry) is dict:
                        entries[key] = Node(entry)
                super().__init__(entries)
            def __getattr__(self, name):
                return self[name]
        read, entries = yaml.safe_load(open("config.yaml")), {}
        for section in read:
            for key, entry in read[section].items():
                entries[key] = entry
        config = Node(entries)
        reveal(config.amp)  #: setting config.amp
        if config.spread:
            reveal(not config.amp)  #: not (config.amp)
        """,
    "entries that a test picks": """
        import os
        held = {f"k{i}": i for i in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)}
        held["other"] = 17
        picked = {key: value for key, value in held.items() if not key.startswith("k")}
        reveal((picked, "k1" in picked))  #: ({'other': 17}, False)
        reveal([each for each in (1, 2, 3) if each > 1])  #: [2, 3]
        some = [each for each in (1, 2, 3) if os.environ.get("X")]
        reveal(len(some) == 3)  #: len(some) == 3
        """,
    "one put over another": """
        usual = {"batch": 8, "workers": 2}
        made = usual | {"batch": 32}
        reveal((made, usual))  #: ({'batch': 32, 'workers': 2}, {'batch': 8, 'workers': 2})
        made |= {"seed": 1}
        reveal(made)  #: {'batch': 32, 'workers': 2, 'seed': 1}
        """,
    "those whose names are fields": """
        from dataclasses import dataclass, fields
        @dataclass
        class Settings:
            lr: float = 0.1
            every: int = 1
        known = {each.name for each in fields(Settings)}
        given = {"every": 4, "other": 3}
        made = Settings(**{key: value for key, value in given.items() if key in known})
        reveal((made.lr, made.every))  #: (0.1, 4)
        """,
    "any and all of what they hold": """
        import os
        reveal((any([0, 2]), any([]), all([1, 0]), all(())))  #: (True, False, False, True)
        name = os.environ["NAME"]
        reveal(any(name == each for each in ["a"]))  #: name == each
        reveal(any([name == "a", True]))  #: True
        """,
    "sorted, which may be empty": """
        import os
        found = sorted(os.listdir("data"))
        reveal(not found)  #: not (found)
        """,
}


@pytest.mark.parametrize("source", DICTIONARIES.values(), ids=DICTIONARIES)
def test_dictionaries(paper, source: str):
    paper(source)


def test_what_decides_the_key_decides_the_entry(paper):
    paper(
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--fast", action="store_true")
        kind = "small" if parser.parse_args().fast else "large"
        models = {"large": 3, "small": 1, "tiny": 0}
        reveal(models[kind])  #: 1 if parser.parse_args().fast | 3 if not (parser.parse_args().fast)
        """
    )


def test_what_the_user_has_given_replaces_defaults(paper):
    paper(
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--several", action="store_true")
        args = parser.parse_args()
        given = {name: value for name, value in vars(args).items() if value is not None}
        merged = {"several": False, **given, "name": "run"}
        reveal(merged["several"])  #: setting several
        reveal(merged["name"])  #: 'run'
        """
    )


def test_what_is_converted_entry_by_entry_keeps_its_names(paper):
    """The rank among them is in no other entry."""
    found = paper(
        """
        import torch.distributed as dist
        settings = {"rank": dist.get_rank(), "a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6", "epochs": "7"}
        for name in settings:
            value = settings[name]
            if not isinstance(value, str):
                continue
            try:
                value = eval(value)
            except NameError:
                pass
            settings[name] = value
        if settings["step"]:
            reveal(settings["rank"])  #: global rank
        """
    )
    (shown,) = found.events(Revealed)
    assert not shown.condition.divergence & Divergence.RANK
