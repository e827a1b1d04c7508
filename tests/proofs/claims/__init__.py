"""What a proof may claim. One function a claim: does the run show it, and by what.

The name of a claim is that of its function, with hyphens. Each can hold and can fail: `tests/proofs/programs` has a
program for either.
"""

from . import costs, data, endings, files, parameters, randomness, training
from .registry import CLAIMS, judge

__all__ = ["CLAIMS", "costs", "data", "endings", "files", "judge", "parameters", "randomness", "training"]
