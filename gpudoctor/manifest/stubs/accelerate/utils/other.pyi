"""Where accelerate defines them."""

from accelerate.utils import extract_model_from_parallel as extract_model_from_parallel
from accelerate.utils import wait_for_everyone as wait_for_everyone
