"""Guards on the rank, in every spelling: the path knows that only some ranks come by."""

import pytest

from gpudoctor.lint.events.event_context import only_some_ranks, ranks_in_words
from gpudoctor.lint.events.files import Save
from gpudoctor.lint.flow.condition import Divergence, PassedBy
from tests.support.paper import Revealed

IMPORTS = "import argparse, os, torch, torch.distributed as dist\n"

RANK_ZERO = {
    "equal": "if dist.get_rank() == 0:\n    reveal()",
    "turned round": "if 0 == dist.get_rank():\n    reveal()",
    "not": "if not dist.get_rank():\n    reveal()",
    "else of a bare rank": "if dist.get_rank():\n    pass\nelse:\n    reveal()",
    "unequal, else": "if dist.get_rank() != 0:\n    pass\nelse:\n    reveal()",
    "less than one": "if dist.get_rank() < 1:\n    reveal()",
    "less than half a rank": "if dist.get_rank() < 0.5:\n    reveal()",
    "a fraction above": "if 0.5 > dist.get_rank():\n    reveal()",
    "at most zero": "if dist.get_rank() <= 0:\n    reveal()",
    "in a tuple of zero": "if dist.get_rank() in (0,):\n    reveal()",
    "a name": "master = dist.get_rank() == 0\nif master:\n    reveal()",
    "a name of the rank": "rank = dist.get_rank()\nif rank == 0:\n    reveal()",
    "the environment": "if int(os.environ['RANK']) == 0:\n    reveal()",
    "the environment as text": "if os.environ.get('RANK', '0') == '0':\n    reveal()",
    "a function": "def is_main():\n    return dist.get_rank() == 0\nif is_main():\n    reveal()",
    "a function that asks whether there are ranks": (
        "def rank():\n    if not dist.is_initialized():\n        return 0\n    return dist.get_rank()\n"
        "dist.init_process_group('nccl')\nif rank() == 0:\n    reveal()"
    ),
    "an early return": "def save():\n    if dist.get_rank() != 0:\n        return\n    reveal()\nsave()",
    "an early return of a name": (
        "def save(rank):\n    main = rank == 0\n    if not main:\n        return\n    reveal()\nsave(dist.get_rank())"
    ),
    "continue": "for each in (1,):\n    if dist.get_rank() > 0:\n        continue\n    reveal()",
    "and": "args = argparse.ArgumentParser().parse_args()\nif args.save and dist.get_rank() == 0:\n    reveal()",
    "a switch inside": (
        "args = argparse.ArgumentParser().parse_args()\nif dist.get_rank() == 0:\n    if args.save:\n        reveal()"
    ),
    "a conditional expression": "main = True if dist.get_rank() == 0 else False\nif main:\n    reveal()",
    "a match": "match dist.get_rank():\n    case 0:\n        reveal()",
    "an attribute": (
        "class Trainer:\n    def __init__(self):\n        self.main = dist.get_rank() == 0\n"
        "    def save(self):\n        if self.main:\n            reveal()\nTrainer().save()"
    ),
    "a property": (
        "class Trainer:\n    @property\n    def main(self):\n        return dist.get_rank() == 0\n"
        "    def save(self):\n        if self.main:\n            reveal()\nTrainer().save()"
    ),
    "a decorator": (
        "def main_only(f):\n    def inner():\n        if dist.get_rank() == 0:\n            f()\n    return inner\n"
        "@main_only\ndef save():\n    reveal()\nsave()"
    ),
    "a setting that holds the rank": (
        "args = argparse.ArgumentParser().parse_args()\nargs.rank = dist.get_rank()\nif args.rank == 0:\n    reveal()"
    ),
    "a switch or the rank": (
        "args = argparse.ArgumentParser().parse_args()\n"
        "main = not args.distributed or (args.distributed and dist.get_rank() == 0)\n"
        "if args.distributed:\n    dist.init_process_group('nccl')\nif main:\n    reveal()"
    ),
    "a dictionary": "state = {'main': dist.get_rank() == 0}\nif state['main']:\n    reveal()",
}


def guarded(body: str) -> str:
    return IMPORTS + body.replace("reveal()", "torch.save({}, 'a.pt')")


@pytest.mark.parametrize("body", RANK_ZERO.values(), ids=RANK_ZERO)
def test_only_rank_zero_gets_here(paper, body: str):
    (save,) = paper(guarded(body)).events(Save)
    assert only_some_ranks(save)
    assert ranks_in_words(save) == "rank 0 only"


@pytest.mark.parametrize(
    "asked",
    [
        "if not args.shared and dist.get_rank() != 0:\n        return",
        "if not args.shared:\n        if dist.get_rank() != 0:\n            return",
        "if dist.get_rank() != 0:\n        if not args.shared:\n            return",
    ],
)
def test_a_switch_decides_who_gets_on(paper, asked: str):
    body = f"args = argparse.ArgumentParser().parse_args()\ndef save():\n    {asked}\n    reveal()\nsave()"
    (save,) = paper(guarded(body)).events(Save)
    assert only_some_ranks(save)


@pytest.mark.parametrize("rank", ["local_rank", "gpu"])
def test_local_rank_zero_is_a_rank_guard_too(paper, rank: str):
    (save,) = paper(guarded(f"{rank} = int(os.environ['LOCAL_RANK'])\nif {rank} == 0:\n    reveal()")).events(Save)
    assert only_some_ranks(save)
    assert "0" in ranks_in_words(save)


EVERY_RANK = {
    "nothing": "reveal()",
    "a switch": "args = argparse.ArgumentParser().parse_args()\nif args.save:\n    reveal()",
    "both sides": "if dist.get_rank() == 0:\n    print('master')\nelse:\n    print('other')\nreveal()",
    "after a branch": "if dist.get_rank() == 0:\n    x = 1\nreveal()",
    "the world size": "if dist.get_world_size() > 1:\n    reveal()",
    "is_initialized": "dist.init_process_group('nccl')\nif dist.is_initialized():\n    reveal()",
    "any rank at all": "if dist.get_rank() >= 0:\n    reveal()",
    "less than infinity": "if dist.get_rank() < float('inf'):\n    reveal()",
    "less than a number beyond all": "if dist.get_rank() <= 1e999:\n    reveal()",
    "more than minus infinity": "if dist.get_rank() > -float('inf'):\n    reveal()",
    "more than minus a half": "if dist.get_rank() > -0.5:\n    reveal()",
    "unequal to what is no number": "if dist.get_rank() != float('nan'):\n    reveal()",
    "a rank that was checked": "assert dist.get_rank() < dist.get_world_size()\nreveal()",
    "a rank that fails": "if dist.get_rank() > 7:\n    raise ValueError('too many')\nreveal()",
    "a rank that ends the job": "import sys\nif dist.get_rank() > 7:\n    sys.exit(1)\nreveal()",
    "a rank that finds no place": (
        "def index(places, rank):\n    for i, place in enumerate(places):\n"
        "        if place == rank:\n            return i\n    raise ValueError('not there')\n"
        "index(load(), dist.get_rank())\nreveal()"
    ),
    "a return of the others where a switch is off": (
        "args = argparse.ArgumentParser().parse_args()\ndef save():\n    if not args.shared:\n"
        "        if dist.get_rank() != 0:\n            return\n    if args.shared:\n        reveal()\nsave()"
    ),
    "a return to the caller": (
        "def show():\n    if dist.get_rank() != 0:\n        return\n    print('main')\nshow()\nreveal()"
    ),
}


@pytest.mark.parametrize("body", EVERY_RANK.values(), ids=EVERY_RANK)
def test_every_rank_gets_here(paper, body: str):
    found = paper(guarded(body))
    (save,) = found.events(Save)
    assert not only_some_ranks(save)
    assert ranks_in_words(save) == "every rank"
    assert found.program.by_every_rank(save)


READS = """
import json, company
from functools import reduce
from operator import getitem
config = json.load(open('c'))
main = dist.get_rank()
"""
OPTIONS = """
parser = argparse.ArgumentParser()
parser.add_argument('--local_rank', type=int)
args = parser.parse_args()
"""

UNCERTAIN = {
    "put where a path of keys leads": (
        "reduce(getitem, company.keys(), config)[company.key()] = main\nif config['rank'] == 0:\n    reveal()"
    ),
    "put under a key that is computed": "config[company.key()] = main\nif config['rank'] == 0:\n    reveal()",
    "put in the place of a default": (
        "config = {'rank': 0}\nconfig[company.key()] = main\nif config['rank'] == 0:\n    reveal()"
    ),
    "put beside others": ("config[company.key()] = {'a': {'rank': main}}\nif config['b']['rank'] == 0:\n    reveal()"),
    "set under a name that is computed": (
        "class Config:\n    pass\nconfig = Config()\nsetattr(config, company.name(), main)\n"
        "if config.rank == 0:\n    reveal()"
    ),
    "asked by a name that is computed": f"{OPTIONS}if getattr(args, company.name()) == 0:\n    reveal()",
    "one of all options": f"{OPTIONS}if vars(args)[company.name()] == 0:\n    reveal()",
    "options that a table names": (
        "parser = argparse.ArgumentParser()\nparser.add_argument(*company.flags())\nargs = parser.parse_args()\n"
        "given = {name: getattr(args, name) for name in company.names()}\n"
        "for name, value in given.items():\n    config[name] = value\nif config['rank'] == 0:\n    reveal()"
    ),
    "kept by code that was not read": "config.merge(main)\nif config.rank:\n    reveal()",
    "what code that was not read makes of it": "first = company.first(main)\nif first:\n    reveal()",
}


@pytest.mark.parametrize("body", UNCERTAIN.values(), ids=UNCERTAIN)
def test_a_test_that_may_be_of_the_rank_lets_neither_every_rank_pass_nor_some(paper, body: str):
    found = paper(guarded(READS + body))
    (save,) = found.events(Save)
    assert save.condition.passed_by is PassedBy.UNCERTAIN
    assert not found.program.by_every_rank(save)
    assert not save.rank_guards


KNOWN_APART = {
    "put under a key": "config['rank'] = main\nif config['rank'] == 0:\n    reveal()",
    "merged in": "config.update({'rank': main})\nif config['rank'] == 0:\n    reveal()",
    "merged in by name": "config.update(rank=main)\nif config['rank'] == 0:\n    reveal()",
}


@pytest.mark.parametrize("body", KNOWN_APART.values(), ids=KNOWN_APART)
def test_an_entry_that_was_put_under_its_name_is_the_rank(paper, body: str):
    (save,) = paper(guarded(READS + body)).events(Save)
    assert save.condition.passed_by is PassedBy.SOME_RANKS
    assert ranks_in_words(save) == "rank 0 only"


BESIDE_THE_RANK = {
    "another entry": "config['rank'] = main\nif config['save']:\n    reveal()",
    "another dictionary": (
        "other = json.load(open('d'))\nother[company.key()] = main\nif config['save']:\n    reveal()"
    ),
    "what was put there is no rank": "config[company.key()] = 3\nif config['save']:\n    reveal()",
    "an option by its name": f"{OPTIONS}config.update(vars(args))\nif config['save']:\n    reveal()",
}


@pytest.mark.parametrize("body", BESIDE_THE_RANK.values(), ids=BESIDE_THE_RANK)
def test_a_setting_that_is_surely_not_the_rank_lets_every_rank_pass(paper, body: str):
    found = paper(guarded(READS + body))
    (save,) = found.events(Save)
    assert save.condition.passed_by is PassedBy.EVERY_RANK
    assert found.program.by_every_rank(save)


NO_RANK = {
    "equal to infinity": "if dist.get_rank() == float('inf'):\n    reveal()",
    "more than infinity": "if dist.get_rank() >= 1e999:\n    reveal()",
    "less than minus infinity": "if dist.get_rank() < -float('inf'):\n    reveal()",
    "equal to what is no number": "if dist.get_rank() == float('nan'):\n    reveal()",
    "less than what is no number": "if dist.get_rank() < float('nan'):\n    reveal()",
    "not less than what is no number": "if dist.get_rank() >= float('nan'):\n    reveal()",
    "equal to a fraction": "if dist.get_rank() == 0.5:\n    reveal()",
    "a text with two signs": "if os.environ['RANK'] == '--5':\n    reveal()",
    "a digit that counts nothing": "if os.environ['RANK'] == '²':\n    reveal()",
    "more digits than Python reads": f"if os.environ['RANK'] == '{'9' * 5000}':\n    reveal()",
    "a text that no launcher sets": "if os.environ['RANK'] == '00':\n    reveal()",
}


@pytest.mark.parametrize("body", NO_RANK.values(), ids=NO_RANK)
def test_no_rank_gets_here(paper, body: str):
    assert not paper(guarded(body)).events(Save)


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("rank < 1.5", "ranks below 2 only"),
        ("rank <= 1.5", "ranks below 2 only"),
        ("rank < 2", "ranks below 2 only"),
        ("rank < 2.0", "ranks below 2 only"),
        ("1.5 > rank", "ranks below 2 only"),
        ("rank <= 1", "ranks below 2 only"),
        ("rank > 0.5", "all ranks but rank 0"),
        ("rank >= 0.5", "all ranks but rank 0"),
        ("rank == 1.0", "rank 1 only"),
    ],
)
def test_a_fraction_lies_between_two_ranks(paper, test: str, expected: str):
    (save,) = paper(guarded(f"rank = dist.get_rank()\nif {test}:\n    reveal()")).events(Save)
    assert ranks_in_words(save) == expected


def test_the_other_ranks_are_told_too(paper):
    (save,) = paper(guarded("if dist.get_rank() != 0:\n    reveal()")).events(Save)
    assert ranks_in_words(save) == "all ranks but rank 0"


def test_a_quiet_end_of_one_rank_leaves_the_others(paper):
    (save,) = paper(guarded("import sys\nif dist.get_rank() != 0:\n    sys.exit(0)\nreveal()")).events(Save)
    assert ranks_in_words(save) == "rank 0 only"


def test_both_sides_of_a_rank_exclude_each_other(paper):
    found = paper(guarded("if dist.get_rank() == 0:\n    reveal()\nelse:\n    reveal()"))
    first, second = found.events(Save)
    assert first.condition.excludes(second.condition)


def test_own_data_is_no_rank_but_differs(paper):
    found = paper(
        """
        import torch
        model = torch.nn.Linear(2, 2)
        loss = model(torch.randn(2, 2)).sum()
        if loss.item() > 1:
            reveal(0)  #: 0
        """
    )
    (shown,) = found.events(Revealed)
    assert shown.condition.divergence & Divergence.LOCAL
    assert not only_some_ranks(shown)


def test_what_a_package_says_that_was_not_read_is_not_believed(paper):
    found = paper(guarded("from company import ranks\nif ranks.is_main():\n    reveal()"))
    (save,) = found.events(Save)
    assert save.condition.divergence & Divergence.UNREAD
    assert not found.program.by_every_rank(save)


def test_the_form_of_an_unknown_batch_is_no_data_of_the_rank(paper):
    found = paper(
        """
        import time, company
        batch = company.read(time.time())
        if batch.max() > 1:
            reveal(0)  #: 0
        if batch.size(0) > 1 or batch.shape[0] > 1:
            reveal(1)  #: 1
        """
    )
    by_data, by_form = found.events(Revealed)
    assert by_data.condition.divergence & Divergence.LOCAL
    assert not by_form.condition.divergence & Divergence.LOCAL


def test_a_factor_that_was_not_read_makes_nothing_the_same_on_all_ranks(paper):
    found = paper(
        """
        import torch, company
        loss = torch.nn.Linear(2, 2)(torch.randn(2, 2)).sum() * company.settings().scale
        if loss.item() > 1:
            reveal(0)  #: 0
        shared = company.agree(loss.item())
        if shared > 1:
            reveal(1)  #: 1
        """
    )
    own, asked = found.events(Revealed)
    assert own.condition.divergence & Divergence.LOCAL
    assert not own.condition.divergence & Divergence.UNREAD
    assert asked.condition.divergence & Divergence.UNREAD


BY_RANK_0 = """
import torch, torch.distributed as dist
names, weights, listed = {}, {}, []
for name, parameter in torch.nn.Linear(2, 2).named_parameters():
    if dist.get_rank() == 0:
        weights[name] = parameter.cpu()
        listed.append(parameter.cpu())
"""

READ = {
    "list": "[each.clone() for each in weights.values()]",
    "dictionary": "{key: each.clone() for key, each in weights.items()}",
    "set": "{each.clone() for each in listed}",
    "generator": "sum(each.sum() for each in weights.values())",
    "nested": "[part.clone() for each in listed for part in each.chunk(2)]",
    "filter": "[each for each in listed if each.mean() > 0]",
    "conditional": "[each.clone() if each is not None else 0 for each in listed]",
    "subscript": "[each[0] for each in listed]",
    "attribute": "[each.data for each in listed]",
    "walrus": "[new for each in listed if (new := each.clone()) is not None]",
    "lambda": "list(map(lambda each: each.clone(), listed))",
    "key": "sorted(listed, key=lambda each: each.norm())",
    "function": "def made(each):\n    return each.clone()\n[made(each) for each in listed]",
    "finally": "try:\n    [each.clone() for each in listed]\nfinally:\n    listed.clear()",
    "with": "with torch.no_grad():\n    [each.clone() for each in listed]",
}


@pytest.mark.parametrize("read", READ.values(), ids=READ)
def test_what_rank_0_alone_has_collected_keeps_nobody_else_from_getting_on(read, paper):
    paper(f"{BY_RANK_0}{read}\nreveal()  #: always\n")


def test_what_the_others_hold_is_not_forgotten(paper):
    paper(
        """
        import glob
        import torch.distributed as dist
        seen, calls = 0, {}
        def one():
            global seen
            seen = 1
        def other():
            global seen
            seen = 2
        for name in glob.glob("*"):
            if dist.get_rank() == 0:
                calls[name] = one if name == "a" else other
        [call() for call in calls.values()]
        if dist.get_rank() != 0:
            reveal(seen)  #: 0
        """
    )


def test_whoever_does_not_raise_gets_on_and_the_job_of_the_others_has_ended(paper):
    paper(
        """
        import torch.distributed as dist
        def one(): return 1
        def other(): raise ValueError
        (one if dist.get_rank() == 0 else other)()
        reveal()  #: always
        """
    )


def test_of_items_that_may_be_none_none_ends_the_program(paper):
    paper(
        """
        import glob
        def load(path): raise NotImplementedError
        found = [load(path) for path in glob.glob("*")]
        reveal()  #: always
        sure = [load(path) for path in ("a", "b")]
        reveal()  #: never
        """
    )


@pytest.mark.parametrize(
    ("default", "test", "shown"),
    [
        ("default=-1", "args.local_rank is not None", "True"),
        ("default=-1", "args.local_rank == -1", "args.local_rank == -1"),
        ("default=None", "args.local_rank == -1", "False"),
        ("default=0", "args.local_rank >= 0", "True"),
        ("default=0", "args.local_rank != -1", "True"),
        ("default=None", "args.local_rank is None", "args.local_rank is None"),
        ("required=True", "args.local_rank is None", "args.local_rank is None"),
        ("default=start", "args.local_rank is None", "args.local_rank is None"),
    ],
)
def test_a_rank_that_nobody_passes_is_its_default(paper, default: str, test: str, shown: str):
    paper(
        f"""
        import argparse
        import torch.distributed as dist
        from elsewhere import start
        parser = argparse.ArgumentParser()
        parser.add_argument("--local_rank", type=int, {default})
        args = parser.parse_args()
        dist.init_process_group("nccl")
        reveal({test})  #: {shown}
        """
    )


def test_each_round_has_a_list_of_its_own(paper):
    paper(
        """
        import torch
        import torch.distributed as dist
        dist.init_process_group("nccl")
        groups = [[0]]
        for rank in range(1, dist.get_world_size()):
            if torch.rand(1) > 0.5:
                groups.append([])
            groups[-1].append(rank)
        own = None
        for ranks in groups:
            group = dist.new_group(ranks)
            if dist.get_rank() in ranks:
                assert own is None
                own = group
        assert own is not None
        reveal(len(groups))  #: unknown
        """
    )
