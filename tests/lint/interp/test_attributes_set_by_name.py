"""Attributes that are set by what Python calls for `owner.name = value`."""

import pytest

SETTERS = {
    "object.__setattr__": "object.__setattr__(self, 'net', net)",
    "self.__setattr__": "self.__setattr__('net', net)",
    "super().__setattr__": "super().__setattr__('net', net)",
    "setattr": "setattr(self, 'net', net)",
    "__dict__": "self.__dict__['net'] = net",
    "__dict__.update": "self.__dict__.update(net=net)",
    "vars": "vars(self)['net'] = net",
}
CLASSES = {
    "plain": "class Kept:\n    def __init__(self, net):\n        {}",
    "with an answer for all": (
        "class Kept:\n    def __getattr__(self, name):\n        return 1\n    def __init__(self, net):\n        {}"
    ),
    "module": "class Kept(nn.Module):\n    def __init__(self, net):\n        super().__init__()\n        {}",
}


@pytest.mark.parametrize("setter", SETTERS.values(), ids=SETTERS)
@pytest.mark.parametrize("text", CLASSES.values(), ids=CLASSES)
def test_is_what_an_assignment_is(paper, text: str, setter: str):
    paper(f"from torch import nn\n{text.format(setter)}\nreveal(Kept(nn.Linear(2, 2)).net)  #: Linear\n")


GETTERS = {
    "subscript": "kept.__dict__['net']",
    "vars": "vars(kept)['net']",
    "getattr": "getattr(kept, 'net')",
    "own getattribute": "kept.__getattribute__('net')",
    "object's": "object.__getattribute__(kept, 'net')",
}


@pytest.mark.parametrize("asked", GETTERS.values(), ids=GETTERS)
def test_is_read_by_name_as_well(paper, asked: str):
    text = f"from torch import nn\n{CLASSES['plain'].format('self.net = net')}\nkept = Kept(nn.Linear(2, 2))\n"
    paper(f"{text}reveal({asked})  #: Linear\n")


@pytest.mark.parametrize("asked", ["self.__dict__", "super().__dict__"])
def test_names_that_an_object_has_are_gone_over_one_by_one(paper, asked: str):
    paper(f"""
class Base:
    def __init__(self):
        self.rate, self.model, self.name = 1, None, "net"
class Configured(Base):
    def __init__(self, given):
        super().__init__()
        for name in {asked}:
            if name in given:
                self.__dict__[name] = given[name]
made = Configured({{"rate": 3, "model": 5}})
reveal((made.rate, made.model, made.name))  #: (3, 5, 'net')
""")
