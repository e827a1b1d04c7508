"""Programs that notebooks write to files: `%%writefile train.py`, and in the next cell `!torchrun train.py`.

Each is linted as the file that it becomes, and what is found is told at its place in the cell. Where there is such a
file already, that one is what runs. All notebooks of a folder write a `train.py`: in paths, the notebook stands for
the folder that it writes to.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from gpudoctor.diagnostic import Location
from gpudoctor.lint.discovery.content_signs import concerns_training
from gpudoctor.lint.source.file import SourceFile, Sources, Unreadable
from gpudoctor.lint.source.file_traits import FileTraits
from gpudoctor.lint.source.notebooks.cells import WrittenFile
from gpudoctor.record import dataclass, replace


@dataclass(frozen=True)
class Origin:
    """The notebook that writes a file, as it is shown, and the cell that the file is."""

    notebook: str
    written: WrittenFile

    def place(self, at: Location) -> Location:
        """A place in the file, in the cell."""
        return replace(self.written.cells.place(at), path=self.notebook)


def written_files(
    notebooks: Iterable[FileTraits], sources: Sources
) -> Iterator[tuple[Origin, SourceFile | Unreadable]]:
    """The programs that notebooks write, and that say something about training; `sources` know their text from now."""
    for each in notebooks:
        for path, written in _programs(each, sources):
            # From here on it can be imported, also by the programs of other cells. The last cell wins, as when all of
            # them are executed.
            sources.edited = {**sources.edited, path: written.text.encode("utf-8", "replace")}
            yield Origin(each.shown, written), sources.read(path)


def _programs(notebook: FileTraits, sources: Sources) -> Iterable[tuple[str, WrittenFile]]:
    source = sources.read(notebook.path)
    cells = source.cells if isinstance(source, SourceFile) else None
    found: dict[str, WrittenFile] = {}
    for written in cells.written if cells is not None else ():
        # `/kaggle/working/train.py` is where the notebook works.
        outside = os.path.isabs(written.name) or ".." in written.name
        name = os.path.normpath(os.path.basename(written.name) if outside else written.name)
        there = os.path.lexists(os.path.join(os.path.dirname(notebook.path), name))
        if not there and concerns_training(written.text.encode("utf-8", "replace")):
            found[os.path.join(notebook.path, name)] = written
    return found.items()
