"""As everybody imports Horovod, where the import is out of sight."""

from horovod.torch import *
