"""What is forked, set apart and taken back: whole groups of fields, so that none that is added can be forgotten."""

from unittest.mock import MagicMock

from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.model import ReplicaWrite
from gpudoctor.lint.flow.condition import ALWAYS
from gpudoctor.lint.interp.interpreter import Interpreter
from gpudoctor.lint.interp.position import NOTHING, OnPath, Position, Recorded
from gpudoctor.lint.source.project import Project

ON_PATH = [*OnPath.__slots__]
SET_APART = [*ON_PATH, *Position.__slots__]


def _fresh(tmp_path) -> Interpreter:
    return Interpreter(Project(str(tmp_path), str(tmp_path)), LaunchWorld.TORCHRUN, {})


def _changed(m: Interpreter, names: list[str]) -> dict[str, object]:
    values: dict[str, object] = {name: MagicMock(name=name) for name in names}
    for name, value in values.items():
        setattr(m, name, value)
    return values


def _held(m: Interpreter, names: list[str]) -> dict[str, object]:
    return {name: getattr(m, name) for name in names}


def test_each_field_is_in_a_group_or_says_why_there_is_one_for_all(tmp_path):
    m = _fresh(tmp_path)
    assert not hasattr(m, "__dict__")
    reasons = {name: why for cls in type(m).__mro__ for name, why in dict(getattr(cls, "__slots__", {})).items()}
    assert {*SET_APART, *Recorded.__slots__} < reasons.keys()
    assert not [name for name, why in reasons.items() if not why.strip().endswith(".")]
    assert _held(m, [*reasons]).keys() == reasons.keys(), "a field has no value from the beginning"


def test_what_is_isolated_begins_afresh_and_leaves_no_trace(tmp_path):
    m = _fresh(tmp_path)
    before = _changed(m, SET_APART)
    beginning = _held(_fresh(tmp_path), SET_APART)
    with m.isolated():
        assert _held(m, SET_APART) == {**beginning, "frames": before["frames"][:1]}
        _changed(m, SET_APART)
    assert _held(m, SET_APART) == before


def test_a_speculative_run_leaves_no_trace(tmp_path):
    m = _fresh(tmp_path)
    before = _changed(m, SET_APART)
    for name in Recorded.__slots__:
        book = getattr(m, name)
        book.append("before") if isinstance(book, list) else book.update(before=None)
    with m.speculative(statements=9) as run:
        for name in Recorded.__slots__:
            book = getattr(m, name)
            book.append("inside") if isinstance(book, list) else book.update(inside=None)
        m.store.set(("a scope", "name"), NOTHING)
        _changed(m, SET_APART)
    assert run.events == ["inside"]
    assert [[*getattr(m, name)] for name in Recorded.__slots__] == [["before"]] * len(Recorded.__slots__)
    assert _held(m, SET_APART) == before
    assert m.store.get(("a scope", "name")) is None


def test_behind_a_fork_the_path_is_as_it_was(tmp_path):
    m = _fresh(tmp_path)
    before = _changed(m, ON_PATH)
    with m.fork(ALWAYS) as side:
        assert m.path is ALWAYS
        assert not m.unreachable
        _changed(m, ON_PATH)
        m.unreachable = False
        path = m.path
    assert _held(m, ON_PATH) == before
    assert side.end.path is path
    with m.fork(ALWAYS) as side:
        m.unreachable = True
    assert side.end is None


LOOK_AHEAD = """
    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, Dataset
    dist.init_process_group("nccl")
    class Numbers(Dataset):
        def __getitem__(self, i):
            {lines}
            return torch.zeros(2)
    for batch in DataLoader(Numbers(), batch_size=2):
        pass
    {after}
    # file: helper.py
    import torch
    import torch.distributed as dist
    if dist.get_rank() == 0:
        dist.barrier()
    """


def test_what_a_module_does_is_done_though_it_is_first_imported_in_a_look_ahead(paper):
    found = paper(LOOK_AHEAD.format(lines="import helper", after="import helper"))
    assert found.event(Collective).location.path.endswith("helper.py")


def test_what_a_look_ahead_opens_is_not_open_behind_it(paper):
    found = paper(
        LOOK_AHEAD.format(
            lines="import contextlib; contextlib.ExitStack().enter_context(torch.no_grad())", after="dist.barrier()"
        )
    )
    assert not found.event(Collective).context.evaluating


def test_what_is_called_for_an_augmented_assignment_assigns_for_itself(paper):
    found = paper(
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)
                self.total, self.last = torch.zeros(4), torch.zeros(4)
            def step(self, x):
                self.last = self.layer(x)
                return self.last
            def forward(self, x):
                self.total += self.step(x)
                return self.total
        model = nn.DataParallel(Net().cuda())
        model(torch.randn(8, 4).cuda())
        """,
        launch="single",
    )
    assert [event.name for event in found.events(ReplicaWrite)] == ["last"]
