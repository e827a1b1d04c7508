"""Objects of classes that hold settings: nobody wrote a constructor, and nothing happens in the one that there is."""

import pytest

from gpudoctor.lint.events.knowledge import Escape
from gpudoctor.lint.events.process import InitGroup

CLASSES = {
    "settings": ("class Args:\n    lr = 1", "Args()"),
    "with a method": ("class Args:\n    lr = 1\n    def twice(self): return 2 * self.lr", "Args()"),
    "under object": ("class Args(object):\n    lr = 1", "Args()"),
    "under another one": ("class Base:\n    lr = 1\nclass Args(Base):\n    pass", "Args()"),
    "a dataclass": ("from dataclasses import dataclass\n@dataclass\nclass Args:\n    lr: int = 1", "Args()"),
    "a named tuple": ("from typing import NamedTuple\nclass Args(NamedTuple):\n    lr: int = 1", "Args()"),
    "generic": (
        "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass Args(Generic[T]):\n    lr = 1", "Args[int]()"
    ),
    "a namespace": ("from types import SimpleNamespace as Args", "Args(lr=1)"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "made"), CLASSES.values(), ids=CLASSES)
def test_settings_are_no_code_that_could_not_be_read(paper, text: str, made: str):
    found = paper(f"import torch\n{text}\nargs = {made}\nreveal(args.lr)  #: 1\nmodel = torch.nn.Linear(2, 2)\n")
    assert not found.events(Escape)
    assert not found.program.lost


def test_an_enumeration_is_read(paper):
    found = paper("import enum\nclass Mode(enum.Enum):\n    FAST = 'fast'\nmode = Mode('fast')\nprint(mode.value)\n")
    assert not found.events(Escape)


def test_a_base_that_is_not_known_may_do_anything(paper):
    text = "from company import Base\nclass Args(Base):\n    lr = 1\nargs = Args()\n"
    assert [event.into for event in paper(text).events(Escape) if event.values]


def test_what_a_data_set_is_of_changes_nothing(paper):
    paper("""
        import torch
        from torch.utils.data import Dataset
        class Images(Dataset[torch.Tensor]):
            def __getitem__(self, index):
                return torch.zeros(2)
        reveal(Images())  #: Dataset
        """)


def test_objects_that_share_their_attributes_are_set_up_once(paper):
    found = paper("""
        import torch.distributed as dist
        class State:
            _shared_state = {}
            def __init__(self):
                self.__dict__ = self._shared_state
                if not self.initialized:
                    dist.init_process_group("nccl")
                    self.rank = dist.get_rank()
            @property
            def initialized(self):
                return self._shared_state != {}
        first = State()
        first.name = "run"
        second = State()
        reveal(second.rank)  #: global rank
        reveal(second.name)  #: 'run'
        reveal(second.initialized)  #: True
        second.name = "other"
        reveal(first.name)  #: 'other'
        """)
    assert len(found.events(InitGroup)) == 1


def test_only_one_kind_of_dictionary_need_be_known_that_objects_share(paper):
    paper("""
        import sys
        class ByThread:
            def __get__(self, owner, kind=None):
                return sys.argv
        class State:
            _shared = dict() if len(sys.argv) > 1 else ByThread()
            def __init__(self, place="cpu"):
                self.__dict__ = self._shared
                self.place = place
        State("cuda")
        reveal(State("cuda").place)  #: 'cuda'
        """)


def test_a_class_knows_what_it_has_itself(paper):
    paper("""
        import dataclasses
        from typing import ClassVar
        class Part:
            @dataclasses.dataclass(slots=True)
            class Config:
                owner: ClassVar[type | None] = None
                def build(self):
                    return self.owner(config=self)
            def __init_subclass__(cls):
                if "Config" in cls.__dict__:
                    config = cls.__dict__["Config"]
                    if issubclass(config, Part.Config) and "__slots__" in vars(config):
                        config.owner = cls
        class Engine(Part):
            @dataclasses.dataclass(slots=True)
            class Config(Part.Config):
                lr: float = 0.1
            def __init__(self, config):
                self.lr = config.lr
        class Same(Engine):
            pass
        reveal(Engine.Config(lr=0.2).build())  #: Engine()
        reveal(Engine.Config(lr=0.2).build().lr)  #: 0.2
        reveal("Config" in Same.__dict__)  #: False
        reveal(len(dataclasses.fields(Engine.Config)))  #: 1
        reveal(issubclass(Same, (dict, Part)))  #: True
        reveal(issubclass(Part, Same))  #: False
        """)


def test_a_property_does_what_its_setter_says(paper):
    paper("""
        from torch import nn
        class Solver:
            def __init__(self):
                self._net = None
            @property
            def net(self):
                if self._net is None:
                    self._net = nn.Linear(2, 2)
                return self._net
            @net.setter
            def net(self, given):
                self._net = nn.Sequential(given)
            @net.deleter
            def net(self):
                self._net = None
        class Finer(Solver):
            @property
            def net(self):
                if self._net is None:
                    self._net = nn.Conv2d(1, 1, 1)
                return super().net
        solver = Solver()
        reveal(solver.net)  #: Linear
        solver.net = nn.Conv2d(1, 1, 1)
        reveal(solver.net)  #: Sequential
        reveal(Finer().net)  #: Conv2d
        """)
