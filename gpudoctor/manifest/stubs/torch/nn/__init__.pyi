"""Layers: which have parameters, which buffers, and which only hold others. And the wrapper of one process."""

from gpudoctor.manifest.effects import computes, layer, matters, trains, wraps

@trains()
class DataParallel:
    @wraps(module="module", kind="DATA_PARALLEL")
    def __init__(self, module, device_ids=None, output_device=None, dim=0): ...

@layer(weights=True)
class Linear: ...

Bilinear = LazyLinear = Conv1d = Conv2d = Conv3d = ConvTranspose1d = ConvTranspose2d = ConvTranspose3d = Linear
Embedding = EmbeddingBag = LayerNorm = GroupNorm = PReLU = RMSNorm = LazyConv2d = AdaptiveLogSoftmaxWithLoss = Linear

@layer(weights=True, modes=True, recurs=True)
class LSTM: ...

GRU = RNN = LSTMCell = GRUCell = RNNCell = LSTM

@layer(weights=True, modes=True)
class InstanceNorm2d: ...

MultiheadAttention = Transformer = TransformerEncoder = TransformerDecoder = TransformerEncoderLayer = InstanceNorm2d
TransformerDecoderLayer = InstanceNorm2d

@layer(weights=True, buffers=True, modes=True)
class BatchNorm1d: ...

BatchNorm2d = BatchNorm3d = BatchNorm1d

@layer(holds=True)
class Sequential: ...

ModuleList = ModuleDict = Sequential

@layer(modes=True)
class AlphaDropout: ...

Dropout = Dropout1d = Dropout2d = Dropout3d = FeatureAlphaDropout = InstanceNorm1d = InstanceNorm3d = AlphaDropout
LazyBatchNorm1d = LazyBatchNorm2d = LazyBatchNorm3d = LazyInstanceNorm1d = LazyInstanceNorm2d = AlphaDropout
LazyInstanceNorm3d = RReLU = AlphaDropout

@matters()
@layer(weights=True, buffers=True, modes=True)
class SyncBatchNorm: ...

@computes(first_alone=True)
class CTCLoss: ...
