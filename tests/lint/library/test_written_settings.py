"""What stands in the settings files that a program opens."""

import pytest

YAML = """\
    # file: train.yaml
    name: net
    seed: 42
    amp: false
    shuffle: true
    gpus: 1
    resume:
    since: 2026-01-01
    model: {name: vit, depth: 12}
    steps: [10, 20]
    tuple: !!python/tuple [1, 2]
"""
FILES = {
    "YAML": f"""
    import yaml
    with open("train.yaml") as file:
        config = yaml.safe_load(file)
    reveal((config["name"], config["seed"], config["shuffle"], config["steps"][1]))  #: ('net', 42, True, 20)
    reveal(config["model"])  #: {{'name': 'vit', 'depth': 12}}
    reveal(config.get("lr", 0.1))  #: 0.1
    # What is off, nothing or one may be turned up.
    reveal(config["amp"] is True)  #: config['amp'] is True
    reveal(config["gpus"] > 1)  #: config['gpus'] > 1
    reveal(config["resume"] is None)  #: config['resume'] is None
    reveal(config["since"] is None)  #: config['since'] is None
    model = config.pop("model")
    reveal((model.pop("name"), dict(**model)))  #: ('vit', {{'depth': 12}})
{YAML}""",
    "YAML under conda's name": f"""
    import ruamel_yaml as yaml
    reveal(yaml.load(open("train.yaml"), Loader=yaml.Loader)["seed"])  #: 42
{YAML}""",
    "TOML": """
    import tomllib
    config = tomllib.load(open("train.toml", "rb"))
    reveal(config["train"]["epochs"])  #: 30
    # file: train.toml
    [train]
    epochs = 30
    """,
    "JSON": """
    import json
    from types import SimpleNamespace
    config = SimpleNamespace(**json.load(open("train.json")))
    reveal(config.epochs)  #: 30
    # file: train.json
    {"epochs": 30}
    """,
    "JSON with comments": """
    import json
    text = ""
    with open("train.json") as file:
        for line in file:
            text += line.split(" //")[0] + "\\n"
    reveal(json.loads(text)["url"])  #: 'http://localhost'
    reveal(json.loads(open("train.json").read())["model"]["unet"]["width"]["inner"])  #: 64
    # file: train.json
    { // settings
      "url": "http://localhost", // where
      # and how
      "model": {"unet": {"width": {"inner": 64}}}}
    """,
    "beside the program": f"""
    import os, yaml
    from pathlib import Path
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train.yaml")
    reveal(yaml.safe_load(open(here))["seed"])  #: 42
    reveal(yaml.safe_load((Path(__file__).parent / "train.yaml").read_text())["seed"])  #: 42
    reveal(yaml.safe_load(open(Path(__file__).stem + ".yaml"))["seed"])  #: 42
    reveal((Path(__file__).name, Path(__file__).suffix))  #: ('train.py', '.py')
{YAML}""",
    "below another one": """
    import os, json, yaml
    from pathlib import Path
    from types import SimpleNamespace
    def put_over(below, above):
        made = dict(below)
        for key, value in above.items():
            if isinstance(value, dict) and isinstance(made.get(key), dict):
                value = put_over(made[key], value)
            made[key] = value
        return made
    def read(path):
        path = Path(path)
        with path.open() as file:
            settings = yaml.safe_load(file)
        if base := settings.pop("_base_", None):
            return put_over(read(path.parent / base), settings)
        return settings
    reveal(read("conf/train.yaml"))  #: {'data': {'shuffle': True, 'batch': 32}, 'seed': 42}
    here = os.path.dirname("conf/train.yaml")
    reveal(yaml.safe_load(open(os.path.join(here, "base.yaml")))["data"]["shuffle"])  #: True
    module, _, name = json.loads(Path("conf/train.json").read_text())["made_by"].partition(":")
    reveal((module, name, "a.b.c".rpartition(".")))  #: ('torch.nn', 'Linear', ('a.b', '.', 'c'))
    settings = json.load(open("conf/train.json"), object_hook=lambda each: SimpleNamespace(**each))
    reveal((settings.backend, settings.optimizer.momentum))  #: ('gloo', 0.9)
    # file: conf/base.yaml
    data: {shuffle: true, batch: 16}
    # file: conf/train.yaml
    _base_: base.yaml
    data: {batch: 32}
    seed: 42
    # file: conf/train.json
    {"backend": "gloo", "optimizer": {"momentum": 0.9}, "made_by": "torch.nn:Linear"}
    """,
    "entries as attributes": f"""
    import yaml
    from easydict import EasyDict
    from omegaconf import OmegaConf
    config = OmegaConf.load("train.yaml")
    reveal((config.model.depth, config["seed"], config.get("seed")))  #: (12, 42, 42)
    config.model.depth = 3
    reveal(config["model"]["depth"])  #: 3
    config.run = {{"rank": 7, "of": {{"size": 8}}}}
    reveal((config.run.rank, config.run.of.size, config["run"]["rank"]))  #: (7, 8, 7)
    easy = EasyDict(yaml.load(open("train.yaml"), Loader=yaml.FullLoader))
    reveal((easy.name, easy.model.name, list(easy.model.keys())))  #: ('net', 'vit', ['name', 'depth'])
{YAML}""",
    "the default of an option": f"""
    import argparse, yaml
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="train.yaml")
    with open(parser.parse_args().config) as file:
        config = yaml.safe_load(file)
    # Another file may say something else of each, but not of what it is.
    reveal((config["seed"], config["name"], config["shuffle"]))  #: (setting seed, setting name, setting shuffle)
    reveal((isinstance(config["seed"], dict), len(config["steps"])))  #: (False, 2)
{YAML}""",
    "handed on one by one": f"""
    import argparse, yaml
    config = yaml.safe_load(open("train.yaml"))
    options = argparse.Namespace()
    for name, value in config.items():
        setattr(options, name, value)
    reveal((options.name, options.seed, options.steps[1], options.model["depth"]))  #: ('net', 42, 20, 12)
    flat = {{}}
    for name in config:
        flat["train." + name] = config[name]
    reveal((flat["train.name"], flat["train.seed"], len(flat)))  #: ('net', 42, 10)
{YAML}""",
    "a dictionary given to settings of the user": """
    import argparse
    from omegaconf import OmegaConf
    config = OmegaConf.load(argparse.ArgumentParser().parse_args().config)
    config.run = {"rank": 7}
    reveal((config.run.rank, config.run.get("rank")))  #: (7, 7)
    plain = {}
    plain["run"] = {"items": 7}
    reveal(plain["run"]["items"])  #: 7
""",
    "a class whose base shows its entries": """
    from addict import Dict
    class ConfigDict(Dict):
        def __getattr__(self, name):
            try:
                value = super().__getattr__(name)
            except KeyError:
                raise AttributeError(name)
            return value
    class Config:
        def __init__(self, entries):
            super().__setattr__("_entries", ConfigDict(entries))
        def __getattr__(self, name):
            return getattr(self._entries, name)
    config = Config({key: value for key, value in {"a": 1, "b": {"c": 2}, "__d": 3}.items() if not key.startswith("_")})
    reveal((config.a, config.b.c))  #: (1, 2)
    reveal(config._entries)  #: {'a': 1, 'b': {'c': 2}}
""",
}
CHOSEN = """
    import argparse, os, yaml
    parser = argparse.ArgumentParser()
    parser.add_argument("-c", "--config", required=True)
    parser.add_argument("--amp", action="store_true")
    args = parser.parse_args()
    with open({path}) as file:
        config = yaml.safe_load(file)
"""
NAMED = {
    "in the README": (
        CHOSEN.format(path="args.config")
        + """
    reveal((config["name"], config["model"]["depth"]))  #: (setting name, setting model.depth)
    table = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7, "h": 8, "large": "Large", "small": "Small"}
    reveal(table[config["name"]])  #: 'Large'
    # What this file leaves out, another one may have.
    reveal((config["seed"] is None, "seed" in config, config.get("seed", 1) == 1))  \
    #: (config['seed'] is None, 'seed' in config, config.get('seed', 1) == 1)
    reveal(len(config["gpus"]) > 1)  #: len(config['gpus']) > 1
    reveal(dict(**config["model"]))  #: {'depth': setting model.depth}
    copied = {}
    for key in config:
        copied[key] = config[key]
    reveal((copied["name"], {key: copied[key] for key in copied}.get("other")))  \
    #: (setting name, setting {key: copied[key] for key in copied}....)
    config.update(vars(args))
    reveal((config["amp"], config["config"]))  #: (setting config['amp'], setting config['config'])
    reveal("name" in config)  #: True
    included = os.path.join(os.path.dirname(args.config), "base.yaml")
    beside = yaml.safe_load(open(included))
    reveal((beside["below"], "other" in beside))  #: (setting below, False)
    # file: README.md
    Train with

        CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 train.py --amp \\
            -c configs/large.yaml
    # file: configs/base.yaml
    below: 3
    # file: configs/large.yaml
    name: large
    model: {depth: 12}
    gpus: [0]
    # file: configs/small.yaml
    name: small
    model: {depth: 3}
    """
    ),
    "between texts of the program": (
        CHOSEN.format(path='f"configs/{args.config}.yaml"')
        + """
    reveal({"small": 1, "large": 2}["large"] if config["name"] == "large" else config["rate"])  \
    #: 2 if config['name'] == 'large' | setting rate if not (config['name'] == 'large')
    # file: run.sh
    python train.py --config large
    # file: configs/large.yaml
    name: large
    rate: 0.1
    """
    ),
    "by what the program reads": (
        CHOSEN.format(path="args.config")
        + """
    reveal((config["name"], config["model"]))  #: (setting name, {'depth': setting model.depth})
    from collections.abc import Mapping
    reveal((isinstance(config, (dict, Mapping)), isinstance(config, list)))  #: (True, isinstance)
    reveal(isinstance(config, Mapping))  #: True
    reveal(isinstance(config["model"], list))  #: False
    # file: configs/vit.yaml
    name: vit
    model: {depth: 3}
    # file: environment.yaml
    name: torch
    channels: [pytorch]
    dependencies: [python]
    """
    ),
    "a file of Python": """
    import argparse, os.path as osp, runpy, tempfile
    from importlib import import_module
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    args = parser.parse_args()
    config = import_module(args.config)
    reveal((config.dataset, config.model["depth"], config.resume is None))  \
    #: (setting dataset, setting model.depth, config.resume is None)
    with tempfile.TemporaryDirectory() as folder:
        copy = tempfile.NamedTemporaryFile(dir=folder, suffix=".py")
        module = import_module(osp.splitext(osp.basename(copy.name))[0])
    entries = {key: value for key, value in module.__dict__.items() if not key.startswith("__")}
    reveal((entries["dataset"], entries["steps"][1]))  #: (setting dataset, setting steps.1)
    reveal(runpy.run_path(args.config)["dataset"])  #: setting dataset
    reveal(import_module(config.plugins.replace("/", ".")))  #: unknown
    # file: README.md
    python train.py configs/mnist.py --lr 0.1
    # file: configs/mnist.py
    import os
    dataset = "mnist"
    plugins = "elsewhere/plugins"
    depth = 12
    model = dict(depth=depth, path=os.getcwd())
    steps = [25, -38]
    resume = None
    """,
    "a file of Python that does more": """
    import argparse, importlib.util, os, sys
    from importlib import import_module
    parser = argparse.ArgumentParser()
    parser.add_argument("-f", "--exp_file", required=True)
    args = parser.parse_args()
    sys.path.append(os.path.dirname(args.exp_file))
    module = import_module(os.path.basename(args.exp_file).split(".")[0])
    reveal((module.Exp().depth, module.named("net")))  #: (12, 'net12')
    spec = importlib.util.spec_from_file_location("exp", args.exp_file)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    reveal(made.named("net"))  #: 'net12'
    # file: train.sh
    torchrun --nproc_per_node 8 train.py -b 64 -f exps/large.py
    # file: exps/large.py
    depth = 12
    class Exp:
        def __init__(self):
            self.depth = depth
    def named(kind):
        return f"{kind}{depth}"
    """,
    "a file of Python over others": """
    import argparse
    from mmengine.config import Config
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    config = Config.fromfile(parser.parse_args().config)
    reveal((config.model.depth, config.model["name"], config.lr))  \
    #: (setting model.depth, setting model.name, setting lr)
    reveal(config.data)  #: {'root': setting data.root}
    # file: README.md
    python train.py configs/large/net.py
    # file: configs/large/net.py
    _base_ = ["../base.py"]
    model = dict(depth=24)
    data = dict(_delete_=True, root="data")
    # file: configs/base.py
    model = dict(name="vit", depth=12)
    data = dict(split="all")
    lr = 1e-3
    """,
    "classes that are sought in modules": (
        CHOSEN.format(path="args.config")
        + """
    import importlib, os
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nets")
    names = [os.path.splitext(entry.name)[0] for entry in os.scandir(folder) if entry.name.endswith(".py")]
    for module in [importlib.import_module(f"nets.{name}") for name in names]:
        found = getattr(module, config["net"]["type"], None)
        if found is not None:
            break
    reveal(found)  #: Deep if Deep is chosen | Wide if not (Deep is chosen)
    # file: configs/deep.yaml
    net:
      type: Deep
    steps: 100
    # file: configs/wide.yaml
    net:
      type: Wide
    # file: nets/__init__.py
    # file: nets/deep.py
    class Layer: pass
    class Deep: pass
    # file: nets/wide.py
    class Wide: pass
    # file: nets/plain.py
    class Plain: pass
    # file: nets/small.py
    class Small: pass
    # file: nets/tiny.py
    class Tiny: pass
    """
    ),
}
UNKNOWN = {
    "a file that is not there": 'yaml.safe_load(open("other.yaml"))',
    "a file that the user chooses": "yaml.safe_load(open(argparse.ArgumentParser().parse_args().config))",
    "no YAML": 'yaml.safe_load(open("broken.yaml"))',
    "a table of data": 'yaml.safe_load(open("table.yaml"))',
}


@pytest.mark.parametrize("source", FILES.values(), ids=FILES)
def test_what_stands_in_a_settings_file(paper, source: str):
    paper(source)


@pytest.mark.parametrize("source", NAMED.values(), ids=NAMED)
def test_one_file_stands_for_those_that_the_user_may_name(paper, source: str):
    paper(source)


@pytest.mark.parametrize("read", UNKNOWN.values(), ids=UNKNOWN)
def test_what_cannot_be_read_stays_unknown(paper, read: str):
    many = "".join(f"row{number}: 7\n" for number in range(2000))
    paper(
        f"""import argparse, yaml
config = {read}
reveal(config["row1"] == 7)  #: config['row1'] == 7
# file: broken.yaml
row1: [7
# file: table.yaml
{many}"""
    )


@pytest.mark.parametrize(
    "text",
    [
        "row1: !!bool maybe",
        "row1: !!timestamp soon",
        "row1: !!int x",
        "row1: !!float {a: 1}",
        "row1: &a [*a]",
        "&a row1: *a",
        "? {a: 1}\n: 2",
        "row1: " + "[" * 5000,
        "row1: " + "[" * 400 + "]" * 400,
        "row1: 2026-13-41",
        "row1: \x00",
        "a: &a [1, 1]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: &d [*c, *c]\nrow1: [*d, *d]",
    ],
)
def test_no_file_stops_a_lint(paper, text: str):
    paper(
        f"""import yaml
config = yaml.safe_load(open("odd.yaml"))
reveal("after")  #: 'after'
# file: odd.yaml
{text}
"""
    )


def test_the_member_of_a_registry_that_a_file_names(paper):
    paper(
        """
    import yaml
    table = {}
    def register(kind, name):
        def note(made):
            table[kind, name] = made
            return made
        return note
    @register("model", "small")
    def small(depth): return "small"
    @register("model", "large")
    def large(depth): return depth
    @register("loss", "large")
    def loss(): return "loss"
    config = yaml.safe_load(open("train.yaml"))
    reveal(table["model", config.pop("name")](**config))  #: 12
    # file: train.yaml
    name: large
    depth: 12
    """
    )


def test_an_entry_that_was_put_there_is_what_get_finds(paper):
    paper(
        """
        import os, yaml
        config = yaml.safe_load(open(os.environ["CONFIG"]))
        config["train"]["local_rank"] = int(os.environ["LOCAL_RANK"])
        if config["debug"]:
            config["seed"] = 3
        reveal(config["train"].get("local_rank", 0))  #: local rank
        reveal(config.get("seed", 1))  #: setting config.get('seed', 1)
        """
    )
