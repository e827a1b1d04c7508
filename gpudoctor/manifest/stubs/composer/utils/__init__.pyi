"""Its helpers."""
