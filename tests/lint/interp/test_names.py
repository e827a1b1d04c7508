"""Names: through aliases, re-exports and every layout in which a project keeps its own modules."""

import os

import pytest

from gpudoctor.lint.domain.module import WrapperKind
from gpudoctor.lint.events.knowledge import Escape
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.library.dynamic_import import MAX_MODULES

CASES = {
    "aliases of library names": """
        import torch.nn as tnn, torch.distributed as td
        from torch.nn.parallel import DistributedDataParallel as Wrapped
        layer = tnn.Linear
        model = layer(2, 2)
        reveal(model)  #: Linear
        rank = td.get_rank
        reveal(rank())  #: global rank
        make = Wrapped
        reveal(make(model))  #: DistributedDataParallel(Linear)
        """,
    "a function that was registered under the module in which it stands": """
        import sys
        import algorithms.first, algorithms.second
        from registry import kept
        name, module, function = sys.argv[1], None, None
        for each, known in kept.items():
            if each == name:
                module, function = sys.modules[each], known
        if module is not None:
            reveal(module.__dict__[function])  #: train if each == name | run if each == name and not (each == name)
        # file: registry.py
        kept = {}
        def register(function):
            kept[function.__module__] = function.__name__
            return function
        # file: algorithms/__init__.py
        # file: algorithms/first.py
        from registry import register
        @register
        def run(): ...
        # file: algorithms/second.py
        from registry import register
        @register
        def train(): ...
        """,
    "re-exports of a package": """
        from nets import build, Net as TheNet
        reveal(build())  #: Net
        reveal(TheNet())  #: Net
        # file: nets/__init__.py
        from .small import Net
        from .factory import make as build
        # file: nets/small.py
        import torch.nn as nn
        class Net(nn.Module):
            pass
        # file: nets/factory.py
        from . import small
        def make():
            return small.Net()
        """,
    "the package under src": """
        from project.engine.ranks import this_rank
        reveal(this_rank())  #: global rank
        # file: src/project/__init__.py
        # file: src/project/engine/ranks.py
        import torch.distributed as dist
        def this_rank():
            return dist.get_rank()
        """,
    "sibling scripts and packages without an init": """
        import helpers
        import lib.sizes as sizes
        reveal(helpers.answer)  #: 3
        reveal(sizes.WORLD)  #: 8
        # file: helpers.py
        answer = 3
        # file: lib/sizes.py
        WORLD = 8
        """,
    "relative imports of all depths": """
        from app.train.loop import found
        reveal(found)  #: (1, 2, 3)
        # file: app/__init__.py
        one = 1
        # file: app/data.py
        two = 2
        # file: app/train/__init__.py
        # file: app/train/here.py
        three = 3
        # file: app/train/loop.py
        from .. import one
        from ..data import two
        from .here import three
        found = (one, two, three)
        """,
    "modules that import each other": """
        import first
        reveal(first.one())  #: 2
        # file: first.py
        import second
        def one():
            return second.two()
        # file: second.py
        import first
        def two():
            return 2
        def back():
            return first.one()
        """,
    "star imports of project and library": """
        from settings import *
        from torch.nn import *
        reveal(DEPTH)  #: 4
        reveal(Linear(DEPTH, DEPTH))  #: Linear
        # file: settings.py
        DEPTH = 4
        _hidden = 5
        """,
    "what only type checkers see": """
        from typing import TYPE_CHECKING
        import helper
        if TYPE_CHECKING:
            reveal(1)  #: never
        reveal(helper.two)  #: 2
        # file: helper.py
        import typing
        if typing.TYPE_CHECKING:
            from train import something
        two = 2
        """,
    "modules and classes that a setting names": """
        import argparse, importlib
        import nets, parts
        import parts.small
        parser = argparse.ArgumentParser()
        parser.add_argument("--model", default="small")
        parser.add_argument("--other")
        args = parser.parse_args()
        module = importlib.import_module(f"nets.{args.model}_net")
        reveal(module.Net)  #: Small
        reveal(getattr(nets, args.model)())  #: 7
        reveal(nets.__dict__[args.model]())  #: 7
        reveal(parts.__dict__[args.model].__dict__["Net"])  #: Tiny
        other = importlib.import_module(".".join(["nets", args.other]))
        found = getattr(other, args.other)
        reveal(found)  #: Large if nets.large_net is chosen | Small if not (nets.large_net is chosen)
        reveal(importlib.import_module("nets.large_net").depth)  #: 9
        import zoo
        reveal(zoo.__dict__[args.other])  #: tiny if tiny is chosen | large if not (tiny is chosen)
        # file: nets/__init__.py
        def small():
            return 7
        # file: nets/small_net.py
        class Small:
            pass
        Net = Small
        # file: parts/small.py
        class Tiny:
            pass
        Net = Tiny
        # file: zoo.py
        class Block:
            pass
        class Tree:
            pass
        def share(x):
            return x
        def _tree(depth):
            return Tree()
        def tiny():
            return _tree(1)
        def small():
            tree = Tree()
            return tree
        def large():
            return Tree()
        # file: nets/large_net.py
        depth = 9
        class Large:
            pass
        Net = Large
        """,
    "an import inside a function": """
        def main():
            from late import value
            reveal(value)  #: 7
        if __name__ == "__main__":
            main()
        # file: late.py
        value = 7
        """,
    "what a late import binds is seen on every path": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        if args.big:
            import late
        else:
            import late
        reveal(late.value)  #: 7
        # file: late.py
        value = 7
        """,
    "an import that falls back": """
        try:
            from torch.nn import Linear as Layer
        except ImportError:
            from old import Layer
        reveal(Layer(1, 1))  #: Linear
        """,
    "a part of a package asks for what lies beside it, before the package is there": """
        from zoo.net import build
        reveal(build())  #: 'net'
        # file: zoo/__init__.py
        from .net.net import build
        # file: zoo/net/__init__.py
        from .net import build
        # file: zoo/net/net.py
        from zoo.net.parts import name
        def build():
            return name
        # file: zoo/net/parts.py
        name = "net"
    """,
    "a submodule through its package": """
        import package
        import package.inner
        reveal(package.inner.value)  #: 1
        # file: package/__init__.py
        # file: package/inner.py
        value = 1
        """,
    "who is the main program": """
        import other
        reveal(__name__)  #: '__main__'
        reveal(other.name)  #: 'other'
        # file: other.py
        name = __name__
        if __name__ == "__main__":
            reveal(name)  #: never
        """,
    "names that are overwritten": """
        x = 1
        reveal(x)  #: 1
        x = x + 1
        reveal(x)  #: 2
        del x
        x: int = 5
        reveal(x)  #: 5
        (y := 6)
        reveal(y)  #: 6
        a = b = 7
        reveal((a, b))  #: (7, 7)
        """,
    "a module as an object": """
        import config
        config.depth = 3
        reveal(config.depth)  #: 3
        from reader import depth
        reveal(depth())  #: 3
        # file: config.py
        depth = 1
        # file: reader.py
        import config
        def depth():
            return config.depth
        """,
}


@pytest.mark.parametrize("source", CASES.values(), ids=CASES)
def test_names_lead_to_what_they_mean(paper, source: str):
    assert paper(source).program.lost == ()


def test_a_name_that_nobody_defines_is_lost_knowledge(paper):
    found = paper(
        """
        reveal(nowhere)  #: unknown
        """
    )
    (lost,) = found.program.lost
    assert "`nowhere` is not defined" in lost.why
    assert not lost.limit


def test_a_library_that_is_not_there_is_not_read(paper):
    found = paper(
        """
        from company.nets import Net
        from torch.nn.parallel import DistributedDataParallel as DDP
        model = DDP(Net())
        """
    )
    assert found.event(Wrap).kind is WrapperKind.DDP
    assert found.program.files == {"train.py"}


def test_every_file_that_was_read_is_named(paper):
    found = paper(
        """
        import a.b
        print(a.b)
        # file: a/__init__.py
        # file: a/b.py
        from . import c
        # file: a/c.py
        # file: a/unread.py
        """,
    )
    assert found.program.files == {"train.py", "a/__init__.py", "a/b.py", "a/c.py"}


def test_a_folder_without_init_has_no_names_of_its_own(paper):
    """As in Horovod's `examples/mxnet/`, whose programs import the installed mxnet."""
    found = paper(
        """
        import mxnet as mx
        import torch
        place = mx.cpu()
        # file: mxnet/data.py
        """
    )
    assert not found.program.lost
    assert found.event(Escape).into == "mxnet.cpu"


def test_a_tensor_is_perhaps_itself(paper):
    """Two tensors of one maker are told apart by nothing, but that they differ is never sure."""
    paper(
        """
        import torch
        loss = torch.zeros(2).sum()
        reveal(loss is loss)  #: loss is loss
        reveal(torch.nn is torch.nn)  #: True
        """
    )


def test_of_many_packages_some_that_are_registered_stand_for_the_others(paper):
    names = [f"first{number}" for number in range(12)]
    parts = "".join(f"# file: kit/{each}/__init__.py\n# file: kit/{each}/{each}.py\nmarked = 1\n" for each in names)
    found = paper(
        "import importlib, json\n"
        f"packages = {[f'kit.{each}' for each in names]}\n"
        "chosen, package = json.load(open('settings.json'))['name'], None\n"
        "for each in packages:\n"
        "    if each.endswith(chosen):\n"
        "        package = each\n"
        "if package is not None:\n"
        "    importlib.import_module(f'{package}.{chosen}')\n"
        f"# file: kit/__init__.py\n{parts}"
    )
    assert sum(os.path.basename(each).startswith("first") for each in found.program.files) == MAX_MODULES
