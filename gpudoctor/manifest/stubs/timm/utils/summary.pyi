"""Where timm defines them."""

from timm.utils import get_outdir as get_outdir
from timm.utils import update_summary as update_summary
