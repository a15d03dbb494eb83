"""Jobs that have failed, as the objects by which `etcompile why` explains them."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import etcompile
from etcompile.causes.goodput import Attempt, Timeline, timeline_text
from etcompile.causes.log import Failure, FailureLog, log_text
from etcompile.model.run_record import RunRecord, record_data
from etcompile.status.explanations import Explanation, explanations
from specs import kubeflow_job

NOW = datetime(2026, 11, 23, 10, 10, tzinfo=UTC)
AT = datetime(2026, 11, 23, 10, 0, tzinfo=UTC).timestamp()
LOST = "ConnectionResetError: Connection reset by peer"


def objects(*inputs: dict[str, Any] | Path) -> list[dict[str, Any]]:
    compilation = etcompile.compile([*inputs], etcompile.Options(default_namespace="ml"))
    assert compilation.ok, compilation.diagnostics
    return [dict(value) for value in compilation.objects]


def run_of(values: list[dict[str, Any]]) -> str:
    pod = next(value for value in values if value["kind"] == "Pod")
    return str(pod["metadata"]["annotations"]["etcompile.dev/spec-hash"])


def give(values: list[dict[str, Any]], status: Callable[[str], dict[str, Any]]) -> None:
    """Gives each Pod a status, by its name."""
    for value in values:
        if value["kind"] == "Pod":
            value["status"] = status(value["metadata"]["name"])


def unschedulable(words: str) -> dict[str, Any]:
    lacks = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"phase": "Pending", "conditions": [{**lacks, "message": words}]}


def warning(pod: str, reason: str, message: str, at: str, **about: str) -> dict[str, Any]:
    return {
        "kind": "Event",
        "metadata": {"name": f"{pod}.{reason}", "namespace": "ml"},
        "involvedObject": {"kind": "Pod", "namespace": "ml", "name": pod, **about},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
    }


def record(values: list[dict[str, Any]], log: FailureLog, **facts: Any) -> dict[str, Any]:
    data = record_data(RunRecord(run_of(values), **facts)) | {"failures": log_text(log)}
    metadata = {"name": "mnist-etcompile-status", "namespace": "ml"}
    return {"kind": "ConfigMap", "metadata": metadata, "data": data}


def failure(index: int, at: float, attempt: int = 0, **more: Any) -> Failure:
    facts = {"code": 1, "reason": "Error", "node": f"gpu-{index}", **more}
    name = f"mnist-worker-{index}"
    return Failure("worker", index, name, f"uid-{index}.main.{attempt}", attempt, at, **facts)


def of_all_pods_gone() -> Explanation:
    """A gang that has failed twice for a rank without memory, and of which nothing is left."""
    values = objects(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 8}))
    log = FailureLog(run_of(values))
    for attempt in range(2):
        began = AT - 300 * (1 - attempt)
        new = [failure(index, began + 1, attempt, tail=LOST) for index in range(7)]
        died = failure(7, began, attempt, code=137, reason="OOMKilled", tail="step 8\nallocating")
        log = log.with_failures([*new, died], (), began)
    why = "mnist-worker-7: its container was killed, after 1 restarts of the job"
    facts = {"phase": "Failed", "reason": "BackoffLimitExceeded", "message": why, "restarts": 1}
    others = [value for value in values if value["kind"] != "Pod"]
    [explanation] = explanations([*others, record(values, log, **facts)])
    return explanation


def of_many_ranks(
    ranks: int, attempts: int = 4, *, tail: str = "step 811\nevaluating", **odd: str
) -> Explanation:
    """A run of which rank 3 has failed again and again, and lost the connection of the others.

    Args:
        ranks: How many there are beside the master.
        tail: The last lines of what failed first.
        odd: More of what failed first.
    """
    values = objects(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": ranks}))
    run = run_of(values)
    log = FailureLog(run)
    began, history, times = AT - 20000.0, [], []
    for number in range(attempts):
        end = began + (9000, 300, 4000, 3600)[number % 4]
        new = [failure(n, end + 1, number, tail=LOST) for n in range(min(ranks, 7)) if n != 3]
        first = {"code": 137, "reason": "OOMKilled", "tail": tail, **odd}
        log = log.with_failures([*new, failure(3, end, number, **first)], (), end)
        history.append(Attempt(number, began, end + 20, "mnist-worker-3: exit code 137"))
        times.append((began + 120, end))
        began = end + 20
    why = f"mnist-worker-3: exit code 137, after {attempts - 1} restarts of the job"
    facts = {"phase": "Failed", "reason": "BackoffLimitExceeded", "message": why, "finished": began}
    status = record(values, log, restarts=attempts - 1, **facts)
    timeline = Timeline(run, AT - 20000, tuple(history), tuple(times))
    status["data"]["timeline"] = timeline_text(timeline)
    others = [value for value in values if value["kind"] != "Pod"]
    [explanation] = explanations([*others, status], now=NOW.timestamp())
    return explanation
