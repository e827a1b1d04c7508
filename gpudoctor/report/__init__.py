"""Renders findings, whichever wing they come from.

A format is one file with `render(report, style)`, listed in `formats.py`; `report.py` holds all that it may tell.
"""
