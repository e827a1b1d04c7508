"""What git ignores is left out where folders are walked, as git itself would say."""

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpudoctor.lint.discovery.walk import collect

WITHOUT_USER = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}


@pytest.fixture(autouse=True)
def _in_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".git").mkdir()


def lay(*files: str, **ignored: str) -> None:
    """Empty files; of what is ignored `above` stands at the top and others in the folder of their name."""
    for file in files:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).touch()
    for folder, lines in ignored.items():
        (Path("." if folder == "above" else folder) / ".gitignore").write_text(lines)


def taken(*paths: str, respect_gitignore: bool = True) -> list[str]:
    found, problems = collect(list(paths) or ["."], respect_gitignore=respect_gitignore)
    assert not problems
    return [os.path.normpath(path) for path in found.values()]


def test_patterns_and_negations() -> None:
    lay("a.py", "gen_a.py", "gen_keep.py", "out/b.py", "sub/out/c.py", above="gen_*.py\n!gen_keep.py\n/out/\n# a.py\n")
    assert taken() == ["a.py", "gen_keep.py", "sub/out/c.py"]
    assert taken(respect_gitignore=False) == ["a.py", "gen_a.py", "gen_keep.py", "out/b.py", "sub/out/c.py"]


def test_the_nearest_file_decides() -> None:
    lay("a.py", "b.py", "sub/a.py", "sub/b.py", "sub/in/a.py", above="a.py\n", sub="!a.py\n/b.py\n")
    assert taken() == ["b.py", "sub/a.py", "sub/in/a.py"]


def test_what_lies_in_an_ignored_folder_is_gone() -> None:
    lay("sub/a.py", "sub/keep.py", above="sub/\n!sub/keep.py\n")
    assert taken() == []


def test_files_above_the_folder_that_is_walked() -> None:
    lay("sub/a.py", "sub/b.py", "sub/in/a.py", "sub/in/c.py", above="/sub/a.py\nsub/in/a.py\n", sub="b.py\n")
    assert taken("sub") == ["sub/in/c.py"]
    assert taken("sub/in") == ["sub/in/c.py"]
    assert taken("sub/../sub/") == ["sub/in/c.py"]


def test_who_names_a_file_or_an_ignored_folder_means_it() -> None:
    lay("a.py", "out/b.py", above="a.py\nout/\n")
    assert taken("a.py", "out") == ["a.py", "out/b.py"]
    assert taken(".") == []


def test_a_list_of_ones_own() -> None:
    lay("a.py", "b.py")
    Path(".git/info").mkdir()
    Path(".git/info/exclude").write_text("b.py\n")
    assert taken() == ["a.py"]
    lay(above="!b.py\n")
    assert taken() == ["a.py", "b.py"]


def test_only_inside_of_a_repository() -> None:
    lay("a.py", "b.py", "clone/a.py", "clone/b.py", above="a.py\n", clone="b.py\n")
    Path("clone/.git").write_text("gitdir: ../.git/modules/clone\n")
    assert taken() == ["b.py", "clone/a.py"]
    assert taken("clone") == ["clone/a.py"]
    Path(".git").rmdir()
    assert taken() == ["a.py", "b.py", "clone/a.py"]


def test_pathspec_is_loaded_only_where_a_line_comes_near(tmp_path: Path) -> None:
    lay("a.py", "sub/b.py", above="__pycache__/\n*.py[cod]\n*.so\n/out\ndata/*\n!keep\n")
    program = (
        "import sys\nfrom gpudoctor.lint.discovery.walk import collect\n"
        "print(len(collect(['.'])[0]), 'pathspec' in sys.modules)"
    )
    for said in ("2 False", "2 True"):
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert ended.stdout.strip() == said
        lay("out/c.py")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x80\x00\xff\n\\\n!\n[\n[^\n" * 10, id="binary"),
        pytest.param(b"*\n" * 1_000_000, id="large"),
        pytest.param(b"a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b.py\n" * 100, id="stars"),
        pytest.param(b"**/a/**/a/**/a/**/a/**/a/**/b/**/*.py\n" * 100, id="folders"),
        pytest.param(b"a*a*a*b\n**/a*a*b\n" * 100, id="fewer stars"),
        pytest.param(b"\n".join(b"x%d*.py" % number for number in range(20_000)), id="many"),
        pytest.param(b"[" * 100_000, id="brackets"),
    ],
)
def test_hostile_files_do_no_harm(data: bytes) -> None:
    lay(f"{'a' * 200}.py", "a/" * 100 + "a.py", *(f"{'a' * 200}{number}/b.py" for number in range(20)))
    Path(".gitignore").write_bytes(data)
    begun = time.process_time()
    assert len(taken()) == 22
    assert time.process_time() - begun < 5


def test_what_is_no_file() -> None:
    lay("a.py", "sub/a.py", "link/a.py")
    os.mkfifo(".gitignore")
    Path("sub/.gitignore").mkdir()
    Path("elsewhere").write_text("a.py\n")
    Path("link/.gitignore").symlink_to("../elsewhere")
    assert taken() == ["a.py", "link/a.py", "sub/a.py"]


NAMES = ["a", "b.py", "ab.py", "a b.py", "c.ipynb", "lib", "b", "#c.py", "!d.py", "é.py"]
PARTS = ["a", "b", "b.py", "*.py", "a*", "*", "**", "?b.py", "[ab].py", "[!a]*", "[^a]*", "lib", "\\#c.py", "é.py"]


@pytest.mark.skipif(shutil.which("git") is None, reason="asks git itself")
@pytest.mark.parametrize("seed", range(40))
def test_git_says_the_same(seed: int) -> None:
    draw = random.Random(seed)
    Path(".git").rmdir()
    subprocess.run(["git", "init", "-q"], check=True, env=WITHOUT_USER)
    folders = [""] + ["/".join(draw.choices(["a", "b", "lib", "ab"], k=draw.randint(1, 3))) + "/" for _ in range(6)]
    files = {folder + draw.choice(NAMES[1:5] + NAMES[7:]) for folder in folders * 6}
    lay(*files)
    for folder in draw.sample(folders, 3):
        lines = ["!" * draw.randint(0, 1) + _pattern(draw) for _ in range(draw.randint(1, 6))]
        Path(folder, ".gitignore").write_text("\n".join(lines) + "\n")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--others", "--exclude-standard"], capture_output=True, check=True, env=WITHOUT_USER
    )
    wanted = {name for name in os.fsdecode(listed.stdout).split("\0") if name.endswith((".py", ".ipynb"))}
    assert set(taken()) == wanted


# Not `?.py`: what git means by `?` is a byte of `é`.
def _pattern(draw: random.Random) -> str:
    middle = "/".join(draw.choices(PARTS, k=draw.choice([1, 1, 1, 2, 2, 3])))
    return draw.choice(["", "", "/", "**/"]) + middle + draw.choice(["", "", "/", "/**", " "])
