"""Limits: reaching one is recorded as lost knowledge, and never ends in a crash or a long wait."""

import pytest

from gpudoctor.lint.analyses import batch_items
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource
from gpudoctor.lint.domain.symbols import Setting
from gpudoctor.lint.domain.value import Const, Unknown
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.placement import Mixed
from gpudoctor.lint.events.training_step import Recompute
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.flow.valueset import Binding, ValueSet, union
from gpudoctor.lint.interp import execution_state, imports, limits
from gpudoctor.lint.interp.widening import widened

LONG = "".join(f"            step_{n} = {n}\n" for n in range(40))
RECURSION = {
    "a function that calls itself": """
        def down(n):
            if n == 0:
                return "ground"
            return down(n - 1)
        reveal(down(50))  #: unknown
        reveal("after")  #: 'after'
        """,
    "a long function that makes one entry of a table inside of another": (
        """
        def create(name, table):
            given = {}
            for key, value in table[name].items():
                given[key] = create(value, table) if isinstance(value, str) else value
"""
        + LONG
        + """            return kinds[name](**given)
        class Head:
            def __init__(self, width):
                self.width = width
        class Neck:
            def __init__(self, head):
                self.head = head
        class Net:
            def __init__(self, neck):
                self.neck = neck
        kinds = {"Net": Net, "Neck": Neck, "Head": Head}
        table = {"Net": {"neck": "Neck"}, "Neck": {"head": "Head"}, "Head": {"width": 5}}
        reveal(create("Net", table).neck.head.width)  #: 5
        """
    ),
    "a long function that does for each part what it does for one": (
        """
        def scatter(data, parts=None):
            if parts is not None:
                return [scatter(data) for _ in range(parts)]
"""
        + LONG
        + """            return ("one", step_3)
        reveal(scatter({"a": 1}, parts=1)[0])  #: ('one', 3)
        """
    ),
    "two functions that call each other": """
        def even(n):
            return True if n == 0 else odd(n - 1)
        def odd(n):
            return False if n == 0 else even(n - 1)
        even(9)
        reveal("after")  #: 'after'
        """,
    "a method of a tree": """
        class Node:
            def __init__(self, depth):
                self.children = [Node(depth - 1) for _ in range(depth)]
            def walk(self):
                for child in self.children:
                    child.walk()
        Node(4).walk()
        reveal("after")  #: 'after'
        """,
    "a generator that yields from itself": """
        def walk(n):
            yield n
            yield from walk(n + 1)
        for each in walk(0):
            pass
        reveal("after")  #: 'after'
        """,
    "a list that holds itself": """
        items = []
        items.append(items)
        print(items)
        state = {"self": None}
        state["self"] = state
        reveal(len(items) > 0)  #: True
        """,
    "a class that extends itself by name": """
        class Net:
            pass
        class Net(Net):
            def name(self):
                return "inner"
        reveal(Net().name())  #: 'inner'
        """,
    "a decorator that decorates itself": """
        def again(f):
            return again(f)
        @again
        def work():
            pass
        work()
        reveal("after")  #: 'after'
        """,
    "numbers without end": """
        x = 2
        for _ in range(5):
            x = x * x * x * x
        reveal("after")  #: 'after'
        text = "a"
        for _ in range(5):
            text = text + text + text + text
        reveal("after")  #: 'after'
        """,
    "a loop without end": """
        while True:
            x = 1
        reveal(x)  #: 1
        """,
}


@pytest.mark.parametrize("source", RECURSION.values(), ids=RECURSION)
def test_what_never_ends_is_left(paper, source: str):
    assert not paper(source).program.cut_short


def test_calls_that_are_nested_too_deeply_are_lost(paper):
    depth = limits.MAX_CALL_DEPTH + 2
    chain = "\n".join(f"def f{n}(x):\n    return f{n + 1}(x)" for n in range(depth))
    found = paper(f"{chain}\ndef f{depth}(x):\n    return x\nreveal(f0(1))  #: unknown\nreveal(f{depth}(2))  #: 2")
    assert any("nested too deeply" in lost.why for lost in found.program.lost)


def test_a_short_chain_of_calls_is_followed_to_its_end(paper):
    depth = limits.MAX_CALL_DEPTH - 4
    chain = "\n".join(f"def f{n}(x):\n    return f{n + 1}(x)" for n in range(depth))
    assert not paper(f"{chain}\ndef f{depth}(x):\n    return x\nreveal(f0(1))  #: 1").program.lost


def test_too_many_statements_end_the_execution_and_keep_the_log(paper, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(execution_state, "MAX_STATEMENTS", 100)
    found = paper("import torch\nmodel = torch.nn.DataParallel(torch.nn.Linear(1, 1))\n" + "x = 1\n" * 200)
    assert found.program.cut_short
    assert [lost.why for lost in found.program.lost if lost.limit] == ["more than 100 statements"]
    assert found.event(Wrap).location.line == 2


MIXED_IMAGES = """
    import torch
    from torch.utils.data import DataLoader, Dataset

    def mix(image, left):
        if left == "none":
            return image
        image = turn(image)
        return image

    def turn(image):
        image = image + 1
        image = image + 1
        return image

    class Mixed(Dataset):
        def __len__(self):
            return 100
        def __getitem__(self, index):
            image = torch.zeros(3)
            image = mix(image, "some")
            image = mix(image, "some")
            image = mix(image, "some")
            return image

    model = torch.nn.Linear(3, 1).cuda()
    for images in DataLoader(Mixed(), batch_size=4):
        model(images)
    """


def test_an_item_that_takes_long_is_followed_in_part(paper, monkeypatch: pytest.MonkeyPatch):
    assert paper(MIXED_IMAGES).events(Mixed), "batches lie on the CPU"
    monkeypatch.setattr(batch_items, "MAX_ITEM_STATEMENTS", 6)
    found = paper(MIXED_IMAGES)
    assert not found.program.cut_short
    assert found.events(Forward), "the training behind it is followed"
    assert not found.events(Mixed), "what was not followed may have moved them"


TRAINS = """
import torch
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train():
    for batch in torch.utils.data.DataLoader([1.0]):
        model(batch).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("behind", "trained"),
    [
        ("train()\n" + "x = 1\n" * 200, True),
        ("for epoch in range(9):\n    train()\n" + "    x = 1\n" * 60, True),
        ("for epoch in range(9):\n    train()\n" + "    x = 1\n" * 200, False),
        ("train()\nfor batch in torch.utils.data.DataLoader([1.0]):\n" + "    x = 1\n" * 200, False),
    ],
    ids=["behind it", "second epoch", "first epoch", "before another one"],
)
def test_a_limit_behind_the_training_hides_nothing_of_it(
    paper, monkeypatch: pytest.MonkeyPatch, behind: str, trained: bool
):
    monkeypatch.setattr(execution_state, "MAX_STATEMENTS", 100)
    program = paper(TRAINS + behind).program
    assert program.stops
    assert program.absence() is trained
    assert not program.absence(to_the_end=True)


def test_too_many_events_end_the_execution(paper, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(execution_state, "MAX_EVENTS", 10)
    found = paper("import torch\nmodel = torch.nn.Linear(1, 1)\n" + "model(torch.zeros(1, 1))\n" * 20)
    assert found.program.cut_short
    assert found.events(Forward)


def test_an_expression_that_is_too_deep_is_no_crash(paper):
    found = paper("reveal(1)  #: 1\nx = 1\ny = " + " + ".join(["x"] * 900) + "\n")
    assert found.program.cut_short
    assert "nested too deeply" in found.program.lost[-1].why


def test_too_many_values_become_one_that_is_unknown():
    ranks = Rank(RankKind.GLOBAL, RankSource.ENVIRONMENT)
    few = ValueSet(Binding(Const(n)) for n in range(limits.MAX_VALUES))
    assert widened("x", few) is few
    many = union([few, ValueSet.of(ranks)])
    only = widened("x", many).single
    assert isinstance(only, Unknown)
    assert only.divergence is Divergence.RANK
    assert widened("x", many).single == only


def test_several_unknown_values_become_one_that_knows_what_they_depend_on():
    loss = Unknown(Setting("loss"), dependence=Divergence.LOCAL)
    settings = [Unknown(Setting(name), config=True) for name in ("lr", "seed")]
    mixed = widened("x", ValueSet(Binding(value) for value in (loss, *settings))).single
    assert isinstance(mixed, Unknown)
    assert mixed.divergence is Divergence.LOCAL
    assert not mixed.config


def test_a_few_settings_stay_apart_for_what_is_written_to_them():
    settings = [Unknown(Setting(f"s{n}"), config=True) for n in range(limits.MAX_VALUES + 1)]
    few = ValueSet(Binding(value) for value in settings[1:])
    assert widened("x", few) is few
    chosen = widened("x", ValueSet(Binding(value) for value in settings)).single
    assert isinstance(chosen, Unknown)
    assert chosen.config


def test_a_few_values_are_kept(paper):
    paper(
        """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        x = 0
        if args.kind == 1:
            x = 1
        elif args.kind == 2:
            x = 2
        reveal(len([x]))  #: 1
        if args.kind == 1:
            reveal(x)  #: 1
        elif args.kind == 2:
            reveal(x)  #: 2
        else:
            reveal(x)  #: 0
        """
    )


def test_many_switches_are_learnt_one_by_one(paper):
    options = [f"args.switch_{n}" for n in range(limits.MAX_RESTARTS - 2)]
    nested = "".join(f"{'    ' * n}if {option}:\n" for n, option in enumerate(options))
    inner = "    " * len(options)
    found = paper(
        "import argparse, torch.distributed as dist\nargs = argparse.ArgumentParser().parse_args()\n"
        f"{nested}{inner}dist.init_process_group('nccl')\n{inner}reveal()  #: always\n"
    )
    assert found.program.whole


ODD = {
    "an empty file": "",
    "only a comment": "# nothing here\n",
    "return outside of a function": "import torch\nprint(1)\nreturn\n",
    "break outside of a loop": "print(1)\nbreak\n",
    "yield at the top": "print(1)\nyield 1\n",
    "await at the top": "print(1)\nawait something()\n",
    "an async program": """
        import asyncio
        async def main():
            async with lock() as held:
                async for each in source():
                    await each
            return [x async for x in source()]
        asyncio.run(main())
        """,
    "every kind of expression": """
        import torch
        x = [*(1, 2)]; y = {**{"a": 1}, "b": 2}; z = {1, 2}; w = x[0:1:1]; v = x[...]
        f = lambda *a, k=1, **b: (a, b, k)
        g = (i for i in x if i for j in y)
        s = f"{x!r:>{3}}" rf"\\d{y}"
        a = not x or y and z if w else v
        b = x @ y if x is not y else ~3 << 2 ** 1
        c = 1 < 2 < 3 in [4] not in [[5]]
        print(*x, sep="", **{"end": ""})
        (x, *y), [z] = [1, 2], [3]
        x, y[0], z.attr = 1, 2, 3
        del x, y[0], z.attr
        """,
    "every kind of statement": """
        import torch, os.path as path
        from . import nothing
        global g
        x: int
        x: int = 3
        x += 1; x **= 2; x @= 1
        with open("a") as f, open("b"): pass
        try:
            raise ValueError from None
        except (ValueError, OSError) as error:
            raise
        except Exception:
            pass
        else:
            pass
        finally:
            pass
        assert x, "message"
        while x: break
        else: pass
        for i, (j, k) in []: continue
        match x:
            case {"a": 1, **rest} | [1, *_]: pass
            case int(real=3) as n if n > 1: pass
            case -1 | None | True | "a": pass
        class A(B, metaclass=C): x = 1
        nonlocal_ = 1
        """,
}


@pytest.mark.parametrize("source", ODD.values(), ids=ODD)
def test_odd_files_are_no_crash(paper, source: str):
    program = paper(source + "\n" if source else "\n", launch="auto").program
    assert program.entry == "train.py"
    assert not program.cut_short


def test_a_registry_is_followed_for_the_first_functions_only(paper):
    many = "".join(f"@register\ndef f{n}():\n    return {n}\n" for n in range(limits.MAX_DECORATED + 5))
    paper(
        "known = []\ndef register(f):\n    known.append(f)\n    return f\n"
        f"{many}reveal(f{limits.MAX_DECORATED + 2}())  #: {limits.MAX_DECORATED + 2}\n"
        "reveal(len(known))  #: unknown\n"
    )


def test_a_registry_that_is_not_followed_to_its_end_is_open(paper):
    many = "".join(f"@register('f{n}')\ndef f{n}():\n    return {n}\n" for n in range(limits.MAX_DECORATED + 5))
    last = limits.MAX_DECORATED + 2
    paper(
        "known = {}\ndef register(name):\n    def put(f):\n        known[name] = f\n        return f\n    return put\n"
        f"{many}reveal(known['f1']())  #: 1\n"
        f"if 'f{last}' not in known:\n    raise KeyError\nreveal(known['f{last}']())  #: unknown\n"
    )


ZOO = """
    import zoo
    reveal(zoo.first())  #: 1
    reveal(zoo.second())  #: 2
    if "third" not in zoo.NETS:
        raise KeyError
    reveal(zoo.NETS["third"])  #: unknown
    # file: zoo/__init__.py
    from .registry import NETS
    from .long import *
    from .asked import *
    from .unasked import *
    # file: zoo/registry.py
    NETS = {}
    def register(name):
        def put(make):
            NETS[name] = make
            return make
        return put
    # file: zoo/long.py
    from .registry import register
    one, two, three, four = 1, 2, 3, 4
    @register("first")
    def first():
        return 1
    # file: zoo/asked.py
    from .registry import register
    reveal("asked")  #: 'asked'
    @register("second")
    def second():
        return 2
    # file: zoo/unasked.py
    from .registry import register
    reveal("unasked")  #: never
    @register("third")
    def third():
        return 3
    """


def test_enough_was_imported_and_what_only_defines_things_waits_to_be_asked(paper, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(imports, "MAX_EAGER_IMPORTS", 10)
    paper(ZOO)


TABLE_OF_CLASSES = """
    import zoo
    reveal(zoo.TABLES["nets"].get("second"))  #: Second
    # file: zoo/__init__.py
    from .registry import TABLES
    from .long import *
    from .unasked import *
    from .asked import *
    # file: zoo/registry.py
    from collections import defaultdict
    TABLES = defaultdict(dict)
    def register(name):
        def put(cls):
            TABLES["nets"][name] = cls
            return cls
        return put
    # file: zoo/long.py
    from .registry import register
    one, two, three, four = 1, 2, 3, 4
    @register("first")
    class First:
        pass
    # file: zoo/asked.py
    from .registry import register
    @register("second")
    class Second:
        pass
    # file: zoo/unasked.py
    from .registry import register
    reveal("unasked")  #: never
    @register("third")
    class Third:
        pass
    """


def test_what_waits_and_registers_is_executed_when_its_table_is_asked(paper, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(imports, "MAX_EAGER_IMPORTS", 10)
    paper(TABLE_OF_CLASSES)


LATE_IMPORT = """
    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, Dataset
    dist.init_process_group("nccl")
    class Numbers(Dataset):
        def __getitem__(self, i):
            i = i + 1
            i = i + 1
            i = i + 1
            from helper import rank
            return torch.zeros(2)
    for batch in DataLoader(Numbers(), batch_size=2):
        pass
    from helper import rank
    reveal(rank)  #: global rank
    # file: helper.py
    import torch.distributed as dist
    def who():
        return dist.get_rank()
    rank = who()
    """


def test_a_module_first_imported_during_a_look_ahead_is_followed_whole(paper, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batch_items, "MAX_ITEM_STATEMENTS", 3)
    paper(LATE_IMPORT)


def test_a_rehearsal_that_a_limit_ends_has_not_happened(paper, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(execution_state, "MAX_STATEMENTS", 40)
    found = paper(
        """
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        def long(x):
            for _ in range(9):
                for _ in range(9):
                    for _ in range(9):
                        x = x + 1
                        x = x * 2
                        x = x - 3
            return x
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(2, 2)
            def forward(self, x):
                x = self.layer(x)
                for _ in range(9):
                    x = long(x)
                return x
        model = torch.nn.DataParallel(Net().cuda())
        for (x,) in DataLoader(TensorDataset(torch.randn(8, 2))):
            model(x)
        """,
        "single",
    )
    assert found.program.cut_short
    assert not [each for each in found.events(Forward) if each.context.function == "forward"]


@pytest.mark.parametrize("block", ["if True:", "with torch.no_grad():"])
def test_a_model_is_not_followed_at_each_call_for_what_it_recomputes(paper, block: str):
    found = paper(
        "import torch, torch.nn as nn\n"
        "from torch.nn.parallel import DistributedDataParallel as DDP\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(2, 2)\n"
        "    def forward(self, x):\n" + "        x = self.layer(x)\n" * 200 + "        return x\n"
        "torch.distributed.init_process_group('gloo')\n"
        "model = DDP(Net(), find_unused_parameters=True)\n"
        f"{block}\n" + "    y = model(torch.ones(1, 2))\n" * 150
    )
    assert not found.program.stops


def test_what_a_model_recomputes_is_seen_at_each_call_with_gradients(paper):
    found = paper("""
        import torch, torch.nn as nn
        from torch.nn.parallel import DistributedDataParallel as DDP
        from torch.utils.checkpoint import checkpoint
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)
            def forward(self, x):
                return checkpoint(self.layer, x)
        torch.distributed.init_process_group("gloo")
        model = DDP(Net(), find_unused_parameters=True)
        with torch.no_grad():
            model(torch.ones(1, 2))
        model(torch.ones(1, 2))
        model(torch.ones(1, 2))
        """)
    assert [event.location.line for event in found.events(Recompute)] == [10, 10]
