"""`gpudoctor server`: the language server, which an editor starts."""

from __future__ import annotations

import argparse
import os
import sys

from gpudoctor.cli.command import Command
from gpudoctor.cli.output import say
from gpudoctor.errors import UsageError

_NEEDED = ("pygls", "lsprotocol")


class Server(Command):
    """Language server: show findings in your editor as you type.

    The editor starts it, and speaks the Language Server Protocol with it on standard input and output. `gpudoctor
    explain editors` has the settings of VS Code, Neovim, Helix, Zed and Emacs.
    """

    def declare(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--stdio", action="store_true", help="what some editors pass; it is the default anyway")

    def run(self, options: argparse.Namespace) -> int:
        try:
            # Imported late: it is an extra, and takes longer than a lint.
            from gpudoctor.server.language_server import EditorServer
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in _NEEDED:
                raise
            missing = f"the server needs {error.name}: install it with `pip install 'gpudoctor[lsp]'`"
            raise UsageError(missing) from error
        if sys.stdin.isatty():
            say("gpudoctor server: waiting for an editor; end with Ctrl-C")
        EditorServer().start_io()
        # The server closes it when the editor has said good-bye.
        if sys.stdout.closed:
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        return 0
