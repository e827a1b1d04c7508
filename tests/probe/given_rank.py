"""`gpudoctor probe` as a rank that torchrun has started, with the worker that has faults; prints the report as JSON."""

from __future__ import annotations

import os
import sys

from gpudoctor.probe.document import rendered
from gpudoctor.probe.examine import Wishes, examine_given
from gpudoctor.probe.place import place_given
from tests.probe import faults

if __name__ == "__main__":
    place = place_given(os.environ)
    assert place is not None
    report = examine_given(place, Wishes(timeout=5.0, only=tuple(sys.argv[1:]), worker=faults.WORKER))
    if report is not None:
        sys.stdout.write(rendered(report))
