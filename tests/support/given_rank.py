"""`gpudoctor probe` as a rank that torchrun has started, with the worker that has faults
where some are named; prints the report as JSON."""

import os
import signal
import sys
from pathlib import Path

from gpudoctor.probe.launch import WORKER
from gpudoctor.probe.launcher_env import place_given
from gpudoctor.probe.options import Wishes
from gpudoctor.probe.report_json import rendered
from gpudoctor.probe.run_probe import examine_given
from tests.support import probe_faults as faults

if __name__ == "__main__":
    # As the command does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    place = place_given(os.environ)
    assert place is not None
    worker = faults.WORKER if "GPUDOCTOR_TEST_FAULT" in os.environ else WORKER
    if faults.GIVEN_RANKS in os.environ:
        Path(os.environ[faults.GIVEN_RANKS], os.environ["RANK"]).write_text(str(os.getpid()))
    timeout = float(os.environ.get("GPUDOCTOR_TEST_TIMEOUT", "60"))
    report = examine_given(place, Wishes(timeout=timeout, only=tuple(sys.argv[1:]), worker=worker))
    if report is not None:
        sys.stdout.write(rendered(report))
