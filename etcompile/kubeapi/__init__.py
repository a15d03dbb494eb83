"""The Kubernetes API as etcompile needs it: objects are JSON values, requests are made safely.

    with connect(context="prod") as cluster:
        pods = cluster.resource("v1", "Pod")
        for page in cluster.pages(pods, labels="etcompile.dev/job=bert"):
            ...
        cluster.server_side_apply(pod)

No models: an object is what `json` makes of it, because it came from a manifest and goes into a
comparison. What a request may do when it fails half-way (`retrying.py`) is decided apart from the
code that sends it, by what the API server promises about it.

Only commands that talk to a cluster import this package.
"""

from etcompile.kubeapi.client import Cluster, Listing, Page, connect
from etcompile.kubeapi.discovery import Resource
from etcompile.kubeapi.errors import Cause, ClusterError, FieldConflict
from etcompile.kubeapi.retrying import Repeat, Retries
from etcompile.kubeapi.watch import Event, Watch

__all__ = [
    "Cause",
    "Cluster",
    "ClusterError",
    "Event",
    "FieldConflict",
    "Listing",
    "Page",
    "Repeat",
    "Resource",
    "Retries",
    "Watch",
    "connect",
]
