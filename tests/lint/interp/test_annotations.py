"""What annotations say: objects of classes of settings, and what a setting has chosen."""

import textwrap

import pytest

SETTINGS = """
    from dataclasses import dataclass, field
    from typing import Optional

    @dataclass
    class Optim:
        lr: float
        steps: int = 3
        def make(self):
            return "made"

    @dataclass
    class Config:
        optim: Optim
        other: "Optim | None"
        last: Optional[Optim]
        size: int = 2
        own: Optim = field(default_factory=lambda: Optim(1))
"""

MADE = {
    "by tap": """
        import tap
        class Options(tap.Tap):
            lr: float = 0.1
            name: str
            def process_args(self):
                self.half = self.lr / 2
        options = Options().parse_args()
        reveal(options.lr)  #: setting lr
        reveal(options.name)  #: setting name
        reveal(options.half)  #: setting self.lr / 2
        """,
    "by dacite": """
        from dacite import from_dict
        config = from_dict(data_class=Config, data={"size": 1})
        reveal(config.optim.make())  #: 'made'
        reveal(config.other.make())  #: 'made'
        reveal(config.last.make())  #: 'made'
        reveal(config.optim.lr)  #: setting lr
        reveal(config.size)  #: setting size
        """,
    "by tyro": """
        import tyro
        config = tyro.cli(Config)
        reveal(config.optim.make())  #: 'made'
        reveal(config.own.make())  #: 'made'
        reveal(config.own.lr)  #: setting lr
        reveal(config.size)  #: setting size
        """,
    "by tyro in the place of what an object has": """
        import tyro
        usual = Config(Optim(0.1), None, Optim(0.2, steps=4), size=5)
        config = tyro.cli(type(usual), default=usual, args=["--size", "3"])
        reveal(config.optim.make())  #: 'made'
        reveal(config.other)  #: None
        reveal(config.last.steps)  #: setting steps
        reveal(config.size)  #: setting size
        """,
    "for a decorated function": """
        import pyrallis
        @pyrallis.wrap()
        def main(config: Config):
            reveal(config.optim.make())  #: 'made'
            reveal(config.unheard_of)  #: unknown
        main()
        """,
    "by a parser of Hugging Face": """
        from transformers import HfArgumentParser
        config, = HfArgumentParser(Config).parse_args_into_dataclasses()
        reveal(config.optim.make())  #: 'made'
        """,
    "merged by OmegaConf": """
        from omegaconf import OmegaConf
        base = OmegaConf.structured(Config)
        config = OmegaConf.merge(base, OmegaConf.load("config.yaml"))
        reveal(config.optim.steps)  #: setting steps
        reveal(config.optim.get("steps", 5))  #: setting steps
        reveal(config.optim.get("unheard_of"))  #: setting unheard_of
        for name in config.optim.keys():
            reveal(name)  #: unknown
        config = OmegaConf.to_object(config)
        reveal(config.size)  #: setting size
        """,
    "merged by OmegaConf with what is known": """
        from omegaconf import OmegaConf
        said = OmegaConf.create({"size": 3, "optim": {"steps": 7}, "net": {"_target_": "nets.Net"}})
        config = OmegaConf.merge(OmegaConf.structured(Config), said)
        reveal(config.optim.steps)  #: 7
        reveal(config.optim.make())  #: 'made'
        reveal(config.size)  #: 3
        reveal(config.net["_target_"])  #: 'nets.Net'
        """,
    "without a value for a field": """
        config = Config()
        reveal(config.optim.make())  #: 'made'
        reveal(config.own.lr)  #: 1
        """,
    "that holds one of its own class": """
        @dataclass
        class Node:
            left: "Node"
            value: int
        from dacite import from_dict
        reveal(from_dict(Node, {}).value)  #: setting value
        reveal(from_dict(Node, {}).left)  #: setting left
        """,
}


@pytest.mark.parametrize("source", MADE.values(), ids=MADE)
def test_settings(paper, source: str):
    paper(textwrap.dedent(SETTINGS) + textwrap.dedent(source))


CHOSEN = {
    "a field that the environment says": """
        import hydra
        from dataclasses import dataclass
        @dataclass
        class Config:
            lr: float = 0.1
            rank: int = "${oc.env:RANK,0}"
            home: str = "${env:HOME}"
            width: int = "${lr}"
        @hydra.main(config_path=None, config_name="base")
        def main(config: Config):
            reveal(config.rank)  #: global rank
            reveal(config.rank == 0)  #: config.rank == 0
            reveal(config.home)  #: setting HOME
            reveal(config.width)  #: setting width
        main()
        """,
    "by hydra": """
        import hydra
        class Trainer:
            def __init__(self, lr, model=None):
                self.lr = lr
            def fit(self):
                return "fits"
        @hydra.main(config_path="conf")
        def main(cfg):
            trainer: Trainer = hydra.utils.instantiate(cfg.trainer)
            reveal(trainer.fit())  #: 'fits'
        main()
        """,
    "and handed to what says of which class it is": """
        import tyro
        from dataclasses import dataclass, field
        from typing import Optional, Type
        from methods import known
        class Net:
            def __init__(self, config, size):
                self.width, self.size = config.width, size
        @dataclass
        class NetConfig:
            _target: Type = field(default_factory=lambda: Net)
            width: int = 8
            def setup(self, **more):
                return self._target(self, **more)
        @dataclass
        class TrainConfig:
            net: NetConfig = field(default_factory=NetConfig)
            steps: int = 10
        def main(config: TrainConfig, other: Optional[NetConfig]):
            reveal(config.net.setup(size=2).size)  #: 2
            reveal((config.net.width, config.steps))  #: (setting width, setting steps)
            reveal(other.setup(size=3).size)  #: 3
        config = tyro.cli(tyro.extras.subcommand_type_from_defaults(known))
        main(config, other=config.other)
        """,
    "but for what leaves its work to others": """
        import hydra
        class Trainer:
            def fit(self):
                raise NotImplementedError
        class Base:
            pass
        class Other(Base):
            pass
        @hydra.main(config_path="conf")
        def main(cfg):
            trainer: Trainer = hydra.utils.instantiate(cfg.trainer)
            reveal(trainer)  #: setting hydra.utils.instantiate(cfg.trainer)
            other: Base = hydra.utils.instantiate(cfg.other)
            reveal(other)  #: setting hydra.utils.instantiate(cfg.other)
        main()
        """,
    "and what is known stays": """
        class Trainer:
            pass
        trainer: Trainer = 3
        reveal(trainer)  #: 3
        """,
}


@pytest.mark.parametrize("source", CHOSEN.values(), ids=CHOSEN)
def test_what_a_setting_has_chosen(paper, source: str):
    paper(source)
