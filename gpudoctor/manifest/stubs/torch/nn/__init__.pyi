"""The wrapper of one process, and what ranks agree about."""

from gpudoctor.manifest.effects import matters, trains

@trains()
class DataParallel: ...

@matters()
class SyncBatchNorm: ...
