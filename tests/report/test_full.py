"""The format for people, as it is seen on 80 columns."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor import page_address
from gpudoctor.diagnostic import Finding, Location, Related, Severity
from gpudoctor.record import replace
from gpudoctor.report import concise, full
from gpudoctor.report.frame import frame
from gpudoctor.report.report import Report
from gpudoctor.report.summary import summary
from gpudoctor.report.text import Style, cells, folded, wrap, written
from gpudoctor.rule import SOME_PATHS

SOURCE = {
    "train.py": [
        "import torch",
        "",
        "def main():",
        "    dataset = Numbers(1000)",
        "    loader = DataLoader(dataset, shuffle=True)",
        "",
        "    for batch in loader:",
        "        train(model, batch, optimizer, criterion, device, epoch, args.clip, scaler, args.log_every)",
        "\tx = 1",
        "    größe = 計算(模型)",
        "    evil = '\x1b[31m'",
    ],
    "setup.py": ['    dist.init_process_group("nccl")'],
}

FINDING = Finding(
    code="GPU301",
    name="missing-distributed-sampler",
    severity=Severity.ERROR,
    message="Every rank trains on all of `dataset`: `loader` has no `DistributedSampler`, so that an epoch costs "
    "as much as on one GPU.",
    location=Location("train.py", 5, 14, 5, 47),
    remedy="Give the loader `sampler=DistributedSampler(dataset)`, and leave `shuffle=True` out.",
    related=(
        Related("several processes train together from here on", Location("setup.py", 1, 5)),
        Related("the loop reads the loader", Location("train.py", 7, 5)),
    ),
    world="torchrun",
)

FULL = """\
train.py:5:14: error: GPU301 missing-distributed-sampler
  Every rank trains on all of `dataset`: `loader` has no `DistributedSampler`,
  so that an epoch costs as much as on one GPU.
  This happens when torchrun starts one process per GPU.

    4 | dataset = Numbers(1000)
    5 | loader = DataLoader(dataset, shuffle=True)
      |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

  setup.py:1: several processes train together from here on
    1 | dist.init_process_group("nccl")
  line 7: the loop reads the loader
    7 | for batch in loader:
  help: Give the loader `sampler=DistributedSampler(dataset)`, and leave
        `shuffle=True` out.

"""


def lines(at: Location) -> list[str]:
    return SOURCE.get(at.path, [])


def show(finding: Finding, style: Style | None = None) -> str:
    return "".join(f"{line}\n" for line in full.told([finding], lines, style or Style()))


def test_a_finding() -> None:
    assert show(FINDING) == FULL


def test_in_colour_it_says_the_same() -> None:
    text = written(full.told([FINDING], lines, Style(colour=True)))
    assert "\x1b[1;31merror\x1b[0m" in text
    assert re.sub(r"\x1b\[[\d;]*m", "", text) == FULL


def test_the_code_is_a_link_once_the_site_has_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = written(full.told([FINDING], lines, Style(colour=True)))
    assert "]8;;" not in plain
    monkeypatch.setattr(page_address, "SITE", "https://docs.example")
    linked = written(full.told([FINDING], lines, Style(colour=True)))
    address = "https://docs.example/rules/missing-distributed-sampler/"
    code = "\x1b[1mGPU301\x1b[0m"
    assert linked == plain.replace(code, f"\x1b]8;;{address}\x1b\\{code}\x1b]8;;\x1b\\")
    assert "8;;" not in written(full.told([FINDING], lines, Style()))
    assert summary([FINDING], 1).endswith(f"Read more: {address}")


def test_box_characters_only_where_they_can_be_said() -> None:
    assert "    5 │ loader" in show(FINDING, Style(unicode=True))
    assert show(FINDING).isascii()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_it_keeps_within_the_width(width: int) -> None:
    long = replace(FINDING, location=Location("train.py", 8, 9, 8, 100))
    for text in (show(FINDING, Style(width=width)), show(long, Style(width=width))):
        beyond = [line for line in text.splitlines()[1:] if len(line) > width]
        assert not beyond


def test_doubt_and_worlds_are_told() -> None:
    text = show(replace(FINDING, doubt=SOME_PATHS, world="spawn, single"), Style(width=200))
    assert "when the program itself starts one process per GPU and also when one process sees several GPUs." in text
    assert "It happens on some code paths, not on all." in text
    assert "This happens when" not in show(replace(FINDING, world=""))


def test_without_remedy_and_without_source() -> None:
    bare = replace(FINDING, remedy="", related=(), world="", location=Location("gone.py", 3))
    assert show(bare).splitlines()[0] == "gone.py:3:1: error: GPU301 missing-distributed-sampler"
    assert "|" not in show(bare)


class TestFrame:
    def at(self, line: int, column: int, end: int = 0, width: int = 80) -> list[str]:
        place = Location("train.py", line, column, line if end else 0, end)
        return list(frame(place, lines, Style(width=width), mark="error"))

    def test_a_long_line_is_folded_and_ends_behind_the_mark(self) -> None:
        assert self.at(8, 9, 50, width=44) == [
            "    7 | for batch in loader:",
            "    8 |     train(model, batch, optimizer,",
            "      |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
            "      |             criterion,",
            "      |             ^^^^^^^^^^",
            "    9 | x = 1",
        ]

    def test_what_comes_behind_the_mark_is_cut(self) -> None:
        assert self.at(8, 9, 14, width=44)[1:3] == [
            "    8 |     train(model, batch, optimizer...",
            "      |     ^^^^^",
        ]

    def test_a_call_over_several_lines_is_shown_as_a_whole(self) -> None:
        text = ["x = DataLoader(  # a comment", "    dataset,", ")", "y = 1"]
        place = Location("x.py", 1, 5, 3, 2)
        assert list(frame(place, lambda path: text, Style(), mark="error")) == [
            "    1 | x = DataLoader(  # a comment",
            "      |     ^^^^^^^^^^^",
            "    2 |     dataset,",
            "    3 | )",
        ]

    def test_a_line_far_to_the_right_stands_alone(self) -> None:
        text = ["print(template.format(epoch,", f"{' ' * 70}loss.item()))", "x = 1"]
        place = Location("x.py", 2, 71, 2, 82)
        assert list(frame(place, lambda path: text, Style(), mark="error")) == [
            "    2 | loss.item()))",
            "      | ^^^^^^^^^^^",
        ]

    def test_without_an_end_the_rest_of_the_line_is_meant(self) -> None:
        assert self.at(4, 5)[-2] == "      |     ^^^^^^^^^^^^^^^^^^^^^^^"

    def test_behind_the_line(self) -> None:
        assert "".join(self.at(3, 30)).count("^") == 1

    def test_wide_characters(self) -> None:
        marked = self.at(10, 13, 19)
        line = next(text for text in marked if "größe" in text)
        carets = marked[marked.index(line) + 1]
        assert cells(line[: line.index("計")]) == carets.index("^")
        assert carets.count("^") == cells("計算(模型)")

    def test_escapes_do_not_reach_the_terminal(self) -> None:
        assert "\x1b" not in "".join(self.at(11, 5))


class TestText:
    def test_wrapping_keeps_code_in_one_piece(self) -> None:
        assert wrap("write `a = b + c` here", 14) == ["write", "`a = b + c`", "here"]

    def test_code_that_is_too_long_is_cut_all_the_same(self) -> None:
        assert wrap("`a = b + c + d + e`", 12) == ["`a = b + c +", "d + e`"]

    def test_line_breaks_and_indented_code_stay(self) -> None:
        text = "Write this:\n    model = wrap(model, and, more, than, fits)\nand no more."
        assert wrap(text, 20, "  ") == [
            "  Write this:",
            "      model = wrap(model, and, more, than, fits)",
            "  and no more.",
        ]

    def test_folding(self) -> None:
        pieces = list(folded("    call(first, second, third)", 16))
        assert "".join(piece for _, _, piece in pieces) == "    call(first, second, third)"
        assert all(len(indent + piece.rstrip()) <= 16 for _, indent, piece in pieces)
        assert next(iter(folded("x" * 30, 16))) == (0, "", "x" * 16)


def test_concise() -> None:
    (line,) = concise.render(Report((replace(FINDING, message="Two\nlines."),), lines), Style())
    assert line == "train.py:5:14: error: GPU301 missing-distributed-sampler: Two\\nlines."


def test_code_is_highlighted_in_colour_only() -> None:
    style = Style(colour=True, width=30)
    source = ['    total = "a word"  # and a remark', "    return total + 12 * 3456789 + 12345"]
    text = written(frame(Location("train.py", 1, 13), lambda at: source, style, "error"))
    assert "\x1b[33m" in text
    plain = written(frame(Location("train.py", 1, 13), lambda at: source, Style(width=30), "error"))
    assert re.sub(r"\x1b\[[\d;]*m", "", text) == plain
    assert "...\n" in plain


def test_rich_is_imported_only_for_colour(tmp_path: Path) -> None:
    text = "import torch.utils.data as d\nloader = d.DataLoader([1], sampler=d.RandomSampler([1]), shuffle=True)\n"
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    for colour, imported in ("never", False), ("auto", False), ("always", True):
        code = (
            "import sys; from gpudoctor import cli; "
            f"cli.main(['lint', '--no-cache', '--color={colour}', 'train.py']); print('rich' in sys.modules)"
        )
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
        assert "GPU303" in run.stdout
        assert run.stdout.splitlines()[-1] == str(imported)
