"""One question that several models or statements ask, such as the scale of a loss: one file each."""
