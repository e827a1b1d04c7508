"""Where timm defines them."""

from timm.utils import get_state_dict as get_state_dict
from timm.utils import unwrap_model as unwrap_model
