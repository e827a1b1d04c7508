"""From what rules say to what users read: one finding a cause, at the line to change."""
