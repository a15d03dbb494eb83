"""What the status of a Pod means."""

from etcompile.k8s.objects import Object


def is_half_deleted(pod: Object) -> bool:
    """Whether the API server has marked a Pod as deleted and has only to remove it.

    It writes a deletion without grace in two steps, and leaves out the second when whoever asked
    is gone in between (k8s.io/apiserver, registry/rest/delete.go, BeforeDelete). No kubelet is
    waited for: the Pod has ended, or was never on a node. Who asks again finishes it.
    """
    metadata = pod["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    on_a_node = bool((pod.get("spec") or {}).get("nodeName"))
    return metadata.get("deletionGracePeriodSeconds") == 0 and (ended or not on_a_node)
