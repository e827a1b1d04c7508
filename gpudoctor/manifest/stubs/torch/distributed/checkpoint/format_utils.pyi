"""One process reads all parts and writes one file."""

from gpudoctor.manifest.effects import saves

@saves(path="torch_save_path", checkpoint=True, joins=True)
def dcp_to_torch_save(dcp_checkpoint_dir, torch_save_path): ...
