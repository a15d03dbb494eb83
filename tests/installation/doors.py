"""The three ways to install a watcher, and what they come to when names and labels are put aside.

`etcompile watch --manifests`, the Helm chart and the kustomizations are to install the same. Each
calls things its own way: `Door` knows how, and `alike` makes their objects comparable.
"""

import copy
import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from etcompile.cli.watch import command
from etcompile.integrations.watcher_manifests import NAME, POLICY, Installation, manifests
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.model.protocol import JOB_LABEL
from installation.choices import REGISTRY

ROOT = Path(__file__).parents[2]
WATCHER = ROOT / "templates" / "watcher"
CHART = WATCHER / "helm" / "etcompile-watch"
KUSTOMIZE = WATCHER / "kustomize"

Key = tuple[str, str, str]
"""Kind, namespace and name."""


class Rendered(Struct, frozen=True):
    """What a door makes.

    Args:
        names: Names that contain a namespace, with what they are without it.
    """

    objects: list[dict[str, Any]]
    names: Mapping[str, str] = {}

    def of(self, kind: str) -> dict[str, Any]:
        """The only object of a kind."""
        [value] = [value for value in self.objects if value["kind"] == kind]
        return value

    @property
    def container(self) -> dict[str, Any]:
        [container] = self.of("Deployment")["spec"]["template"]["spec"]["containers"]
        return container

    @property
    def account(self) -> str:
        return self.of("Deployment")["spec"]["template"]["spec"]["serviceAccountName"]


def run(*words: object, stdin: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, words)],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        **options,
    )


def templated(
    helm: Path, values: Mapping[str, Any], *options: str, release: str = NAME, namespace: str
) -> subprocess.CompletedProcess[str]:
    """What `helm template` says for some values, with an image unless they name one."""
    values = {"image": REGISTRY, **values}
    words = (helm, "template", release, CHART, "--namespace", namespace, "--values", "-", *options)
    return run(*words, stdin=json.dumps(values))


def by_helm(
    helm: Path, values: Mapping[str, Any], *, release: str = NAME, namespace: str
) -> Rendered:
    done = templated(helm, values, release=release, namespace=namespace)
    assert done.returncode == 0, done.stderr
    objects = parsed(done.stdout)
    full = next(value for value in objects if value["kind"] == "Deployment")["metadata"]["name"]
    return Rendered(objects, global_names(namespace, full))


def by_manifests(installation: Installation) -> Rendered:
    objects = json.loads(json.dumps(manifests(installation)))
    return Rendered(objects, global_names(installation.home, installation.name))


def global_names(namespace: str, name: str) -> dict[str, str]:
    """The names outside of an installation's namespace, with those inside of it."""
    return {
        f"{namespace}.{name}": name,
        f"{namespace}.{name}-dashboard": f"{name}-dashboard",
        f"{POLICY}.{namespace}.{name}": POLICY,
    }


def by_kustomize(kustomize: Path, folder: Path) -> Rendered:
    done = run(kustomize, "build", folder)
    assert done.returncode == 0, done.stderr
    return Rendered(parsed(done.stdout))


def overlay(folder: Path, **kustomization: Any) -> Path:
    """A kustomization of the user's, whose resources and components are given by their names."""
    folder.mkdir(parents=True, exist_ok=True)
    above = "/".join([".."] * len(folder.parts[1:]))
    for key in ("resources", "components"):
        kustomization[key] = [
            name if (folder / name).exists() else f"{above}{KUSTOMIZE / name}"
            for name in kustomization.get(key, [])
        ]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return folder


def parsed(text: str) -> list[dict[str, Any]]:
    return [value for value in yaml.safe_load_all(text) if value]


def comparable(rendered: Rendered) -> dict[Key, dict[str, Any]]:
    """What is installed, by kind, namespace and name, without what each door says its own way.

    The labels by which its Pods are known are left out after it is certain that they are on the
    Pods; the arguments are replaced by what the command reads in them.
    """
    by_key = {}
    labels = rendered.of("Deployment")["spec"]["template"]["metadata"]["labels"]
    for rendered_object in rendered.objects:
        value = copy.deepcopy(rendered_object)
        kind, metadata = value["kind"], value["metadata"]
        metadata.pop("labels")
        _without_selectors(value, labels)
        if kind == "Deployment":
            pod = value["spec"]["template"]
            pod.pop("metadata")
            [container] = pod["spec"]["containers"]
            container["args"] = arguments(container["args"], metadata["namespace"])
        value = _renamed(value, rendered.names)
        name = value["metadata"]["name"]
        by_key[kind, metadata.get("namespace", ""), name] = value
    assert len(by_key) == len(rendered.objects)
    return by_key


def labels(rendered: Rendered) -> dict[Key, dict[str, str]]:
    return {
        (
            value["kind"],
            value["metadata"].get("namespace", ""),
            value["metadata"]["name"],
        ): value["metadata"].get("labels", {})
        for value in rendered.objects
    }


def arguments(words: Iterable[str], namespace: str) -> dict[str, Any]:
    """What the watcher reads in its arguments, if it runs in a namespace."""
    name, *options = words
    assert name == "watch"
    with command.make_context("watch", [*options]) as context:
        read = dict(context.params)
    if not read["all_namespaces"]:
        read["namespaces"] = read["namespaces"] or (namespace,)
    # As the command has it: the first of them, or the one that the Pod is in.
    read["home"] = read["home"] or (*read["namespaces"], namespace)[0]
    return read


def _without_selectors(value: Any, labels: Mapping[str, str]) -> None:
    """Takes out what selects the Pods of the watcher, all of which do."""
    if isinstance(value, dict):
        if "matchLabels" in value:
            selected = value.pop("matchLabels")
            assert selected
            assert selected.items() <= labels.items()
        for inner in value.values():
            _without_selectors(inner, labels)
    elif isinstance(value, list):
        for inner in value:
            _without_selectors(inner, labels)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, names) for inner in value]
    return names.get(value, value) if isinstance(value, str) else value


def is_guarded(cluster: Cluster, namespace: str) -> bool | None:
    """Whether the policy holds in a namespace; None if that cannot be found out.

    It lets nobody write a ConfigMap of a certain name, which a dry run shows.
    """
    check = "etcompile-policy-check"
    metadata = {"name": check, "namespace": namespace, "labels": {JOB_LABEL: check}}
    example = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    try:
        cluster.create(example, field_manager="test", dry_run=True)
    except ClusterError as error:
        return True if re.search(rf"'{POLICY}(\.[^']*)?'", error.message) else None
    return False
