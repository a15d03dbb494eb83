"""How many GPUs a container has: the one answer that kinds, lint rules and converters share.

The operators look for "gpu" in the names of resources (reference/trainer-v2.md 5.1,
reference/training-operator.md 2). An amount of 0 is no GPU.
"""

from collections.abc import Mapping
from typing import Any

from etcompile.model.quantity import number


def gpus(container: Mapping[str, Any], *, slices: bool = False) -> int:
    """How many GPUs a container has, by its requests, else by its limits; 0 for none.

    Args:
        container: The container, JSON.
        slices: Whether `nvidia.com/mig-*` counts: CUDA sees a GPU, the operators do not.
    """
    for field in ("requests", "limits"):
        amounts = container.get("resources", {}).get(field, {})
        # Beside nvidia.com/gpu there may be nvidia.com/gpumem, which is memory.
        for name in sorted(amounts, key=lambda name: not name.endswith("/gpu")):
            is_gpu = "gpu" in name.lower() or (slices and name.startswith("nvidia.com/mig-"))
            if is_gpu and (count := int(number(amounts[name]) or 0)) > 0:
                return count
    return 0
