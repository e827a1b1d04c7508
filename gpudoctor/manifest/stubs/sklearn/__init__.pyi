"""Machine learning without GPUs, of which training programs take the metrics."""
