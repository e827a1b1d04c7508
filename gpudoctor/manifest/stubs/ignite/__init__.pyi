"""Engines that call functions of a program when something happens, and its part for several processes."""
