"""Handlers of which nobody hears; groups, ranks and start methods as rules ask for them."""

from __future__ import annotations

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
    assert first.rank is not None
    assert isinstance(first.rank.single, Rank)
    assert first.rank.single.formula is not None


def test_start_methods(paper):
    found = paper(
        """
import multiprocessing
import torch.multiprocessing as mp
def work(rank): pass
if __name__ == "__main__":
    for rank in range(2): mp.Process(target=work, args=(rank,)).start()
    multiprocessing.set_start_method("spawn")
    for rank in range(2): mp.Process(target=work, args=(rank,)).start()
    mp.spawn(work)
""",
        launch="spawn",
    )
    methods = [event.start_method and str(event.start_method.single) for event in found.events(Spawn)]
    assert list(dict.fromkeys(methods)) == ["'fork'", "'spawn'", None]
