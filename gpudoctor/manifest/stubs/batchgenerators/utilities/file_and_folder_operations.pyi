"""Short names for files and folders, which programs import all at once."""

from os.path import isdir as isdir
from os.path import isfile as isfile
from os.path import join as join

from gpudoctor.manifest.effects import saves

@saves(path="file", whole=True)
def save_json(obj, file, indent=4, sort_keys=True): ...
@saves(path="file", whole=True)
def write_pickle(obj, file, mode="wb"): ...

save_pickle = write_pickle
write_json = save_json
