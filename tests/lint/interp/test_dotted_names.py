"""Modules and classes that a text names: what it is made of, which of its parts is the module, and what is none."""

import pytest

NAMES = {
    "by trying the longest module first": """
        import importlib
        import re

        def parted(name):
            name = re.sub("^np.", "numpy.", name)
            parts = name.split(".")
            pairs = [(".".join(parts[:i]), ".".join(parts[i:])) for i in range(len(parts), 0, -1)]
            for module_name, rest in pairs:
                try:
                    module = importlib.import_module(module_name)
                    inside(module, rest)
                    return module, rest
                except:
                    pass
            raise ImportError(name)

        def inside(module, name):
            if name == "":
                return module
            found = module
            for part in name.split("."):
                found = getattr(found, part)
            return found

        def made(name):
            module, rest = parted(name)
            return inside(module, rest)

        loss = made("training.loss.Loss")
        reveal(loss.kind)  #: 'own'

        # file: training/__init__.py
        # file: training/loss.py
        class Loss:
            kind = "own"
        """,
    "of what is no module": """
        import importlib
        try:
            importlib.import_module("training.loss.Loss")
            reveal(1)  #: never
        except ImportError:
            reveal(2)  #: 2

        # file: training/__init__.py
        # file: training/loss.py
        class Loss:
            pass
        """,
    "of what may be installed": """
        import importlib
        try:
            importlib.import_module("elsewhere.loss")
            reveal(1)  #: 1
        except ImportError:
            pass
        """,
    "cut out of an option": """
        import argparse, importlib
        parser = argparse.ArgumentParser()
        parser.add_argument("--arch", default="large.Net")
        network = "network." + parser.parse_args().arch
        at = network.rfind(".")
        reveal(getattr(importlib.import_module(network[:at]), network[at + 1 :]))  #: Net
        # file: network/__init__.py
        # file: network/large.py
        class Block:
            pass
        class Net:
            pass
        """,
    "of an option that was asked": """
        import argparse, trainers
        parser = argparse.ArgumentParser()
        parser.add_argument("--trainer", default="Basic")
        name = parser.parse_args().trainer
        reveal(getattr(trainers, name))  #: Basic
        if "Sharded" in name:
            reveal(getattr(trainers, name))  #: ShardedTrainer
        # file: trainers.py
        class Basic:
            pass
        class ShardedTrainer(Basic):
            pass
        """,
    "of the module itself": """
        import sys
        def run():
            pass
        reveal(sys.modules[__name__].run)  #: run
        reveal(getattr(sys.modules["__main__"], "run"))  #: run
        """,
    "put together": """
        reveal(".".join(["a", "b"]))  #: 'a.b'
        reveal(".".join([]))  #: ''
        reveal("-".join(str(n) for n in range(0, 6, 2)))  #: '0-2-4'
        import re
        reveal(re.sub("^np.", "numpy.", "np.sum"))  #: 'numpy.sum'
        reveal(re.sub("(a+)+$", "", "aaaa"))  #: unknown
        """,
    "one of several": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        class Nets:
            small = 1
            big = 2
        name = "big" if args.big else "small"
        reveal(getattr(Nets, name))  #: 2 if args.big | 1 if not (args.big)
        """,
    "in one of several lists": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        for each in ["a", "b"] if args.big else ["c"]:
            reveal(each)  #: 'a' ; 'b' ; 'c'
        """,
    "of a package that imports what lies in it": """
        from models import TABLE
        reveal(sorted(TABLE))  #: ['net']
        reveal(TABLE["net"])  #: Net

        # file: models/__init__.py
        import glob
        import importlib
        import os

        TABLE = {}

        def register(cls):
            TABLE["net"] = cls
            return cls

        reveal(len(__path__))  #: 1
        for file in glob.glob(os.path.join(os.path.dirname(__file__), "*.py")):
            importlib.import_module("." + os.path.basename(file)[:-3], __package__)
        # file: models/net.py
        from models import register

        @register
        class Net:
            pass
        """,
}


@pytest.mark.parametrize("source", NAMES.values(), ids=NAMES)
def test_names(paper, source: str):
    paper(source)


def test_a_function_that_calls_itself_for_each_of_a_list(paper):
    long = "\n".join(f"            x{number} = {number}" for number in range(45))
    paper(
        f"""
        def evaluate(tasks):
            if isinstance(tasks, list):
                return {{each: evaluate(each) for each in tasks}}
{long}
            reveal(x3)  #: 3
            return x4
        reveal(evaluate([{", ".join(f"'task {number}'" for number in range(30))}])["task 4"])  #: 4
        """
    )


SEARCHES = {
    "a folder and those below it": """
import glob, importlib, os
root = os.path.dirname(os.path.abspath(__file__))
for file in glob.glob(os.path.join(root, "**", "*.py"), recursive=True):
    parts = file.split(os.sep)
    importlib.import_module(".".join(parts[parts.index("zoo"):])[:-3])
""",
    "os.walk": """
import importlib, os
root = os.path.dirname(os.path.abspath(__file__))
for folder, _, files in os.walk(root):
    for file in files:
        path = os.path.relpath(os.path.join(folder, file), os.path.dirname(root))
        importlib.import_module(path[:-3].replace(os.sep, "."))
""",
    "a path": """
import importlib
from pathlib import Path
ROOT = Path(__file__).parent
for path in ROOT.glob("nets/**/*.py"):
    importlib.import_module(str(path.relative_to(ROOT.parent))[:-3].replace("/", "."))
import zoo.small
""",
    "packages": """
import importlib, pkgutil
for module in pkgutil.walk_packages(__path__, __name__ + "."):
    importlib.import_module(module.name)
""",
    "a star": """
import glob, os
__all__ = [os.path.basename(file)[:-3] for file in glob.glob(os.path.join(os.path.dirname(__file__), "*.py"))]
from . import *
""",
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_modules_that_are_found_in_a_folder_fill_a_table(paper, search: str):
    paper(
        f"""
import argparse
import zoo
from zoo.table import TABLE
parser = argparse.ArgumentParser()
parser.add_argument("--model", default="small")
reveal(TABLE["small"])  #: Small
args = parser.parse_args()
reveal(TABLE[args.model])  #: Big if args.model == 'big' | Small if not (args.model == 'big')
# file: zoo/__init__.py
{search}
# file: zoo/table.py
TABLE = {{}}
def register(name):
    def put(cls):
        TABLE[name] = cls
        return cls
    return put
# file: zoo/small.py
from zoo.table import register
@register("small")
class Small:
    pass
# file: zoo/nets/big.py
from zoo.table import register
@register("big")
class Big:
    pass
"""
    )


def test_a_class_is_looked_for_in_the_modules_of_a_folder(paper):
    paper(
        """
import argparse
import importlib
import os
import pkgutil
import zoo
parser = argparse.ArgumentParser()
parser.add_argument("--trainer", default="Big")
args = parser.parse_args()
folder = zoo.__path__[0]
for _, module, is_package in pkgutil.iter_modules([folder]):
    first = importlib.import_module(f"zoo.{module}")
    reveal(hasattr(first, args.trainer))  #: False
    for _, name, _ in pkgutil.iter_modules([os.path.join(folder, module)]):
        second = importlib.import_module(f"zoo.{module}.{name}")
        if hasattr(second, args.trainer):
            reveal(getattr(second, args.trainer)())  #: Big()
# file: zoo/__init__.py
# file: zoo/small.py
class Small:
    pass
# file: zoo/nets/__init__.py
# file: zoo/nets/big.py
class Big:
    pass
"""
    )


def test_one_of_few_names_is_looked_for_part_by_part(paper):
    paper(
        """
import argparse
import importlib
parser = argparse.ArgumentParser()
parser.add_argument("--kind", choices=["small", "big"])
args = parser.parse_args()
def found(name):
    parts = name.split(".")
    pairs = [(".".join(parts[:at]), ".".join(parts[at:])) for at in range(len(parts), 0, -1)]
    for module, rest in pairs:
        try:
            thing = importlib.import_module(module)
            for part in rest.split(".") if rest else ():
                thing = getattr(thing, part)
            return thing
        except:
            pass
    raise ImportError(name)
reveal(found("nets.small.Small")())  #: Small()
chosen = found("nets.small.Small" if args.kind == "small" else "nets.big.Big")
reveal(chosen())  #: Small() if args.kind == 'small' | Big() if not (args.kind == 'small')
def first(names):
    for name in names:
        try:
            open(name)
            return name
        except OSError:
            continue
reveal(first(["a.yaml", "b.yaml"]))  #: None | 'a.yaml' | 'b.yaml'
# file: nets/__init__.py
# file: nets/small.py
class Small:
    pass
# file: nets/big.py
class Big:
    pass
"""
    )
