"""The commands that a project offers, in each of the files that may say so."""

from pathlib import Path

import pytest

from gpudoctor.lint.source.layout import scripts, started_in

FILES = {
    "pyproject.toml": '[project]\nname = "x"\n[project.scripts]\ngo = "pkg.cli:main"\n[tool.x]\nno = "a:b"\n',
    "setup.cfg": "[metadata]\nname = x\n[options.entry_points]\nconsole_scripts =\n    go = pkg.cli:main\n[flake8]\n",
    "setup.py": "import setuptools\nsetup(entry_points={'console_scripts': ['go=pkg.cli:main',\n]}, other=['a=b:c'])\n",
}


@pytest.mark.parametrize("name", FILES)
def test_commands_are_found(tmp_path: Path, name: str):
    (tmp_path / name).write_text(FILES[name], encoding="utf-8")
    assert scripts(str(tmp_path)) == ["pkg.cli:main"]
    assert started_in(str(tmp_path / "src" / "pkg" / "cli.py")) == ("main",)
    assert started_in(str(tmp_path / "pkg" / "other.py")) == ()


@pytest.mark.parametrize("quotes", ["'''", '"""'])
def test_commands_stand_in_a_text(tmp_path: Path, quotes: str):
    text = f"{quotes}\n    [console_scripts]\n    go=pkg.cli:main\n    [other]\n    no=a:b\n{quotes}"
    (tmp_path / "setup.py").write_text(f"setup(entry_points={text}, extras='x = c:d')\n", encoding="utf-8")
    assert scripts(str(tmp_path)) == ["pkg.cli:main"]
    last = f"{quotes}[console_scripts]\ngo=pkg.cli:main{quotes}"
    (tmp_path / "setup.py").write_text(f"setup(entry_points={last}, extras='x = c:d')\n", encoding="utf-8")
    assert scripts(str(tmp_path)) == ["pkg.cli:main"]


@pytest.mark.parametrize("quote", ["", '"', "'"])
def test_commands_are_entry_points_of_a_group(tmp_path: Path, quote: str):
    section = f"[project.entry-points.{quote}console_scripts{quote}]"
    (tmp_path / "pyproject.toml").write_text(f'[project]\n{section}\ngo = "pkg.cli:main"\n[tool.x]\nno = "a:b"\n')
    assert scripts(str(tmp_path)) == ["pkg.cli:main"]


def test_a_project_without_commands_has_none(tmp_path: Path):
    assert scripts(str(tmp_path)) == []
