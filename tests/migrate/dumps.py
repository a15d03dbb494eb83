"""What a cluster makes of documents: status, server-side metadata, defaults filled in."""

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from etcompile import frontends
from etcompile.compiler import load
from etcompile.compiler.choices import Options
from etcompile.integrations.migrate import Migrated, migrated
from operator_recordings import written
from specs import compiled

UID = "7e0c4d1c-6f5e-4a60-9d0e-0c7b8a1f2d3e"


def dumped(document: Mapping[str, Any], **status: Any) -> dict[str, Any]:
    """A custom resource as `kubectl get -o yaml` prints it."""
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


def documents(text: str) -> list[dict[str, Any]]:
    """The documents of a file."""
    return [one for one in yaml.safe_load_all(text) if one]


def handed_over(objects: Iterable[Mapping[str, Any]], folder: Path) -> Migrated:
    """What `etcompile migrate` makes of a dump of a recording, as a file of this folder."""
    file = written(objects, folder / "dump.yaml")
    return migrated(load.loaded([str(file)], Options(), None).documents)


def put(result: Migrated, folder: Path) -> Path:
    """The folder, with the files of a hand-over."""
    folder.mkdir(exist_ok=True)
    for name, text in result.files.items():
        (folder / name).write_text(text)
    return folder


def rendered_in(namespace: str, result: Migrated) -> list[dict[str, Any]]:
    """The objects of the files of a hand-over, in another namespace."""
    values = [
        value
        for name, text in result.files.items()
        if name.endswith(".yaml")
        for value in documents(text)
        if value["kind"] != "Overlay"
    ]
    for value in values:
        value["metadata"].pop("namespace", None)
    return [dict(value) for value in compiled(*values, namespace=namespace).objects]


def migration(*values: Mapping[str, Any]) -> Migrated:
    return migrated(load.loaded(list(values), Options(), None).documents)
