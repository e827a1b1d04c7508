"""Where mmengine defines who a process is."""

from mmengine.dist import *
