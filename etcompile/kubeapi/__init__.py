"""Talk to the Kubernetes API: objects are JSON values, and only safe requests are repeated.

    with connect(context="prod") as cluster:
        for page in cluster.pages(cluster.resource("v1", "Pod"), labels="etcompile.dev/job=bert"):
            ...

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
