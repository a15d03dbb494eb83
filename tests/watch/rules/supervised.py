"""Jobs whose commands restart in place, for tests of what the watcher makes of it."""

from typing import Any

from specs import kubeflow_job
from world import World

FIRST = "mnist-master-0"


def pytorch_job(
    workers: int = 2, restart: str = "OnFailure", limit: int | None = None, **annotations: str
) -> dict[str, Any]:
    """A PyTorchJob that restarts in place, with further annotations of ours."""
    document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": workers}, restart)
    names = {f"etcompile.dev/{name.replace('_', '-')}": text for name, text in annotations.items()}
    document["metadata"]["annotations"] = {"etcompile.dev/restart": "in-place", **names}
    if limit is not None:
        document["spec"]["runPolicy"] = {"backoffLimit": limit}
    return document


def begins(epoch: int, restarts: int, why: str, row: int | None = None) -> str:
    """The line with which every supervisor begins an epoch."""
    row = restarts if row is None else row
    return f"epoch {epoch} begins (restarts: {restarts}, in a row: {row}): {why}"


def failed(who: str, code: int = 1) -> str:
    """The cause of an epoch whose predecessor ended with the failure of a replica."""
    return f"{who} failed first: exit code {code}"


def uids(world: World) -> dict[str, str]:
    return {name: pod.uid for name, pod in world.pods.items()}
