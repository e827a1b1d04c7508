"""The server where what it needs is not installed."""

import sys

import pytest

from gpudoctor import cli


def test_it_says_what_to_install(monkeypatch, capsys) -> None:
    for name in [name for name in sys.modules if name.startswith("gpudoctor.server.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "lsprotocol", None)
    assert cli.main(["server"]) == 2
    assert capsys.readouterr().err == (
        "gpudoctor: the server needs lsprotocol: install it with `pip install 'gpudoctor[lsp]'`\n"
    )


@pytest.mark.parametrize("module", ["gpudoctor.cli", "gpudoctor.api", "gpudoctor.server.analysis_worker"])
def test_nothing_but_the_server_loads_what_it_needs(module: str) -> None:
    import subprocess

    code = f"import sys, {module}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    assert not {"pygls", "lsprotocol", "attrs", "cattrs", "asyncio"} & set(run.stdout.split())
