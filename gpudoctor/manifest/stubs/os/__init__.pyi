"""Folders, and where everything is."""

from typing import Literal

from gpudoctor.manifest.effects import PointInTime, changes_folder, reads_file

name: Literal["posix"]
sep: Literal["/"]
curdir: Literal["."]
pardir: Literal[".."]
altsep: Literal["/"]

@changes_folder(path="name", tolerates="exist_ok")
def makedirs(name, mode=0o777, exist_ok=False): ...
@changes_folder(path="path")
def mkdir(path, mode=0o777, **more): ...
@changes_folder(path="path", removes=True)
def rmdir(path, **more): ...

remove = unlink = rmdir

@changes_folder(path="name", removes=True)
def removedirs(name): ...
@reads_file()
def listdir(path="."): ...
def getpid() -> PointInTime: ...
