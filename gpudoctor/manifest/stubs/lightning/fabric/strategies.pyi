"""How Lightning spreads a training over ranks."""

from gpudoctor.manifest.effects import Setting, followed, held, installed_before, surely

@followed()
class DDPStrategy:
    _usual: Setting
    def __init__(self, *more, find_unused_parameters=False, static_graph=False, **others):
        # Before version 2 it searched unless it was told otherwise.
        usual = installed_before("lightning", 2) and surely(not find_unused_parameters)
        self.find_unused_parameters = self._usual if usual else find_unused_parameters
        self.static_graph = static_graph

@followed()
def _ddp_options(strategy, usual):
    # Whether it searches for unused parameters, and has a static graph; None for what may be another strategy than DDP.
    static = held(strategy, "static_graph", None)
    if surely(static is None):
        # "auto" means DDP where there are several processes.
        ways = ["ddp", "ddp_spawn", "ddp_fork", "ddp_notebook"]
        if surely(strategy in [f"{way}_find_unused_parameters_true" for way in ways]):
            return True, False
        if surely(strategy in ["auto", None, *ways]):
            return usual, False
        return (False if surely(strategy in [f"{way}_find_unused_parameters_false" for way in ways]) else None), False
    return strategy.find_unused_parameters, static
