"""Where mmengine offers it."""

from mmengine.runner import OptimWrapper as OptimWrapper
