"""Which attributes a wrapper answers for itself."""

from __future__ import annotations

from gpudoctor.lint.domain.module import Wrapper, WrapperKind

MODULE_API = frozenset(
    """
    T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda double
    dump_patches eval extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu
    load_state_dict modules mtia named_buffers named_children named_modules named_parameters parameters
    register_backward_hook register_buffer register_forward_hook register_forward_pre_hook
    register_full_backward_hook register_full_backward_pre_hook register_load_state_dict_post_hook
    register_load_state_dict_pre_hook register_module register_parameter register_state_dict_post_hook
    register_state_dict_pre_hook requires_grad_ set_extra_state set_submodule share_memory state_dict to
    to_empty train training type xpu zero_grad
    """.split()
)
"""What every module has, and a wrapper with it."""
GIVE_THEMSELVES = frozenset("to cuda cpu to_empty half float double bfloat16 type apply eval train".split())
"""Methods of modules that return the module they are called on."""
_PRIVATE = frozenset(
    """
    _apply _backward_hooks _backward_pre_hooks _buffers _call_impl _compiled_call_impl _forward_hooks
    _forward_hooks_always_called _forward_hooks_with_kwargs _forward_pre_hooks _forward_pre_hooks_with_kwargs
    _get_backward_hooks _get_backward_pre_hooks _get_name _maybe_warn_non_full_backward_hook _is_full_backward_hook
    _load_from_state_dict _load_state_dict_post_hooks _load_state_dict_pre_hooks _modules
    _named_members _non_persistent_buffers_set _parameters _register_load_state_dict_pre_hook
    _register_state_dict_hook _replicate_for_data_parallel _save_to_state_dict _slow_forward _state_dict_hooks
    _state_dict_pre_hooks _version _wrapped_call_impl
    """.split()
)
"""The same, where nobody should look."""
_DDP = frozenset(
    """
    _get_ddp_logging_data _set_static_graph _sync_buffers _sync_params allreduce_params broadcast_buffers
    bucket_bytes_cap ddp_uneven_inputs_config
    delay_allreduce device device_ids device_mesh device_type dim find_unused_parameters gather
    gradient_as_bucket_view is_multi_device_module join join_device join_hook logger logging_level
    mixed_precision module modules_buffers modules_params needs_allreduce no_sync output_device
    parameters_to_ignore process_group reducer register_comm_hook require_backward_grad_sync
    require_forward_param_sync scatter static_graph will_sync_module_buffers
    """.split()
)
_DATA_PARALLEL = frozenset(
    """
    device_ids dim gather module output_device parallel_apply replicate scatter src_device_obj
    """.split()
)
OWN = {WrapperKind.DDP: _DDP, WrapperKind.DATA_PARALLEL: _DATA_PARALLEL}
"""What the wrappers have beyond that. Those that pass attributes on to the model are not among them."""

CALLABLES = {
    WrapperKind.DDP: "torch.nn.parallel.DistributedDataParallel",
    WrapperKind.DATA_PARALLEL: "torch.nn.DataParallel",
    WrapperKind.FSDP: "torch.distributed.fsdp.FullyShardedDataParallel",
    WrapperKind.COMPILED: "torch._dynamo.eval_frame.OptimizedModule",
}
"""The canonical names of the classes."""
FSDP_MODULE = "torch.distributed.fsdp.FSDPModule"
"""What a model is, beside its own class, since it was sharded in place."""


INNER_MODULES = ("modules", "children", "named_modules", "named_children")
"""The methods of a module that hand out its parts."""
_PROTOCOLS = frozenset(
    "__enter__ __exit__ __next__ __aiter__ __anext__ __await__ __copy__ __deepcopy__ __getattr__ __setstate__ __del__ "
    "__constants__ __torch_function__ __array__ __fspath__ __file__ __path__ __version__ __slots__ __weakref__".split()
).union(*(dir(kind) for kind in (type, list, dict, set, int, float, str, type(lambda: 0))))


def wrapper_has(wrapper: Wrapper, name: str) -> bool | None:
    """Whether a wrapper answers for an attribute itself; None for a kind that passes attributes on."""
    own = OWN.get(wrapper.kind)
    if own is None:
        return True if name == "module" and wrapper.kind is not WrapperKind.COMPILED else None
    return name in own or every_module_has(name)


def every_module_has(name: str) -> bool:
    """An attribute that `nn.Module` itself brings along."""
    return name in MODULE_API or name in _PRIVATE or _is_protocol(name)


def _is_protocol(name: str) -> bool:
    """`__dict__`, `__len__`; but `self.__net__ = Net()` is an attribute like any other."""
    return name.startswith("__") and (not name.endswith("__") or name in _PROTOCOLS)
