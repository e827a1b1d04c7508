"""What a fix does, in the program's terms: steps at places that the engine knows."""
