"""A report as one HTML page: no other file, no network, no script; for a phone, a desk and paper.

`page_of` takes a report that was just made or one that was read from JSON. It needs jinja2 and matplotlib, so that
only those who ask for a page load this package.
"""

from gpudoctor.probe.page.probe_page import page_of

__all__ = ["page_of"]
