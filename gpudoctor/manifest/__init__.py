"""What is known of libraries, as data: stubs say what their functions do, and a table what the libraries are.

Whoever adds a function that all ranks must call adds a line to a stub; word lists, lists of frameworks and what a run
watches are derived from both, and kept compiled (`compiled.py`). Nothing of lint is imported here, for all to import.
"""
