"""What a job left behind: its output, read after the fact, and the question who failed first.

One direction: `lines` (files to lines, one at a time), `speakers` (which rank says a line), `readers` (lines to facts:
a traceback, a timeout, an exit code), `error_texts` (what an error means), `failures_told` (facts to failures),
`merged_failures` (one a process), `first_failure` (which came first), `diagnosis` (the verdict). A dump of the flight
recorder comes in by `flight_recorder`.

A log is evidence and may be cut off or mixed: what it does not say is not known, and an error that no declared text
matches is shown and not explained.
"""
