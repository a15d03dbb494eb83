"""`volumeClaimPolicies` of a TrainJob's runtime: claims that its Pods share, and their volumes.

reference/trainer-v2.md 7.3. Apart from the merge and the lowering, which both need the names.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.model import Claim

_SINGLE = "ReadWriteOnce"
_HOST = "kubernetes.io/hostname"


def templates(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The templates of claims in the spec of a runtime, JSON."""
    for policy in spec["template"]["spec"].get("volumeClaimPolicies", ()):
        yield from policy.get("templates", ())


def claim_name(template: Mapping[str, Any], job: Mapping[str, Any]) -> str:
    """The name of the claim that a job has of a template."""
    return f"{template['metadata']['name']}-{job['metadata']['name']}"


def volume(template: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, Any]:
    """The volume of a Pod that mounts the claim which a job has of a template."""
    claim = {"claimName": claim_name(template, job)}
    return {"name": template["metadata"]["name"], "persistentVolumeClaim": claim}


def claims(job: Mapping[str, Any], spec: Mapping[str, Any]) -> tuple[Claim, ...]:
    """The claims of a job."""
    return tuple(
        Claim(
            name=claim_name(template, job),
            spec=template.get("spec", {}),
            labels=template["metadata"].get("labels", {}),
            annotations=template["metadata"].get("annotations", {}),
        )
        for template in templates(spec)
    )


def mount(job: Mapping[str, Any], spec: dict[str, Any]) -> None:
    """Gives each Pod template a volume for each claim that one of its containers mounts.

    A claim of ReadWriteOnce can be attached to one node. JobSet makes Pods one after the other;
    here who waits is there from the start, so where each of its Jobs has one Pod these are kept
    together: else who waits could hold the volume that another needs on another node.
    """
    jobs = spec["template"]["spec"]["replicatedJobs"]
    for template in templates(spec):
        name = template["metadata"]["name"]
        users = []
        for replicated in jobs:
            pod = replicated["template"]["spec"]["template"]["spec"]
            if name not in set(mounted(pod)):
                continue
            others = [other for other in pod.get("volumes", ()) if other["name"] != name]
            pod["volumes"] = [*others, volume(template, job)]
            users.append(replicated)
        single = template.get("spec", {}).get("accessModes") == [_SINGLE]
        if single and len(users) > 1 and all(_is_one(replicated) for replicated in users):
            for replicated in users:
                _keep_together(replicated, users, job)


def mounted(pod: Mapping[str, Any]) -> Iterator[str]:
    """The names of the volumes that the containers of a Pod mount."""
    for field in ("initContainers", "containers"):
        for container in pod.get(field, ()):
            yield from (mount["name"] for mount in container.get("volumeMounts", ()))


def _is_one(replicated: Mapping[str, Any]) -> bool:
    count = replicated["template"]["spec"]["parallelism"] * (replicated.get("replicas") or 1)
    return bool(count == 1)


def _keep_together(
    replicated: dict[str, Any], users: list[Mapping[str, Any]], job: Mapping[str, Any]
) -> None:
    pod = replicated["template"]["spec"]["template"]["spec"]
    term = {
        "labelSelector": {
            "matchExpressions": [
                {
                    "key": "jobset.sigs.k8s.io/replicatedjob-name",
                    "operator": "In",
                    "values": [user["name"] for user in users],
                }
            ],
            "matchLabels": {"jobset.sigs.k8s.io/jobset-name": job["metadata"]["name"]},
        },
        "topologyKey": _HOST,
    }
    affinity = pod.setdefault("affinity", {})
    near = affinity["podAffinity"] = {**affinity.get("podAffinity", {})}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    if term not in near.get(required, []):
        near[required] = [*near.get(required, []), term]
