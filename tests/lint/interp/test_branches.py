"""Branches: what is decided, what stays open, what one answer says about another, and which paths end."""

import pytest

from tests.support.paper import Revealed

BRANCHES = {
    "a decided test": """
        debug = False
        if debug:
            reveal(0)  #: never
        elif 1 < 2 <= 3:
            reveal(1)  #: 1
        else:
            reveal(2)  #: never
        """,
    "what a handler writes is there or not": """
        import signal, sys
        told = {"by": None}
        def note(number, frame):
            told["by"] = "signal"
        def end(number, frame):
            told["by"] = "end"
            sys.exit(1)
        signal.signal(signal.SIGTERM, note)
        signal.signal(signal.SIGINT, end)
        reveal()  #: always
        if told["by"] is not None:
            reveal()  #: signal.signal(signal.SIGTERM, note)
        """,
    "a wrapper has the mode of its model": """
        import torch
        model = torch.nn.DataParallel(torch.nn.Linear(2, 2))
        reveal(model.training)  #: unknown
        model.eval()
        reveal(model.training)  #: False
        model.module.train()
        reveal(model.training)  #: True
        """,
    "a join keeps both": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        x = 1
        if args.big:
            x = 2
        reveal(x)  #: 2 if args.big | 1 if not (args.big)
        if args.big:
            reveal(x)  #: 2
        y = x + 1
        reveal(y)  #: 3 if args.big | 2 if not (args.big)
        """,
    "what counts from zero, or from what was loaded, counts in a loop all the same": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        step = 0
        if args.resume:
            step = args.first
        while step < args.last:
            step += 1
            reveal()  #: step < args.last ; always
            if step % 100 == 0:
                reveal()  #: args.resume and step % 100 == 0 and step % 100 == 0 and step < args.last ; step % 100 == 0
        """,
    "an object that was made on one side has its attributes wherever it is": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        class Box:
            def __init__(self, size):
                self.size = size
        box = None
        if args.big:
            box = Box(2)
        if box is not None:
            reveal(box.size)  #: 2
            if args.more:
                box.size = 3
            reveal(box.size)  #: 3 if args.more | 2 if not (args.more)
        """,
    "a path that returned early keeps what it returned": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        class Box:
            def __init__(self, size):
                self.size = size
        def make():
            box = Box(1)
            if args.small:
                return box
            box.size = 2
            return box
        box = make()
        reveal(box.size)  #: 1 if args.small | 2 if not (args.small)
        def first():
            for n in (1, 2):
                box = Box(n)
                if args.small:
                    break
                box.size = 5
            return box
        reveal(first().size)  #: 1 if args.small | 5 | 2 if args.small
        def late():
            x = 1
            if args.small:
                return lambda: x
            x = 2
            return lambda: x
        reveal(late()())  #: 1 if args.small | 2 if not (args.small)
        """,
    "comparisons of the same setting": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        kind = None
        if args.opt == "sgd":
            kind = 1
        if args.opt == "sgd":
            reveal(kind)  #: 1
        if args.opt != "sgd":
            reveal(kind)  #: None
        """,
    "and, or, not": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        if args.a and not args.b:
            if args.a:
                reveal(1)  #: 1
            if args.b:
                reveal(2)  #: never
        if not (args.a or args.b):
            if args.a:
                reveal(3)  #: never
        reveal(args.a or 5)  #: setting args.a if args.a | 5 if not (args.a)
        reveal(None or 5)  #: 5
        reveal(0 and 5)  #: 0
        """,
    "a test of several settings is one switch": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        model = "plain"
        if args.distributed or args.world_size > 1:
            model = "wrapped"
        if args.distributed or args.world_size > 1:
            reveal(model)  #: 'wrapped'
        if not (args.distributed or args.world_size > 1):
            reveal(model)  #: 'plain'
        """,
    "one switch, written in two ways": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        model = "plain"
        if args.distributed or args.world_size > 1:
            model = "wrapped"
        if not args.distributed and not args.world_size > 1:
            reveal(model)  #: 'plain'
        if args.a and not args.b:
            model = "other"
        if not args.b and args.a:
            reveal(model)  #: 'other'
        if not (args.b or not args.a):
            reveal(model)  #: 'other'
        """,
    "a test that is decided by one of its parts": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        if args.a or True:
            reveal(1)  #: 1
        if args.a and False:
            reveal(2)  #: never
        if not (False or None):
            reveal(3)  #: 3
        """,
    "conditional expressions": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        reveal(1 if args.a else 2)  #: 1 if args.a | 2 if not (args.a)
        reveal(1 if True else 2)  #: 1
        """,
    "what a test has ruled out": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        def pick():
            found = "it" if args.b else None
            if args.c:
                found = None
            if found is None:
                raise ValueError
            if found != "it":
                reveal(1)  #: never
            other = "it" if args.a else 0
            if not other:
                return
            if other != "it":
                reveal(2)  #: never
        pick()
        """,
    "early returns": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        def make():
            if args.a:
                return 1
            if args.b:
                return 2
            reveal()  #: not (args.a) and not (args.b)
            return 3
        x = make()
        if args.a:
            reveal(x)  #: 1
        """,
    "raise ends the path": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        if args.a == 1:
            x = 1
        else:
            raise ValueError(args.a)
        reveal(x)  #: 1
        """,
    "exceptions that are caught": """
        x = 1
        try:
            x = 2
        except ValueError as error:
            x = 3
        finally:
            y = 4
        reveal(x)  #: 2 if not (an exception is caught) | 3 if an exception is caught
        reveal(y)  #: 4
        """,
    "try, else and finally": """
        def run():
            try:
                return 1
            finally:
                reveal(2)  #: 2
        reveal(run())  #: 1
        """,
    "what finally writes stays, whichever way out is taken": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        state = {}
        def run():
            state["x"] = 1
            try:
                if args.fast:
                    return 1
                state["y"] = 2
            except ValueError:
                return 2
            finally:
                state["x"] = 3
            return 4
        reveal(run())  #: 1 if args.fast | 2 if an exception is caught | 4 if not (args.fast)
        reveal(state["x"])  #: 3
        for x in ("a", "b"):
            try:
                if args.slow:
                    break
            finally:
                last = x
        reveal(last)  #: 'a' if args.slow | 'b'
        def swallow():
            try:
                return 1
            finally:
                return 2
        reveal(swallow())  #: 2
        """,
    "match": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        match "ddp":
            case "plain":
                reveal(0)  #: never
            case "ddp" | "fsdp":
                reveal(1)  #: 1
            case other:
                reveal(2)  #: never
        match args.mode:
            case "ddp":
                x = 1
            case _:
                x = 2
        if args.mode == "ddp":
            reveal(x)  #: 1
        """,
    "is None": """
        def make(model=None):
            if model is None:
                model = "default"
            return model
        reveal(make())  #: 'default'
        reveal(make("own"))  #: 'own'
        """,
    "isinstance": """
        import torch.nn as nn
        class Net(nn.Module):
            pass
        net = Net()
        if isinstance(net, nn.Module):
            reveal(1)  #: 1
        if isinstance(net, nn.DataParallel):
            reveal(2)  #: never
        if isinstance(nn.DataParallel(net), (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            reveal(3)  #: 3
        """,
    "cuda is there, and several of it": """
        import torch
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        reveal(device)  #: cuda
        if torch.cuda.device_count() > 1:
            reveal(1)  #: 1
        else:
            reveal(2)  #: never
        """,
    "membership": """
        mode = "train"
        if mode in ("train", "eval"):
            reveal(1)  #: 1
        if "lr" not in {"lr": 1}:
            reveal(2)  #: never
        if "a" in "abc":
            reveal(3)  #: 3
        """,
    "text that is built": """
        import os, torch.distributed as dist
        rank = dist.get_rank()
        name = "net"
        reveal(f"out/{name}.pt")  #: 'out/net.pt'
        reveal("out/" + name)  #: 'out/net'
        reveal(f"cuda:{rank}")  #: 'cuda:' + global rank
        """,
    "several assignments under one switch": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        if args.distributed:
            rank, world, sampler = 1, 2, "sharded"
        else:
            rank, world, sampler = 0, 1, None
        if sampler is not None:
            reveal((rank, world))  #: (1, 2)
        if world == 1:
            reveal(sampler)  #: None
        """,
}


@pytest.mark.parametrize("source", BRANCHES.values(), ids=BRANCHES)
def test_branches(paper, source: str):
    assert paper(source).program.lost == ()


LOOPS = {
    "known items one by one": """
        for name in ("a", "b"):
            reveal(name)  #: 'a' ; 'b'
        reveal(name)  #: 'b'
        for index, name in enumerate(["x"]):
            reveal(name)  #: 'x'
        for a, b in zip((1, 2), (3, 4)):
            reveal((a, b))  #: (1, 3) ; (2, 4)
        for key, value in {"k": 1}.items():
            reveal((key, value))  #: ('k', 1)
        """,
    "an empty one": """
        for each in ():
            reveal(each)  #: never
        for each in range(0):
            reveal(each)  #: never
        """,
    "a counter": """
        step = 0
        for epoch in range(100):
            if step > 3:
                reveal(1)  #: 1
            else:
                reveal(2)  #: 2
            step += 1
        """,
    "what the first round does not know": """
        best = None
        for epoch in range(100):
            if best is None:
                reveal(1)  #: 1
            else:
                reveal(best)  #: 'seen'
            best = "seen"
        """,
    "break and else": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        for each in (1, 2):
            if args.stop:
                found = "broken"
                break
        else:
            found = "whole"
        reveal(found)  #: 'broken' if args.stop | 'whole'
        """,
    "break ends the loop": """
        for each in (1, 2, 3):
            if each == 2:
                break
            reveal(each)  #: 1
        reveal(each)  #: 2
        """,
    "continue goes on": """
        for each in (1, 2, 3):
            if each == 2:
                continue
            reveal(each)  #: 1 ; 3
        """,
    "while": """
        while True:
            reveal(1)  #: 1
            break
        while False:
            reveal(2)  #: never
        n = 0
        while n < 10:
            n += 1
        reveal(3)  #: 3
        """,
    "comprehensions": """
        reveal([n + 1 for n in (1, 2)])  #: [2, 3]
        reveal({n: n * 2 for n in (1, 2)})  #: {1: 2, 2: 4}
        """,
    "what the right side of a test has done": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        class Count:
            n = 0
            def __call__(self):
                self.n += 1
                return True
        count = Count()
        if args.a and count():
            reveal(count.n)  #: 1
        reveal(count.n)  #: 1 if args.a | 0 if not (args.a)
        second = Count()
        done = args.a or second()
        reveal(second.n)  #: 1 if not (args.a) | 0 if args.a
        third = Count()
        if third() and args.b and third():
            reveal(third.n)  #: 2
        reveal(third.n)  #: 2 if args.b | 1 if not (args.b)
        """,
    "lists that grow in loops": """
        import os
        names, two = [], []
        for name in os.listdir("data"):
            names.append(name)
            pair = [name]
            pair.append(len(names))
            reveal(len(pair))  #: 2
        reveal((len(names) > 3, len(names) == len(set(names))))  #: (len(names) > 3, len(names) == len(set(names)))
        reveal(len([each for each in names]) == 2)  #: len([each for each in names]) == 2
        for number in (1, 2, 3):
            two.append(number)
        reveal(len(two))  #: 3
        copied = []
        for name in names:
            copied.append(name)
        reveal(len(copied) == 2)  #: len(copied) == 2
        reveal(len(names[1:]) == 1)  #: len(names[1:]) == 1
        reveal(len(names + two) == 5)  #: len(names + two) == 5
        reveal(len(names * 2) == 4)  #: len(names * 2) == 4
        reveal(len(tuple(names)) == 2)  #: len(tuple(names)) == 2
        reveal(len(sorted(names)) == 2)  #: len(sorted(names)) == 2
        reveal(len(list(zip(names, copied))) == 2)  #: len(list(zip(names, copied))) == 2
        reveal(len(two[1:] + two) == 5)  #: True
        """,
    "repeated sequences": """
        import argparse
        n = argparse.ArgumentParser().parse_args().n
        reveal([0] * 3)  #: [0, 0, 0]
        reveal(2 * (None, 1))  #: (None, 1, None, 1)
        reveal([0] * -1)  #: []
        reveal("a,b".split(","))  #: ['a', 'b']
        reveal([0] * n)  #: [...]
        reveal(([0] * n)[0])  #: 0
        counts = [0] * 3
        counts[1] = 5
        reveal(counts)  #: [0, 5, 0]
        reveal(([0] * 10 ** 12)[1])  #: 0
        """,
    "columns of which nobody knows how many there are": """
        import json, sys
        settings = json.load(open(sys.argv[1]))
        columns = [[1, 2]] if "one" in settings else [[3, 4] for _ in settings]
        for row in zip(*columns):
            for cell in row:
                reveal(cell)  #: 1 | 2 | 3 | 4
        """,
    "wrappers that are taken off, one by one": """
        class Core:
            pass
        class Holder:
            def __init__(self, module):
                self.module = module
        def bare(held):
            while hasattr(held, "module"):
                held = held.module
            return held
        def core(held):
            while True:
                if hasattr(held, "module"):
                    held = held.module
                else:
                    return held
        held = Holder(Holder(Holder(Core())))
        reveal(bare(held))  #: Core()
        for _ in range(10):
            reveal(bare(held))  #: Core()
            reveal(core(held))  #: Core()
        """,
    "an endless loop is over where it returns": """
        import sys
        def wait(limit):
            n = 0
            while True:
                n += 1
                if n > limit:
                    return "over"
            reveal(n)  #: never
        reveal(wait(int(sys.argv[1])))  #: 'over' if n > limit | 'over' if n > limit
        reveal(1)  #: 1
        """,
    "an endless loop of one rank": """
        import torch.distributed as dist
        def serve():
            while True:
                if dist.get_rank() != 0:
                    return "other"
        reveal(serve())  #: 'other'
        if dist.get_rank() == 0:
            reveal(1)  #: never
        """,
    "a test that the first round decides": """
        import sys
        waiting, seen = True, []
        while waiting:
            seen.append(1)
            waiting = False
        reveal(seen)  #: [1]
        while len(seen) < 3:
            seen.append(2)
        reveal(seen)  #: [1, 2, 2]
        """,
    "a while loop that counts the words": """
        words, found, at = ["--config", "small", "--fast"], [], 0
        while at < len(words):
            if words[at] == "--config":
                at += 1
                found.append(words[at])
            else:
                found.append(words[at])
            at += 1
        reveal(found)  #: ['small', '--fast']
        reveal(at)  #: 3
        while at < 1000:
            at += 1
        reveal(at)  #: unknown
        """,
    "a while loop over batches": """
        import torch
        from torch.utils.data import DataLoader
        batches = iter(DataLoader(range(8)))
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                break
            reveal(batch)  #: Tensor
        """,
}


@pytest.mark.parametrize("source", LOOPS.values(), ids=LOOPS)
def test_loops(paper, source: str):
    assert paper(source).program.lost == ()


def test_a_counter_says_that_not_every_round_comes_by(paper):
    found = paper(
        """
        from torch.utils.data import DataLoader
        loader = DataLoader(range(8))
        for epoch in range(3):
            for step, batch in enumerate(loader):
                if step % 10 == 0:
                    reveal(1)  #: 1
        """
    )
    shown = found.events(Revealed)[0]
    assert [loop.times for loop in shown.loops] == [3, None]
    assert [loop.over is not None for loop in shown.loops] == [False, True]
    assert [loop.location.line for loop in shown.loops] == [4, 5]
    (guard,) = shown.condition
    assert guard.atom.text == "step % 10 == 0"


def test_a_number_that_was_compared_is_something_or_nothing(paper):
    paper(
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--gpus", type=int)
        args = parser.parse_args()
        if args.gpus > 1:
            reveal(not args.gpus)  #: False
        if args.gpus == 0:
            reveal(not args.gpus)  #: True
        if args.gpus < 4:
            reveal(not args.gpus)  #: not (args.gpus)
        """
    )


def test_what_an_assertion_says_holds_again_behind_the_same_test(paper):
    paper(
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--stage", type=int)
        parser.add_argument("--ddp", action="store_true")
        parser.add_argument("--fast", action="store_true")
        args = parser.parse_args()
        if args.stage == 2:
            assert not args.ddp
            if args.fast:
                raise ValueError("too fast")
        kind = "wrapped" if args.ddp else "bare"
        reveal(kind)  #: 'wrapped' if args.ddp | 'bare' if not (args.ddp)
        if args.stage == 2:
            reveal(kind.upper())  #: 'BARE'
            reveal(not args.fast)  #: True
        else:
            reveal(kind)  #: 'wrapped' if args.ddp | 'bare' if not (args.ddp)
        if args.ddp:
            reveal(not args.stage == 2)  #: True
        """
    )


def test_what_is_something_is_neither_none_nor_false(paper):
    paper(
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--name")
        args = parser.parse_args()
        if args.name:
            reveal(not args.name is False)  #: True
            reveal(not args.name is None)  #: True
            reveal(not args.name == "")  #: True
            reveal(not args.name == "a")  #: not (args.name == 'a')
        """
    )
