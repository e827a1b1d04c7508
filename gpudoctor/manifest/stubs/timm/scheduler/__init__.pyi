"""What makes the scheduler that settings name."""

from gpudoctor.manifest.effects import followed

def CosineLRScheduler(optimizer, **more): ...
@followed()
def create_scheduler(args, optimizer, updates_per_epoch=0):
    return CosineLRScheduler(optimizer), args.epochs

@followed()
def create_scheduler_v2(optimizer, sched="cosine", num_epochs=300, **more):
    return CosineLRScheduler(optimizer), num_epochs
