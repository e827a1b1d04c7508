"""Checkpoints of which each rank writes its part."""

from gpudoctor.manifest.effects import saves

@saves(path="checkpoint_id", content="state_dict", by_parts=True, waits=True)
def save(state_dict, *, checkpoint_id=None, **more): ...
@saves(path="checkpoint_id", content="state_dict", by_parts=True, waits=True)
def async_save(state_dict, *, checkpoint_id=None, **more): ...
@saves(content="state_dict", by_parts=True, waits=True)
def save_state_dict(state_dict, storage_writer, **more): ...
