"""Every example for every sync tool, and one with ssh keys with all that other options bring."""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import etcompile
from etcompile import Compilation, Options, Settings
from etcompile.model import GANGS, PROFILES
from etcompile.model.settings import secret_mode
from keysources import MODES, Means

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/*/job.yaml"))
TOOLS = [(profile,) for profile in PROFILES] + [PROFILES]
"""Each tool for itself, and all of them together."""
WITH_KEYS = ROOT / "examples" / "trainingjob" / "elastic-mnist"
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "checkpoints", "namespace": "ml"},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}}


@functools.cache
def rendered(
    example: Path,
    profiles: tuple[str, ...],
    *,
    gang: str = "none",
    secret: str = "runtime",
    means: Means | None = None,
) -> Compilation:
    """An example with all of its scale intents."""
    mode = secret_mode(means.mode(secret) if means else secret)
    # A Pod that Kueue has admitted with others cannot be scaled in.
    files = sorted(
        one for one in example.glob("*.yaml") if gang == "none" or "scale" not in one.name
    )
    run = None if gang == "none" else "r1"
    settings = Settings(profiles=profiles, gang=gang, secret=mode, run=run)
    options = Options(settings=settings, output=means.output if means else None)
    compilation = etcompile.compile(files, options)
    assert compilation.ok, (example, compilation.diagnostics)
    return compilation


def renders(profiles: tuple[str, ...], means: Means) -> Iterator[tuple[Path, Compilation]]:
    """All examples, and the one with keys for each gang scheduler and source of keys."""
    for example in EXAMPLES:
        yield example, rendered(example, profiles)
    options = [*((gang, "runtime") for gang in GANGS), *(("none", secret) for secret in MODES)]
    for gang, secret in options:
        yield WITH_KEYS, rendered(WITH_KEYS, profiles, gang=gang, secret=secret, means=means)


def objects(profiles: tuple[str, ...], means: Means) -> Iterator[Mapping[str, Any]]:
    for _, compilation in renders(profiles, means):
        yield from compilation.in_order()


def annotations(value: Mapping[str, Any]) -> Mapping[str, str]:
    annotations: Mapping[str, str] = value["metadata"].get("annotations", {})
    return annotations
