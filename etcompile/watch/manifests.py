"""The watcher as objects of a cluster: the kustomizations in `templates/watcher`, for one place.

What kustomize does with these files by `namespace:`, labels and components is done here for the
options of `etcompile watch --manifests`; what the objects say stands in the files alone.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from etcompile import data
from etcompile._version import __version__
from etcompile.k8s.objects import LiveObject
from etcompile.model.protocol import WATCH
from etcompile.watch.admission import POLICY
from etcompile.watch.rights import OPTIONAL, base_rules, shipped

NAME = WATCH
"""Of all objects of the watcher, its Lease included, unless it is given another name."""
PORT = 8080
DASHBOARD = "etcompile.json"
"""The file of the Grafana dashboard, and its key in the ConfigMap."""


class Installation(Struct, frozen=True):
    """How a watcher is to run.

    Args:
        home: The namespace it runs in, and of its Lease.
        namespaces: Those it watches; None for all.
        selector: Which jobs it looks after, as a label selector; empty for all.
        replicas: How many of it run, of which one acts.
        logs, quotas, removal, gangs: With these rights of `OPTIONAL`.
        policy: With the policy that says who may write the ConfigMaps that it acts on.
        name: What it is called: its objects and its Lease. Watchers of one home that have the same
            name are one watcher, of which one acts.
        pod_monitor: With a PodMonitor, for the Prometheus operator.
        dashboard: With the Grafana dashboard, in a ConfigMap that Grafana's sidecar finds.
    """

    home: str
    namespaces: tuple[str, ...] | None
    image: str = f"ghcr.io/etcompile/etcompile:{__version__}"
    selector: str = ""
    replicas: int = 2
    logs: bool = False
    policy: bool = True
    name: str = NAME
    pod_monitor: bool = False
    dashboard: bool = False
    quotas: bool = False
    removal: bool = False
    gangs: bool = False


def manifests(installation: Installation) -> list[LiveObject]:
    """The objects of a watcher, in the order in which they are applied."""
    made = installation
    return [
        *([] if made.namespaces is not None else _namespace(made)),
        # First of all: the watcher trusts what it finds.
        *(_policy(made) if made.policy else []),
        *_placed(made, "base/serviceaccount.yaml"),
        *_placed(made, "base/lease.yaml"),
        *_rights(made),
        *_placed(made, "base/networkpolicy.yaml"),
        *_placed(made, "base/poddisruptionbudget.yaml"),
        *(_placed(made, "components/pod-monitor/podmonitor.yaml") if made.pod_monitor else []),
        *([_dashboard(made)] if made.dashboard else []),
        *_deployment(made),
    ]


def _labels(name: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/part-of": "etcompile",
        "app.kubernetes.io/managed-by": "etcompile",
    }


def _placed(made: Installation, path: str, namespace: str = "") -> Iterator[LiveObject]:
    """The objects of a file, called like the watcher and in its namespace, or in another one."""
    for value in shipped(path):
        found = _renamed(made, value)
        metadata = found["metadata"]
        metadata["labels"] = {**metadata.get("labels", {}), **_labels(made.name)}
        if namespace:
            metadata["namespace"] = namespace
        yield found


def _renamed(made: Installation, value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: made.home if (key, inner) == ("namespace", NAME) else _renamed(made, inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_renamed(made, inner) for inner in value]
    is_ours = value == NAME or (isinstance(value, str) and value.startswith(f"{NAME}-"))
    return made.name + value.removeprefix(NAME) if is_ours else value


def _namespace(made: Installation) -> Iterator[LiveObject]:
    for value in _placed(made, "cluster-wide/namespace.yaml"):
        value["metadata"]["name"] = made.home
        yield value


def _policy(made: Installation) -> list[LiveObject]:
    """The policy, which is the same for all watchers of a cluster, and where it holds."""
    policy, binding = shipped("policy/policy.yaml")
    policy["metadata"]["labels"] = _labels(NAME)
    watcher = made.home if made.name == NAME else f"{made.home}.{made.name}"
    binding["metadata"] = {"name": f"{POLICY}-{watcher}", "labels": _labels(made.name)}
    if made.namespaces is None:
        del binding["spec"]["matchResources"]
    else:
        [term] = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
        term["values"] = [*made.namespaces]
    return [policy, binding]


def _rights(made: Installation) -> Iterator[LiveObject]:
    if made.namespaces is None:
        found = [*_placed(made, "cluster-wide/clusterrole.yaml")]
    else:
        found = [
            value
            for namespace in made.namespaces
            for value in _placed(made, "rights/role.yaml", namespace)
        ]
    chosen = [right for option, right in OPTIONAL.items() if getattr(made, option)]
    for value in found:
        if "rules" in value:
            value["rules"] = [*base_rules(), *(rule for right in chosen for rule in right.rules())]
        yield value


def _dashboard(made: Installation) -> LiveObject:
    """The label is the one that the sidecar of Grafana's chart looks for, unless told otherwise."""
    labels = {**_labels(made.name), "grafana_dashboard": "1"}
    metadata = {"name": f"{made.name}-dashboard", "namespace": made.home, "labels": labels}
    file = data.folder("templates") / "watcher/kustomize/components/dashboard" / DASHBOARD
    content = {DASHBOARD: file.read_text("utf-8")}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": content}


def _deployment(made: Installation) -> Iterator[LiveObject]:
    for value in _placed(made, "base/deployment.yaml"):
        spec = value["spec"]
        spec["replicas"] = made.replicas
        spec["template"]["metadata"] = {"labels": _labels(made.name)}
        [container] = spec["template"]["spec"]["containers"]
        container.update(image=made.image, args=_arguments(made))
        yield value


def _arguments(made: Installation) -> list[str]:
    watched = made.namespaces
    where = (
        ["--all-namespaces"]
        if watched is None
        else [word for namespace in watched for word in ("--namespace", namespace)]
    )
    which = ["--selector", made.selector] if made.selector else []
    name = ["--name", made.name] if made.name != NAME else []
    return ["watch", *where, *which, "--home", made.home, *name, "--listen", f":{PORT}"]
