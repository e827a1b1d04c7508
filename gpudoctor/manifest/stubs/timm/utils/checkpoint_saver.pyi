"""Where timm defines them."""

from timm.utils import CheckpointSaver as CheckpointSaver
