"""Mistakes in the use of a framework that have no counterpart in plain PyTorch."""
