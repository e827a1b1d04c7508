"""Files: compressed, cut off, through a pipe, larger than memory."""

import gc
import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gpudoctor.logs import lines, readers
from gpudoctor.logs.job_logs import read_logs
from tests.logs.error_lines import TEXTS
from tests.logs.samples import PEER, TRACEBACK, progress, read, timeout


def test_compressed_and_through_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = tmp_path / "job.log.gz"
    packed.write_bytes(gzip.compress(TRACEBACK.encode()))
    first = read_logs([str(packed)]).first
    assert first.summary == "KeyError: 'label'"


def test_a_file_that_is_cut_off_in_its_compression(tmp_path: Path) -> None:
    packed = tmp_path / "job.log.gz"
    noise = "\n".join(f"step {number} loss {number * 7919 % 1013}" for number in range(50_000))
    packed.write_bytes(gzip.compress((TRACEBACK + noise).encode())[:-20_000])
    assert read_logs([str(packed)]).first is not None


@pytest.mark.parametrize("before", [0, 20_000, 20_145, 60_000])
def test_where_stretches_of_a_file_meet(before: int, tmp_path: Path) -> None:
    """A traceback is found whole, with its lines counted, wherever the stretches are cut that are passed over."""
    first = read(tmp_path, "step 1 loss\n" * before + TRACEBACK + "step 1 loss\n" * 60_000 + PEER).first
    assert (first.summary, first.at.line) == ("KeyError: 'label'", before + 1)


def test_the_words_that_are_looked_for_first_are_in_all_that_tells() -> None:
    for text in (*(text for text, _ in TEXTS), timeout(0, 1), progress(0, 1, 2), *TRACEBACK.splitlines()[:1]):
        if readers._TELLING.search(text):
            assert readers._tells(text), text


def test_what_is_noticed_is_looked_for() -> None:
    assert not [text for text, _ in TEXTS if readers._NOTICE.search(text) and not readers._tells(text)]


@pytest.mark.slow
def test_a_log_is_read_as_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A night's output makes as little as a minute's: what says nothing is not kept."""
    kept: list[int] = []
    whole = lines.lines_of

    def counted(path: str, telling: Sequence[bytes]) -> Iterator[lines.LogLine]:
        for line in whole(path):
            if line.number % 20_000 == 0:
                kept.append(sum(type(each) is lines.LogLine for each in gc.get_objects()))
            yield line

    monkeypatch.setattr("gpudoctor.logs.readers.lines_of", counted)
    (tmp_path / "job.log").write_text("step 1 loss 0.5\n" * 100_000 + TRACEBACK)
    assert read_logs([str(tmp_path / "job.log")]).first is not None
    assert max(kept) <= 2
