"""What becomes of objects that leave the program, and of knowledge about loops, devices and gradients."""

from gpudoctor.lint.events.collective import Collective, Discard, LeaveLoop
from gpudoctor.lint.events.knowledge import Escape
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.placement import Move
from tests.support.paper import Revealed


def test_objects_given_to_unread_code_escape(paper):
    found = paper(
        """
        import torch, company
        model = torch.nn.Linear(2, 2)
        company.register({"models": [model]})
        """
    )
    escape = found.event(Escape)
    assert escape.into == "company.register"
    (model,) = escape.values
    assert model.label == "model"
    assert found.program.escaped == {model}


def test_harmless_libraries_keep_nothing(paper):
    found = paper(
        """
        import torch, numpy, logging, torchinfo
        model = torch.nn.Linear(2, 2)
        torchinfo.summary(model)
        logging.info(model)
        print(numpy.mean(model))
        """
    )
    assert found.program.escaped == frozenset()


def test_a_method_of_an_unread_object_escapes_too(paper):
    found = paper(
        """
        import torch
        from company import Engine
        model = torch.nn.Linear(2, 2)
        engine = Engine()
        engine.add(model)
        """
    )
    assert [value.label for value in found.program.escaped] == ["model"]


def test_events_know_the_calls_that_led_there(paper):
    found = paper(
        """
        import torch, torch.distributed as dist
        from sync import share
        def step():
            share(1)
        step()
        # file: sync.py
        import torch.distributed as dist
        def share(x):
            deeper()
        def deeper():
            dist.barrier()
        """
    )
    barrier = found.event(Collective)
    assert (barrier.location.path, barrier.location.line) == ("sync.py", 6)
    assert [(place.path, place.line) for place in barrier.context.calls] == [
        ("train.py", 6),
        ("train.py", 5),
        ("sync.py", 4),
    ]
    assert barrier.context.function == "deeper"


def test_contexts_are_open_inside_and_closed_after(paper):
    found = paper(
        """
        import torch
        model = torch.nn.Linear(2, 2)
        with torch.no_grad():
            model(torch.zeros(1, 2))
        model(torch.zeros(1, 2))
        @torch.inference_mode()
        def evaluate():
            model(torch.zeros(1, 2))
        evaluate()
        model(torch.zeros(1, 2))
        """
    )
    assert [event.context.evaluating for event in found.events(Forward)] == [True, False, True, False]
    assert [event.graph for event in found.events(Forward)] == [False, True, False, True]


def test_a_move_is_in_place_for_modules_and_a_copy_for_tensors(paper):
    found = paper(
        """
        import torch
        model = torch.nn.Linear(2, 2)
        model.cuda()
        x = torch.zeros(2)
        x.cuda()
        torch.nn.parallel.DistributedDataParallel(model)
        """
    )
    assert [event.call for event in found.events(Move)] == ["cuda", "cuda"]
    assert repr(found.event(Wrap).model_device.single) == "Device(cuda)"
    assert "cuda" in {event.call for event in found.events(Discard)}


def test_a_loop_that_only_some_ranks_leave(paper):
    found = paper(
        """
        import torch.distributed as dist
        for step in range(9):
            if dist.get_rank() == 0:
                break
            dist.barrier()
        """
    )
    left = found.events(LeaveLoop)[0]
    assert left.how == "break"
    assert left.loop.times == 9


def test_module_code_runs_once_and_is_seen_on_every_path(paper):
    found = paper(
        """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        def work():
            import once
            return once.x
        if args.a:
            work()
        work()
        # file: once.py
        x = 1
        reveal()  #: always
        """
    )
    assert len(found.events(Revealed)) == 1


def test_two_visits_of_one_line_make_two_things(paper):
    found = paper(
        """
        import torch
        def make():
            return torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
        first, second = make(), make()
        """
    )
    one, two = found.events(Wrap)
    assert one.wrapper != two.wrapper
    assert one.wrapper.core != two.wrapper.core
    assert one.location == two.location


def test_a_logger_of_the_project_gets_nothing_that_could_be_lost(paper):
    found = paper(
        """
        import torch
        from torch.utils.tensorboard import SummaryWriter
        class Log(SummaryWriter):
            def __init__(self, folder, model):
                super().__init__(folder)
                self.model = model
        class Config(dict):
            def __init__(self, model):
                super().__init__(model=model)
        model = torch.nn.Linear(2, 2)
        Log("runs", model).add_graph(model)
        Config(model)
        """,
    )
    assert not any(event.values for event in found.events(Escape))


def test_what_a_class_has_from_a_dictionary_calls_nothing_back(paper):
    found = paper(
        """
        import torch
        class Settings(dict):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self.__dict__ = self
        h = Settings(lr=1)
        h.get("clip", 1000.0)
        h.update(model=torch.nn.Linear(2, 2))
        """,
    )
    escaped = [event.into for event in found.events(Escape)]
    assert not escaped


def test_a_context_that_a_test_decides_is_told_as_such(paper):
    found = paper(
        """
        import contextlib
        import torch.nn as nn
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils.data import DataLoader
        model = DistributedDataParallel(nn.Linear(2, 2))
        for i, batch in enumerate(DataLoader(range(8))):
            with model.no_sync() if (i + 1) % 4 else contextlib.nullcontext():
                model(batch)
        """
    )
    assert {call.context.contexts for call in found.events(Forward)} == {("no_sync?",)}


def test_a_generator_waits_behind_its_yield(paper):
    """`next` gets one item: the error that ends the generator, should it come to that, is raised by a later one."""
    found = paper(
        """
        import torch

        def served(process, queue):
            while process.exitcode is None:
                yield queue.get()
            raise RuntimeError("the process has ended")

        def train(process, queue):
            model = torch.nn.Linear(2, 2)
            batches = served(process, queue)
            while True:
                model(next(batches)).sum().backward()

        train(*map(open, "ab"))
        """
    )
    assert found.events(Forward)
    found = paper(
        """
        import torch

        def served():
            raise RuntimeError("there is nothing")
            yield 1

        batch = next(served())
        torch.nn.Linear(2, 2)(batch)
        """
    )
    assert not found.events(Forward)
