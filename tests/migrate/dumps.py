"""What a cluster makes of documents: status, server-side metadata, defaults filled in."""

import copy
from collections.abc import Mapping
from typing import Any

from etcompile import compiler, frontends
from etcompile.compiler import Options
from etcompile.integrations.migrate import Migrated, migrated

UID = "7e0c4d1c-6f5e-4a60-9d0e-0c7b8a1f2d3e"


def dumped(document: Mapping[str, Any], **status: Any) -> dict[str, Any]:
    """A custom resource as `kubectl get -o yaml` prints it.

    Args:
        document: What somebody wrote.
        status: Its status.
    """
    copied = copy.deepcopy(dict(document))
    metadata = copied["metadata"]
    metadata |= {
        "creationTimestamp": "2026-11-01T10:00:00Z",
        "generation": 2,
        "managedFields": [{"manager": "operator", "operation": "Update"}],
        "resourceVersion": "4711",
        "uid": UID,
    }
    kind = frontends.find(copied["apiVersion"], copied["kind"])
    for path in kind.templates_of(copied) if kind else ():
        template: Any = copied
        for step in path:
            template = template.get(step) if isinstance(template, dict) else None
        if template:
            _fill(template)
    return {**copied, "status": status} if status else copied


def _fill(template: dict[str, Any]) -> None:
    """Puts in what the API server would, if it knew that this is a Pod template."""
    template.setdefault("metadata", {})["creationTimestamp"] = None
    spec = template["spec"]
    for name, value in {
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }.items():
        spec.setdefault(name, value)
    for container in spec["containers"]:
        container.setdefault("resources", {})
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        for port in container.get("ports", ()):
            port.setdefault("protocol", "TCP")


def migration(*values: Mapping[str, Any]) -> Migrated:
    return migrated(compiler.loaded(list(values), Options(), None).documents)
