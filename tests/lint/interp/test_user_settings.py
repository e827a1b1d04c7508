"""What the user chooses at the start: unknown values with known names, and the same answer wherever they are asked."""

import pytest

from gpudoctor.lint.events.data_loading import MakeLoader
from gpudoctor.lint.events.process import ArgumentDeclared, EnvironmentRead, EnvironmentWrite, SettingRead

SETTINGS = {
    "argparse": """
        import argparse
        parser = argparse.ArgumentParser()
        group = parser.add_argument_group("model")
        group.add_argument("-l", "--learning-rate", type=float, default=0.1)
        parser.add_argument("--big", action="store_true")
        args = parser.parse_args()
        reveal(args.learning_rate)  #: setting args.learning_rate
        args.batch = 32
        reveal(args.batch)  #: 32
        known, rest = parser.parse_known_args()
        reveal(known.big)  #: setting known.big
        options = vars(args)
        size = 2 if args.big else 1
        reveal(size)  #: 2 if args.big | 1 if not (args.big)
        """,
    "defaults that a file of gin may replace": """
        import gin
        @gin.configurable
        def train(rank, lr=0.1, *, layers=2):
            reveal(rank)  #: 3
            reveal(lr)  #: setting train.lr
            reveal(layers)  #: setting train.layers
            return Net()
        @gin.configurable("net")
        class Net:
            def __init__(self, width=8):
                self.width = width
        reveal(train(3).width)  #: setting Net.width
        """,
    "defaults that argbind may replace": """
        import argbind
        from torch.optim import AdamW
        class Net:
            def __init__(self, width=8):
                self.width = width
        Bound = argbind.bind(Net, "train")
        reveal(Bound().width)  #: setting Net.width
        reveal(argbind.bind(AdamW, "generator"))  #: Library(torch.optim.AdamW)
        @argbind.bind(without_prefix=True)
        def train(lr=0.1):
            reveal(lr)  #: setting train.lr
        train()
        """,
    "options that are set by their names": """
        import argparse, yaml
        parser = argparse.ArgumentParser()
        parser.add_argument("--config")
        args = parser.parse_args()
        for key, value in yaml.safe_load(open(args.config)).items():
            vars(args)[key] = value
        vars(args)["processes"] = 1
        args.__dict__["several"] = False
        reveal(args.processes)  #: 1
        reveal(vars(args)["several"])  #: False
        """,
    "options put over many settings": """
        import argparse
        parser = argparse.ArgumentParser()
        names = ["epochs", "batch", "width", "depth", "decay", "steps", "lr"]
        for name in names:
            parser.add_argument("--" + name)
        class Config:
            pass
        args, config = parser.parse_args(), Config()
        for name in names:
            setattr(config, name, f"{name} of the file")
        for name in names:
            if getattr(args, name) is not None:
                setattr(config, name, getattr(args, name))
        reveal((config.epochs, config.lr))  \
        #: (setting getattr(args, name) | 'epochs of the file', setting getattr(args, name) | 'lr of the file')
        """,
    "options handed over as a dictionary": """
        import argparse
        from dataclasses import dataclass

        @dataclass
        class Config:
            big: bool = False
            rest: int = 1

        def train(big, lr=0.5):
            reveal(big)  #: setting vars(args)['big']
            reveal(lr)  #: setting vars(args)['lr']

        parser = argparse.ArgumentParser()
        parser.add_argument("--big", action="store_true")
        parser.add_argument("--lr", type=float, default=0.1)
        args = parser.parse_args()
        config = Config(**vars(args))
        reveal(config.big)  #: setting vars(args)['big']
        train(**vars(args))
        """,
    "text that is executed may set what stands before it": """
        import os
        start, steps, rate = "scratch", 3, 0.1
        names = ["a"]
        exec(open("configurator.py").read())
        reveal((start == "resume", steps > 5))  #: (start == 'resume', steps > 5)
        reveal(names)  #: ['a']
        rate = 0.2
        reveal(rate)  #: 0.2
        exec("more = 1")
        reveal(rate)  #: 0.2
        """,
    "options of a known type": """
        import argparse, company
        parser = argparse.ArgumentParser()
        parser.add_argument("--gpus", type=int, default=2)
        parser.add_argument("--lr", type=float, default="0.1")
        parser.add_argument("--dry", action="store_true")
        parser.add_argument("--dist", default=False)
        parser.add_argument("--names", nargs="*")
        args = parser.parse_args()
        reveal(isinstance(args.dist, (dict, list)))  #: False
        reveal(args.dist is None)  #: args.dist is None
        reveal(isinstance(args.names, list))  #: isinstance
        reveal((args.gpus is None, args.lr is None, args.dry is None))  #: (False, False, False)
        reveal((isinstance(args.gpus, int), isinstance(args.gpus, (list, tuple))))  #: (True, False)
        if company.asked():
            args.gpus = None
            company.fill(args)
            reveal(args.lr is None)  #: args.lr is None
        """,
    "a dictionary with entries that are not known goes into what is unknown": """
        import company
        more = {"lr": 1, **company.settings()}
        config = company.config()
        config.update(more)
        reveal(config.lr == 1)  #: config.lr == 1
        """,
    "options with choices": """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--data", choices=["A", "B", "C"], default="A")
        parser.add_argument("--net", choices=("x", "y"), required=True)
        parser.add_argument("--many", choices=["A", "B"], nargs="+", default=["A"])
        parser.add_argument("--late", choices=["A", "B"])
        args = parser.parse_args()
        reveal((args.data == "D", args.net == "z", args.late == "C"))  #: (False, False, False)
        reveal(args.data == "B")  #: args.data == 'B'
        reveal(args.many == "C")  #: args.many == 'C'
        reveal(args.late is None)  #: args.late is None
        reveal(args.data.lower() == "d")  #: False
        parser.add_argument("--arch", choices=["vit_s", "vit_b", "vit"], default="vit")
        chosen = parser.parse_args()
        reveal(("vit" in chosen.arch, "xcit" in chosen.arch, chosen.arch.startswith("vit")))  #: (True, False, True)
        reveal("_" in chosen.arch)  #: '_' in chosen.arch
        reveal(chosen.arch.replace("_s", "_b") == "vit_s")  #: False
        tables = {"a": 1, "b": 2, "d": 3}
        reveal(tables[args.data.lower()])  #: 1 if args.data.lower() == 'a' | 2 if not (args.data.lower() == 'a')
        parser.set_defaults(data="D")
        other = parser.parse_args()
        reveal(other.data == "D")  #: other.data == 'D'
        """,
    "options that may be something else": """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--seed", type=int)
        parser.add_argument("--gpus", type=int, nargs="+", default=2)
        parser.add_argument("--rate", type=int, default=None)
        parser.add_argument("--any", default=2)
        parser.add_argument("--flag", action="store_true", default=None)
        args = parser.parse_args()
        parser.add_argument("--late", type=int, default=2)
        parser.set_defaults(late=None)
        args = parser.parse_args()
        reveal(args.late is None)  #: args.late is None
        reveal(args.seed is None)  #: args.seed is None
        reveal(args.gpus is None)  #: args.gpus is None
        reveal(args.rate is None)  #: args.rate is None
        reveal(args.any is None)  #: args.any is None
        reveal(args.flag is None)  #: args.flag is None
        """,
    "settings that a branch changes": """
        import argparse, yaml
        parser = argparse.ArgumentParser()
        parser.add_argument("--spawn", action="store_true")
        args = parser.parse_args()
        config = yaml.safe_load("c")
        if config.alone:
            args.spawn = False
            config.spawn = False
        reveal(args.spawn)  #: False if config.alone | setting args.spawn if not (config.alone)
        reveal(config.spawn)  #: False if config.alone | setting yaml.safe_load('c').spawn if not (config.alone)
        """,
    "a dictionary with attributes": """
        import yaml
        class Config(dict):
            def __getattr__(self, name):
                return self[name]
            def __setattr__(self, name, value):
                self[name] = value
        entries = {}
        loaded = yaml.safe_load("c")
        for part in loaded:
            for key, value in loaded[part].items():
                entries[key] = value
        config = Config(entries)
        if len(config.gpus) == 1:
            config.spawn = False
        reveal(config.spawn)  #: False if len(config.gpus) == 1 | setting config.spawn if not (len(config.gpus) == 1)
        """,
    "a dictionary that is its own attributes": """
        import json
        class AttrDict(dict):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self.__dict__ = self
        config = AttrDict(json.load(open("c")))
        if config.deep:
            reveal()  #: config.deep
        """,
    "a dictionary with attributes that a call is given": """
        class Settings(dict):
            def __getattr__(self, name):
                return self[name]
        def build(*args, name=None, **more):
            assert name is not None
            reveal(name)  #: 'net'
        def hand_on(*args, part=None, **more):
            build(*args, name=part, **more)
        settings = Settings(part="net", width=8)
        hand_on(**settings)
        reveal()  #: always
        """,
    "a dictionary of what was computed": """
        import torch
        class Result(dict):
            def __getattr__(self, name):
                return self[name]
        found = Result(loss=torch.ones(1))
        reveal(found.loss)  #: Tensor
        """,
    "options that were not seen to be declared": """
        import argparse
        from company import add_options
        parser = argparse.ArgumentParser()
        add_options(parser)
        args = parser.parse_args()
        if args.small:
            args.half = True
        reveal(args.half)  #: True if args.small | setting args.half if not (args.small)
        """,
    "defaults that a file replaces": """
        import argparse
        from yacs.config import CfgNode as CN
        _C = CN()
        _C.MODEL = CN()
        _C.MODEL.SEVERAL = False
        _C.NAME = "net"
        reveal(_C.MODEL.SEVERAL)  #: False
        parser = argparse.ArgumentParser()
        parser.add_argument("--config")
        args = parser.parse_args()
        if args.config:
            _C.merge_from_file(args.config)
        reveal(_C.NAME)  #: setting _C.NAME if args.config | 'net' if not (args.config)
        _C.merge_from_list(["NAME", "other"])
        reveal(_C.MODEL.SEVERAL)  #: setting _C.MODEL.SEVERAL
        """,
    "defaults that a file of the project replaces": """
        from yacs.config import CfgNode as CN
        cfg = CN()
        cfg.DATA = CN()
        cfg.DATA.ORDER = "random"
        cfg.DATA.NAMES = ()
        cfg.DATA.ROOT = "data"
        cfg.merge_from_file("net.yaml")
        reveal(cfg.DATA.ORDER)  #: 'by length'
        reveal(cfg.DATA.ROOT)  #: setting cfg.DATA.ROOT
        reveal(isinstance(cfg.DATA.NAMES, (list, tuple)))  #: True
        reveal(cfg.DATA.NAMES[1])  #: 'b'
        cfg.merge_from_list(["DATA.ORDER", "random"])
        reveal(cfg.DATA.ORDER)  #: setting cfg.DATA.ORDER
        # file: net.yaml
        DATA:
          ORDER: by length
          NAMES: ("a", "b")
        """,
    "sections that an object makes objects of itself": """
        from hydra import compose, initialize
        from hydra.utils import instantiate
        class Part:
            def __init__(self, size):
                self.size = size
        class Net:
            def __init__(self, part):
                self.part = part
        with initialize(config_path="conf"):
            cfg = compose(config_name="train")
        reveal(instantiate(cfg.net).part.size)  #: 3
        reveal(instantiate(cfg.net, _recursive_=False).part["size"])  #: 3
        # file: conf/train.yaml
        net:
          _target_: train.Net
          part:
            _target_: train.Part
            size: 3
        """,
    "files that are merged section by section": """
        import argparse
        from omegaconf import OmegaConf
        parser = argparse.ArgumentParser()
        parser.add_argument("--config", required=True)
        args = parser.parse_args()
        base = OmegaConf.load("base.yaml")
        config = OmegaConf.merge(base, OmegaConf.load("own.yaml"), OmegaConf.from_cli())
        reveal(config.net.width)  #: 64
        reveal(config.net.name)  #: 'small'
        reveal(config.other)  #: setting config.other
        reveal(OmegaConf.to_container(config)["lr"])  #: 0.5
        # file: base.yaml
        lr: 0.5
        net:
          name: small
          width: 32
        # file: own.yaml
        net:
          width: 64
        """,
    "defaults that a dictionary from a file replaces": """
        import json, toml, yaml

        def merge(old, new):
            for key, value in new.items():
                if isinstance(value, dict):
                    merge(old[key], value)
                else:
                    old[key] = value

        config = {"several": False, "net": {"name": "small", "wide": 1}, "parts": [1]}
        reveal(config["several"])  #: False
        for key, value in toml.load("c").items():
            config[key] = value
        reveal(config["several"])  #: setting config['several']
        reveal(config["net"]["name"])  #: setting config['net']['name']
        other = {"several": False, "net": {"name": "small"}}
        merge(other, yaml.safe_load("c"))
        reveal(other["several"])  #: False if isinstance | setting old['several'] if not (isinstance)
        empty = {"data": {"train": {}}}
        for key, value in toml.load("c").items():
            empty[key] = value
        reveal(empty["data"]["train"].get("name", "small"))  #: setting empty['data']['train'] | 'small'
        third = {"several": False}
        third.update(json.load(open("c")))
        reveal(third["several"])  #: setting third['several']
        third["several"] = True
        reveal(third["several"])  #: True
        """,
    "defaults in attributes that a file replaces": """
        import yaml
        from dataclasses import dataclass
        from easydict import EasyDict

        @dataclass
        class Settings:
            several: bool = False

        class Plain:
            several = False

        class Entries(dict):
            __getattr__ = dict.__getitem__
            __setattr__ = dict.__setitem__

        found = yaml.safe_load(open("c"))
        settings, plain, entries, easy = Settings(), Plain(), Entries(), EasyDict()
        entries.several = easy.several = False
        for key, value in found.items():
            setattr(settings, key, value)
            setattr(plain, key, value)
            entries[key] = value
        easy.update(found)
        reveal(settings.several)  #: setting settings.several
        reveal(plain.several)  #: setting plain.several
        reveal(Plain.several)  #: False
        reveal(entries.several)  #: setting entries.several
        reveal(easy.several)  #: setting easy.several
        other = Plain()
        other.__dict__.update(found)
        reveal(other.several)  #: setting other.several
        for key in found:
            setattr(Plain, key, found[key])
        reveal(Plain.several)  #: setting Plain.several
        """,
    "what no file replaces": """
        import argparse, company, json
        parser = argparse.ArgumentParser()
        parser.add_argument("--data")
        args = parser.parse_args()
        results, words, counts = {"last": 0}, {"<pad>": 0}, {"seen": 0}
        results[args.data] = 1.5
        for word in company.words():
            words[word] = len(words)
        for row in json.load(open("c")):
            counts["seen"] = 1
        reveal(results["last"])  #: 0
        reveal(words["<pad>"])  #: 0
        reveal(counts["seen"])  #: 1
        """,
    "entries that only a file has": """
        import yaml
        config = {}
        config.update(yaml.safe_load(open("c")))
        if config["first"]:
            reveal(config["second"])  #: setting config['second']
        merged = {"lr": 1, **yaml.safe_load(open("c"))}
        reveal(merged["several"])  #: setting merged['several']
        reveal(merged["lr"])  #: setting lr
        """,
    "options merged into a configuration": """
        import argparse, yaml
        parser = argparse.ArgumentParser()
        parser.add_argument("--local_rank", type=int, default=0)
        parser.add_argument("--folder")
        args = parser.parse_args()
        args.several = True
        config = yaml.safe_load("c")
        config.update(vars(args))
        reveal(config["local_rank"])  #: local rank
        reveal(config["several"])  #: True
        reveal(config["folder"])  #: setting config['folder']
        reveal(config["lr"])  #: setting config['lr']
        reveal(vars(args)["folder"])  #: setting vars(args)['folder']
        """,
    "a GPU that a configuration names": """
        import hydra, torch, torch.distributed as dist
        @hydra.main(config_path="conf")
        def main(config):
            torch.cuda.set_device(config.gpu)
            dist.init_process_group("nccl")
            reveal(config.gpu)  #: local rank
            reveal(config.lr)  #: setting config.lr
        main()
        """,
    "a GPU for all that the command line names": """
        import argparse, torch, torch.distributed as dist
        parser = argparse.ArgumentParser()
        parser.add_argument("--gpu", type=int)
        args = parser.parse_args()
        torch.cuda.set_device(args.gpu)
        dist.init_process_group("nccl")
        reveal(args.gpu)  #: setting args.gpu
        """,
    "settings of a trainer of transformers": """
        import transformers
        class Trainer(transformers.Trainer):
            def train(self):
                reveal((self.args.n_gpu, self.args.local_rank))  #: (1, local rank)
                reveal(self.args.fp16)  #: setting self.args.fp16
        model = transformers.AutoModel.from_pretrained("gpt2")
        Trainer(model, transformers.TrainingArguments("out")).train()
        """,
    "the length of a path": """
        import argparse, os
        parser = argparse.ArgumentParser()
        parser.add_argument("--folder")
        args = parser.parse_args()
        weights = os.path.join(args.folder, "encoder_" + args.folder)
        reveal(len(weights) == 0)  #: False
        reveal(len(weights) > 0)  #: True
        if len(f"{args.folder}") == 0:
            reveal()  #: len(f'{args.folder}') == 0
        """,
    "versions": """
        import torch
        from packaging import version
        if torch.__version__ == "parrots" or torch.__version__ < "1.10":
            reveal()  #: never
        if version.parse(torch.__version__) >= version.parse("1.6"):
            reveal()  #: always
        if version.parse(torch.__version__) >= version.parse("2.6"):
            reveal()  #: not (version.parse(torch.__version__) >= version.parse('2.6'))
        """,
    "two tests of one number": """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--gpus", type=int)
        args = parser.parse_args()
        if args.gpus > 1:
            reveal("one" if args.gpus == 1 else "many")  #: 'many'
            reveal("some" if args.gpus > 0 else "none")  #: 'some'
        else:
            reveal("many" if 2 <= args.gpus else "few")  #: 'few'
        """,
    "a rank and what nobody knows": """
        import torch.distributed as dist
        def seeds():
            sent = yield 1
            reveal(dist.get_rank() + sent)  #: unknown
            yield sent
        for each in seeds():
            print(each)
        """,
    "whether a file is there": """
        from pathlib import Path
        path = Path("runs") / "model.pth"
        made = path.exists()
        reveal(1 if made else 2)  #: 1 if made | 2 if not (made)
        """,
    "argparse in a function of another file": """
        from options import parse
        args = parse()
        reveal(args.lr)  #: setting args.lr
        # file: options.py
        import argparse
        def parse():
            parser = argparse.ArgumentParser()
            parser.add_argument("--lr", default=0.1)
            return parser.parse_args()
        """,
    "a local rank that the launcher passes": """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--local_rank", type=int, default=-1)
        args = parser.parse_args()
        reveal(args.local_rank)  #: local rank
        """,
    "a local rank from the environment as a default": """
        import argparse, os
        parser = argparse.ArgumentParser()
        parser.add_argument("--gpu", type=int, default=os.environ["LOCAL_RANK"])
        parser.add_argument("--text", default=os.environ["LOCAL_RANK"])
        parser.add_argument("--size", type=int, default=os.environ["WORLD_SIZE"])
        args = parser.parse_args()
        reveal(args.gpu)  #: local rank
        reveal(args.size)  #: world size
        reveal(args.text)  #: local rank as text
        """,
    "click": """
        import click
        @click.command()
        @click.option("--lr", default=0.1)
        @click.option("--local-rank", type=int)
        def main(lr, local_rank):
            reveal(lr)  #: setting lr
            reveal(local_rank)  #: local rank
        if __name__ == "__main__":
            main()
        """,
    "options of click that no parameter is called after": """
        import click
        class Wrong(Exception): pass
        def made(path=None):
            if path == "none":
                raise Wrong("no path")
            return dict(path=path)
        @click.command()
        @click.pass_context
        @click.option("--path", required=True)
        @click.option("--dry", is_flag=True)
        def main(ctx, dry, **options):
            try:
                settings = made(**options)
            except Wrong as error:
                ctx.fail(error)
            reveal((dry, options["path"]))  #: (setting dry, setting options['path'])
            reveal(settings)  #: {'path': None | setting path}
        if __name__ == "__main__":
            main()
        """,
    "a group of click": """
        import click
        @click.group()
        @click.option("--seed", default=1)
        def cli(seed):
            reveal(seed)  #: setting seed
        @cli.command()
        @click.option("--lr", default=0.1)
        def train(lr):
            reveal(lr)  #: setting lr
        @cli.command("eval")
        def evaluate():
            reveal()  #: not (train is chosen)
        if __name__ == "__main__":
            cli()
        """,
    "typer": """
        import typer
        app = typer.Typer()
        state = {}
        @app.callback()
        def prepare(verbose: bool = False):
            state["verbose"] = verbose
        @app.command()
        def train(lr: float = 0.1, name: str = typer.Option("net", "--name")):
            reveal((lr, name, state["verbose"]))  #: (setting lr, setting name, setting verbose)
        if __name__ == "__main__":
            app()
        """,
    "fire": """
        import fire
        class Trainer:
            def __init__(self, lr=0.1):
                self.lr = lr
            def train(self, epochs=2):
                reveal((self.lr, epochs))  #: (setting lr, setting epochs)
        def prepare(size=3):
            reveal(size)  #: setting size
        if __name__ == "__main__":
            fire.Fire(Trainer)
            fire.Fire({"prepare": prepare})
        """,
    "all options in an object": """
        import argparse
        class Config:
            def __init__(self, **options):
                for name, value in options.items():
                    setattr(self, name, value)
        parser = argparse.ArgumentParser()
        parser.add_argument("--local_rank", type=int, default=-1)
        parser.add_argument("--size")
        args = Config(**vars(parser.parse_args()))
        reveal((args.local_rank, args.size))  #: (local rank, setting args.size)
        """,
    "tyro": """
        import tyro
        from dataclasses import dataclass
        @dataclass
        class Config:
            lr: float = 0.1
            def warm(self):
                return self.lr
        config = tyro.cli(Config)
        reveal((config.lr, config.warm()))  #: (setting lr, setting lr)
        """,
    "pydantic": """
        from pydantic import BaseModel
        class Config(BaseModel):
            lr: float = 0.1
            epochs: int
        config = Config(epochs=3)
        reveal((config.lr, config.epochs))  #: (0.1, 3)
        """,
    "absl": """
        from absl import app, flags
        FLAGS = flags.FLAGS
        flags.DEFINE_float("lr", 0.1, "the rate")
        _BIG = flags.DEFINE_bool("big", False, "a big one")
        def main(argv):
            reveal(FLAGS.lr)  #: setting FLAGS.lr
            reveal(1 if _BIG.value else 2)  #: 1 if _BIG.value | 2 if not (_BIG.value)
        app.run(main)
        """,
    "OmegaConf": """
        from omegaconf import OmegaConf
        base = OmegaConf.load("config.yaml")
        config = OmegaConf.merge(base, OmegaConf.from_cli())
        reveal(config.optim.lr)  #: setting config.optim.lr
        reveal(config["optim"]["lr"])  #: setting config['optim']['lr']
        mode = "ddp" if config.distributed else "plain"
        reveal(mode)  #: 'ddp' if config.distributed | 'plain' if not (config.distributed)
        """,
    "hydra": """
        import hydra
        @hydra.main(config_path="conf", config_name="train")
        def main(cfg):
            reveal(cfg.trainer.epochs)  #: setting cfg.trainer.epochs
        if __name__ == "__main__":
            main()
        """,
    "yaml and json": """
        import json, yaml
        with open("config.yaml") as f:
            config = yaml.safe_load(f)
        reveal(config["lr"])  #: setting config['lr']
        reveal(json.load(open("a.json"))["lr"])  #: setting json.load(open('a.json'))['lr']
        """,
    "what torchrun sets": """
        import os
        reveal(int(os.environ["RANK"]))  #: global rank
        reveal(int(os.getenv("LOCAL_RANK", 0)))  #: local rank
        reveal(int(os.environ.get("WORLD_SIZE", "1")))  #: world size
        reveal(os.environ["LOCAL_RANK"])  #: local rank as text
        reveal("RANK" in os.environ and "WORLD_SIZE" in os.environ)  #: True
        reveal("SLURM_PROCID" in os.environ)  #: False
        reveal(os.environ.get("SLURM_PROCID"))  #: None
        reveal(int(os.environ["WORLD_SIZE"]) > 1)  #: True
        """,
    "what the program itself sets": """
        import os
        os.environ["MODE"] = "fast"
        os.environ.setdefault("MODE", "slow")
        os.environ.setdefault("OTHER", "slow")
        os.environ.update(THIRD="3")
        reveal(os.environ["MODE"])  #: 'fast'
        reveal(os.getenv("OTHER"))  #: 'slow'
        reveal(os.environ["THIRD"])  #: '3'
        """,
    "an environment variable of the user": """
        import os
        reveal(os.environ["DATA"])  #: setting DATA
        where = "/data" if os.environ["DATA"] else "/tmp"
        reveal(where)  #: '/data' if os.environ['DATA'] | '/tmp' if not (os.environ['DATA'])
        """,
    "one switch, asked twice": """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        model, loader = "plain", "shuffled"
        if args.distributed:
            model = "wrapped"
        if args.distributed:
            loader = "sharded"
        if model == "wrapped":
            reveal(loader)  #: 'sharded'
        else:
            reveal(loader)  #: 'shuffled'
        """,
    "one switch, under another name": """
        import argparse
        def train(distributed):
            if distributed:
                return "sharded"
            return "shuffled"
        args = argparse.ArgumentParser().parse_args()
        on = args.distributed
        if not on:
            model = "plain"
        else:
            model = "wrapped"
            reveal(train(args.distributed))  #: 'sharded'
        reveal(model)  #: 'plain' if not (on) | 'wrapped' if on
        """,
}


@pytest.mark.parametrize("source", SETTINGS.values(), ids=SETTINGS)
def test_settings_have_names(paper, source: str):
    assert paper(source).program.lost == ()


def test_a_table_of_options_declares_each_of_them(paper):
    found = paper(
        """
        import argparse
        TABLES = {
            "data": {f: {"type": int, "default": 1} for f in ("--a", "--b", "--c", "--d", "--e", "--f", "--g")},
            **{name: {"--" + name: {"default": None}} for name in ("h", "i", "j", "k", "l", "m")},
        }
        parser = argparse.ArgumentParser()
        for name in TABLES:
            for flag, settings in TABLES[name].items():
                parser.add_argument(flag, **settings)
        args = parser.parse_args()
        """
    )
    assert [event.name for event in found.events(ArgumentDeclared)] == list("abcdefghijklm")


def test_options_are_declared_and_read(paper):
    found = paper(
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("-e", "--num-epochs", default=3)
        parser.add_argument("--rate", dest="lr")
        args = parser.parse_args()
        args.lr
        """
    )
    assert [(event.name, event.flags) for event in found.events(ArgumentDeclared)] == [
        ("num_epochs", ("-e", "--num-epochs")),
        ("lr", ("--rate",)),
    ]
    assert [event.name for event in found.events(SettingRead)] == ["lr"]


def test_the_environment_is_read_and_written(paper):
    found = paper(
        """
        import os
        os.environ["MASTER_PORT"] = "1234"
        os.environ.get("RANK", "0")
        """
    )
    assert found.event(EnvironmentWrite).name == "MASTER_PORT"
    read = found.event(EnvironmentRead)
    assert read.name == "RANK"
    assert read.has_default is True


@pytest.mark.parametrize(
    ("size", "factor"),
    [
        ("32 * dist.get_world_size()", "Size(world size)"),
        ("args.batch * torch.cuda.device_count()", "Size(device count)"),
        ("int(args.batch * dist.get_world_size() * 2 / args.steps)", "Size(world size)"),
        ("args.batch * dist.get_world_size() // dist.get_world_size()", "None"),
        ("args.batch // dist.get_world_size()", "None"),
        ("args.batch + dist.get_world_size()", "None"),
    ],
)
def test_a_product_remembers_the_number_of_processes(paper, size: str, factor: str):
    found = paper(
        f"""
        import argparse, torch, torch.distributed as dist
        from torch.utils.data import DataLoader
        args = argparse.ArgumentParser().parse_args()
        loader = DataLoader([], batch_size={size})
        """
    )
    assert repr(found.event(MakeLoader).loader.batch_size.single.times) == factor


def test_a_variable_that_is_set_to_nothing_is_no_crash(paper):
    paper("import os\nos.environ.setdefault('X')\nos.environ.__setitem__('Y')\nreveal('after')  #: 'after'\n")
