"""kpt: the Pods that a Pod waits for.

kpt applies nothing that depends on an object before that one is ready, and refuses to name an
object that is not in the package, so only Pods of the output are named.
"""

from etcompile.backend.gitops.situation import Situation
from etcompile.k8s.objects import Object


def annotations(value: Object, wave: int, situation: Situation) -> dict[str, str]:  # noqa: ARG001
    """What kpt should know of an object."""
    if value["kind"] not in ("Pod", "Job"):
        return {}
    hosts = situation.waits.get(value["metadata"].get("name", ""), ())
    namespace = situation.namespace or "default"
    named = ",".join(f"/namespaces/{namespace}/Pod/{host}" for host in hosts)
    return {"config.kubernetes.io/depends-on": named} if named else {}
