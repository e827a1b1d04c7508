"""Sequences of several lengths. `pack_padded_sequence` refuses lengths on a GPU."""

from gpudoctor.manifest.effects import computes

@computes(first_alone=True)
def pack_padded_sequence(input, **more): ...
@computes(first_alone=True)
def pad_packed_sequence(sequence, **more): ...
