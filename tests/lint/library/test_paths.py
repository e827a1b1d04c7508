"""Paths keep what tells the ranks apart, however they are written."""

import pytest

from gpudoctor.lint.events.files import Save
from gpudoctor.lint.flow.condition import Divergence

BEGIN = """
import argparse, os, pathlib, torch, torch.distributed as dist
from pathlib import Path
dist.init_process_group("nccl")
rank, root = dist.get_rank(), Path("out")
parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path)
parser.add_argument("--pattern")
args = parser.parse_args()
"""

OF_THE_RANK = [
    'root / f"{rank}"',
    'root.joinpath("logs" + str(rank))',
    'root.joinpath(*["logs", str(rank)])',
    'root.joinpath("a").joinpath(f"{rank}")',
    'root.with_name(f"a{rank}")',
    'root.with_stem(f"a{rank}")',
    'root.with_suffix(f".{rank}")',
    'Path("a", str(rank)).resolve()',
    'Path(*["a", str(rank)])',
    'Path(f"a/{rank}/b").parent',
    'Path(f"a/{rank}/b").parents[0]',
    'Path(f"a/{rank}").name',
    'Path(f"a/{rank}").with_suffix(".pt")',
    'Path.cwd().joinpath(f"{rank}")',
    'Path(__file__).parent.joinpath(f"{rank}")',
    'pathlib.PurePosixPath("a", str(rank)).as_posix()',
    'os.fspath(Path(f"a/{rank}"))',
    'os.path.join(root, str(rank))',
    'os.path.normpath(f"a/{rank}")',
    'os.path.splitext(f"a/{rank}")[0]',
    '"a/%d" % rank',
    '"a/%s" % (rank,)',
    '"a/%(rank)s" % {"rank": rank}',
    '"a/%(rank)s" % dict(rank=rank)',
    '"a/{}".format(rank)',
    '"a/XX".replace("XX", str(rank))',
    'str(root).replace("XX", str(rank))',
    '"_".join(["a", str(rank)])',
    'os.sep.join(["a", str(rank)])',
    '"a" + repr(rank)',
    '"a" + format(rank, "03d")',
    '"a" + str(rank).zfill(3)',
    'args.out.joinpath(str(rank))',
    'args.pattern.format(rank=rank)',
]  # fmt: skip

OF_ALL = [
    'os.path.split(os.path.realpath(__file__))[1].split(".")[0]',
    'os.path.basename(__file__)',
    'root.joinpath("logs", args.pattern)',
    'root.with_name("other")',
    'root.parent / "x"',
    'str(root).replace("out", "in")',
    '"a/%(name)s" % {"name": args.pattern}',
    'os.sep.join(["a", "b"])',
    'Path() / "a"',
    'os.path.join(os.path.dirname(Path()), "a")',
    'os.path.join(os.path.split(pathlib.PurePath(*[]))[0], "a")',
    'Path().parent / "a"',
]  # fmt: skip


@pytest.mark.parametrize("path", OF_THE_RANK)
def test_the_rank_stays_in_a_path(path, paper):
    assert all(each.divergence & Divergence.RANK for each in _saved_to(path, paper))


@pytest.mark.parametrize("path", OF_ALL)
def test_what_all_share_is_no_path_of_one_rank(path, paper):
    assert not any(each.divergence & Divergence.RANK for each in _saved_to(path, paper))


def test_the_name_of_the_own_file_is_known(paper):
    paper("""
        import os
        reveal(os.path.split(os.path.realpath(__file__))[1].split(".")[0])  #: 'train'
        reveal(os.path.basename(__file__))  #: 'train.py'
        """)


def _saved_to(path, paper):
    found = paper(f"{BEGIN}torch.save({{}}, {path})\n").event(Save).path
    assert found
    return found
