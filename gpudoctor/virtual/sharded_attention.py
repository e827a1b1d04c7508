"""Attention of tensors over a mesh: PyTorch knows how its kernels of CUDA are sharded, and not that of the CPU.

As with those: alike on all ranks, by heads, or by samples.
"""

from __future__ import annotations

from typing import Any

import torch

_SDPA = "_scaled_dot_product_flash_attention_for_cpu"
_RESULTS, _GRADIENTS = 2, 3
"""Tensors that the kernel returns, and the one of its backward."""
_NUMBERS = 3
"""Behind so many tensors, the numbers among the arguments begin."""


def install() -> None:
    """Tell PyTorch how the CPU's kernels are sharded; `torch.distributed.tensor` has been imported."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
    from torch.distributed.tensor._ops import _matrix_ops, utils

    # Torch 2.10 alone has it elsewhere.
    register = (
        utils.register_op_strategy if hasattr(utils, "register_op_strategy") else _matrix_ops.register_op_strategy
    )

    def strategy_of(results: int) -> Any:
        def strategy(*given: Any) -> Any:
            # Before torch 2.8, the mesh is handed over beside the schema.
            schema = given[-1]
            mesh = given[0] if len(given) > 1 else schema.get_mesh_from_args()
            tensors = [each for each in schema.args_schema if hasattr(each, "strategies")]
            alike = results + len(tensors)
            ways = [[placement] * alike for placement in (Replicate(), Shard(1), Shard(0))]
            return utils.expand_to_full_mesh_op_strategy(mesh, schema, ways, input_index=results)

        return strategy

    for name, results in ((_SDPA, _RESULTS), (f"{_SDPA}_backward", _GRADIENTS)):
        operator = getattr(torch.ops.aten, name).default
        register(operator, schema_info=RuntimeSchemaInfo(_NUMBERS))(strategy_of(results))
