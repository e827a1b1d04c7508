"""To import PyYAML costs no pattern that nobody uses, and each is there where somebody does."""

import re
import sys
from collections.abc import Iterator

import pytest

from gpudoctor.lint.source.yaml_library import yaml_library


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is compiled, where `yaml` was not imported before."""
    for name in [each for each in sys.modules if each.partition(".")[0] == "yaml"]:
        monkeypatch.delitem(sys.modules, name)
    patterns: list[str] = []
    compile_ = re.compile
    monkeypatch.setattr(re, "compile", lambda text, *flags: patterns.append(text) or compile_(text, *flags))
    yaml_library.cache_clear()
    yield patterns
    yaml_library.cache_clear()


def test_its_patterns_are_compiled_where_they_are_used(compiled: list[str]) -> None:
    yaml = yaml_library()
    assert not compiled
    assert re.compile("a").pattern == "a"
    del compiled[:]
    assert yaml.load("a: 1\nb: [yes, 2020-01-01]", Loader=yaml.SafeLoader)["b"][0] is True
    assert any(each.startswith("[^\t\n") for each in compiled)
    with pytest.raises(yaml.YAMLError):
        yaml.load("a: \x07", Loader=yaml.SafeLoader)
