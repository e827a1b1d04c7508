"""What Python's semantics (`interp`) and what libraries mean (`library`, `analyses`) know of each other."""
