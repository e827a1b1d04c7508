"""The formats for machines, as `gpudoctor lint` prints them, with a stand-in for the interpreter."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpudoctor.report.formats import FORMATS
from tests.support.sarif_schema import LOG

pytestmark = pytest.mark.usefixtures("on_paper")

MAIN = 'import torch\nif __name__ == "__main__":\n    seed()\n'
BROKEN = "import torch\ndef broken(:\n"
Write = Callable[..., Path]
Lint = Callable[..., tuple[int, str, str]]


def sarif(out: str) -> dict[str, Any]:
    document = json.loads(out)
    jsonschema.Draft7Validator(LOG).validate(document)
    run: dict[str, Any] = document["runs"][0]
    return run


def places(out: str, output_format: str) -> list[tuple[str, int]]:
    """Where the findings of a report are, whatever its format."""
    if output_format == "sarif":
        found = [result["locations"][0]["physicalLocation"] for result in sarif(out)["results"]]
        return [(each["artifactLocation"]["uri"], each["region"]["startLine"]) for each in found]
    if output_format == "gitlab":
        return [(each["location"]["path"], each["location"]["lines"]["begin"]) for each in json.loads(out)]
    if output_format == "github":
        commands = [line.removeprefix("::error ").partition("::")[0].split(",") for line in out.splitlines()]
        properties = [dict(part.split("=", 1) for part in command) for command in commands]
        return [(each["file"], int(each["line"])) for each in properties if "file" in each]
    if output_format == "rdjson":
        found = [each["location"] for each in json.loads(out)["diagnostics"]]
        return [(each["path"], each["range"]["start"]["line"]) for each in found]
    if output_format == "junit":
        cases = [(case, case.findtext("failure")) for case in ElementTree.fromstring(out).iter("testcase")]
        return [(case.attrib["classname"], int(text.split(":")[1])) for case, text in cases if text]
    return [(each["path"], each["line"]) for each in json.loads(out)["findings"]]


MACHINES = ["json", "sarif", "github", "gitlab", "rdjson", "junit"]


@pytest.mark.parametrize("output_format", MACHINES)
class TestEveryFormat:
    def test_nothing_found(self, output_format: str, write: Write, lint: Lint) -> None:
        write(train="import torch\n")
        code, out, err = lint("--output-format", output_format)
        assert (code, places(out, output_format)) == (0, [])
        assert err == "No mistake found in 1 file.\n"

    def test_several_files(self, output_format: str, write: Write, lint: Lint) -> None:
        write(a=MAIN, sub__b=MAIN)
        code, out, err = lint("--output-format", output_format)
        assert (code, places(out, output_format)) == (1, [("a.py", 3), ("sub/b.py", 3)])
        assert err.startswith("Found 2 errors in 2 files.")

    def test_a_file_that_is_not_python(self, output_format: str, write: Write, lint: Lint) -> None:
        write(train=BROKEN)
        code, out, _ = lint("--output-format", output_format)
        assert (code, places(out, output_format)) == (1, [("train.py", 2)])

    def test_a_path_that_is_not_there(self, output_format: str, write: Write, lint: Lint) -> None:
        write(train=MAIN)
        code, out, err = lint("gone.py", "train.py", "--output-format", output_format)
        assert (code, places(out, output_format)) == (2, [("train.py", 3)])
        assert "gpudoctor: gone.py: there is no such file or folder\n" in err

    def test_the_configuration_may_ask_for_it(self, output_format: str, write: Write, lint: Lint) -> None:
        folder = write(train=MAIN)
        (folder / "gpudoctor.toml").write_text(f'output-format = "{output_format}"\n', encoding="utf-8")
        assert places(lint()[1], output_format) == [("train.py", 3)]

    def test_statistics_leave_it_whole(self, output_format: str, write: Write, lint: Lint) -> None:
        write(a=MAIN, b=MAIN)
        _, out, _ = lint("--statistics", "--output-format", output_format)
        assert places(out, output_format) == [("a.py", 3), ("b.py", 3)]

    def test_it_can_go_into_a_file(self, output_format: str, write: Write, lint: Lint) -> None:
        folder = write(train=MAIN)
        code, out, _ = lint("--output-format", output_format, "--output-file=report")
        assert (code, out) == (1, "")
        assert places((folder / "report").read_text(encoding="utf-8"), output_format) == [("train.py", 3)]


class TestSarif:
    def test_rules_and_exit_code(self, write: Write, lint: Lint) -> None:
        folder = write(train=MAIN)
        run = sarif(lint("--output-format=sarif")[1])
        (rule,) = run["tool"]["driver"]["rules"]
        assert (rule["id"], rule["name"], rule["shortDescription"]["text"]) == (
            "GPU950",
            "seed-is-set",
            "A seed is set.",
        )
        assert "What goes wrong\n---------------\n\nNothing, it is a test." in rule["help"]["text"]
        assert "## What goes wrong" in rule["help"]["markdown"]
        assert run["invocations"][0]["exitCode"] == 1
        assert run["originalUriBaseIds"]["%SRCROOT%"]["uri"] == f"{folder.as_uri()}/"

    def test_what_could_not_be_done(self, write: Write, lint: Lint) -> None:
        write(train='import torch\nif __name__ == "__main__":\n    seed(crash)\n', old=BROKEN)
        code, out, _ = lint("gone.py", "old.py", "train.py", "--output-format=sarif", "--ignore=GPU001")
        (invocation,) = sarif(out)["invocations"]
        assert (code, invocation["exitCode"], invocation["executionSuccessful"]) == (3, 3, False)
        told = {
            each["message"]["text"].partition(":")[0]: each["level"]
            for each in invocation["toolExecutionNotifications"]
        }
        assert told.pop("gone.py") == "error"
        assert told.pop("old.py") == "warning"
        assert list(told.values()) == ["error"]

    def test_names_are_quoted(self, write: Write, lint: Lint) -> None:
        write(**{"größe und mehr": MAIN})
        assert places(lint("--output-format=sarif")[1], "sarif") == [("gr%C3%B6%C3%9Fe%20und%20mehr.py", 3)]


class TestServices:
    def test_github(self, write: Write, lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = write(**{"a,b": MAIN})
        monkeypatch.setenv("GITHUB_WORKSPACE", str(folder.parent))
        assert lint("gone.py", "a,b.py", "--output-format=github")[1] == (
            "::error file=work/a%2Cb.py,line=3,endLine=3,col=5,endColumn=9,title=GPU950 seed-is-set::"
            "a,b.py:3:5: `seed` is called.%0AThis happens when torchrun starts one process per GPU.%0A"
            "help: write nothing%0ARead more: gpudoctor explain GPU950\n"
            "::error title=gpudoctor::gone.py: there is no such file or folder\n"
        )

    def test_gitlab(self, write: Write, lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = write(größe=MAIN)
        monkeypatch.setenv("CI_PROJECT_DIR", str(folder.parent))
        (issue,) = json.loads(lint("--output-format=gitlab")[1])
        assert issue["location"]["path"] == "work/größe.py"
        assert issue["description"].startswith("GPU950 seed-is-set: `seed` is called.")

    def test_fingerprints_are_those_of_the_code(self, write: Write, lint: Lint) -> None:
        folder = write(train=MAIN)

        def known() -> tuple[str, str]:
            (issue,) = json.loads(lint("--output-format=gitlab")[1])
            (result,) = sarif(lint("--output-format=sarif")[1])["results"]
            return issue["fingerprint"], result["partialFingerprints"]["gpudoctor/v1"]

        before = known()
        (folder / "train.py").write_text(f"# Moved.\n\n{MAIN}", encoding="utf-8")
        assert known() == before
        assert before[0] == before[1]


class TestStatistics:
    def test_they_go_where_the_summary_goes(self, write: Write, lint: Lint) -> None:
        write(a=MAIN, b=MAIN, c="# gpudoctor: ignore[nothing-like-it]\nimport torch\n")
        _, out, err = lint("--statistics", "--output-format=concise")
        assert len(out.splitlines()) == 3
        assert err.splitlines()[:2] == ["2  GPU950  error    seed-is-set", "1  GPU003  warning  unknown-suppression"]
        assert err.splitlines()[2].startswith("Found ")

    def test_json_holds_them_instead(self, write: Write, lint: Lint) -> None:
        write(a=MAIN, b=MAIN)
        _, out, err = lint("--statistics", "--output-format=json")
        assert json.loads(out)["statistics"] == [
            {"code": "GPU950", "name": "seed-is-set", "severity": "error", "count": 2}
        ]
        assert err.startswith("Found 2 errors")

    def test_nothing_to_count(self, write: Write, lint: Lint) -> None:
        write(train="import torch\n")
        assert lint("--statistics") == (0, "", "No mistake found in 1 file.\n")
        assert json.loads(lint("--statistics", "--output-format=json")[1])["statistics"] == []

    def test_quiet_is_quiet(self, write: Write, lint: Lint) -> None:
        write(a=MAIN)
        assert lint("--statistics", "--quiet")[2] == ""


def test_a_format_is_loaded_when_it_is_asked_for(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n", encoding="utf-8")
    code = "import sys\nfrom gpudoctor.cli import main\nmain(['lint', '--no-cache', 'train.py'])\nprint(*sys.modules)"
    path = os.pathsep.join([str(repository), str(repository / "rules"), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
    )
    late = {*FORMATS.values(), "gpudoctor.report.fingerprint", "hashlib", "json"}
    assert not {*run.stdout.split()} & late
