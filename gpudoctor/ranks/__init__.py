"""What run, probe and the tests share: the environment of a rank, and the end of a group of processes."""
