"""From repairs to edits of text, and edits into files.

Reading runs on the tree that the interpreter has executed: places and nodes are its own. What is not asked for is not
touched: an edit is a stretch of text and what comes in its place, so every other byte stays as it was.
"""
