"""Handlers of which nobody hears; groups, ranks and start methods as rules ask for them."""

import pytest

from gpudoctor.lint.domain.rank import Rank
from gpudoctor.lint.events.placement import ContextMade
from gpudoctor.lint.events.process import InitGroup, Spawn, Swallowed


def test_handlers_that_tell_nobody(paper):
    found = paper(
        """
import logging, sys, queue
from elsewhere import work, report
def shows():
    try: work()
    except Exception as error: print(error)
def logs_and_returns():
    try: work()
    except: logging.error("no"); return
def raises():
    try: work()
    except Exception as error: print(error); raise
def fails():
    try: work()
    except Exception: sys.exit(1)
def keeps():
    failed = False
    try: work()
    except Exception: failed = True
    return failed
def answers():
    try: work()
    except Exception: return 1
def tells():
    try: work()
    except Exception as error: report(error)
def names():
    try: work()
    except OSError: pass
for each in (shows, logs_and_returns, raises, keeps, answers, tells, names): each()
fails()
""",
        launch="single",
    )
    assert list(dict.fromkeys(event.context.function for event in found.events(Swallowed))) == [
        "shows",
        "logs_and_returns",
    ]


def test_what_was_tried(paper):
    found = paper(
        """
import torch
torch.cuda.get_device_name()
try: torch.cuda.init()
except Exception: pass
torch.cuda.mem_get_info()
""",
        launch="single",
    )
    (tried,) = found.events(Swallowed)
    assert [tried.since <= event.order < tried.until for event in found.events(ContextMade)] == [False, True, False]


def test_groups_that_are_made_again(paper):
    found = paper(
        """
import os, torch
import torch.distributed as dist
node, gpus = int(os.environ["GROUP_RANK"]), torch.cuda.device_count()
dist.init_process_group("nccl", rank=node * gpus + int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
""",
        launch="torchrun",
    )
    first, second = found.events(InitGroup)
    assert (first.again, second.again) == (False, True)
    assert isinstance(first.rank.single, Rank)
    assert first.rank.single.formula is not None


def test_start_methods(paper):
    found = paper(
        """
import multiprocessing
import torch.distributed as dist
import torch.multiprocessing as mp
def work(rank): dist.init_process_group("gloo", rank=rank, world_size=2)
if __name__ == "__main__":
    for rank in range(2): mp.Process(target=work, args=(rank,)).start()
    multiprocessing.set_start_method("spawn")
    for rank in range(2): mp.Process(target=work, args=(rank,)).start()
    mp.spawn(work)
""",
        launch="spawn",
    )
    methods = {event.location.line: event.start_method for event in found.events(Spawn)}
    # What `mp.spawn` is told nothing of, it does its own way.
    assert list(methods.values()) == ["fork", "spawn", "spawn"]


@pytest.mark.parametrize(
    ("handler", "reached"),
    [
        ("except ValueError", True),
        ("except Exception", True),
        ("except", True),
        ("except (KeyError, ArithmeticError, ValueError)", True),
        ("except errors", True),
        ("except elsewhere.Error", False),
        ("except made", True),
        ("except KeyError", False),
        ("except (KeyError, Own)", False),
        ("except torch.cuda.OutOfMemoryError", False),
    ],
)
def test_who_takes_an_error(paper, handler: str, reached: bool):
    found = paper(
        f"""
import torch, unknown
from unknown import elsewhere
errors = (KeyError, ValueError)
made = unknown.make()
class Own(ValueError): pass
def work(name):
    if name == "a": raise ValueError("a")
    raise UnicodeError
try: work(unknown.name)
{handler}: torch.cuda.init()
""",
        launch="single",
    )
    (program,) = found.programs
    assert program.has(ContextMade) is reached
    assert (program.ended is None) is reached


def test_the_first_handler_that_fits_is_taken(paper):
    paper(
        """
taken = 0
try: raise KeyError
except ValueError: taken = 1
except LookupError: taken = 2
except Exception: taken = 3
reveal(taken)  #: 2
"""
    )


def test_an_error_of_which_little_is_known_may_be_taken_by_all(paper):
    paper(
        """
from unknown import error
taken = 0
try:
    if error: raise error()
    raise KeyError
except ValueError: taken = 1
except LookupError: taken = 2
reveal(taken)  #: 1 if an exception is caught | 2 if an exception is caught
"""
    )


@pytest.mark.parametrize(
    "statement",
    [
        "if stop(): work()",
        "x = work() if stop() else 0",
        "x = work() if unknown.a and stop() and unknown.b else 0",
        "use(models[stop()])",
        "while stop(): work()",
        "with stop(): work()",
    ],
)
def test_a_path_that_has_ended_is_not_joined_again(paper, statement: str):
    found = paper(
        f"""
import torch, unknown
from torch import nn
def stop(): raise ValueError
def work(): torch.cuda.init()
models = unknown.models if unknown.some else [1]
unknown.a and stop()
{statement}
torch.cuda.init()
""",
        launch="single",
    )
    # What is asked behind `and` is asked on some paths only.
    assert bool(found.events(ContextMade)) is ("and" in statement)
