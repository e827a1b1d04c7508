<<<<<<< HEAD
"""Mistakes in the use of a framework that have no counterpart in plain PyTorch."""
=======
"""Rules of the family frameworks."""
>>>>>>> 55d20a68 (Say where fully_shard is given the layers and never the model (GPU931))
