"""Complete torchtune's command `tune run` by the runtime's name and resources, as Trainer does.

See reference/trainer-v2.md 5.2.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.frontends.trainer.policies import processes
from etcompile.frontends.trainer.training_run import PORT, TUNE, Training
from etcompile.k8s.requests import gpus

_MODELS = ("llama3_2/1B", "llama3_2/3B", "llama3_3/70B", "qwen2_5/1.5B")
_LARGE = "llama3_3/70B"
_FIXED = ("output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir")


def command(training: Training, container: Mapping[str, Any]) -> list[str]:
    """Return the whole command of a node, whose container has all its resources."""
    devices, is_single = _devices(training, container)
    lora, quantized = _adapters(training)
    kind = "qlora" if quantized else "lora" if lora else "full"
    recipe = "lora_finetune" if lora else "full_finetune"
    if (nodes := training.nodes) > 1:
        recipe, suffix = "full_finetune_distributed", "_full_multinode"
    elif is_single:
        recipe, suffix = f"{recipe}_single_device", f"_{kind}_single_device"
    else:
        recipe, suffix = f"{recipe}_distributed", f"_{kind}"
    endpoint = [f"--rdzv_endpoint={training.first_host}:{PORT}"] if max(nodes, devices) > 1 else []
    before = container.get("command", ())
    preserved = [word for word in before if word.partition("=")[0] in _FIXED and "=" in word]
    return [*TUNE, *endpoint, recipe, "--config", f"{_model(training)}{suffix}", *preserved]


def problems(training: Training, container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the field and the reason why a command cannot be completed (Trainer's webhook)."""
    name, nodes = _model(training), training.nodes
    if name is None:
        runtime, known = training.runtime_name, ", ".join(_MODELS)
        yield "command", f"the name of the runtime, {runtime}, names no model of {known}"
        return
    for word in training.stated.get("args", ()):
        if word.partition("=")[0] in _FIXED:
            yield "args", f"{word.partition('=')[0]} is the runtime's to set"
    lora, quantized = _adapters(training)
    if nodes > 1 and name != _LARGE:
        yield "numNodes", f"only {_LARGE} trains on several nodes"
    elif nodes > 1 and lora:
        yield "args", "LoRA and QLoRA train on one node"
    elif quantized and name.startswith("qwen"):
        yield "args", "QLoRA is not there for Qwen"
    elif quantized and name.startswith("llama3_2") and not _devices(training, container)[1]:
        yield "args", "QLoRA of Llama 3.2 trains on one device"


def _model(training: Training) -> str | None:
    """Return the model of a runtime by its name: `torchtune-llama3.2-1b` is `llama3_2/1B`."""
    parts = training.runtime_name.split("-")
    name = f"{parts[1].replace('.', '_')}/{parts[2].upper()}" if len(parts) == 3 else None
    return name if name in _MODELS else None


def _adapters(training: Training) -> tuple[bool, bool]:
    args = training.stated.get("args", ())
    lower = [*map(str.lower, args)]
    quantized = "model.quantize_base=true" in lower and "model.use_dora=true" not in lower
    return quantized or any("model.lora_attn_modules" in word for word in args), quantized


def _devices(training: Training, container: Mapping[str, Any]) -> tuple[int, bool]:
    count = processes(training, container)
    devices = gpus(container) if count == "auto" else int(count)
    return devices, devices == 1 or gpus(container) == 1
