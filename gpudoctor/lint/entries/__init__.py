"""Entries on their way: scheduled, executed in a process, judged by the rules."""
