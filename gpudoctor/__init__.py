"""gpudoctor: is this PyTorch training really using all GPUs, correctly and at full speed?"""

__version__ = "0.1.0"
