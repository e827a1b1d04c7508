"""`hasattr` and `getattr` with a default, asked of objects of which all attributes are known, and of others."""

import pytest

PLAIN = """
        class Base:
            def __init__(self, lr):
                self.lr = lr
        class Config(Base):
            depth = 2
            def lazy(self):
                self.late = 1
        config = Config(0.1)
        """
DATACLASS = """
        from dataclasses import dataclass
        @dataclass
        class Config:
            lr: float
            depth: int = 2
        config = Config(**loaded())
        """
PARSED = """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--lr", type=float, default=0.1)
        parser.add_argument_group("more").add_argument("--dry-run", dest="dry", action="store_true")
        parser.set_defaults(depth=2)
        config = parser.parse_args()
        """
KINDS = {"a plain class": PLAIN, "a dataclass": DATACLASS, "a command line": PARSED}


@pytest.mark.parametrize("made", KINDS.values(), ids=KINDS)
def test_what_is_not_there_is_the_default(paper, made: str):
    paper(f"""{made}
        reveal(hasattr(config, "absent"))  #: False
        reveal(getattr(config, "absent", 7))  #: 7
        reveal(hasattr(config, "lr"))  #: True
        config.absent = 1
        reveal(getattr(config, "absent", 7))  #: 1
        """)


@pytest.mark.parametrize("made", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize(
    "line",
    [
        "setattr(config, name(), 1)",
        "vars(config).update(loaded())",
        "config.__dict__.update(loaded())",
        "company.fill(config)",
        "company.fill([config])",
        "company.fill(lr=config)",
    ],
)
def test_what_is_written_to_out_of_sight_may_have_it(paper, made: str, line: str):
    paper(f"""
        import company{made}
        if company.asked():
            {line}
        reveal(hasattr(config, "absent"))  #: hasattr
        """)


def test_what_one_round_sets_may_be_there_in_another(paper):
    paper(f"""{PLAIN}
        for each in loaded():
            if hasattr(config, "best"):
                reveal("later")  #: 'later'
            config.best = each
        """)


BODIES = {
    "a method": "def late(self):\n                self.absent = 1",
    "any name": "def fill(self, name, value):\n                setattr(self, name, value)",
    "its dictionary": "def fill(self, **more):\n                self.__dict__.update(more)",
    "an answer for all": "def __getattr__(self, name):\n                return None",
    "a constructor of its own": "def __new__(cls):\n                return company.make(cls)",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_class_that_may_set_it_is_no_class_without_it(paper, body: str):
    paper(f"""
        import company
        class Config:
            {body}
        class Other(Config):
            pass
        reveal(hasattr(Config(), "absent"))  #: hasattr
        reveal(hasattr(Other(), "absent"))  #: hasattr
        """)


@pytest.mark.parametrize(
    "head",
    ["class Config(company.Base)", "class Config(metaclass=company.Meta)", "@company.fill\n        class Config"],
)
def test_a_class_with_unread_parts_may_have_anything(paper, head: str):
    paper(f"""
        import company
        {head}:
            lr = 1
        config = Config()
        reveal(hasattr(config, "absent"))  #: hasattr
        """)


PARSERS = {
    "parents": "parser = argparse.ArgumentParser(parents=[company.parser()])",
    "a command": "parser.add_subparsers().add_parser('train').add_argument('--x')",
    "what a library declares": "company.add_arguments(parser)",
    "a name that is not known": "parser.add_argument(*company.flags())",
    "an option on one path": "if company.asked():\n            parser.add_argument('--absent')",
    "an option that may be missing": "parser.add_argument('--absent', default=argparse.SUPPRESS)",
    "defaults from a file": "parser.set_defaults(**company.load())",
}


@pytest.mark.parametrize("line", PARSERS.values(), ids=PARSERS)
def test_a_command_line_with_options_out_of_sight_may_have_it(paper, line: str):
    paper(f"""
        import argparse, company
        parser = argparse.ArgumentParser()
        {line}
        parser.add_argument("--lr")
        config = parser.parse_args()
        reveal(hasattr(config, "absent"))  #: hasattr
        """)


def test_an_object_to_fill_may_have_it_already(paper):
    paper("""
        import argparse, company
        parser = argparse.ArgumentParser()
        parser.add_argument("--lr")
        config = parser.parse_args(namespace=company.load())
        reveal(hasattr(config, "absent"))  #: hasattr
        """)


def test_an_option_is_itself(paper):
    paper(f"""{PARSED}
        reveal(getattr(config, "dry", False))  #: setting getattr(config, 'dry', False)
        reveal(hasattr(config, "dry"))  #: True
        """)


def test_one_of_many_classes_that_a_setting_names_may_be_none_of_those_seen(paper):
    square = "Square is chosen and not (Line is chosen)"
    other = "not (Line is chosen) and not (Square is chosen)"
    paper(f"""
        import argparse
        import shapes
        args = argparse.ArgumentParser().parse_args()
        made = getattr(shapes, args.shape)()
        reveal(made.sides)  #: 1 if Line is chosen | 4 if {square} | unknown if {other}
        # file: shapes.py
        class Shape:
            sides = 0
        class Line(Shape):
            sides = 1
        class Corner(Shape):
            sides = 2
        class Triangle(Shape):
            sides = 3
        class Square(Shape):
            sides = 4
        """)


ENGINE = """
    import argparse, yaml
    class Engine:
        def train(self):
            reveal()  #: {train}
        def val(self):
            reveal()  #: {val}
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="train")
    parser.add_argument("--kind", choices=["train", "val"])
    args = parser.parse_args()
    getattr(Engine(), {name})()
    # file: work.yaml
    flow: [val, train]
    """


@pytest.mark.parametrize(
    ("name", "train", "val"),
    [
        ("args.mode", "always", "never"),
        ("args.kind", "train is chosen", "not (train is chosen)"),
        ("yaml.safe_load(open('work.yaml'))['flow'][0]", "never", "always"),
    ],
)
def test_a_setting_names_a_method(paper, name: str, train: str, val: str):
    paper(ENGINE.format(name=name, train=train, val=val))
