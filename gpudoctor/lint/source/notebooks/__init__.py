"""Notebooks: joined to one program, with the way back to their cells."""
