"""kubeconform, strictly, accepts whatever is installed, and whatever the examples render to.

The schemas are those of the `kubernetes-validate` package: kubeconform would download its own.
"""

import json
from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from etcompile.check.kubernetes import versions
from etcompile.cli.main import program
from installation.choices import CHOICES
from installation.doors import KUSTOMIZE, ROOT, by_helm, by_kustomize, parsed, run

OTHERS = {
    "kustomize.config.k8s.io/v1beta1/Kustomization": "kustomize reads it, and no API server",
    "elastic.iml.github.io/v1alpha1/ElasticJob": "DLRover's; a job that its master reads",
    "monitoring.coreos.com/v1/PodMonitor": "test_installation_on_api_server has its definition",
}
"""Kinds that are not Kubernetes' own, and who knows them."""

Conform = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def schemas(tmp_path_factory) -> Path:
    """A folder with the strict schemas, such that files find each other by their place."""
    folder = tmp_path_factory.mktemp("schemas")
    package = files("kubernetes_validate") / "kubernetes-json-schema"
    for file in (package / f"v{versions()[-1]}.0-local-strict").iterdir():
        text = file.read_text("utf-8").replace('"/api/_definitions.json#', '"_definitions.json#')
        schema = json.loads(text)
        # It says that it is elsewhere.
        schema.pop("$id", None)
        (folder / file.name).write_text(json.dumps(schema))
    return folder


@pytest.fixture
def conform(consumer, schemas: Path) -> Conform:
    """`conform(path)` or `conform(stdin=TEXT)`: what kubeconform says."""

    def check(path: object = "-", stdin: str = "") -> dict[str, Any]:
        where = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
        words = ("-strict", "-summary", "-output", "json", "-skip", ",".join(OTHERS))
        done = run(consumer("kubeconform"), *words, "-schema-location", where, path, stdin=stdin)
        return json.loads(done.stdout)

    return check


def text(objects: Iterable[dict[str, Any]]) -> str:
    return yaml.safe_dump_all(objects)


def clean(said: dict[str, Any], skipped: int = 0) -> bool:
    """Whether there was something, and all of it was accepted."""
    summary = said["summary"]
    assert said.get("resources", []) == []
    assert summary["valid"] > 0
    return (summary["invalid"], summary["errors"], summary["skipped"]) == (0, 0, skipped)


def test_it_sees_a_field_that_there_is_not(conform: Conform) -> None:
    said = conform(stdin='{"apiVersion": "v1", "kind": "ConfigMap", "dato": {"a": "b"}}')
    assert said["summary"]["invalid"] == 1
    said = conform(stdin='{"apiVersion": "example.com/v1", "kind": "Unheard"}')
    assert said["summary"]["errors"] == 1


def test_what_the_examples_render_to(conform: Conform) -> None:
    said = conform(ROOT / "golden")
    folders = len([*ROOT.glob("golden/**/kustomization.yaml")])
    assert said["summary"]["valid"] > 1000
    assert clean(said, skipped=folders + len(elastic_jobs()))


def elastic_jobs() -> list[str]:
    """The jobs among the goldens, which are objects for DLRover."""
    return [
        str(file)
        for file in ROOT.glob("golden/**/*.yaml")
        for line in file.read_text("utf-8").splitlines()
        if line == "kind: ElasticJob"
    ]


def test_what_the_chart_renders(conform: Conform, consumer) -> None:
    rendered = [
        by_helm(consumer("helm"), values, namespace=installation.home)
        for installation, values in CHOICES.values()
    ]
    monitored = [one for one, _ in CHOICES.values() if one.pod_monitor]
    objects = [value for one in rendered for value in one.objects]
    assert clean(conform(stdin=text(objects)), skipped=len(monitored))


def test_what_the_kustomizations_build(conform: Conform, consumer) -> None:
    folders = [KUSTOMIZE / name for name in ("namespaced", "cluster-wide", "rights", "policy")]
    built = [by_kustomize(consumer("kustomize"), folder) for folder in folders]
    assert clean(conform(stdin=text(value for one in built for value in one.objects)))


@pytest.mark.parametrize(
    "arguments",
    [["-n", "ml", "-n", "nlp"], ["-A", "--with", "read-logs", "--with", "remove-finished"]],
)
def test_what_the_manifests_are(arguments: list[str], conform: Conform) -> None:
    more = ["--with", "pod-monitor", "--with", "dashboard", "--image", "watcher:1"]
    done = CliRunner().invoke(program, ["watch", "--manifests", *arguments, *more])
    assert done.exit_code == 0, done.output
    assert parsed(done.stdout)
    assert clean(conform(stdin=done.stdout), skipped=1)
