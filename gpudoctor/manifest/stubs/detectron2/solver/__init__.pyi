"""Optimizers by settings."""

import torch

from gpudoctor.manifest.effects import followed

@followed()
def build_optimizer(cfg, model):
    return torch.optim.SGD(model.parameters(), lr=cfg.SOLVER.BASE_LR)
