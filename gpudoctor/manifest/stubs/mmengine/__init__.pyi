"""The runner of OpenMMLab."""
