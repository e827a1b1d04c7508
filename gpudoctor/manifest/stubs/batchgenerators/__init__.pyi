"""Augmentation for nnU-Net, and what it does with files."""
