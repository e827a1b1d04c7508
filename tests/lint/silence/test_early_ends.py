"""Programs that end in an error, or by a statement, on all paths or on the way to their training."""

from textwrap import dedent

from tests.support.told import ANOTHER_WAY, CLEAN, RAISES, TRAINING, Tell

ENDING_RANKS = """
    import torch.multiprocessing as mp

    def worker(rank, name):
        if name not in ("resnet", "vgg"):
            raise ValueError(name)
        from engines import trainer
        trainer().train()

    if __name__ == "__main__":
        mp.spawn(worker, args=("vit",), nprocs=4)
    """


def test_an_error_on_all_paths(tell: Tell) -> None:
    told = tell("train.py", train=RAISES, engine=TRAINING)
    (program,) = told.document["programs"]
    assert program["followed"] == "not"
    assert program["ended_by"]["line"] == 12
    assert program["ended_by"]["reason"].startswith("raise ValueError(")
    assert told.lines[0].startswith(
        "train.py: every path that was followed ends at line 12, before the training: `raise"
    )


UNDECLARED = """
    import argparse, torch
    from torch import nn
    from engine import train

    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    print(args.momentum)
    model = nn.Linear(8, 1)
    train(model, torch.optim.SGD(model.parameters(), lr=args.lr), torch.randn(4, 8))
    """


def test_an_option_that_nobody_declares(tell: Tell) -> None:
    told = tell("train.py", train=UNDECLARED, engine=TRAINING)
    (program,) = told.document["programs"]
    assert program["ended_by"]["reason"] == "AttributeError: `args.momentum` is declared by no option"
    assert told.lines[0].startswith(
        "train.py: every path that was followed ends at line 9, in AttributeError: `args.momentum` is declared by no "
        "option: "
    )
    assert told.lines[1] == "  help: fix that first: what comes after it was not looked at"


ONE_MODE_ENDS = """
    import argparse, torch
    from torch import nn
    from engine import train

    def fit(args):
        print(args.momentum)
        model = nn.Linear(8, 1)
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(4, 8))

    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="train")
    args = parser.parse_args()
    if "train" in args.mode:
        fit(args)
    """


def test_an_error_on_the_way_to_the_training_where_another_mode_lives_on(tell: Tell) -> None:
    told = tell("train.py", train=ONE_MODE_ENDS, engine=TRAINING)
    assert told.programs == {"train.py": "not"}
    assert told.lines[0].startswith(
        "train.py: the way to the training ends at line 7, in AttributeError: `args.momentum` is declared by no "
        "option: "
    )
    assert told.lines[1] == "  help: fix that first: what comes after it was not looked at"


def test_a_statement_that_ends_the_way_to_the_training(tell: Tell) -> None:
    raising = ONE_MODE_ENDS.replace("print(args.momentum)", 'raise RuntimeError("not yet")')
    told = tell("train.py", train=raising, engine=TRAINING)
    assert told.lines[0].startswith(
        "train.py: the way to the training ends at line 7, in `raise RuntimeError('not yet')`: "
    )


def test_an_error_of_a_mode_that_does_not_train_is_no_reason(tell: Tell) -> None:
    """`show` ends in an error, and has nothing to do with the training, which nobody calls."""
    told = tell("train.py", train=ANOTHER_WAY.replace("def main():", SHOWING), engine=TRAINING)
    assert "ends at" not in told.lines[0]


SHOWING = """
    def show():
        raise RuntimeError("not yet")

    if len(sys.argv) > 7:
        show()

    def main():
    """


def test_ranks_that_end_before_they_come_to_any_training(tell: Tell) -> None:
    told = tell("train.py", train=ENDING_RANKS)
    assert told.programs == {"train.py": "not"}
    assert told.lines[0].startswith(
        "train.py: every path that was followed ends at line 6, before the training: `raise"
    )


def test_a_program_that_ends_with_its_status_has_not_failed(tell: Tell) -> None:
    told = tell(
        "train.py", train=CLEAN.rstrip() + "\n    import sys, other\n    sys.exit(other.status())\n", engine=TRAINING
    )
    assert told.document["programs"][0]["ended_by"] is None
    assert told.programs == {"train.py": "whole"}


def test_an_error_on_all_paths_behind_the_training_and_before_any(tell: Tell) -> None:
    behind = dedent(CLEAN) + "def size(kind):\n    if kind == 'b':\n        return 1\n    raise ValueError(kind)\n"
    behind += "size('a')\nprint(model)\n"
    told = tell("train.py", train=behind, engine=TRAINING)
    assert told.programs == {"train.py": "partly"}
    assert told.lines[0].startswith("train.py: every path that was followed ends at line 10, after the first training")
    before = "import torch\nfrom company import loop\ndata = torch.utils.data.DataLoader(loop.data(), batch_size=8)\n"
    before += "def size(kind):\n    if kind == 'b':\n        return 1\n    raise ValueError(kind)\n"
    before += "loop.run(size('a'), data)\n"
    told = tell("start.py", start=before)
    assert told.lines[0].startswith(
        "start.py: every path that was followed ends at line 7, before the training: `raise"
    )
