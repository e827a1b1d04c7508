"""Dumps of torch's flight recorder, one a rank: which collectives a rank had begun when it stood still.

A dump is a pickle or JSON. It may come from anywhere, so unpickling makes nothing but plain containers: a pickle that
asks for a class is refused.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from gpudoctor.errors import UsageError
from gpudoctor.logs.lines import head_of
from gpudoctor.logs.log_facts import CollectiveStack, GroupProgress, LogFact, LoggedFrame, LogPlace, Timeout
from gpudoctor.logs.speakers import Speaker

LARGEST = 256 * 1024 * 1024
"""Bytes of a dump; two thousand collectives with their stacks make some megabytes."""
_PICKLED = re.compile(rb"\x80[\x02-\x05]")
_JSON = re.compile(rb'\s*\{\s*"')
_MEMBERS = (b'"entries"', b'"pg_config"', b'"pg_status"')
_RANK = re.compile(r"(\d+)(?:\.\w+)?$")


def is_dump(path: str) -> bool:
    """The file is a dump, by how it begins."""
    head = head_of(path, 4096)
    return bool(_PICKLED.match(head)) or (bool(_JSON.match(head)) and any(each in head for each in _MEMBERS))


def facts_of_dump(path: str, order: int) -> Iterator[LogFact]:
    """How far the rank was in each group, and where it called what never ended.

    Raises:
        UsageError: It is no dump, or asks for more than plain data.
    """
    dump = _read(path)
    rank = dump.get("rank") if isinstance(dump.get("rank"), int) else None
    if rank is None and (found := _RANK.search(path)):
        rank = int(found[1])
    by, at = Speaker(rank=rank), LogPlace(path, 1, order)
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for entry in dump.get("entries") or ():
        if isinstance(entry, Mapping) and not entry.get("is_p2p"):
            groups.setdefault(_group(entry), []).append(entry)
    for group, entries in groups.items():
        yield from _of_group(group, entries, by, at)


def _of_group(group: str, entries: Sequence[Mapping[str, Any]], by: Speaker, at: LogPlace) -> Iterator[LogFact]:
    open_ones = [each for each in entries if each.get("state") != "completed"]
    enqueued = max(_number(each) for each in entries)
    failed = min(map(_number, open_ones), default=None)
    completed = max((_number(each) for each in entries if each.get("state") == "completed"), default=-1)
    yield GroupProgress(by, at, group, failed, enqueued, completed)
    if failed is None:
        return
    first = next(each for each in open_ones if _number(each) == failed)
    name = str(first.get("profiling_name", "")).rpartition(":")[2] or "a collective"
    seconds = float(first.get("timeout_ms") or 0) / 1000
    yield Timeout(by, at, name, failed, None, seconds, group)
    frames = tuple(
        LoggedFrame(str(frame.get("filename", "")), int(frame.get("line") or 0), str(frame.get("name", "")))
        for frame in first.get("frames") or ()
        if isinstance(frame, Mapping)
    )
    if frames:
        yield CollectiveStack(by, at, frames)


def _group(entry: Mapping[str, Any]) -> str:
    group = entry.get("process_group") or entry.get("pg_name") or entry.get("pg_id") or "0"
    return str(group[0] if isinstance(group, (list, tuple)) and group else group)


def _number(entry: Mapping[str, Any]) -> int:
    number = entry.get("collective_seq_id", entry.get("seq_id"))
    return number if isinstance(number, int) else 0


def _read(path: str) -> Mapping[str, Any]:
    data = head_of(path, LARGEST + 1)
    if len(data) > LARGEST:
        raise UsageError(f"{path}: this is too large to be a dump of the flight recorder")
    try:
        found = _PlainUnpickler(io.BytesIO(data)).load() if _PICKLED.match(data) else json.loads(data)
    except (ValueError, pickle.UnpicklingError, EOFError, IndexError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: not a dump of the flight recorder: {error}") from error
    if not isinstance(found, Mapping) or "entries" not in found:
        raise UsageError(f"{path}: not a dump of the flight recorder: it has no entries")
    return found


class _PlainUnpickler(pickle.Unpickler):
    """Makes numbers, strings and containers, and calls nothing."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for `{module}.{name}`, and data needs no code")
