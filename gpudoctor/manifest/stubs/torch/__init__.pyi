"""Tensors and operations on them, what files hold, and random numbers of the process."""

from gpudoctor.manifest.effects import Metadata, computes, draws, matters, saves, seeds

class OutOfMemoryError(RuntimeError): ...

class Tensor:
    """What is said of its methods goes for functions of the same name. Nobody asks for their parameters."""

    shape: Metadata
    dtype: Metadata
    ndim: Metadata
    is_cuda: Metadata
    requires_grad: Metadata
    grad_fn: Metadata
    is_leaf: Metadata
    layout: Metadata
    names: Metadata

    @computes(describes=True)
    def size(self, **more): ...
    dim = numel = element_size = is_contiguous = stride = data_ptr = get_device = size

    @computes(each_number=True)
    def abs(self, **more): ...
    absolute = neg = negative = sqrt = rsqrt = reciprocal = exp = exp2 = expm1 = log = log2 = log10 = log1p = abs
    sin = cos = tan = asin = acos = atan = sinh = cosh = tanh = asinh = acosh = atanh = sinc = abs
    sigmoid = logit = relu = erf = erfc = lgamma = digamma = clamp = clip = nan_to_num = abs
    round = floor = ceil = trunc = frac = sign = sgn = tril = triu = clone = abs
    @computes(each_number=True, measures=True)
    def square(self, **more): ...
    @computes(each_number=True, shares=True)
    def float(self, **more): ...
    half = double = bfloat16 = contiguous = detach = float
    @computes(each_number=True, shares=True, without_graph=True)
    def long(self, **more): ...
    int = short = byte = bool = long
    @computes(each_number=True, shares=True, first_alone=True, may_be_number=True)
    def squeeze(self, **more): ...
    @computes(shares=True)
    def to(self, **more): ...
    cuda = cpu = type = requires_grad_ = to

    @computes(combines=True)
    def add(self, **more): ...
    sub = subtract = maximum = minimum = fmax = fmin = fmod = remainder = hypot = atan2 = add
    @computes(combines=True, measures=True)
    def pow(self, **more): ...
    @computes(combines=True, scales=True)
    def mul(self, **more): ...
    multiply = div = divide = true_divide = floor_divide = mul
    @computes(scales=True, meets=True)
    def mul_(self, **more): ...
    multiply_ = div_ = divide_ = true_divide_ = floor_divide_ = mul_
    @computes(meets=True)
    def add_(self, **more): ...
    sub_ = where = masked_fill = gather = scatter = index_select = matmul = mm = bmm = addmm = add_
    @computes(meets=True, measures=True)
    def dot(self, **more): ...
    @computes(reshapes=True)
    def view(self, **more): ...
    reshape = view_as = reshape_as = flatten = unflatten = unsqueeze = expand = expand_as = broadcast_to = view
    permute = transpose = t = movedim = swapaxes = swapdims = repeat = tile = repeat_interleave = flip = roll = view
    @computes(splits=True, first_alone=True)
    def chunk(self, **more): ...
    split = split_with_sizes = tensor_split = unbind = chunk
    @computes(first_alone=True)
    def narrow(self, **more): ...
    topk = kthvalue = multinomial = unfold = narrow
    @computes(fills=True, first_alone=True)
    def new_zeros(self, **more): ...
    new_ones = new_full = new_empty = new_zeros

    @computes(spreads=True)
    def softmax(self, **more): ...
    log_softmax = cumsum = cumprod = logcumsumexp = renorm = softmax
    @computes(spreads=True, without_graph=True)
    def argsort(self, **more): ...
    @computes(reduces=True)
    def sum(self, **more): ...
    mean = max = min = amax = amin = std = var = norm = sum
    @computes(reduces=True, without_graph=True)
    def any(self, **more): ...
    all = any
    @computes(measures=True, without_graph=True)
    def histc(self, **more): ...
    @computes(without_graph=True)
    def argmax(self, **more): ...
    argmin = bincount = count_nonzero = allclose = equal = argmax
    @computes(picks=True)
    def masked_select(self, **more): ...
    unique_consecutive = masked_select
    @computes(picks=True, without_graph=True)
    def nonzero(self, **more): ...
    unique = nonzero
    @computes(answers=True)
    def eq(self, **more): ...
    ne = lt = le = gt = ge = isclose = isnan = isinf = isfinite = eq
    logical_and = logical_or = logical_xor = logical_not = eq

    @computes(overwrites=True)
    def fill_(self, **more): ...
    zero_ = set_ = fill_
    @computes(overwrites=True, first_alone=True)
    def copy_(self, **more): ...
    @computes()
    def backward(self, **more): ...
    item = tolist = numpy = type_as = register_hook = retain_grad = new = new_tensor = logsumexp = backward
    cummax = cummin = prod = median = mode = backward
    aminmax = nansum = nanmean = sort = msort = diff = trace = det = diag = diagonal = inverse = pinverse = backward
    baddbmm = addbmm = mv = outer = inner = cross = lerp = adjoint = take = take_along_dim = rot90 = backward
    fliplr = flipud = index_add = index_copy = index_fill = index_put = scatter_add = scatter_reduce = backward

@computes(joins=True)
def cat(tensors, **more): ...

concat = concatenate = stack = hstack = vstack = cat

@computes(each_number=True)
def tensor(data, **more): ...
@computes(each_number=True, fills=True)
def zeros_like(input, **more): ...

ones_like = empty_like = full_like = zeros_like

@computes(meets=True)
def einsum(*args): ...
@computes(meets=True)
def cdist(x1, x2, **more): ...
@computes(without_graph=True)
def searchsorted(*args, **more): ...

bucketize = searchsorted

@matters()
def load(f, map_location=None, pickle_module=None, **more): ...
@saves(path="f", content="obj")
def save(obj, f, **more): ...
@seeds(of="torch cuda", by="seed")
def manual_seed(seed): ...
@seeds(of="torch cuda")
def seed(): ...
@draws()
def bernoulli(input, **more): ...

rand_like = randn_like = bernoulli

@draws(repeats=True)
def multinomial(input, num_samples, replacement=False, **more): ...
@draws()
def normal(mean, std, **more): ...
@draws()
def rand(*size, **more): ...
@draws(repeats=True)
def randint(*bounds_and_size, **more): ...
@draws(repeats=True)
def randint_like(input, *bounds, **more): ...
@draws()
def randn(*size, **more): ...
@draws(orders=True)
def randperm(n, **more): ...
