"""Render the objects of the watcher with the names, namespaces and rights that the user chose.

The files of `templates/watcher/kustomize` are filled in without kustomize. Nothing in its rights
lets the watcher change an object that Git declares, except by making a Pod go (docs/protocol.md).
The policy says who may write the ConfigMaps from which it creates Pods (docs/security.md).
"""

from collections.abc import Mapping
from typing import Any

import yaml
from msgspec import Struct

from etcompile import data
from etcompile.k8s.objects import LiveObject
from etcompile.model.protocol import WATCH

POLICY = "etcompile-jobs"
"""The ValidatingAdmissionPolicy (`templates/watcher/kustomize/policy/policy.yaml`): users that may
not create Pods may not write, unlabel or replace the ConfigMaps of jobs. The garbage collector and
the namespace controller may; they never change data. The Helm chart's has a longer name."""

NAME = WATCH
"""The name of all objects of the watcher, its Lease included, unless the user chose another."""
DASHBOARD = "etcompile.json"
"""The file of the Grafana dashboard, and its key in the ConfigMap."""


def kustomize_file(path: str) -> list[LiveObject]:
    file = data.folder("templates") / "watcher/kustomize" / path
    return list(yaml.safe_load_all(file.read_text("utf-8")))


def needed() -> list[LiveObject]:
    """Return the rules that every watcher needs in each namespace that it watches."""
    role, _ = kustomize_file("rights/role.yaml")
    return list(role["rules"])


def rules_of(component: str) -> list[LiveObject]:
    (kustomization,) = kustomize_file(f"components/{component}/kustomization.yaml")
    (patch,) = kustomization["patches"]
    return [operation["value"] for operation in yaml.safe_load(patch["patch"])]


OPTIONAL: Mapping[str, str] = {
    "logs": "read-logs",
    "removal": "remove-finished",
    "gangs": "remove-pod-groups",
}
"""The component with further rights, by its option: a field of `Installation`."""


class Installation(Struct, frozen=True):
    """The options of a watcher; `logs`, `removal` and `gangs` are rights of `OPTIONAL`."""

    home: str  # the namespace it runs in, and of its Lease
    namespaces: tuple[str, ...] | None  # that it watches; None for all
    image: str
    replicas: int = 2
    logs: bool = False
    policy: bool = True
    name: str = NAME  # of its objects and its Lease
    pod_monitor: bool = False
    dashboard: bool = False
    removal: bool = False
    gangs: bool = False

    @property
    def labels(self) -> dict[str, str]:
        return {
            "app.kubernetes.io/name": self.name,
            "app.kubernetes.io/part-of": "etcompile",
            "app.kubernetes.io/managed-by": "etcompile",
        }

    @property
    def global_name(self) -> str:
        """Return the name of its objects outside `home`; its dot keeps it apart from others."""
        return f"{self.home}.{self.name}"

    def objects(self, file: str) -> list[LiveObject]:
        """Return the objects of a file with the names, the namespace and the labels of this one."""
        objects = [self.renamed(value) for value in kustomize_file(file)]
        for value in objects:
            metadata = value["metadata"]
            metadata["labels"] = {**metadata.get("labels", {}), **self.labels}
        return objects

    def renamed(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: self.home if key == "namespace" else self.renamed(below)
                for key, below in value.items()
            }
        if isinstance(value, list):
            return [self.renamed(item) for item in value]
        if isinstance(value, str) and value.startswith(NAME):
            return self.name + value.removeprefix(NAME)
        return value

    def bound(self, file: str, name: str) -> list[LiveObject]:
        """Return a policy or role and its binding, under a name that no other one uses."""
        definition, binding = self.objects(file)
        definition["metadata"]["name"] = binding["metadata"]["name"] = name
        if "roleRef" in binding:
            binding["roleRef"]["name"] = name
        else:
            binding["spec"]["policyName"] = name
        return [definition, binding]


def manifests(installation: Installation) -> list[LiveObject]:
    objects: list[LiveObject] = []
    if installation.policy:
        # The policy comes first: the watcher trusts existing ConfigMaps.
        name = f"{POLICY}.{installation.global_name}"
        policy, binding = installation.bound("policy/policy.yaml", name)
        if installation.namespaces is None:
            del binding["spec"]["matchResources"]
        else:
            (term,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
            term["values"] = [*installation.namespaces]
        objects += [policy, binding]
    if installation.namespaces is None and installation.home == installation.name:
        # Only if nobody else uses it: deleting the manifests deletes all objects in there.
        objects[:0] = installation.objects("cluster-wide/namespace.yaml")
    objects += installation.objects("base/serviceaccount.yaml")
    objects += installation.objects("base/lease.yaml")
    more = [
        rule
        for option, component in OPTIONAL.items()
        if getattr(installation, option)
        for rule in rules_of(component)
    ]
    everywhere = installation.namespaces is None
    file = "cluster-wide/clusterrole.yaml" if everywhere else "rights/role.yaml"
    for namespace in (None,) if installation.namespaces is None else installation.namespaces:
        role, binding = installation.bound(file, installation.global_name)
        role["rules"] += more
        if namespace is not None:
            role["metadata"]["namespace"] = binding["metadata"]["namespace"] = namespace
        objects += [role, binding]
    objects += installation.objects("base/networkpolicy.yaml")
    objects += installation.objects("base/poddisruptionbudget.yaml")
    if installation.pod_monitor:
        objects += installation.objects("components/pod-monitor/podmonitor.yaml")
    if installation.dashboard:
        folder = data.folder("templates") / "watcher/kustomize/components/dashboard"
        # Grafana's sidecar selects this label, unless configured otherwise.
        labels = {**installation.labels, "grafana_dashboard": "1"}
        metadata = {"name": f"{installation.name}-dashboard", "namespace": installation.home}
        dashboard = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**metadata, "labels": labels},
            "data": {DASHBOARD: (folder / DASHBOARD).read_text("utf-8")},
        }
        objects.append(dashboard)
    (deployment,) = installation.objects("base/deployment.yaml")
    deployment["spec"]["replicas"] = installation.replicas
    template = deployment["spec"]["template"]
    template["metadata"] = {"labels": installation.labels}
    (container,) = template["spec"]["containers"]
    container["image"] = installation.image
    command, *rest = container["args"]
    options = ["--all-namespaces"] if installation.namespaces is None else []
    for namespace in installation.namespaces or ():
        options += ["--namespace", namespace]
    options += ["--home", installation.home]
    if installation.name != NAME:
        options += ["--name", installation.name]
    container["args"] = [command, *options, *rest]
    return [*objects, deployment]
