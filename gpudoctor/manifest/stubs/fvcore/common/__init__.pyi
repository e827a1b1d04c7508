"""Parts that detectron2 and SlowFast have in common."""
