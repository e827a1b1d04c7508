"""Run the fixtures' claims for real: two CPU ranks, a deadline, and a verdict from what they did."""
