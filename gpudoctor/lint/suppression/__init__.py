"""Comments that silence findings: read, judged and written."""
