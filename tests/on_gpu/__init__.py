"""What no CPU can show, in parts: `python tests/tools/on_gpu.py` runs them all on a machine with NVIDIA GPUs.

A part is a module with what it asks, the seconds that it may take, the GPUs that it needs, and its steps. It tells
facts while it goes, so that one that is ended in the middle has told what it knew, and leaves out steps for which no
time is left. `assumptions.py` says what the code of gpudoctor assumes of GPUs, and whether what was seen agrees.

Only the standard library, torch and this checkout are needed; what else is missing is said.
"""
