"""Parameters that ZeRO's third stage has spread over the ranks."""

from gpudoctor.manifest.effects import collective

@collective(gathers=True, uneven=True, of_parameters=True, sends="params")
def GatheredParameters(params, modifier_rank=None, fwd_module=None, enabled=True): ...
