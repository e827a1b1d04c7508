"""Syntax to values: the training program executed on paper."""
