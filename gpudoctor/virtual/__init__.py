"""Virtual GPUs: programs for CUDA run unchanged on a machine without GPUs, with the errors that CUDA would raise.

Every tensor stays an ordinary tensor of the CPU. Where it *lives*, on the host or on which virtual GPU, is a mark on
its storage (`residence.py`). A mode of torch functions (`tensor_mode.py`) answers what a program asks about devices,
gives results the place of their operands (`operands.py`) and raises the errors of CUDA where operands live apart. C++
(autograd, the reducer of DDP, gloo, workers of loaders) sees tensors of the CPU and works unchanged, so that all
numbers are those of the CPU.

What is unknown never raises: of a tensor that was born in C++ nobody may know where it would live.

`install.py` puts everything in place, in each process of a run with `--virtual-gpus`. A run without it loads nothing of
this folder.
"""
