"""The watcher as objects of a cluster: its rights, its Deployment and what protects them.

The rights are the contract of docs/protocol.md put into RBAC: nothing here lets it change an object
that Git declares, except by making a Pod go. What a rule is for stands beside it.
"""

from collections.abc import Sequence

from msgspec import Struct

from etcompile._version import __version__
from etcompile.k8s.objects import LiveObject
from etcompile.watch import admission

NAME = "etcompile-watch"
"""Of all objects of the watcher, its Lease included."""
PORT = 8080
_USER = 65532


_GANGS = (
    "scheduling.k8s.io",
    "scheduling.sigs.k8s.io",
    "scheduling.volcano.sh",
    "scheduling.x-k8s.io",
)
REMOVAL: tuple[LiveObject, ...] = (
    # list, delete: what was made for a job whose ttlSecondsAfterFinished is over. Each is deleted
    # by UID, if it has the job's name and label.
    {
        "apiGroups": [""],
        "resources": ["services", "serviceaccounts"],
        "verbs": ["delete", "list"],
    },
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["delete"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["delete"]},
    {
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["rolebindings", "roles"],
        "verbs": ["delete", "list"],
    },
    {
        "apiGroups": [*_GANGS],
        "resources": ["podgroups"],
        "verbs": ["delete", "list"],
    },
    # deletecollection: the job's key pair, by name and label, without reading it.
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["deletecollection"]},
)
"""The rights that only jobs with a ttlSecondsAfterFinished need."""
QUOTAS: LiveObject = {
    "apiGroups": [""],
    "resources": ["resourcequotas"],
    "verbs": ["list", "watch"],
}
"""The one right without which everything happens all the same, only later."""
RULES: tuple[LiveObject, ...] = (
    # list, watch: to follow them. create, delete: to replace them. patch: to touch them, so that
    # the kubelet brings host lists at once. get: to see who has the name of a Pod to be created.
    {
        "apiGroups": [""],
        "resources": ["pods"],
        "verbs": ["create", "delete", "get", "list", "patch", "watch"],
    },
    # list, watch: to find jobs. create, patch: J-hosts and J-status.
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "list", "patch", "watch"]},
    # list, watch: launchers that are Jobs of Kubernetes, which make their Pod.
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list", "watch"]},
    # create: a job's ssh key pair. It may not read one.
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    # list, watch: to try again at once what a quota has refused, when it has room again.
    QUOTAS,
    *REMOVAL,
)
"""What the watcher may do in each namespace that it watches."""
LOGS: LiveObject = {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}
"""The same, for jobs that limit how long a Pod may be silent (docs/watcher.md)."""


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
        logs: It may read logs, to see who hangs.
        policy: With the policy that says who may write the ConfigMaps that it acts on.
    """

    home: str
    namespaces: tuple[str, ...] | None
    image: str = f"etcompile:{__version__}"
    selector: str = ""
    replicas: int = 2
    logs: bool = False
    policy: bool = True

    @property
    def rules(self) -> tuple[LiveObject, ...]:
        """What the watcher may do in each namespace."""
        return (*RULES, LOGS) if self.logs else RULES


def manifests(installation: Installation) -> list[LiveObject]:
    """The objects of a watcher, in the order in which they are applied."""
    home = installation.home
    account: LiveObject = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(home),
        # Its token is mounted by the Deployment, and by no Pod that happens to name the account.
        "automountServiceAccountToken": False,
    }
    lease = _role(home, lease_rules(), NAME + "-lease")
    objects = [*_policy(installation), account, *lease, *_rights(installation)]
    if installation.namespaces is None:
        objects.insert(0, _namespace(home))
    return [
        *objects,
        _network_policy(home),
        _disruption_budget(home),
        _deployment(installation),
    ]


def _policy(installation: Installation) -> list[LiveObject]:
    """First of all: the watcher trusts what it finds."""
    if not installation.policy:
        return []
    return [
        admission.policy(_LABELS),
        admission.binding(installation.home, installation.namespaces, _LABELS),
    ]


def _rights(installation: Installation) -> list[LiveObject]:
    if installation.namespaces is not None:
        return [
            right
            for namespace in installation.namespaces
            for right in _role(namespace, installation.rules, NAME, account_in=installation.home)
        ]
    return [
        {
            "apiVersion": _RBAC,
            "kind": "ClusterRole",
            "metadata": _metadata(None),
            "rules": [*installation.rules],
        },
        {
            "apiVersion": _RBAC,
            "kind": "ClusterRoleBinding",
            "metadata": _metadata(None),
            "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": NAME},
            "subjects": [_subject(installation.home)],
        },
    ]


_GROUP = "rbac.authorization.k8s.io"
_RBAC = f"{_GROUP}/v1"
_LABELS = {
    "app.kubernetes.io/name": NAME,
    "app.kubernetes.io/part-of": "etcompile",
    "app.kubernetes.io/managed-by": "etcompile",
}
_SELECTOR = {"app.kubernetes.io/name": NAME}


def _metadata(namespace: str | None, name: str = NAME) -> LiveObject:
    where = {"namespace": namespace} if namespace else {}
    return {"name": name, **where, "labels": dict(_LABELS)}


def _namespace(name: str) -> LiveObject:
    labels = {**_LABELS, "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _subject(namespace: str) -> LiveObject:
    return {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}


def _role(
    namespace: str, rules: Sequence[LiveObject], name: str, account_in: str | None = None
) -> list[LiveObject]:
    return [
        {
            "apiVersion": _RBAC,
            "kind": "Role",
            "metadata": _metadata(namespace, name),
            "rules": [*rules],
        },
        {
            "apiVersion": _RBAC,
            "kind": "RoleBinding",
            "metadata": _metadata(namespace, name),
            "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": name},
            "subjects": [_subject(account_in or namespace)],
        },
    ]


def _network_policy(namespace: str) -> LiveObject:
    """Only who reads metrics comes in, and only the API server and DNS are called."""
    dns = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    # The API server is no Pod that could be selected; these are the ports it is known to have.
    api = [{"port": port, "protocol": "TCP"} for port in (443, 6443)]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(namespace),
        "spec": {
            "podSelector": {"matchLabels": dict(_SELECTOR)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [{"port": PORT, "protocol": "TCP"}]}],
            "egress": [{"ports": dns}, {"ports": api}],
        },
    }


def _disruption_budget(namespace: str) -> LiveObject:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(namespace),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": dict(_SELECTOR)}},
    }


def _deployment(installation: Installation) -> LiveObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(installation.home),
        "spec": {
            "replicas": installation.replicas,
            "selector": {"matchLabels": dict(_SELECTOR)},
            "template": {
                "metadata": {"labels": dict(_LABELS)},
                "spec": {
                    "serviceAccountName": NAME,
                    "automountServiceAccountToken": True,
                    "affinity": {"podAntiAffinity": _apart()},
                    "containers": [_container(installation)],
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


def _apart() -> LiveObject:
    term = {
        "labelSelector": {"matchLabels": dict(_SELECTOR)},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "podAffinityTerm": term}
        ]
    }


def _container(installation: Installation) -> LiveObject:
    watched = installation.namespaces
    where = (
        ["--all-namespaces"]
        if watched is None
        else [word for namespace in watched for word in ("--namespace", namespace)]
    )
    which = ["--selector", installation.selector] if installation.selector else []
    own = {"fieldRef": {"fieldPath": "metadata.name"}}
    return {
        "name": "watch",
        "image": installation.image,
        "args": ["watch", *where, *which, "--home", installation.home, "--listen", f":{PORT}"],
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
