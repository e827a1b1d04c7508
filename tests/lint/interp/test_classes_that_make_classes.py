"""What a class does to those below it and to its attributes: metaclasses, tables of classes, descriptors."""

from tests.lint.conftest import Execute


def test_a_metaclass_that_keeps_a_table(paper: Execute) -> None:
    paper("""
        class Known(type):
            table = {}

            def __new__(mcs, name, bases, body):
                cls = super().__new__(mcs, name, bases, body)
                mcs.table[name.lower()] = cls
                return cls

        class First(metaclass=Known): pass
        class Second(First): pass

        reveal(Known.table)  #: {'first': First, 'second': Second}
        reveal(First.table)  #: {'first': First, 'second': Second}
        reveal(Second())  #: Second()
        """)


def test_a_metaclass_whose_constructor_keeps_a_table(paper: Execute) -> None:
    paper("""
        class Known(type):
            def __init__(cls, name, bases, body):
                super().__init__(name, bases, body)
                if not hasattr(cls, "table"):
                    cls.table = []
                else:
                    cls.table.append(cls)

        class First(metaclass=Known): pass
        class Second(First): pass

        reveal(First.table)  #: [Second]
        """)


def test_a_class_of_which_there_is_one_object(paper: Execute) -> None:
    paper("""
        class Single(type):
            made = {}

            def __call__(cls, *args, **more):
                if cls not in Single.made:
                    Single.made[cls] = super().__call__(*args, **more)
                return Single.made[cls]

        class Settings(metaclass=Single):
            def __init__(self, size=1):
                self.size = size

        reveal(Settings(3))  #: Settings()
        reveal(Settings().size)  #: 3
        """)


def test_a_base_that_is_told_of_the_classes_below(paper: Execute) -> None:
    paper("""
        class Base:
            table = {}

            def __init_subclass__(cls, name=None, **more):
                super().__init_subclass__(**more)
                Base.table[name or cls.__name__] = cls

        class First(Base): pass
        class Second(Base, name="2nd"): pass

        reveal(Base.table)  #: {'First': First, '2nd': Second}
        reveal(Base.__subclasses__())  #: [First, Second]
        """)


def test_a_property_that_keeps_its_value(paper: Execute) -> None:
    paper("""
        import functools
        import torch

        class Job:
            @functools.cached_property
            def model(self):
                return torch.nn.Linear(8, 1)

            @property
            def other(self):
                return torch.nn.Linear(8, 1)

        job = Job()
        reveal(job.model)  #: Linear
        reveal(job.model is job.model)  #: True
        reveal(job.other is job.other)  #: False
        """)


def test_a_property_of_the_projects_own(paper: Execute) -> None:
    paper("""
        import torch

        class lazy:
            def __init__(self, make):
                self.make, self.name = make, make.__name__

            def __get__(self, owner, kind=None):
                value = self.make(owner)
                owner.__dict__[self.name] = value
                return value

        class kept:
            def __init__(self, make):
                self.make = make

            def __set_name__(self, kind, name):
                self.name = "_" + name

            def __get__(self, owner, kind=None):
                if getattr(owner, self.name, None) is None:
                    setattr(owner, self.name, self.make(owner))
                return getattr(owner, self.name)

        class Job:
            @lazy
            def model(self):
                return torch.nn.Linear(8, 1)

        class Other:
            @kept
            def model(self):
                return torch.nn.Conv2d(3, 8, 1)

        job, other = Job(), Other()
        reveal(job.model)  #: Linear
        reveal(job.model is job.model)  #: True
        reveal(other.model)  #: Conv2d
        reveal(other._model)  #: Conv2d
        """)


def test_an_attribute_of_a_function(paper: Execute) -> None:
    paper("""
        import os

        def first_only(call):
            def inner(*args):
                reveal(first_only.rank)  #: global rank
                return call(*args)
            return inner

        first_only.rank = getattr(first_only, "rank", int(os.environ["RANK"]))
        first_only(print)()
        reveal(getattr(first_only, "rank", 3))  #: global rank
        reveal(first_only.__name__)  #: 'first_only'
        reveal(hasattr(first_only, "world"))  #: False
        """)


def test_an_object_that_answers_for_another(paper: Execute) -> None:
    paper("""
        class Net:
            size = 3

            def grow(self):
                return self.size + 1

        class Around:
            def __init__(self, inner):
                self.inner = inner

            def __getattr__(self, name):
                return getattr(self.inner, name)

        class Nothing:
            def __getattr__(self, name):
                raise AttributeError(name)

        around = Around(Net())
        reveal(around.size)  #: 3
        reveal(around.grow())  #: 4
        reveal(Nothing().size)  #: unknown
        reveal(1)  #: 1
        """)


def test_a_package_that_loads_its_parts_late(paper: Execute) -> None:
    paper("""
        import kit
        from kit import Net
        reveal(kit.Net)  #: Net
        reveal(Net)  #: Net
        # file: kit/__init__.py
        def __getattr__(name):
            if name == "Net":
                from .parts import Net
                return Net
            raise AttributeError(name)
        # file: kit/parts.py
        class Net: pass
        """)


def test_a_package_that_is_replaced_by_one_which_loads_late(paper: Execute) -> None:
    paper("""
        from kit import Net, Plan
        reveal((Plan, Net))  #: (Plan, Net)
        # file: kit/__init__.py
        import sys
        from transformers.utils import OptionalDependencyNotAvailable, _LazyModule, is_torch_available
        structure = {"plans": ["Plan"]}
        try:
            if not is_torch_available():
                raise OptionalDependencyNotAvailable()
        except OptionalDependencyNotAvailable:
            pass
        else:
            structure["parts"] = ["Net"]
        sys.modules[__name__] = _LazyModule(__name__, globals()["__file__"], structure)
        # file: kit/parts.py
        from kit.plans import Plan
        class Net: pass
        # file: kit/plans.py
        class Plan: pass
        """)


def test_the_packages_around_a_module_come_first(paper: Execute) -> None:
    paper("""
        from kit.core.table import TABLE
        reveal(TABLE)  #: {'Net': Net, 'Other': Other}
        # file: kit/__init__.py
        import importlib, pkgutil
        import kit.more
        # file: kit/more.py
        from kit.core.table import TABLE
        class Other: pass
        TABLE["Other"] = Other
        # file: kit/core/__init__.py
        import kit.core.net
        # file: kit/core/net.py
        from .table import TABLE
        class Net: pass
        TABLE["Net"] = Net
        # file: kit/core/table.py
        TABLE = {}
        """)
