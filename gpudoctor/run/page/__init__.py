"""The report of a run as one HTML page: no other file, no network, no script.

It needs jinja2 and matplotlib, so that only those who ask for a page load this package.
"""

from gpudoctor.run.page.run_page import page_of

__all__ = ["page_of"]
