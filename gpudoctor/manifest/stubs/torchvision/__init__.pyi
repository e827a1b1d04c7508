"""See its parts."""
