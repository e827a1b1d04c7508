"""Run the tests of `gpudoctor run` on other versions of PyTorch: `python tests/tools/torch_versions.py 2.5.1 2.8.0`.

Each version gets a virtual environment of its own in a temporary place, which is deleted afterwards: the newest build
of each is several GB. A line per version says what pytest said last. Ends with 1 where a test failed, or where a
version could not be installed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("tests/run/test_transparent.py", "tests/run/test_report_of_run.py", "tests/run/test_hangs.py")
NEEDS = ("pytest", "pytest-xdist", "hypothesis", "nvidia-ml-py", "psutil", "rich", "numpy")


def main() -> int:
    """Test one version after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="+", metavar="VERSION")
    parser.add_argument("--tests", nargs="+", default=TESTS, metavar="FILE")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where the environments are made, and stay")
    options = parser.parse_args()
    failed = 0
    for version in options.versions:
        with tempfile.TemporaryDirectory() as scratch:
            failed += _test(version, (options.keep or Path(scratch)) / version, options.tests)
    return int(failed > 0)


def _test(version: str, folder: Path, tests: list[str]) -> bool:
    """Whether it failed."""
    began = time.monotonic()
    python = folder / "bin" / "python"
    if not python.exists():
        made = _output([sys.executable, "-m", "venv", str(folder)])
        made = made or _output([str(python), "-m", "pip", "install", "--quiet", f"torch=={version}", *NEEDS])
        if made:
            print(f"torch {version}: not installed: {made.splitlines()[-1]}", flush=True)
            return True
    installed = time.monotonic()
    said = _output([str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], always=True)
    lines = said.splitlines() or ["nothing"]
    took = f"{installed - began:.0f} s to install, {time.monotonic() - installed:.0f} s of tests"
    print(f"torch {version}: {lines[-1]} ({took})", *(line for line in lines if line.startswith("FAILED")), sep="\n  ")
    sys.stdout.flush()
    return " passed" not in lines[-1] or " failed" in lines[-1] or " error" in lines[-1]


def _output(command: list[str], always: bool = False) -> str:
    """What a command printed, where it failed or where that is asked for in any case."""
    path = os.pathsep.join((str(ROOT), str(ROOT / "rules")))
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"} | {"PYTHONPATH": path}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return (done.stdout + done.stderr).strip() if always or done.returncode else ""


if __name__ == "__main__":
    raise SystemExit(main())
