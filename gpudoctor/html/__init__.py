"""What the pages of all commands have in common: one file, no network, no script; for a phone, a desk and paper.

Needs jinja2 and matplotlib, so that only what makes a page imports it.
"""
