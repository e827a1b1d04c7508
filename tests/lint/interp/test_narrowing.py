"""Narrowing: what a test says about the values that it asks, in its branches and behind them."""

import pytest

JOINED = """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        class Adam: lr = 1
        class Muon: lr, momentum = 1, 2
        def chosen(number):
            return [Adam(), Muon(), None][number]
        x = chosen(args.x)
        """
"""Of what a list holds, nobody knows which one it is."""
MANY = """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        class Adam: pass
        def chosen(number):
            return [1, 2.0, "three", (4,), 5, 6, 7, None][number]
        x = chosen(args.x)
        """
TESTS = {
    "both branches of isinstance": f"""{JOINED}
        reveal(x)  #: Adam() | Muon() | None
        if isinstance(x, Muon):
            reveal(x)  #: Muon()
        elif isinstance(x, Adam):
            reveal(x)  #: Adam()
        else:
            reveal(x)  #: None
        reveal(isinstance(x, Muon), x)  #: True if isinstance(x, Muon) | False if not (isinstance(x, Muon))
        """,
    "who is asked for an attribute is not None": """
        import argparse, os
        args = argparse.ArgumentParser().parse_args()
        class Net:
            def eval(self):
                return self
        x = None if args.bare else Net()
        y = x.eval()
        reveal(y)  #: Net()
        reveal(x)  #: Net()
        by_rank = None if os.environ["RANK"] == "0" else Net()
        by_rank.eval()
        reveal(by_rank)  #: None if os.environ['RANK'] == '0' | Net() if not (os.environ['RANK'] == '0')
        """,
    "classes and functions are no plain data": """
        from collections.abc import Iterable
        class Table(dict): pass
        class Net: pass
        def build(): pass
        reveal(isinstance(Net, str))  #: False
        reveal(isinstance(build, (str, bytes)))  #: False
        reveal(issubclass(Net, dict))  #: False
        reveal((issubclass(Table, dict), 0))  #: (True, 0)
        reveal(issubclass(Net, object))  #: True
        reveal(issubclass(Net, Iterable))  #: issubclass
        """,
    "what is computed of a batch is a tensor": """
        from torch.nn import functional
        from torch.utils.data import DataLoader
        import torch, company
        for x in DataLoader(company.data()):
            reveal(isinstance(x, torch.Tensor))  #: isinstance
            reveal(isinstance(x.mean(), torch.Tensor))  #: True
            reveal(isinstance(functional.mse_loss(x, x), (list, dict)))  #: False
        """,
    "samplers of torch": """
        from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, Sampler
        from torch.utils.data.distributed import DistributedSampler as OfRanks
        loader = DataLoader([1, 2], sampler=DistributedSampler([1, 2]))
        reveal(isinstance(loader.sampler, OfRanks))  #: True
        reveal(isinstance(loader.sampler, Sampler))  #: True
        reveal(isinstance(loader.sampler, RandomSampler))  #: False
        """,
    "a remainder is smaller than its divisor": """
        import argparse
        step = int(argparse.ArgumentParser().parse_args().step)
        reveal((step + 1) % 4 == 4)  #: False
        reveal(-1 != step % 4)  #: True
        reveal((step % 4 == 3, 0))  #: (step % 4 == 3, 0)
        """,
    "None, by name and by comparison": f"""{JOINED}
        if x:
            reveal(x.lr)  #: 1
        if x is not None:
            reveal(x.lr)  #: 1
        if not x is None and not isinstance(x, Adam):
            reveal(x)  #: Muon()
        """,
    "a constant": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        mode = ["fit", "test", None][args.mode]
        if mode == "fit":
            reveal(mode)  #: 'fit'
        else:
            reveal(mode)  #: 'test' | None
        if mode != "fit" and mode is not None:
            reveal(mode)  #: 'test'
        """,
    "what it has, and whether it can be called": f"""{JOINED}
        if hasattr(x, "momentum"):
            reveal(x)  #: Muon()
        f = [len, None][args.y]
        if callable(f):
            reveal(f)  #: Library(builtins.len)
        """,
    "conditional expressions, and, or": f"""{JOINED}
        reveal((x if isinstance(x, Adam) else None, 0))  #: (Adam() | None, 0)
        y = chosen(args.y)
        reveal((y is not None and y, 0))  #: (False | Adam() | Muon(), 0)
        z = chosen(args.z)
        reveal((z is None or z, 0))  #: (True | Adam() | Muon(), 0)
        """,
    "comprehensions": f"""{JOINED}
        reveal([each for each in (x,) if each is not None][0])  #: Adam() | Muon()
        reveal([each for each in (x,) if each is not None and not isinstance(each, Adam)][0])  #: Muon()
        """,
    "early exits, of several tests too": f"""{JOINED}
        def first(x):
            if x is None:
                return
            reveal(x)  #: Adam() | Muon()
        first(x)
        def second(x):
            if x is None or isinstance(x, Adam):
                raise ValueError
            reveal(x)  #: Muon()
        second(chosen(args.y))
        for each in (chosen(args.z), chosen(args.z)):
            if not isinstance(each, Muon):
                continue
            reveal(each)  #: Muon()
        y = chosen(args.more)
        assert y is not None and hasattr(y, "momentum")
        reveal(y)  #: Muon()
        """,
    "attributes and entries": f"""{JOINED}
        class Run:
            def __init__(self, number):
                self.rule = chosen(number)
        run = Run(args.y)
        if run.rule is not None:
            reveal(run.rule)  #: Adam() | Muon()
        settings = {{"rule": chosen(args.z)}}
        if isinstance(settings["rule"], Muon):
            reveal(settings["rule"])  #: Muon()
        """,
    "the one name, and not another with the same values": f"""{JOINED}
        y = chosen(args.y)
        if isinstance(x, Muon):
            if isinstance(y, Muon):
                reveal(y)  #: Muon()
            else:
                reveal(x)  #: Muon()
                reveal(y)  #: Adam() | None
        """,
    "more than may be kept one by one": f"""{MANY}
        reveal(x)  #: unknown
        if x is None:
            reveal(x)  #: None
        elif x is None:
            reveal(x)  #: never
        y = chosen(args.y)
        if isinstance(y, str):
            reveal(y)  #: 'three'
        elif isinstance(y, (float, tuple)):
            reveal(y)  #: 2.0 | (4)
        """,
    "what an assertion demands of the user": """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--steps", type=int, default=1)
        parser.add_argument("--mode")
        parser.add_argument("--depth", type=int)
        parser.add_argument("--width", type=int)
        parser.add_argument("--kind")
        def parsed():
            args = parser.parse_args()
            assert args.steps == 1 and args.mode == "fit", "nothing else yet"
            assert args.depth > 1
            if args.width != 4 or args.kind != "deep":
                raise ValueError("nothing else yet")
            return args
        args = parsed()
        reveal((args.steps, args.mode, args.depth))  #: (1, 'fit', setting args.depth)
        reveal((args.width, args.kind))  #: (4, 'deep')
        """,
    "what is known by another test stays as it is": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        class Muon: pass
        x = None
        if args.muon:
            x = Muon()
        if x is not None:
            reveal(())  #: ()
        reveal(x)  #: Muon() if args.muon | None if not (args.muon)
        """,
    "what a branch demands, where the others go on without it": """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--sharded", action="store_true")
        parser.add_argument("--manifest")
        parser.add_argument("--mode")
        args = parser.parse_args()
        mode = args.mode if args.sharded else "plain"
        if mode == "full":
            state = "of all"
        if args.manifest is not None:
            assert mode != "plain"
            reveal(mode)  #: setting args.mode
        if not mode == "full":
            state = "of one"
        reveal(state)  \
        #: 'of one' if not (mode == 'full') | 'of all' if args.sharded and mode == 'full' and mode == 'full'
        """,
    "asked again, where the paths have met meanwhile": """
        import argparse
        import yaml
        args = argparse.ArgumentParser().parse_args()
        config = yaml.safe_load(open(args.resume)) if args.resume else yaml.safe_load(open("config.yaml"))
        wanted = config["ema"] is not None
        class Average: pass
        average = Average() if wanted else None
        for i in range(9):
            seen = "trained"
            if i % args.every == 0 and average is not None:
                seen = "evaluated"
            if args.shown:
                if i % args.every == 0 and average is not None:
                    reveal(seen)  #: 'evaluated'
        """,
}


@pytest.mark.parametrize("source", TESTS.values(), ids=TESTS)
def test_a_test_narrows_what_it_asks(paper, source: str):
    paper(source)


def test_a_class_that_was_looked_up_is_one_below_another(paper):
    paper("""
        import importlib, inspect, sys
        class Base:
            def size(self):
                return 4
        class Abstract:
            def size(self):
                raise NotImplementedError
        def by_name(name, base):
            found = getattr(importlib.import_module("plugins." + name), name)
            assert issubclass(found, base), name
            return found
        def refused(name):
            found = getattr(importlib.import_module("plugins." + name), name)
            if not issubclass(found, Base):
                raise TypeError(found)
            return found
        def among(name):
            for _, each in inspect.getmembers(importlib.import_module(name)):
                if inspect.isclass(each) and issubclass(each, Base) and each is not Base:
                    return each
            raise ValueError(name)
        def one_of_two(first, second):
            found = getattr(importlib.import_module(first), second) if first else importlib.import_module(second)
            if found is None:
                raise TypeError(first)
            assert issubclass(found, Base)
            return found
        reveal(one_of_two(*sys.argv[1:])().size())  #: 4
        reveal(by_name(sys.argv[1], Base)().size())  #: 4
        reveal(refused(sys.argv[1])().size())  #: 4
        reveal(among(sys.argv[1])().size())  #: 4
        reveal(by_name(sys.argv[1], Abstract)().size())  #: unknown
        """)


def test_a_number_of_a_tensor_may_be_unequal_to_itself(paper):
    paper(
        """
        import torch
        loss = torch.nn.Linear(2, 1)(torch.zeros(4, 2)).mean()
        if loss.item() != loss.item():
            reveal()  #: not (loss.item() != loss.item())
        """
    )
