"""Commands in strings of a language of its own: rules of Snakemake, processes of Nextflow, steps of Jenkins."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.lint.launchfiles.launchers import launches_in
from gpudoctor.lint.launchfiles.placed_text import Piece, PlacedText, filled_in
from gpudoctor.lint.launchfiles.shell import read_script
from gpudoctor.lint.launchfiles.start import ProgramStart

_BEGINS = re.compile(r"\b(?:shell|script|exec)\s*:\s*|\bsh\b\s*\(?\s*(?:script\s*:\s*)?(?=[\"'])")
_STRING = re.compile(r"""\s*(?:\"\"\"(.*?)\"\"\"|'''(.*?)'''|"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)')""", re.DOTALL)
_PLACE = re.compile(r"[$!]?(?<!\{)\{([A-Za-z_][\w.\[\]]*)\}(?!\})")
"""`{input.data}`, `${params.epochs}`, `!{gpus}`: what the runner fills in."""


def read_quoted(shown: str, text: str) -> Iterator[ProgramStart]:
    """The programs that the commands of such a file start."""
    whole = PlacedText.whole(shown, text)
    for begins in _BEGINS.finditer(text):
        pieces: list[Piece] = []
        at = begins.end()
        # Strings that follow each other are one.
        while (found := _STRING.match(text, at)) is not None:
            group = next(number for number in (1, 2, 3, 4) if found[number] is not None)
            pieces += whole.stretch(*found.span(group))
            at = found.end()
        if pieces:
            filled = [each for piece in pieces for each in filled_in(piece, _PLACE, _as_variable)]
            placed = PlacedText(shown, filled)
            yield from launches_in(read_script(placed), placed, {})


def _as_variable(found: re.Match[str]) -> str:
    return f"${{{re.sub(r'[^A-Za-z0-9]+', '_', found[1]).strip('_')}}}"
