"""The command of torchtune: Trainer completes `tune run` by the runtime's name and resources.

reference/trainer-v2.md 5.2. Apart from the policies, because it is a table of its own.
"""

from collections.abc import Iterator, Sequence

from etcompile.frontends.trainer.policies import PORT, NodeFacts
from etcompile.k8s.requests import gpus

COMMAND = ["tune", "run"]
"""The command of a TrainJob that is completed."""
_MODELS = ("llama3_2/1B", "llama3_2/3B", "llama3_3/70B", "qwen2_5/1.5B")
_LARGE = "llama3_3/70B"
_KEPT = ("output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir")
_PARTS = 3


def model(runtime: str) -> str | None:
    """The model of a runtime of this name: `torchtune-llama3.2-1b` is `llama3_2/1B`."""
    parts = runtime.split("-")
    if len(parts) != _PARTS:
        return None
    name = f"{parts[1].replace('.', '_')}/{parts[2].upper()}"
    return name if name in _MODELS else None


def command(
    facts: NodeFacts, runtime: str, before: Sequence[str], args: Sequence[str]
) -> list[str]:
    """The whole command of a node."""
    lora, quantized = _adapters(args)
    kind = "qlora" if quantized else "lora" if lora else "full"
    recipe = "lora_finetune" if lora else "full_finetune"
    if facts.nodes > 1:
        recipe, suffix = "full_finetune_distributed", "_full_multinode"
    elif _is_single(facts):
        recipe, suffix = f"{recipe}_single_device", f"_{kind}_single_device"
    else:
        recipe, suffix = f"{recipe}_distributed", f"_{kind}"
    meets = facts.nodes > 1 or _devices(facts) > 1
    endpoint = [f"--rdzv_endpoint={facts.address}:{PORT}"] if meets else []
    preserved = [word for word in before if word.partition("=")[0] in _KEPT and "=" in word]
    return [*COMMAND, *endpoint, recipe, "--config", f"{model(runtime)}{suffix}", *preserved]


def problems(facts: NodeFacts, runtime: str, args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Why a command cannot be completed: the field, and the reason (Trainer's webhook)."""
    name = model(runtime)
    if name is None:
        known = ", ".join(_MODELS)
        yield "command", f"the name of the runtime, {runtime}, names no model of {known}"
        return
    for word in args:
        if word.partition("=")[0] in _KEPT:
            yield "args", f"{word.partition('=')[0]} is the runtime's to set"
    lora, quantized = _adapters(args)
    if facts.nodes > 1 and name != _LARGE:
        yield "numNodes", f"only {_LARGE} trains on several nodes"
    elif facts.nodes > 1 and lora:
        yield "args", "LoRA and QLoRA train on one node"
    elif quantized and name.startswith("qwen"):
        yield "args", "QLoRA is not there for Qwen"
    elif quantized and name.startswith("llama3_2") and not _is_single(facts):
        yield "args", "QLoRA of Llama 3.2 trains on one device"


def _adapters(args: Sequence[str]) -> tuple[bool, bool]:
    """Whether LoRA is asked for in any form, and whether it is QLoRA."""
    quantized = "model.quantize_base=true" in map(str.lower, args) and (
        "model.use_dora=true" not in map(str.lower, args)
    )
    return quantized or any("model.lora_attn_modules" in word for word in args), quantized


def _is_single(facts: NodeFacts) -> bool:
    return _devices(facts) == 1 or gpus(facts.container) == 1


def _devices(facts: NodeFacts) -> int:
    """How many processes there are on a node."""
    processes = facts.processes
    return gpus(facts.container) if processes == "auto" else int(processes)
