"""Renders findings, whichever wing they come from. One file a format; each has one public `render`."""
