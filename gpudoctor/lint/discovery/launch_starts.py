"""The launch files of a request, and which programs they start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.launchfiles.called_scripts import CalledScripts
from gpudoctor.lint.launchfiles.launched import Launched, settings_named
from gpudoctor.lint.launchfiles.reading import read_launch_file
from gpudoctor.lint.source.file import SourceFile
from gpudoctor.record import replace

if TYPE_CHECKING:
    from gpudoctor.lint.discovery.find_files import FilesFound
    from gpudoctor.lint.launchfiles.launch_file import LaunchFile
    from gpudoctor.lint.request import Request
    from gpudoctor.lint.source.file import Sources


def read_launch_files(found: FilesFound, sources: Sources, request: Request) -> tuple[Launched, FilesFound, Request]:
    """The launch files; the files of the request with the programs that those of them start that were named; and the
    request with how they start them."""
    called = CalledScripts(sources)
    read: list[LaunchFile] = []
    images: list[LaunchFile] = []
    passed_over = 0
    for path, named in found.launch_files.items():
        source = sources.read(path)
        if isinstance(source, SourceFile):
            file = called.read(path, source)
            images += [file] if file.copied else []
            says = (file.launches, file.settings, file.built, file.services, file.composes)
            if any(says) or named or "gpudoctor:" in source.text:
                read.append(file)
            elif not path.endswith((".py", ".ipynb")):
                passed_over += 1
    files = called.told_apart(read)
    if any(file.services is not None or file.built for file in files):
        from gpudoctor.lint.launchfiles.overlays import put_together

        files = put_together(files, called)
    launched = _with_named(Launched(tuple(files), images=tuple(images)), sources)
    wanted = [
        started
        for file in files
        if found.launch_files.get(file.path)
        for launch in file.launches
        if (started := launched.path_of(file, launch)) is not None and not started.startswith(file.path)
    ]
    new = [path for path in dict.fromkeys(wanted) if path not in found.telling and path not in found.others]
    # A file that trains through helpers of its own is asked about these.
    telling = {**found.telling, **{path: "" for path in new if path.endswith(".py")}}
    count = found.count - passed_over + len(telling) - len(found.telling)
    found = replace(found, telling=telling, count=count)
    return launched, found, replace(request, started=launched.started)


def _with_named(launched: Launched, sources: Sources) -> Launched:
    """With the settings files that launches name, which may be called anything; they may name one more."""
    for _ in range(2):
        known = {each.path for each in launched.files}
        paths = dict.fromkeys(path for file in launched.files for path in settings_named(launched, file))
        read = [sources.read(path) for path in paths if path not in known]
        more = [read_launch_file(each.path, each.shown, each.text) for each in read if isinstance(each, SourceFile)]
        launched = replace(launched, files=(*launched.files, *more))
    return launched
