"""Ranks that a cluster starts."""

from gpudoctor.manifest.effects import (
    GlobalRank,
    LocalRank,
    LocalWorldSize,
    NodeRank,
    Nodes,
    Setting,
    WorldSize,
    trains,
)

class JobEnvironment:
    global_rank: GlobalRank
    local_rank: LocalRank
    node: NodeRank
    num_tasks: WorldSize
    num_nodes: Nodes
    job_id: Setting
    hostname: Setting
    hostnames: Setting
    paths: Setting

class TorchDistributedEnvironment:
    """It sets the variables that torchrun sets."""

    rank: GlobalRank
    local_rank: LocalRank
    world_size: WorldSize
    local_world_size: LocalWorldSize
    master_addr: Setting
    master_port: Setting
    def export(self, set_cuda_visible_devices=True, overwrite=False):
        return self

@trains()
class AutoExecutor:
    cluster: Setting
    folder: Setting

@trains()
class LocalExecutor:
    folder: Setting

SlurmExecutor = LocalExecutor
