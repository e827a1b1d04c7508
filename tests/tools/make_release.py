"""Make a release of what is committed: its version and date, an sdist and a wheel that pass `twine check`, and its tag.

    python tests/tools/make_release.py 0.1.0 FOLDER

The changes of `## 0.1.0 (not released)` become those of today, in a commit of their own, which is tagged `v0.1.0`: the
`rev` of the hooks for pre-commit and of the GitHub action. FOLDER gets the two files. Nothing leaves this machine: the
commands that publish are printed.
"""

import argparse
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION, CHANGES = ROOT / "gpudoctor" / "__init__.py", ROOT / "CHANGELOG.md"


def main(version: str, folder: Path) -> int:
    """Build, check, commit and tag; 1 and an untouched tree where something is wrong."""
    tag, heading = f"v{version}", f"## {version} (not released)"
    if wrong := _why_not(version, tag, heading):
        print(wrong, file=sys.stderr)
        return 1
    VERSION.write_text(
        re.sub(r'^__version__ = ".*"', f'__version__ = "{version}"', VERSION.read_text("utf-8"), flags=re.M), "utf-8"
    )
    CHANGES.write_text(CHANGES.read_text("utf-8").replace(heading, f"## {version} ({date.today()})"), "utf-8")
    try:
        _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT))
        made = [str(each) for each in sorted(folder.glob(f"gpudoctor-{version}*"))]
        _run(sys.executable, "-m", "twine", "check", "--strict", *made)
    except subprocess.CalledProcessError as error:
        _run("git", "checkout", "--", str(VERSION), str(CHANGES))
        print(error.output, f"Nothing was released: {' '.join(error.cmd)} failed.", sep="\n", file=sys.stderr)
        return 1
    _run("git", "commit", "--quiet", "--all", "--message", f"Release {version}")
    _run("git", "tag", "--annotate", tag, "--message", f"gpudoctor {version}")
    print(f"Publish it:\n  git push origin HEAD {tag}\n  twine upload {' '.join(made)}")
    return 0


def _why_not(version: str, tag: str, heading: str) -> str:
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        return f"{version} is not a version such as 0.1.0"
    if _run("git", "status", "--porcelain", "--untracked-files=no"):
        return "the tree has changes that are not committed"
    if _run("git", "tag", "--list", tag):
        return f"there is a tag {tag} already"
    return "" if heading in CHANGES.read_text("utf-8") else f"CHANGELOG.md has no `{heading}`"


def _run(*command: str) -> str:
    run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    return run.stdout.strip()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    sys.exit(main(given.version, given.folder.resolve()))
