"""Where mmengine defines it."""

from mmengine.runner import *
