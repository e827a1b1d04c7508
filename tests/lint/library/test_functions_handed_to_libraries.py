"""Functions that a library calls: in a thread, when the program ends, with what was handed on to it."""

import pytest

from gpudoctor.lint.events.files import Save
from tests.lint.conftest import Execute


@pytest.mark.parametrize(
    "call",
    [
        "threading.Thread(target=work, args=(3,), kwargs={'b': 4}).start()",
        "threading.Thread(None, work, 'a thread', (3, 4)).start()",
        "threading.Timer(10, work, [3, 4]).start()",
        "pool.submit(work, 3, b=4)",
        "asyncio.run(asyncio.to_thread(work, 3, b=4))",
        "asyncio.get_event_loop().run_in_executor(None, work, 3, 4)",
        "atexit.register(work, 3, b=4)",
        "atexit.register(functools.partial(work, 3), 4)",
    ],
)
def test_what_it_is_called_with(paper: Execute, call: str) -> None:
    paper(f"""
        import asyncio, atexit, functools, threading
        from concurrent.futures import ThreadPoolExecutor

        def work(a, b):
            reveal(a)  #: 3
            reveal(b)  #: 4

        pool = ThreadPoolExecutor(2)
        {call}
        """)


def test_who_works_for_ever_stops_nobody(paper: Execute) -> None:
    paper("""
        import threading

        def work():
            while True:
                pass

        threading.Thread(target=work, daemon=True).start()
        reveal(1)  #: 1
        """)


@pytest.mark.parametrize(
    "handler", ["atexit.register(save)", "signal.signal(signal.SIGTERM, lambda number, frame: save())"]
)
def test_what_is_done_at_the_end_sees_what_was_done(paper: Execute, handler: str) -> None:
    found = paper(f"""
        import atexit, signal
        import torch

        state = {{}}

        def save():
            torch.save(state, "state.pt")
            reveal(state)  #: {{'model': Linear}}
            raise SystemExit

        {handler}
        state["model"] = torch.nn.Linear(8, 1)
        reveal(state)  #: {{'model': Linear}}
        """)
    assert not found.event(Save).condition.literals


def test_only_the_rank_that_registers_it_saves_at_the_end(paper: Execute) -> None:
    found = paper("""
        import atexit
        import torch
        import torch.distributed as dist

        dist.init_process_group("nccl")

        def main():
            model = torch.nn.Linear(8, 1)
            if dist.get_rank() == 0:
                @atexit.register
                def save():
                    torch.save(model.state_dict(), "model.pt")
            model(torch.zeros(8)).backward()

        main()
        """)
    assert found.event(Save).rank_guards
