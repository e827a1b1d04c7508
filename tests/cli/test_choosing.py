"""`--baseline`, `--since` and `--add-ignores`: what is known, old or silenced is not reported."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor.triage import baseline

pytestmark = pytest.mark.usefixtures("on_paper")

Lint = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]

MAIN = "import torch\ndef main():\n    seed(one)\n    seed(two)\nmain()\n"


# What a repository's settings start, and the command of git that starts it.
TRAPS = {
    "filter": (("filter.x.clean", "touch MARK; cat"), ("diff", "HEAD")),
    "filter that stays": (("filter.x.process", "touch MARK"), ("diff", "HEAD")),
    "text of a diff": (("diff.x.textconv", "touch MARK; cat"), ("diff", "HEAD")),
    "diff of an attribute": (("diff.x.command", "touch MARK"), ("diff", "HEAD")),
    "diff": (("diff.external", "touch MARK"), ("diff", "HEAD")),
    "monitor": (("core.fsmonitor", "touch MARK; false"), ("status",)),
    "alias": (("alias.trap", "!touch MARK"), ("trap",)),
    "hook": (("core.hooksPath", "HOOKS"), ("update-index", "--refresh")),
}


def git(*arguments: str) -> str:
    names = {f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **names, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    return subprocess.run(
        ["git", *arguments], env=environment, check=True, capture_output=True, text=True, timeout=600
    ).stdout


@pytest.fixture
def concise(lint: Lint) -> Lint:
    return lambda *arguments: lint("--no-cache", "--output-format", "concise", "--select", "GPU950", *arguments)


class TestBaseline:
    def test_the_first_run_records_and_later_ones_hide(self, write: Write, concise: Lint) -> None:
        write(train=MAIN)
        code, out, err = concise("--baseline", "known.json")
        assert (code, out) == (0, "")
        assert "known.json: 2 findings recorded, hidden from now on" in err
        recorded = json.loads(Path("known.json").read_text(encoding="utf-8"))
        assert [(each["code"], each["path"]) for each in recorded["findings"]] == [("GPU950", "train.py")] * 2
        code, out, err = concise("--baseline", "known.json")
        assert (code, out) == (0, "")
        assert "2 findings known, not shown" in err
        assert err.endswith("No new mistake found in 1 file.\n")

    def test_moved_lines_stay_known_and_new_ones_are_shown(self, write: Write, concise: Lint) -> None:
        write(train=MAIN)
        concise("--baseline", "known.json")
        write(
            train="import torch\nimport os\n\n"
            + MAIN.removeprefix("import torch\n").replace("main()\n", "seed(three)\n")
        )
        code, out, _ = concise("--baseline", "known.json")
        assert code == 1
        assert out.count("GPU950") == 1
        assert "`three`" in out

    def test_what_is_gone_is_told_and_forgotten(self, write: Write, concise: Lint) -> None:
        write(train=MAIN)
        concise("--baseline", "known.json")
        write(train=MAIN.replace("    seed(two)\n", ""))
        assert "1 finding gone; `--update-baseline` forgets them" in concise("--baseline", "known.json")[2]
        assert concise("--baseline", "known.json", "--update-baseline")[0] == 0
        assert len(json.loads(Path("known.json").read_text(encoding="utf-8"))["findings"]) == 1

    def test_an_update_keeps_what_this_run_did_not_look_at(self, write: Write, concise: Lint) -> None:
        write(train=MAIN, other="import torch\nseed(four)\n")
        concise("--baseline", "known.json")
        write(train=MAIN.replace("    seed(two)\n", ""))
        concise("--baseline", "known.json", "--update-baseline", "train.py")
        rows = json.loads(Path("known.json").read_text(encoding="utf-8"))["findings"]
        assert sorted(row["path"] for row in rows) == ["other.py", "train.py"]

    def test_it_holds_in_another_folder(self, write: Write, concise: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = write(part__train=MAIN)
        concise("--baseline", "known.json")
        monkeypatch.chdir(folder / "part")
        assert concise("--baseline", "../known.json", "train.py")[:2] == (0, "")

    def test_it_is_not_written_where_something_failed(self, write: Write, concise: Lint) -> None:
        write(train=MAIN)
        code, out, err = concise("--baseline", "known.json", "train.py", "missing.py")
        assert code == 2
        assert "GPU950" in out
        assert "known.json: not written" in err
        assert not Path("known.json").exists()

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            pytest.param("{", "this is not JSON", id="broken"),
            pytest.param('{"findings": []}', "this is not a baseline of gpudoctor", id="another file"),
            pytest.param('{"gpudoctor-baseline": 9, "findings": []}', "of another version", id="version"),
            pytest.param('{"gpudoctor-baseline": 1, "findings": [3]}', "is damaged", id="rows"),
        ],
    )
    def test_a_bad_file_is_refused_before_the_work(
        self, write: Write, concise: Lint, text: str, complaint: str
    ) -> None:
        write(train=MAIN)
        Path("known.json").write_text(text, encoding="utf-8")
        code, out, err = concise("--baseline", "known.json")
        assert (code, out) == (2, "")
        assert complaint in err

    def test_an_update_overwrites_no_other_file(self, write: Write, concise: Lint) -> None:
        write(train=MAIN)
        Path("package.json").write_text("{}", encoding="utf-8")
        assert concise("--baseline", "package.json", "--update-baseline")[0] == 2
        assert Path("package.json").read_text(encoding="utf-8") == "{}"

    def test_none_is_written_that_could_not_be_read(
        self, write: Write, concise: Lint, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(train=MAIN)
        monkeypatch.setattr(baseline, "MAX_BYTES", 100)
        code, _, err = concise("--baseline", "known.json")
        assert code == 2
        assert "2 findings are more than a baseline holds" in err
        assert not Path("known.json").exists()


class TestSince:
    @pytest.fixture
    def repository(self, write: Write) -> None:
        write(train=MAIN, other="import torch\nseed(four)\n")
        git("init", "-q", "-b", "main", ".")
        git("add", ".")
        git("commit", "-qm", "first")

    @pytest.mark.usefixtures("repository")
    def test_only_changed_lines_and_new_files_count(self, write: Write, concise: Lint) -> None:
        assert concise("--since", "HEAD") == (0, "", "No new mistake found in 2 files.\n")
        write(train=MAIN.replace("seed(two)", "seed(2)"), new="import torch\nseed(five)\n")
        code, out, _ = concise("--since", "HEAD")
        assert code == 1
        assert sorted(line.partition(" ")[0] for line in out.splitlines()) == ["new.py:2:1:", "train.py:4:5:"]

    @pytest.mark.usefixtures("repository")
    def test_a_branch_is_compared_with_where_it_began(self, write: Write, concise: Lint) -> None:
        git("checkout", "-qb", "work")
        write(train=MAIN.replace("seed(two)", "seed(2)"))
        git("commit", "-qam", "second")
        git("checkout", "-q", "main")
        write(other="import torch\nseed(4)\n")
        git("commit", "-qam", "third")
        git("checkout", "-q", "work")
        assert [line.partition(":")[0] for line in concise("--since", "main")[1].splitlines()] == ["train.py"]

    @pytest.mark.usefixtures("repository")
    def test_lines_around_a_gap_count(self, write: Write, concise: Lint) -> None:
        write(train=MAIN.replace("    seed(one)\n", ""))
        assert "train.py:3:5" in concise("--since", "HEAD")[1]

    @pytest.mark.usefixtures("repository")
    def test_names_that_git_quotes(self, write: Write, concise: Lint) -> None:
        Path("größe 1.py").write_text("import torch\nseed(six)\n", encoding="utf-8")
        git("add", ".")
        git("commit", "-qm", "second")
        Path("größe 1.py").write_text("import torch\nseed(7)\n", encoding="utf-8")
        assert concise("--since", "HEAD")[1].startswith("größe 1.py:2:1:")

    @pytest.mark.skipif(os.name == "nt", reason="the traps are made of shell")
    @pytest.mark.parametrize("trap", TRAPS)
    @pytest.mark.parametrize("included", [False, True], ids=["", "included"])
    @pytest.mark.usefixtures("repository")
    def test_nothing_is_started_that_a_repository_names(
        self, write: Write, concise: Lint, tmp_path: Path, trap: str, included: bool
    ) -> None:
        mark, hooks = tmp_path / "mark", tmp_path / "hooks"
        hooks.mkdir()
        (hooks / "post-index-change").write_text(f"#!/bin/sh\ntouch {mark}\n")
        (hooks / "post-index-change").chmod(0o755)
        (key, value), springs = TRAPS[trap]
        to = ("--file", ".git/more") if included else ()
        if included:
            git("config", "include.path", "more")
        git("config", *to, key, value.replace("MARK", str(mark)).replace("HOOKS", str(hooks)))
        Path(".git/info/attributes").write_text("*.py filter=x diff=x\n")
        folder = write(train=MAIN.replace("seed(two)", "seed(2)"))
        os.utime(folder / "other.py", (1, 1))
        assert "train.py:4:5" in concise("--since", "HEAD")[1]
        assert not mark.exists()
        subprocess.run(["git", *springs], capture_output=True, timeout=600, check=False)
        assert mark.exists(), "the trap is none"

    @pytest.mark.skipif(os.name == "nt", reason="the traps are made of shell")
    @pytest.mark.parametrize("how", ["ssh", "ext"])
    @pytest.mark.usefixtures("repository")
    def test_what_a_partial_clone_lacks_is_not_fetched(
        self, write: Write, concise: Lint, tmp_path: Path, how: str
    ) -> None:
        mark = tmp_path / "mark"
        write(train=MAIN.replace("seed(two)", "seed(2)"))
        for key, value in {
            "core.repositoryFormatVersion": "1",
            "extensions.partialClone": "origin",
            "remote.origin.promisor": "true",
            "remote.origin.url": "ssh://nowhere/x" if how == "ssh" else f"ext::touch {mark}",
            "core.sshCommand": f"touch {mark};",
            "protocol.ext.allow": "always",
        }.items():
            git("config", key, value)
        blob = subprocess.run(["git", "rev-parse", "HEAD:train.py"], capture_output=True, text=True, check=True).stdout
        Path(".git/objects", blob[:2], blob[2:].strip()).unlink()
        code, _, err = concise("--since", "HEAD")
        assert not mark.exists()
        assert code == 2
        assert "this clone lacks files of that time" in err
        subprocess.run(["git", "diff", "HEAD"], capture_output=True, timeout=600, check=False)
        assert mark.exists(), "the trap is none"

    @pytest.mark.usefixtures("repository")
    def test_other_line_ends_are_no_change(self, concise: Lint) -> None:
        Path("train.py").write_bytes(MAIN.replace("seed(two)", "seed(2)").replace("\n", "\r\n").encode())
        assert [line.partition(" ")[0] for line in concise("--since", "HEAD")[1].splitlines()] == ["train.py:4:5:"]

    @pytest.mark.usefixtures("repository")
    def test_an_unknown_revision(self, concise: Lint) -> None:
        code, out, err = concise("--since", "nowhere")
        assert (code, out) == (2, "")
        assert "--since nowhere: git knows no such revision here" in err

    @pytest.mark.usefixtures("repository")
    def test_a_revision_is_no_option(self, concise: Lint) -> None:
        assert concise("--since=--output=stolen")[0] == 2
        assert not Path("stolen").exists()

    def test_no_repository(self, write: Write, concise: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = write(train=MAIN)
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(folder.parent))
        code, _, err = concise("--since", "HEAD")
        assert code == 2
        assert "this folder belongs to no git repository" in err

    def test_without_git(self, write: Write, concise: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
        write(train=MAIN)
        monkeypatch.setenv("PATH", "")
        code, _, err = concise("--since", "HEAD")
        assert code == 2
        assert "git is not installed" in err


class TestAddIgnores:
    def test_all_that_is_found_is_silenced(self, write: Write, concise: Lint) -> None:
        write(train=MAIN)
        code, out, err = concise("--add-ignores")
        assert (code, out) == (0, "")
        assert "train.py: silenced GPU950 on 2 lines" in err
        assert "    seed(one)  # gpudoctor: ignore[GPU950]\n" in Path("train.py").read_text(encoding="utf-8")
        assert concise()[:2] == (0, "")

    def test_bytes_that_are_not_touched_stay(self, write: Write, concise: Lint) -> None:
        write()
        data = "# coding: latin-1\r\nimport torch\r\nname = 'größe'\r\nseed(one)\t\r\n".encode("latin-1")
        Path("train.py").write_bytes(data)
        Path("train.py").chmod(0o750)
        assert concise("--add-ignores")[0] == 0
        assert Path("train.py").read_bytes() == data.replace(b"\t", b"  # gpudoctor: ignore[GPU950]")
        assert Path("train.py").stat().st_mode & 0o777 == 0o750

    def test_a_comment_that_is_there_takes_one_more(self, write: Write, concise: Lint) -> None:
        write(train="import torch\nseed(one)  # a note  # gpudoctor: ignore[GPU301]\n")
        concise("--add-ignores")
        text = Path("train.py").read_text(encoding="utf-8")
        assert text == "import torch\nseed(one)  # a note  # gpudoctor: ignore[GPU301, GPU950]\n"

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            pytest.param("x = [seed(one), '''\n''']\n", "x = [seed(one), '''\n''']  # C\n", id="in a string"),
            pytest.param("x = seed(one) + \\\n    1\n", "x = seed(one) + \\\n    1  # C\n", id="before a backslash"),
            pytest.param("x = f(\n    seed(one),\n)\n", "x = f(\n    seed(one),  # C\n)\n", id="in a call"),
            pytest.param("seed(one)", "seed(one)  # C", id="at the end of the file"),
        ],
    )
    def test_where_the_comment_has_a_place(self, write: Write, concise: Lint, before: str, after: str) -> None:
        write(train=f"import torch\n{before}")
        assert concise("--add-ignores")[:2] == (0, "")
        text = Path("train.py").read_text(encoding="utf-8")
        assert text == f"import torch\n{after}".replace("# C", "# gpudoctor: ignore[GPU950]")

    def test_a_diff_writes_nothing(self, write: Write, concise: Lint) -> None:
        write(train=MAIN)
        code, out, err = concise("--add-ignores", "--diff")
        assert code == 0
        assert "+    seed(one)  # gpudoctor: ignore[GPU950]\n" in out
        assert "would silence" in err
        assert Path("train.py").read_text(encoding="utf-8") == MAIN

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anything")
    def test_a_file_that_may_not_be_written_is_told(self, write: Write, concise: Lint) -> None:
        write(train=MAIN)
        Path("train.py").chmod(0o444)
        code, out, err = concise("--add-ignores")
        assert code == 2
        assert "it may not be written" in err
        assert "GPU950" in out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(("--update-baseline",), "give `--baseline FILE`", id="update of nothing"),
        pytest.param(("--fix", "--since", "HEAD"), "--since chooses among findings", id="fix and since"),
        pytest.param(("--diff", "--baseline", "x.json"), "--baseline chooses", id="diff and baseline"),
        pytest.param(("--fix", "--add-ignores"), "leave one out", id="fix and ignores"),
        pytest.param(("--add-ignores", "-"), "standard input", id="ignores of stdin"),
        pytest.param(("--baseline", "no/such/x.json"), "there is no folder", id="no folder"),
    ],
)
def test_what_does_not_go_together(write: Write, concise: Lint, arguments: tuple[str, ...], complaint: str) -> None:
    write(train=MAIN)
    code, out, err = concise(*arguments)
    assert (code, out) == (2, "")
    assert complaint in err


def test_a_rule_that_only_a_run_can_show_cannot_be_asked_alone(write: Write, lint: Lint) -> None:
    write(train=MAIN)
    code, out, err = lint("--select", "GPU809")
    assert (code, out) == (2, "")
    assert "GPU809 is seen in a run only" in err
