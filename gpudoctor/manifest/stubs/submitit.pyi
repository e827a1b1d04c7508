"""Ranks that a cluster starts."""

from gpudoctor.manifest.effects import GlobalRank, LocalRank, NodeRank, Nodes, Setting, WorldSize, trains

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

@trains()
class AutoExecutor:
    cluster: Setting
    folder: Setting

@trains()
class LocalExecutor:
    folder: Setting

@trains()
class SlurmExecutor:
    folder: Setting
