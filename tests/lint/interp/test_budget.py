"""What one program may take: no program makes lint take long or much memory, and what was seen until then stands."""

import importlib
import signal
import sys
import threading
import time
import tracemalloc
from contextlib import ExitStack

import pytest

from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.interp import budget, entry_execution, execution_state, launch_worlds
from gpudoctor.lint.interp.budget import Budget, OutOfBudget

pytestmark = pytest.mark.slow

DOUBLING = {
    "tuples": "x = (1, 2)\n" + "x = (*x, *x)\n" * 60,
    "tuples in tuples": "x = (1, 2)\n" + "x = (x, x)\n" * 100 + "y = {x: 1}\nif x == x: pass\n",
    "sums of tuples": "x = (1, 2)\n" + "x = x + x\n" * 60,
    "lists": "x = [1, 2]\n" + "x = [*x, *x]\n" * 60 + "x.extend(x)\n" * 60,
    "texts": "import sys\nx = sys.argv[1]\n" + 'x = f"{x}/{x}"\n' * 100 + "open(x)\n",
    "texts that are known": "x = 'ab'\n" + 'x = f"{x}{x}{x}{x}"\n' * 60,
    "sums of texts": "import sys\nx = 'a' + sys.argv[1]\n" + "x = x + x\n" * 100,
    "dictionaries": "x = {'a': 1}\n" + "x = {'b': x, 'c': x, **x}\n" * 100,
    "dictionaries that escape": "import foo\nx = {'a': 1}\n"
    + "".join(f"x = {{**x, 'k{n}': x}}\n" for n in range(100))
    + "foo.show(x)\n",
    "iterators": "x = [1, 2]\n" + "x = zip(x, x)\n" * 60 + "for a in x: print(a)\n",
    "arguments": "".join(f"def f{n}(*a): return f{n + 1}(*a, *a)\n" for n in range(20))
    + "def f20(*a): return a\nf0(1, 2, 3, 4)\n",
    "comprehensions": "x = [1 " + " ".join(f"for x{n} in (1, 2, 3, 4, 5, 6)" for n in range(15)) + "]\n",
    "calls": "".join(f"def f{n}(x): return f{n + 1}(x) + f{n + 1}(x)\n" for n in range(40)) + "f0(1)\n",
    "results of functions": "".join(f"def f{n}(x=0, *y): return (f{n + 1}(x), f{n + 1}(y))\n" for n in range(400))
    + "def f400(x=0, *y): return f'{x}{y}'\nx = f0(x)\n",
    "ranges": "x = 3\n" + "x = range(x, x)\n" * 60 + "y = x + 1\nif x == y: print(y)\nfor a in x: print(a)\n",
    "partial calls": "import functools, os\nx = os.getcwd\n"
    + "x = functools.partial(x, x)\n" * 24
    + "y = os.getcwd\n"
    + "y = functools.partial(y, y)\n" * 24
    + "if x == y: print({x: 1, y: 2})\n",
    "texts of methods": "import copy, torch\nx = torch.zeros(2)\n"
    + "x = copy.deepcopy(f'{x}{x}')\nx = f'{x.a}{x.a}'\n" * 30,
    "modules": "from torch import nn\nx = nn.Linear(1, 1)\n" + "x = nn.Sequential(x, x)\n" * 60 + "x.cuda()\n",
    "choices": "import foo\n"
    + "".join(f"x{n} = 1\nif foo.f{n}: x{n} = 2\n" for n in range(30))
    + "y = "
    + " + ".join(f"x{n}" for n in range(30))
    + "\n",
}


@pytest.mark.parametrize("source", DOUBLING.values(), ids=DOUBLING)
def test_what_doubles_with_each_line_stays_small(paper, source: str):
    before = time.process_time()
    assert not paper(source + "reveal('after')  #: 'after'\n").program.cut_short
    # Far above what it takes, and far below what doubling takes.
    assert time.process_time() - before < 4


LARGE = {
    "a table": "x = {" + ",".join(f"'k{n}': {n}" for n in range(5000)) + "}\nfor key in x: print(key)\n",
    "a list": "x = [" + ",".join(map(str, range(20000))) + "]\nfor each in x: print(each)\n",
    "keyword arguments": "def f(**k): return k\nf(" + ",".join(f"k{n}={n}" for n in range(5000)) + ")\n",
    "entries put in one by one": "x = {}\n" + "".join(f"x['k{n}'] = {n}\n" for n in range(5000)),
    "an integer": f"x = 0x{'f' * 100_000}\nprint(f'{{x}}', str(x), x * x)\nif x > 3: pass\n",
    "digits": f"x = int('{'9' * 5000}')\ny = int('9' * 10**6)\nz = float('{'9' * 5000}')\n",
    "powers": "x = 10**10**10\ny = 2**2**2**2**2**2\nz = 1 << 10**12\nw = pow(10, 10**10)\n",
    "repeated text": "x = 'a' * 10**9\ny = [0] * 10**9\nz = (0,) * 10**9\nw = 'a'.ljust(10**10)\n",
    "texts in place of letters": f"x = {'a' * 270!r}\ny = x.replace('a', x)\nz = y.replace('a', y)\n",
    "formats": "x = '%1000000000d' % 1\ny = f'{1:1000000000d}'\nz = '{:1000000000d}'.format(1)\n",
    "ranges": "x = list(range(10**12))\nfor i in range(10**12): pass\ny = [*range(10**12)]\nprint(*range(10**12))\n",
}


@pytest.mark.parametrize("source", LARGE.values(), ids=LARGE)
def test_what_is_large_takes_neither_long_nor_memory(paper, source: str):
    before = time.process_time()
    tracemalloc.start()
    try:
        assert not paper(source + "reveal('after')  #: 'after'\n").program.cut_short
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()
    assert time.process_time() - before < 8


SLOW_FOR_ITS_LENGTH = "import foo\nx = 0\n" + "".join(f"if foo.f{n}: x = foo.x{n}\n" for n in range(4))
"""Each question about `x` is asked of five values, on a path each."""


@pytest.mark.parametrize("attempts", ["one", "all"])
def test_many_values_are_counted_and_not_timed(paper, monkeypatch: pytest.MonkeyPatch, attempts: str):
    where, limit = {"one": (entry_execution, "MAX_EVALUATIONS"), "all": (launch_worlds, "MAX_ENTRY_EVALUATIONS")}[
        attempts
    ]
    monkeypatch.setattr(where, limit, 2_000)
    # 400 attributes: a name and an attribute each, and four for each of five values.
    program = SLOW_FOR_ITS_LENGTH + "y = [" + "x.shape," * 400 + "]\n"
    found = paper(program).program
    assert found.cut_short
    assert "expressions" in found.lost[-1].why
    # One value is cheap: the same questions fit.
    assert not paper("import foo\nx = foo.x\ny = [" + "x.shape," * 400 + "]\n").program.cut_short


def test_a_step_that_does_not_end_is_ended(paper, monkeypatch: pytest.MonkeyPatch):
    def hang(*_: object) -> None:
        while True:
            pass

    monkeypatch.setattr(entry_execution, "MAX_SECONDS", 0.3)
    monkeypatch.setattr(execution_state.ExecutionState, "assume_rank", hang)
    found = paper(
        """
        import torch
        import torch.distributed as dist
        model = torch.nn.DataParallel(torch.nn.Linear(1, 1))
        dist.init_process_group("nccl", rank=3)
        """
    )
    assert found.program.cut_short
    assert "seconds of execution" in found.program.lost[-1].why
    assert found.event(Wrap)
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_memory_is_looked_at(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(budget, "MAX_MEMORY", 50_000_000)
    first = budget._peak_memory()
    monkeypatch.setattr(budget, "_memory_at_first", lambda: first)
    held: list[bytes] = []

    def grow() -> None:
        while len(held) < 5000:
            held.append(b"x" * 1_000_000 + bytes(len(held)))

    with Budget(30), pytest.raises(OutOfBudget, match="of memory"):
        grow()


def test_programs_share_what_the_process_may_take(monkeypatch: pytest.MonkeyPatch):
    """Not each of them as much again: the second one may take what is left, and a little in any case."""
    taken = 100
    monkeypatch.setattr(budget, "MAX_MEMORY", 320)
    monkeypatch.setattr(budget, "MIN_MEMORY", 30)
    monkeypatch.setattr(budget, "_memory_at_first", lambda: 100)
    monkeypatch.setattr(budget, "_memory", lambda: taken)
    monkeypatch.setattr(budget, "_peak_memory", lambda: 500)
    first = Budget(30)
    taken = 420
    first._check_memory()
    second = Budget(30)
    taken = 450
    second._check_memory()
    third = Budget(30)
    taken = 490
    # For the first time, garbage is collected.
    third._check_memory()
    with pytest.raises(OutOfBudget, match="of memory"):
        third._check_memory()


def test_a_half_imported_module_is_never_left_behind(tmp_path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "slow_module.py").write_text(
        "from time import process_time\nstart = process_time()\nwhile process_time() < start + 0.5: pass\ndone = True\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    def work() -> None:
        importlib.import_module("slow_module")
        while True:
            pass

    with Budget(0.1), pytest.raises(OutOfBudget):
        work()
    assert sys.modules["slow_module"].done


def test_contexts_that_are_being_left_are_left_to_the_end():
    class Slow:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            # To ask for the time all the while takes none of the time that the timer counts.
            until = time.thread_time() + 0.5
            while time.thread_time() < until:
                sum(range(10_000))

    with ExitStack() as stack:
        stack.enter_context(Budget(0.1))
        stack.enter_context(Slow())
    with pytest.raises(OutOfBudget), Budget(0.1):
        Slow().__exit__()


def test_without_a_timer_the_steps_look():
    budget = Budget(-1.0)
    with pytest.raises(OutOfBudget):
        budget.check()
    ended: list[bool] = []

    def work() -> None:
        with Budget(-1.0):
            ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == [True]


def test_a_budget_inside_of_another_gives_the_timer_back():
    def work() -> None:
        while True:
            pass

    with Budget(0.6):
        with pytest.raises(OutOfBudget, match="more than 0 seconds"), Budget(0.1):
            work()
        with pytest.raises(OutOfBudget, match="more than 1 seconds"):
            work()
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    assert Budget(3.0).part(5.0).left > 4.0
    assert Budget(3.0).part(1.0, most=2.0).left <= 2.0


def test_a_look_that_comes_too_late_ends_nothing(monkeypatch: pytest.MonkeyPatch):
    set_timer = budget.signal.setitimer

    def tick_before_the_end(which: int, seconds: float, interval: float = 0.0) -> tuple[float, float]:
        if not seconds:
            signal.raise_signal(signal.SIGVTALRM)
        return set_timer(which, seconds, interval)

    monkeypatch.setattr(budget.signal, "setitimer", tick_before_the_end)
    with Budget(-1.0):
        pass
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_somebody_elses_timer_is_left_alone():
    seen: list[int] = []
    signal.signal(signal.SIGVTALRM, lambda number, _: seen.append(number))
    try:
        with Budget(-1.0):
            signal.raise_signal(signal.SIGVTALRM)
        assert seen
    finally:
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)


def test_long_expressions_are_quoted_by_their_beginning(paper):
    found = paper("undefined('\x1b[31m',\n" + "    'another',\n" * 60 + ")()\n")
    (why,) = [lost.why for lost in found.program.lost if "31m" in lost.why]
    assert why.startswith("`undefined('?[31m', ...`")
