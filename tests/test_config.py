"""Reading configuration files, and what is said of wrong ones."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor.config import MAX_BYTES, Config, find_config, is_excluded, is_ignored, matches, read_config
from gpudoctor.errors import ConfigError
from gpudoctor.lint.lint_options import LintOptions, request_of
from gpudoctor.lint.request import Request
from gpudoctor.registry import find_rules
from gpudoctor.required_version import refuse_other_version

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


EVERYTHING = """
select = ["GPU3"]
ignore = ["GPU302"]
extend-select = ["GPU107"]
exclude = ["vendor"]
respect-gitignore = false
launch = "torchrun"
target-torch = "2.4"
output-format = "json"
fail-on = "error"
unsafe-fixes = true
[per-file-ignores]
"tests/*" = ["ALL"]
"""


def test_every_key(write: Write, tmp_path: Path) -> None:
    write("gpudoctor.toml", EVERYTHING)
    assert find_config(".") == Config(
        origin="gpudoctor.toml",
        folder=str(tmp_path),
        select=("GPU3",),
        ignore=("GPU302",),
        extend_select=("GPU107",),
        per_file_ignores=(("tests/*", ("ALL",)),),
        exclude=("vendor",),
        respect_gitignore=False,
        launch="torchrun",
        target_torch="2.4",
        output_format="json",
        fail_on="error",
        unsafe_fixes=True,
    )


def test_a_table_in_pyproject(write: Write) -> None:
    write("pyproject.toml", '[project]\nname = "x"\n[tool.gpudoctor]\nlaunch = "spawn"\n')
    assert find_config("train.py").launch == "spawn"


@pytest.mark.parametrize(
    "text",
    [
        'tool.gpudoctor.launch = "spawn"',
        '["tool" . \'gpudoctor\']\nlaunch = "spawn"',
        '[ tool ]\ngpudoctor = { launch = "spawn" }',
        '[tool]\ngpudoctor.launch = "spawn"',
        'tool = { gpudoctor = { launch = "spawn" } }',
    ],
)
def test_the_shared_file_in_all_ways_of_writing_a_table(text: str, write: Write, tmp_path: Path) -> None:
    write("pyproject.toml", text)
    assert find_config(str(tmp_path)).launch == "spawn"


def test_a_project_that_only_depends_on_it(write: Write, tmp_path: Path) -> None:
    # Not even parsed: this is no TOML.
    write("pyproject.toml", '[dependency-groups]\ndev = ["gpudoctor>=0.1"]\n[[[')
    assert find_config(str(tmp_path)) == Config()


def test_the_nearest_file_that_says_something(write: Write) -> None:
    write("pyproject.toml", '[tool.gpudoctor]\nlaunch = "spawn"\n')
    write("a/pyproject.toml", "[project]\nname = 'a'\n")
    write("a/b/train.py", "")
    assert find_config("a/b/train.py").launch == "spawn"
    write("a/gpudoctor.toml", 'launch = "single"\n')
    write("a/pyproject.toml", '[tool.gpudoctor]\nlaunch = "torchrun"\n')
    assert find_config("a/b").launch == "single"


def test_none(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("sub/train.py", "")
    assert find_config("sub") == Config()


def test_a_broken_file_of_others_is_none_of_our_business(write: Write) -> None:
    write("pyproject.toml", "this is [ no toml")
    assert find_config(".") == Config()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("this is [ no toml", "cannot be read"),
        ('selct = ["GPU3"]', r"unknown key `selct`; did you mean `select`\?"),
        (
            '[tool.gpudoctor]\nselect = ["GPU3"]',
            r"unknown key `tool`; in this file the keys need no `\[tool.gpudoctor\]`",
        ),
        ("per_file_ignores = 3", r"unknown key `per_file_ignores`; did you mean `per-file-ignores`\?"),
        ('select = "GPU3"', "`select` must be a list of strings, not 'GPU3'"),
        ("ignore = [3]", "`ignore` must be a list of strings"),
        ("per-file-ignores = []", "`per-file-ignores` must be a table"),
        ('[per-file-ignores]\n"x" = "GPU3"', "`per-file-ignores`: `x` must be a list"),
        ('launch = "torchrnu"', r"`launch` must be one of auto, .*; did you mean `torchrun`\?"),
        ("launch = true", "`launch` must be one of"),
        ('respect-gitignore = "no"', "`respect-gitignore` must be true or false, not 'no'"),
        ("target-torch = 2.4", "`target-torch` must be a version"),
        ('target-torch = "new"', "`target-torch` must be a version"),
    ],
)
def test_wrong_files_are_refused(write: Write, text: str, complaint: str) -> None:
    write("gpudoctor.toml", text)
    with pytest.raises(ConfigError, match=complaint) as caught:
        find_config(".")
    assert "gpudoctor.toml" in str(caught.value)


def test_a_table_that_is_none(write: Write) -> None:
    write("pyproject.toml", "[tool]\ngpudoctor = 3\n")
    with pytest.raises(ConfigError, match=r"`tool\.gpudoctor` must be a table"):
        find_config(".")


def test_bytes_that_are_no_text(write: Write, tmp_path: Path) -> None:
    (tmp_path / "gpudoctor.toml").write_bytes(b'launch = "\xff"')
    with pytest.raises(ConfigError, match="cannot be read"):
        find_config(".")


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        pytest.param("[tool.gpudoctor]\nselect = []\n".encode("utf-16"), r"not UTF-8 \(at line 1\)", id="UTF-16"),
        pytest.param(b"[tool]\n\0\xff\x80", r"not UTF-8 \(at line 2\)", id="binary"),
        pytest.param(b"[tool.gpudoctor]\n" + b"#" * MAX_BYTES, "larger than 1024 KiB", id="large"),
        pytest.param(b"[tool.gpudoctor]\n[tool.other]\na = " + b"9" * 5000, "too many digits", id="digits"),
        pytest.param(b"[tool.gpudoctor" + b".a" * 100_000 + b"]", "nested too deeply", id="deep table"),
        pytest.param(b"tool.gpudoctor" + b" . 'a.b'" * 40 + b" = 1", "nested too deeply", id="deep key"),
    ],
)
def test_what_no_settings_file_looks_like(tmp_path: Path, raw: bytes, complaint: str) -> None:
    (tmp_path / "pyproject.toml").write_bytes(raw)
    began = time.process_time()
    with pytest.raises(ConfigError, match=complaint):
        find_config(str(tmp_path))
    assert time.process_time() - began < 5


def test_many_dots_in_a_text_are_no_deep_table(write: Write) -> None:
    write("pyproject.toml", f"[project]\ndescription = '{'. ' * 100}'\n[tool.gpudoctor]\nselect = []\n")
    assert find_config(".").select == ()


def test_a_file_that_is_named(write: Write) -> None:
    write("ci/lint.toml", 'fail-on = "perf"\n')
    assert read_config("ci/lint.toml").fail_on == "perf"
    with pytest.raises(ConfigError, match="there is no such configuration file"):
        read_config("ci/lnt.toml")


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("train.py", "a/train.py", True),
        ("a", "a/b/train.py", True),
        ("a/", "a/train.py", True),
        ("./a/*.py", "a/train.py", True),
        ("a/*", "b/a/train.py", False),
        ("**/a/*", "b/a/train.py", True),
        ("test_*.py", "a/test_x.py", True),
        ("rain.py", "train.py", False),
    ],
)
def test_patterns(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path, "") is expected


def test_patterns_count_from_the_folder_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert matches("sub/*.py", "train.py", str(tmp_path))
    assert not matches("sub/*.py", "train.py", str(tmp_path / "sub"))


class TestExtend:
    def test_what_a_file_says_itself_wins(self, write: Write) -> None:
        write("base.toml", 'launch = "spawn"\nfail-on = "error"\nselect = ["GPU3"]\n')
        write("pyproject.toml", '[tool.gpudoctor]\nextend = "base.toml"\nlaunch = "single"\n')
        found = find_config(".")
        assert (found.launch, found.fail_on, found.select) == ("single", "error", ("GPU3",))
        assert found.origin == "pyproject.toml"
        assert dict(found.said_in) == {
            "launch": "pyproject.toml",
            "fail-on": "base.toml",
            "select": "base.toml",
        }

    def test_over_several_files(self, write: Write) -> None:
        write("pyproject.toml", '[tool.gpudoctor]\nlaunch = "spawn"\nfail-on = "error"\n')
        write("a/gpudoctor.toml", 'extend = "../pyproject.toml"\nfail-on = "perf"\n')
        write("a/b/gpudoctor.toml", 'extend = "../gpudoctor.toml"\n')
        found = find_config("a/b")
        assert (found.launch, found.fail_on) == ("spawn", "perf")

    def test_patterns_count_from_the_file_that_says_them(self, write: Write, tmp_path: Path) -> None:
        write(
            "shared/base.toml",
            'exclude = ["old/*", "vendor"]\n[per-file-ignores]\n"../app/gen/*.py" = ["GPU3"]\n"x.py" = ["GPU4"]\n',
        )
        write("app/gpudoctor.toml", 'extend = "../shared/base.toml"\n')
        found = find_config("app")
        assert is_excluded("shared/old/train.py", request(found).exclude)
        assert not is_excluded("app/old/train.py", request(found).exclude)
        assert is_excluded("app/vendor/train.py", request(found).exclude)
        silent = [(pattern, set(rules)) for pattern, rules in found.per_file_ignores]
        assert is_ignored("GPU3", "app/gen/a.py", silent, found.folder)
        assert not is_ignored("GPU3", "gen/a.py", silent, found.folder)
        assert is_ignored("GPU4", "app/sub/x.py", silent, found.folder)

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ('extend = "gone.toml"', "`extend`: there is no file `gone.toml`"),
            ('extend = "gpudoctor.toml"', "`extend`: `gpudoctor.toml` extends this file itself"),
            ('extend = "other.toml"', "other.toml: `extend`: `gpudoctor.toml` extends this file itself"),
            ('extend = "empty/pyproject.toml"', r"`empty/pyproject.toml` has no `\[tool.gpudoctor\]`"),
            ("extend = 3", "`extend` must be a string"),
            ('extend = "wrong.toml"', "wrong.toml:1: unknown key `selct`"),
        ],
    )
    def test_what_cannot_be_extended(self, text: str, complaint: str, write: Write) -> None:
        write("other.toml", 'extend = "gpudoctor.toml"\n')
        write("empty/pyproject.toml", "[project]\n")
        write("wrong.toml", "selct = []\n")
        write("gpudoctor.toml", text)
        with pytest.raises(ConfigError, match=complaint):
            find_config(".")


@pytest.mark.parametrize(
    ("wanted", "version", "allowed"),
    [
        ("0.1", "0.1.0", True),
        (">=0.1", "0.1.0", True),
        (">=0.2", "0.1.9", False),
        (">= 0.1, <0.3", "0.2.7", True),
        (">=0.1,<0.3", "0.3.0", False),
        ("!=0.2.1", "0.2.1", False),
        ("~=0.2.1", "0.2.9", True),
        ("~=0.2.1", "0.3.0", False),
        (">0.9", "0.10.0", True),
        (">=0.2", "0.2.0.dev3", True),
    ],
)
def test_required_version(wanted: str, version: str, allowed: bool) -> None:
    if allowed:
        refuse_other_version(wanted, "gpudoctor.toml", version)
    else:
        with pytest.raises(ConfigError, match=f"`required-version` is {wanted}, and this is gpudoctor {version}"):
            refuse_other_version(wanted, "gpudoctor.toml", version)


@pytest.mark.parametrize("wrong", ['"new"', '">=0.1 <0.3"', "0.1", '""'])
def test_a_required_version_that_is_none(wrong: str, write: Write) -> None:
    write("gpudoctor.toml", f"required-version = {wrong}")
    with pytest.raises(ConfigError, match="`required-version` must be"):
        find_config(".")


def test_settings_of_a_later_version_are_told_before_keys_that_only_it_knows(write: Write) -> None:
    write("gpudoctor.toml", 'of-the-future = true\nrequired-version = ">=99"\n')
    with pytest.raises(ConfigError, match="`required-version` is >=99"):
        find_config(".")


@pytest.mark.parametrize(
    "name",
    [
        ".gpudocter.toml",
        "gpudoctor.tml",
        "gpu-doctor.toml",
        ".gpudoctor",
        ".gpudoctorrc",
        "gpudoctor.yaml",
        "GPUDoctor.toml",
    ],
)
def test_a_file_that_nearly_has_the_name_is_told(name: str, write: Write) -> None:
    write(name, 'launch = "spawn"\n')
    found = find_config(".")
    assert found.launch is None
    right = "`.gpudoctor.toml`" if name.startswith(".") else "`gpudoctor.toml`"
    assert found.notes == (f"{name} is not read: did you mean {right}?",)


@pytest.mark.parametrize("name", ["gpudoctr", "gpu-doctor", "gpu_doctor"])
def test_a_table_that_nearly_has_the_name_is_told(name: str, write: Write) -> None:
    write("pyproject.toml", f'[tool.{name}]\nlaunch = "spawn"\n[tool.{name}.per-file-ignores]\n[tool.ruff]\n')
    found = find_config(".")
    assert found.launch is None
    assert found.notes == (f"pyproject.toml: `[tool.{name}]` is not read: did you mean `[tool.gpudoctor]`?",)


def test_the_right_table_is_not_taken_for_a_misspelt_one(write: Write) -> None:
    write("pyproject.toml", '[tool.gpudoctor]\nlaunch = "spawn"\n[tool.gpudoctor.per-file-ignores]\n')
    found = find_config(".")
    assert (found.launch, found.notes) == ("spawn", ())


@pytest.mark.parametrize(
    "name", ["gpudoctor.json", "gpudoctor.sarif", "gpu.toml", "doctor.toml", "docker.toml", "gpudoctor.py"]
)
def test_other_files_are_not_mistaken_for_settings(name: str, write: Write) -> None:
    write(name, "")
    assert find_config(".").notes == ()


def test_folders_above_the_project_are_not_looked_through(write: Write) -> None:
    write("gpudocter.toml", "")
    write("project/pyproject.toml", "[project]\nname = 'x'\n")
    write("project/sub/train.py", "")
    assert find_config("project/sub").notes == ()


def test_settings_beside_those_that_count(write: Write) -> None:
    write(".gpudoctor.toml", "")
    write("gpudoctor.toml", 'launch = "spawn"\n')
    write("pyproject.toml", '[tool.gpudoctor]\nlaunch = "single"\n')
    assert find_config(".").notes == (
        "gpudoctor.toml: its settings are not read: .gpudoctor.toml beside it has some",
        "pyproject.toml: its settings are not read: .gpudoctor.toml beside it has some",
    )
    write("pyproject.toml", '[project]\ndependencies = ["gpudoctor"]\n')
    assert len(find_config(".").notes) == 1


def request(config: Config) -> Request:
    return request_of((".",), LintOptions(), config, find_rules())
