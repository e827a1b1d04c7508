"""Questions about files."""

from typing import Literal

from gpudoctor.manifest.effects import IsThere

sep: Literal["/"]
curdir: Literal["."]
pardir: Literal[".."]

def exists(path) -> IsThere: ...
def isfile(path) -> IsThere: ...
def isdir(s) -> IsThere: ...
def join(a, *p): ...
