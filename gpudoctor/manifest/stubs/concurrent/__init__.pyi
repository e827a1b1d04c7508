"""Threads and processes that wait for work."""
