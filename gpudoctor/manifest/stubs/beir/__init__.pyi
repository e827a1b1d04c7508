"""Benchmarks of retrieval, which it brings from the network."""
