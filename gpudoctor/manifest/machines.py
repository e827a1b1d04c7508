"""Machines that are rented by name."""

GPUS_OF_INSTANCE = {
    **dict.fromkeys("p3.2xlarge p5.4xlarge".split(), 1),
    **dict.fromkeys((f"{kind}.{size}xlarge" for kind in ("g4dn", "g5", "g6", "g6e") for size in ("", 2, 4, 8, 16)), 1),
    **dict.fromkeys("p3.8xlarge g4dn.12xlarge".split(), 4),
    **dict.fromkeys((f"{kind}.{size}xlarge" for kind in ("g5", "g6", "g6e") for size in (12, 24)), 4),
    **dict.fromkeys("p3.16xlarge p3dn.24xlarge p4d.24xlarge p4de.24xlarge g4dn.metal".split(), 8),
    **dict.fromkeys("p5.48xlarge p5e.48xlarge p5en.48xlarge p6-b200.48xlarge".split(), 8),
    **dict.fromkeys((f"{kind}.48xlarge" for kind in ("g5", "g6", "g6e")), 8),
}
"""How many GPUs an instance of Amazon's has, by its type."""
