"""What an abstract execution computes with: one file a kind of value, and what is known of objects."""
