"""What library calls mean, one file a library namespace."""
