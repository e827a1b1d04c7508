"""What is known of libraries, as data: a table of libraries and one of collectives. Imports nothing, for all to import.

Whoever adds a library, or a function that all ranks must call, adds a line here; word lists, lists of frameworks and
what a run watches are derived from it.
"""
