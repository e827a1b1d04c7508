"""Reading a file costs no import that most files have no use for."""

import subprocess
import sys
from pathlib import Path

RARELY_NEEDED = {"difflib", "importlib.metadata", "inspect", "json", "multiprocessing", "subprocess", "tokenize"}

PROGRAM = """
import dataclasses, pathlib, sys
before = set(sys.modules)
from gpudoctor.lint.discovery.walk import collect
from gpudoctor.lint.source.project import Project
from gpudoctor.lint.suppression.directives import Suppressions
[path] = collect([sys.argv[1]])[0]
project = Project(path)
module = project.module_of(path)
project.find(module, "torch", 0), project.find(module, "unheard_of", 0)
assert not Suppressions.of(module.source).ignores
print(*set(sys.modules) - before)
"""


def test_plain_files_load_nothing_rare(tmp_path: Path, repository: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("import torch\nimport unheard_of\n")
    command = [sys.executable, "-c", PROGRAM, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=repository, check=True)
    assert not RARELY_NEEDED & set(run.stdout.split())
