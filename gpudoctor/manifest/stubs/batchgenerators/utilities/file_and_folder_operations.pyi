"""Short names for files and folders, which programs import all at once."""

import json
import os
from os.path import isdir as isdir
from os.path import isfile as isfile
from os.path import join as join

from gpudoctor.manifest.effects import followed, saves

@saves(path="file", whole=True)
def save_json(obj, file, indent=4, sort_keys=True): ...
@saves(path="file", whole=True)
def write_pickle(obj, file, mode="wb"): ...
@followed()
def load_json(file):
    with open(file) as f:
        return json.load(f)

@followed()
def maybe_mkdir_p(directory):
    os.makedirs(directory, exist_ok=True)

save_pickle = write_pickle
write_json = save_json
