"""The clocks as they are before the user's script is there: it may put others in their place, or none."""

from time import monotonic, perf_counter, time, time_ns

__all__ = ["monotonic", "perf_counter", "time", "time_ns"]
