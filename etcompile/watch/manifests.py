"""The watcher as objects of a cluster: its rights, its Deployment and what protects them.

What it may do is in `etcompile.watch.rights`.
"""

from collections.abc import Sequence

from msgspec import Struct

from etcompile import data
from etcompile._version import __version__
from etcompile.k8s.objects import LiveObject
from etcompile.model.protocol import WATCH
from etcompile.watch import admission
from etcompile.watch.rights import OPTIONAL, RULES

NAME = WATCH
"""Of all objects of the watcher, its Lease included, unless it is given another name."""
PORT = 8080
DASHBOARD = "etcompile.json"
"""The file of the Grafana dashboard, and its key in the ConfigMap."""
_USER = 65532


def lease_rules(name: str = NAME) -> tuple[LiveObject, ...]:
    """What the watcher may do in the namespace of its Lease."""
    group = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    # A create cannot be limited to a name.
    return (
        {**group, "verbs": ["create"]},
        {**group, "resourceNames": [name], "verbs": ["get", "patch"]},
    )


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

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its objects."""
        return {**self.selected, **_LABELS}

    @property
    def selected(self) -> dict[str, str]:
        """The labels by which its Pods are known from those of another watcher."""
        return {"app.kubernetes.io/name": self.name}

    @property
    def rules(self) -> tuple[LiveObject, ...]:
        """What the watcher may do in each namespace."""
        chosen = [right for name, right in OPTIONAL.items() if getattr(self, name)]
        return (*RULES, *(rule for right in chosen for rule in right.rules))


def manifests(installation: Installation) -> list[LiveObject]:
    """The objects of a watcher, in the order in which they are applied."""
    made = installation
    account: LiveObject = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(made, made.home),
        # Its token is mounted by the Deployment, and by no Pod that happens to name the account.
        "automountServiceAccountToken": False,
    }
    lease = _role(made, made.home, lease_rules(made.name), f"{made.name}-lease")
    objects = [*_policy(made), account, *lease, *_rights(made)]
    if made.namespaces is None:
        objects.insert(0, _namespace(made))
    return [
        *objects,
        _network_policy(made),
        _disruption_budget(made),
        *([_pod_monitor(made)] if made.pod_monitor else []),
        *([_dashboard(made)] if made.dashboard else []),
        _deployment(made),
    ]


def _policy(made: Installation) -> list[LiveObject]:
    """First of all: the watcher trusts what it finds."""
    if not made.policy:
        return []
    # The policy itself is the same for all, whoever has applied it last.
    whose = made.home if made.name == NAME else f"{made.home}.{made.name}"
    return [
        admission.policy({"app.kubernetes.io/name": NAME, **_LABELS}),
        admission.binding(whose, made.namespaces, made.labels),
    ]


def _rights(made: Installation) -> list[LiveObject]:
    if made.namespaces is not None:
        return [
            right
            for namespace in made.namespaces
            for right in _role(made, namespace, made.rules, made.name)
        ]
    return [
        {
            "apiVersion": _RBAC,
            "kind": "ClusterRole",
            "metadata": _metadata(made),
            "rules": [*made.rules],
        },
        {
            "apiVersion": _RBAC,
            "kind": "ClusterRoleBinding",
            "metadata": _metadata(made),
            "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": made.name},
            "subjects": [_subject(made)],
        },
    ]


_GROUP = "rbac.authorization.k8s.io"
_RBAC = f"{_GROUP}/v1"
_LABELS = {
    "app.kubernetes.io/part-of": "etcompile",
    "app.kubernetes.io/managed-by": "etcompile",
}


def _metadata(made: Installation, namespace: str | None = None, name: str = "") -> LiveObject:
    where = {"namespace": namespace} if namespace else {}
    return {"name": name or made.name, **where, "labels": made.labels}


def _namespace(made: Installation) -> LiveObject:
    labels = {**made.labels, "pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": made.home, "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _subject(made: Installation) -> LiveObject:
    return {"kind": "ServiceAccount", "name": made.name, "namespace": made.home}


def _role(
    made: Installation, namespace: str, rules: Sequence[LiveObject], name: str
) -> list[LiveObject]:
    return [
        {
            "apiVersion": _RBAC,
            "kind": "Role",
            "metadata": _metadata(made, namespace, name),
            "rules": [*rules],
        },
        {
            "apiVersion": _RBAC,
            "kind": "RoleBinding",
            "metadata": _metadata(made, namespace, name),
            "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": name},
            "subjects": [_subject(made)],
        },
    ]


def _network_policy(made: Installation) -> LiveObject:
    """Only who reads metrics comes in, and only the API server and DNS are called."""
    dns = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    # The API server is no Pod that could be selected; these are the ports it is known to have.
    api = [{"port": port, "protocol": "TCP"} for port in (443, 6443)]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(made, made.home),
        "spec": {
            "podSelector": {"matchLabels": made.selected},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [{"port": PORT, "protocol": "TCP"}]}],
            "egress": [{"ports": dns}, {"ports": api}],
        },
    }


def _disruption_budget(made: Installation) -> LiveObject:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(made, made.home),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": made.selected}},
    }


def _pod_monitor(made: Installation) -> LiveObject:
    """There is no Service to monitor: nobody calls the watcher but who reads its metrics."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": _metadata(made, made.home),
        "spec": {
            "selector": {"matchLabels": made.selected},
            "podMetricsEndpoints": [{"port": "metrics", "path": "/metrics"}],
        },
    }


def _dashboard(made: Installation) -> LiveObject:
    """The label is the one that the sidecar of Grafana's chart looks for, unless told otherwise."""
    metadata = _metadata(made, made.home, f"{made.name}-dashboard")
    metadata["labels"]["grafana_dashboard"] = "1"
    file = data.folder("templates") / "watcher/kustomize/components/dashboard" / DASHBOARD
    content = {DASHBOARD: file.read_text("utf-8")}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": content}


def _deployment(made: Installation) -> LiveObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(made, made.home),
        "spec": {
            "replicas": made.replicas,
            "selector": {"matchLabels": made.selected},
            "template": {
                "metadata": {"labels": made.labels},
                "spec": {
                    "serviceAccountName": made.name,
                    "automountServiceAccountToken": True,
                    "affinity": {"podAntiAffinity": _apart(made)},
                    "containers": [_container(made)],
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": _USER,
                        "runAsGroup": _USER,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "terminationGracePeriodSeconds": 15,
                },
            },
        },
    }


def _apart(made: Installation) -> LiveObject:
    term = {
        "labelSelector": {"matchLabels": made.selected},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "podAffinityTerm": term}
        ]
    }


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


def _container(made: Installation) -> LiveObject:
    own = {"fieldRef": {"fieldPath": "metadata.name"}}
    return {
        "name": "watch",
        "image": made.image,
        "args": _arguments(made),
        "env": [{"name": "ETCOMPILE_WATCH_IDENTITY", "valueFrom": own}],
        "ports": [{"name": "metrics", "containerPort": PORT}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "metrics"}, "periodSeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}, "periodSeconds": 5},
        "resources": {
            "requests": {"cpu": "50m", "memory": "96Mi"},
            "limits": {"memory": "256Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
