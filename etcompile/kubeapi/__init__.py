"""The Kubernetes API as etcompile needs it: objects are JSON values, requests are made safely.

    with connect(context="prod") as cluster:
        pods = cluster.resource("v1", "Pod")
        for page in cluster.pages(pods, labels="etcompile.dev/job=bert"):
            ...
        cluster.server_side_apply(pod)

No models: an object is what `json` makes of it, because it came from a manifest and goes into a
comparison. `session.py` decides what a request may do when it fails half-way, by what the API
server promises about it.

Only commands that talk to a cluster import this package.
"""

from etcompile.kubeapi.client import Cluster, connect
from etcompile.kubeapi.errors import ClusterError
from etcompile.kubeapi.resources import Resource
from etcompile.kubeapi.session import Retries
from etcompile.kubeapi.watch_stream import Watch

__all__ = [
    "Cluster",
    "ClusterError",
    "Resource",
    "Retries",
    "Watch",
    "connect",
]
