"""The log of an execution: what a program does, one file for each part of training."""
