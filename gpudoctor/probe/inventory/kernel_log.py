"""What the driver has written to the kernel's log: Xid errors, each a number that says what went wrong on a GPU.

NVRM: Xid (PCI:0000:65:00): 79, pid=1234, GPU has fallen off the bus.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator

from gpudoctor.probe.inventory.facts import Xid
from gpudoctor.probe.inventory.field import Absence, Field, absent, known

LOG = "/dev/kmsg"
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+),?\s*(.*)")
_RECORD = 8192
_MOST = 100_000
"""Records: the log is a ring that others may fill faster than it is read."""


def xids() -> Field[tuple[Xid, ...]]:
    """Those that the log still holds, the oldest first."""
    try:
        return known(tuple(found(_records())))
    except PermissionError:
        return absent("only an administrator may read the kernel's log", Absence.FORBIDDEN)
    except OSError as error:
        return absent(f"{LOG}: {error.strerror}")


def found(records: Iterator[str]) -> Iterator[Xid]:
    """The errors among records as the kernel writes them: `6,339,5140900,-;message`."""
    now = time.clock_gettime(time.CLOCK_MONOTONIC)
    for record in records:
        head, _, message = record.partition(";")
        match = _XID.search(message)
        if match:
            written = head.split(",")[2:3]
            age = now - int(written[0]) / 1e6 if written and written[0].isdigit() else 0.0
            yield Xid(match[1].lower(), int(match[2]), match[3].splitlines()[0] if match[3] else "", max(0.0, age))


def _records() -> Iterator[str]:
    log = os.open(LOG, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for _ in range(_MOST):
            try:
                record = os.read(log, _RECORD)
            except BrokenPipeError:
                # The oldest were overwritten while we read.
                continue
            except BlockingIOError:
                return
            yield record.decode(errors="replace")
    finally:
        os.close(log)
