"""The failures of two lists: their jobs, their objects, and what is said of them."""

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from etcompile.status.explanation_text import explanation_text
from etcompile.status.explanations import Explanation, explanations
from status.explained import objects

CASES: list[dict[str, Any]] = [
    case
    for name in ("cases.yaml", "fresh_cases.yaml")
    for case in yaml.safe_load(Path(__file__).with_name(name).read_text("utf-8"))
]
STARTED = 600
"""Seconds ago."""
CAUSES = {
    "Exception": {"Exception", "Permission", "Connection", "Unreachable"},
    "Evicted": {"Evicted", "NodePressure", "EphemeralStorage"},
    "Drained": {"Evicted"},
    "Shutdown": {"NodeShutdown"},
    "GPUFault": {"Hardware"},
    "Memory": {"HostMemory"},
    "PeerFailed": {"RankEnded", "Killed"},
}
"""By the causes of the cases those of ours that say the same."""


ROOT = [
    {"name": "OMPI_ALLOW_RUN_AS_ROOT", "value": "1"},
    {"name": "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "value": "1"},
]
TRUST = (
    "printf 'StrictHostKeyChecking no\\nUserKnownHostsFile /dev/null\\n' >> /etc/ssh/ssh_config; "
)


def names(where: str) -> list[str]:
    return [case["name"] for case in CASES if case["where"] == where]


def case_of(name: str) -> dict[str, Any]:
    return next(case for case in CASES if case["name"] == name)


def job(case: dict[str, Any], image: str = "lab/torch:1", **main: Any) -> dict[str, Any]:
    """The PyTorchJob of a case, or its MPIJob.

    Args:
        main: Fields of the containers that run the training.
    """
    roles = ("Launcher", "Worker") if "launcher" in case else ("Master", "Worker")
    code = "program" in case
    replicas = {}
    for kind in roles:
        container = {"name": "pytorch", "image": image, **main}
        pod: dict[str, Any] = {}
        if kind == "Worker":
            container |= case.get("container", {})
            pod = dict(case.get("pod", {}))
        if code:
            mounts = container.get("volumeMounts", [])
            container["volumeMounts"] = [*mounts, {"name": "code", "mountPath": "/code"}]
            volume = {"name": "code", "configMap": {"name": "code", "defaultMode": 0o644}}
            pod["volumes"] = [*pod.get("volumes", []), volume]
        if "launcher" in case:
            container |= {"name": "mpi", "env": ROOT}
            container.pop("command", None)
            if kind == "Launcher":
                container["command"] = ["sh", "-c", f"{TRUST}{case['launcher']}"]
        pod["containers"] = [container, *pod.get("containers", [])]
        replicas[kind] = {
            "replicas": case.get("workers", 2) if kind == "Worker" else 1,
            "restartPolicy": case.get("restart", "Never"),
            "template": {"spec": pod},
        }
    policy = {"cleanPodPolicy": "None", **case.get("policy", {})}
    metadata = {"name": "train", "annotations": case.get("annotations", {})}
    if "launcher" in case:
        return {
            "apiVersion": "kubeflow.org/v2beta1",
            "kind": "MPIJob",
            "metadata": metadata,
            "spec": {"runPolicy": {**policy, "backoffLimit": 0}, "mpiReplicaSpecs": replicas},
        }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": metadata,
        "spec": {"runPolicy": policy, "pytorchReplicaSpecs": replicas},
    }


def stamp(ago: float) -> str:
    return datetime.fromtimestamp(time.time() - ago, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def explained(case: dict[str, Any]) -> Explanation:
    """What is said of a case whose Pods have the statuses that it names."""
    values = objects(job(case))
    events = []
    pods = [value for value in values if value["kind"] == "Pod"]
    for number, pod in enumerate(pods):
        pod["metadata"] |= {"uid": f"uid-{number}", "creationTimestamp": stamp(STARTED)}
        facts = case["pods"].get(pod["metadata"]["name"].removeprefix("train-"), {})
        if facts.get("phase", "Running") != "Pending" or "waiting" in facts:
            pod["spec"]["nodeName"] = f"gpu-{number}"
        pod["status"] = status(facts)
    for number, event in enumerate(case.get("events", [])):
        pod = next(pod for pod in pods if pod["metadata"]["name"] == f"train-{event['pod']}")
        about = {"kind": "Pod", "namespace": "ml", "name": pod["metadata"]["name"]}
        events.append(
            {
                "kind": "Event",
                "metadata": {"name": f"event-{number}", "namespace": "ml"},
                "involvedObject": {**about, "uid": pod["metadata"]["uid"]},
                "lastTimestamp": stamp(event["ago"]),
                **{key: event[key] for key in ("type", "reason", "message")},
            }
        )
    [why] = explanations([*values, *events])
    return why


def status(facts: dict[str, Any]) -> dict[str, Any]:
    """The status of a Pod, as its kubelet would write it."""
    result = {"phase": facts.get("phase", "Running")}
    result |= {key: facts[key] for key in ("reason", "message") if key in facts}
    result["conditions"] = [
        {"status": "True", "lastTransitionTime": stamp(STARTED - facts.get("at", 0)), **condition}
        for condition in facts.get("conditions", [])
    ]
    if result["phase"] == "Running":
        result["conditions"].append({"type": "Ready", "status": "True"})
    if "unscheduled" in facts:
        reason = result.pop("reason", "Unschedulable")
        condition = {"type": "PodScheduled", "status": "False", "reason": reason}
        result["conditions"].append({**condition, "message": facts["unscheduled"]})
        return result
    container = {"name": "pytorch", "restartCount": 0, "ready": result["phase"] == "Running"}
    if "waiting" in facts:
        container["state"] = {"waiting": facts["waiting"]}
    elif "container" in facts:
        how = dict(facts["container"])
        at = how.pop("at", None)
        if at is not None:
            how["finishedAt"] = stamp(STARTED - at)
        container["state"] = {"terminated": {**how, "message": facts.get("log", "")}}
    elif result["phase"] == "Running":
        container["state"] = {"running": {"startedAt": stamp(STARTED)}}
    else:
        return result
    return {**result, "containerStatuses": [container]}


def check(case: dict[str, Any], why: Explanation) -> None:
    """Holds what is said against what the case expects."""
    expected, text = case["expect"], explanation_text(why, datetime.now(UTC))
    lowered = " ".join(text.split()).lower()
    first = why.last.first if why.last is not None else None
    held = {replica.name for replica in why.held}
    cause = expected.get("cause")
    if cause == "Waiting":
        assert held, text
        assert first is None, text
    elif cause == "none":
        assert (first, held) == (None, set()), text
    elif cause == "DeadlineExceeded":
        assert why.verdict.startswith(cause), text
        assert first is None, text
    elif cause == "Suspended":
        assert why.status.phase == "Suspended", text
    elif cause is not None:
        assert first is not None, text
        assert first.cause.name in CAUSES.get(cause, {cause}), text
    if "first" in expected:
        assert cause == "Waiting" or first is not None, text
        name, pods = f"train-{expected['first']}", {first.pod} if first is not None else held
        # A Job of Kubernetes creates launchers, under names of its own.
        assert any(pod == name or pod.startswith("train-launcher-") for pod in pods), text
    if "same" in expected:
        assert why.last is not None, text
        same = {failure.pod for failure in (why.last.first, *why.last.tied)}
        assert same == {f"train-{name}" for name in expected["same"]}, text
    if "container" in expected:
        assert first is not None
        assert first.container == expected["container"], text
    if "verdict" in expected:
        assert expected["verdict"] in why.status.because, text
    for words in expected.get("says", []):
        assert words.lower() in lowered, text
    for words in expected.get("never", []):
        assert words.lower() not in lowered, text
    if why.attempts:
        to_blame = {
            failure.pod
            for attempt in why.attempts
            for failure in (attempt.first, *attempt.tied, *attempt.others)
            # A Pod that lost a peer may end the run before that peer has ended.
            if failure.cause.may_follow or failure not in attempt.others
        }
        # The Job is named that creates the launchers.
        to_blame |= {pod.rpartition("-")[0] for pod in to_blame if "-launcher-" in pod}
        assert culprits(why) <= to_blame, text


def culprits(why: Explanation) -> set[str]:
    """Return the Pods that the reason of the run and its Events name."""
    reasons = ("JobFailed", "JobRestarted")
    texts = [event.message for event in why.status.events if event.reason in reasons]
    return {
        name
        for text in (why.status.because, *texts)
        for name in re.findall(r"\btrain-(?:master|worker|launcher)[-\w]*", text)
    }
