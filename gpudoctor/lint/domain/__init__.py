"""What the paper execution computes with: one file a kind of value, and the events that rules read."""
