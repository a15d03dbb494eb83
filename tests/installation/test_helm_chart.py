"""The chart as its users meet it: what it refuses, how it names things, what an upgrade keeps."""

import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from etcompile.k8s.names import is_key, is_label, is_label_value, is_subdomain
from installation.doors import CHART, Rendered, by_helm, parsed, run, templated

VALUES = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
SCHEMA = json.loads((CHART / "values.schema.json").read_text("utf-8"))
EVERYTHING: dict[str, Any] = {
    "namespaces": ["ml", "nlp"],
    "readLogs": True,
    "removeFinished": True,
    "removePodGroups": True,
    "image": {"digest": f"sha256:{'0' * 64}", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry"}],
    "extraArgs": ["--lease", "30"],
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    "serviceAccount": {"annotations": {"example.com/role": "watcher"}},
    "networkPolicy": {
        "metricsFrom": [{"namespaceSelector": {}}],
        "apiServerPorts": [8443],
    },
    "podDisruptionBudget": {"maxUnavailable": "50%"},
    "podMonitor": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "annotations": {"example.com/a": "b"},
        "interval": "30s",
        "scrapeTimeout": "5s",
        "relabelings": [{"action": "labeldrop", "regex": "pod"}],
        "metricRelabelings": [{"action": "labeldrop", "regex": "pod"}],
    },
    "dashboard": {
        "enabled": True,
        "namespace": "monitoring",
        "annotations": {"grafana_folder": "Training"},
    },
    "podAnnotations": {"example.com/a": "b"},
    "podLabels": {"team": "platform"},
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "infra", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "etcompile-watch"}},
        }
    ],
    "podSecurityContext": {"runAsUser": None, "runAsGroup": None},
    "commonLabels": {"team": "training"},
    "global": {"anything": 1},
    "enabled": True,
}


@pytest.fixture
def helm(consumer) -> Path:
    return consumer("helm")


def lines(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.strip()]


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["no values", "all values"])
def test_helm_has_nothing_against_it(values: dict[str, Any], helm: Path, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(values))
    done = run(helm, "lint", "--strict", "--values", file, CHART)
    assert done.returncode == 0, done.stdout
    # There is no picture.
    said = [line for line in lines(done.stdout) if line.startswith("[")]
    assert said == ["[INFO] Chart.yaml: icon is recommended"]


# ---- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"allNamespace": True}, "allNamespace"),
        ({"image": {"name": "x"}}, "name"),
        ({"podMonitor": {"enable": True}}, "enable"),
        ({"resources": {"request": {}}}, "request"),
        ({"namespaces": "nlp"}, "namespaces"),
        ({"namespaces": ["Nlp"]}, "namespaces/0"),
        ({"namespaces": ["nlp", "nlp"]}, "namespaces"),
        ({"image": {"tag": 1.1}}, "image/tag"),
        ({"image": {"digest": "latest"}}, "image/digest"),
        ({"replicas": -1}, "replicas"),
        ({"replicas": "2"}, "replicas"),
        ({"fullnameOverride": "Night"}, "fullnameOverride"),
        ({"podMonitor": {"interval": "30"}}, "podMonitor/interval"),
        ({"networkPolicy": {"apiServerPorts": []}}, "networkPolicy/apiServerPorts"),
        ({"podLabels": {"app.kubernetes.io/name": "x"}}, "podLabels"),
        ({"extraArgs": [30]}, "extraArgs/0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_that_makes_no_sense_is_refused(
    values: dict[str, Any], where: str, helm: Path
) -> None:
    done = templated(helm, values, namespace="nlp")
    assert done.returncode == 1
    assert "values don't meet the specifications of the schema" in done.stderr
    # Helm 4 writes a place with slashes, and older ones with dots.
    assert where in done.stderr.replace(".", "/")


def leaves(value: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """The values that the schema knows, by their path, with their defaults."""
    if value and isinstance(value, dict) and "properties" in schema:
        for key, inner in value.items():
            yield from leaves(inner, schema["properties"][key], f"{path}.{key}".lstrip("."))
        unheard = schema["properties"].keys() - value.keys()
        assert unheard <= {"global", "enabled", "claims"}
    else:
        yield path, value


def test_the_readme_lists_every_value_with_its_default() -> None:
    page = (CHART / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| `(.*?)` \| (\S.*) \|$", page, re.MULTILINE)
    assert {path: json.loads(value) for path, value, _ in rows} == dict(leaves(VALUES, SCHEMA))


def test_the_schema_takes_the_defaults_and_describes_every_value() -> None:
    def described(schema: Mapping[str, Any]) -> Iterator[str]:
        for inner in schema.get("properties", {}).values():
            yield inner.get("description", "")
            yield from described(inner)

    assert all(described(SCHEMA))


def test_every_value_has_an_effect(helm: Path) -> None:
    """Each of them, by itself: what it changes is not empty."""
    before = by_helm(helm, {}, namespace="nlp").objects
    for key, value in EVERYTHING.items():
        if key in ("global", "enabled"):
            continue
        assert by_helm(helm, {key: value}, namespace="nlp").objects != before, key


def test_where_its_pods_run_is_for_the_user_to_say(helm: Path) -> None:
    rendered = by_helm(helm, EVERYTHING, namespace="ops")
    pod = rendered.of("Deployment")["spec"]["template"]
    for key in ("tolerations", "nodeSelector", "priorityClassName", "imagePullSecrets"):
        assert pod["spec"][key] == EVERYTHING[key]
    assert pod["spec"]["affinity"] == EVERYTHING["affinity"]
    assert pod["spec"]["topologySpreadConstraints"] == EVERYTHING["topologySpreadConstraints"]
    assert pod["metadata"]["annotations"] == EVERYTHING["podAnnotations"]
    # What is said of the Pods alone counts more than what is said of all objects.
    assert pod["metadata"]["labels"]["team"] == "platform"
    assert rendered.of("ServiceAccount")["metadata"]["labels"]["team"] == "training"
    assert pod["spec"]["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert rendered.container["args"][-2:] == ["--lease", "30"]
    assert rendered.of("ConfigMap")["metadata"]["namespace"] == "monitoring"
    _, api = rendered.of("NetworkPolicy")["spec"]["egress"]
    assert api == {"ports": [{"port": 8443, "protocol": "TCP"}]}


@pytest.mark.parametrize(
    ("image", "reference"),
    [
        ({"tag": "1.2.3"}, "ghcr.io/etcompile/etcompile:1.2.3"),
        (
            {"digest": f"sha256:{'a' * 64}"},
            f"ghcr.io/etcompile/etcompile@sha256:{'a' * 64}",
        ),
        (
            {"repository": "here/e", "tag": "1", "digest": f"sha256:{'a' * 64}"},
            f"here/e:1@sha256:{'a' * 64}",
        ),
    ],
)
def test_the_image(image: dict[str, str], reference: str, helm: Path) -> None:
    assert by_helm(helm, {"image": image}, namespace="nlp").container["image"] == reference


@pytest.mark.parametrize("version", ["0.2.0-dev", "7.0.0"])
def test_only_a_release_has_an_image_that_need_not_be_named(
    version: str, helm: Path, tmp_path: Path
) -> None:
    words = ("--version", version, "--app-version", version, "--destination", tmp_path)
    assert run(helm, "package", CHART, *words).returncode == 0
    done = run(helm, "template", "w", tmp_path / f"etcompile-watch-{version}.tgz")
    if version == "7.0.0":
        assert 'image: "ghcr.io/etcompile/etcompile:7.0.0"' in done.stdout
    else:
        assert done.returncode == 1
        assert "image.tag: etcompile 0.2.0-dev is not a release" in done.stderr


def test_rights_and_account_may_be_somebody_else_s(helm: Path) -> None:
    values = {"serviceAccount": {"create": False, "name": "robot"}}
    rendered = by_helm(helm, values, namespace="nlp")
    kinds = [one["kind"] for one in rendered.objects]
    assert "ServiceAccount" not in kinds
    assert rendered.account == "robot"
    subjects = [one["subjects"] for one in rendered.objects if one["kind"] == "RoleBinding"]
    assert subjects == [[{"kind": "ServiceAccount", "name": "robot", "namespace": "nlp"}]] * 2
    rendered = by_helm(helm, {"rbac": {"create": False}, "allNamespaces": True}, namespace="nlp")
    assert not [one["kind"] for one in rendered.objects if "Role" in one["kind"]]
    without = {"create": False}
    rendered = by_helm(helm, {"serviceAccount": without}, namespace="nlp")
    assert rendered.account == "default"


# ---- names ---------------------------------------------------------------------------------------

LONGEST = "a" + "b" * 51 + "c"
RELEASES = ["1e3", "true", "a.b", LONGEST, "etcompile-watch", "x-etcompile-watch-x"]


def names(rendered: Rendered) -> set[tuple[str, str, str]]:
    return {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"])
        for one in rendered.objects
    }


def all_labels(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("labels", "matchLabels"):
                yield from inner.items()
            yield from all_labels(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from all_labels(inner)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("namespace", ["123", "n" * 63], ids=["a number", "a long one"])
def test_any_release_has_names_that_kubernetes_takes(
    release: str, namespace: str, helm: Path
) -> None:
    values = {
        "podMonitor": {"enabled": True},
        "dashboard": {"enabled": True, "namespace": "monitoring"},
        "namespaces": ["007", "nlp"],
    }
    rendered = by_helm(helm, values, release=release, namespace=namespace)
    for kind, where, name in names(rendered):
        assert is_subdomain(name), (kind, name)
        assert not where or is_label(where)
    for key, text in all_labels(rendered.objects):
        assert is_key(key)
        assert is_label_value(text)
    # Kubernetes takes the name of a Deployment for a host's, but not longer than this.
    assert len(rendered.of("Deployment")["metadata"]["name"]) <= 63


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "ops"), ("b", "ops")),
        (("a", "ops"), ("a", "dev")),
        (("c", "a-b"), ("b-c", "a")),
        ((LONGEST[:-1] + "d", "ops"), (LONGEST, "ops")),
    ],
)
@pytest.mark.parametrize("values", [{"allNamespaces": True}, {"namespaces": ["nlp"]}])
def test_two_releases_share_no_object_and_no_pod(
    one: tuple[str, str], other: tuple[str, str], values: dict[str, Any], helm: Path
) -> None:
    values = {**values, "dashboard": {"enabled": True, "namespace": "monitoring"}}
    first, second = (
        by_helm(helm, values, release=release, namespace=namespace)
        for release, namespace in (one, other)
    )
    assert names(first) & names(second) == set()
    selector = first.of("Deployment")["spec"]["selector"]["matchLabels"]
    pod = second.of("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert one[1] != other[1] or not selector.items() <= pod.items()


# ---- clusters ------------------------------------------------------------------------------------


def test_cluster_without_admission_policies_requires_policy_create_false(helm: Path) -> None:
    old = ("--kube-version", "1.29.3")
    done = templated(helm, {}, *old, namespace="nlp")
    assert done.returncode == 1
    assert "Kubernetes v1.29.3 has no ValidatingAdmissionPolicy: set policy.create" in done.stderr
    done = templated(helm, {"policy": {"create": False}}, *old, namespace="nlp")
    assert done.returncode == 0, done.stderr
    done = templated(helm, {}, "--kube-version", "v1.30.2-eks-1552ad0", namespace="nlp")
    assert done.returncode == 0, done.stderr
    done = templated(helm, {"policy": {"create": False}}, "--kube-version", "1.24", namespace="nlp")
    assert done.returncode == 1


def test_another_chart_can_depend_on_it(helm: Path, tmp_path: Path) -> None:
    chart = tmp_path / "platform"
    (chart / "charts").mkdir(parents=True)
    version = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))["version"]
    dependency = {
        "name": "etcompile-watch",
        "version": version,
        "repository": f"file://{CHART}",
        "condition": "etcompile-watch.enabled",
    }
    described = {
        "apiVersion": "v2",
        "name": "platform",
        "version": "1.0.0",
        "dependencies": [dependency],
    }
    (chart / "Chart.yaml").write_text(yaml.safe_dump(described))
    subchart = {"enabled": True, "replicas": 3, "image": {"tag": "1"}}
    values = {"global": {"region": "x"}, "etcompile-watch": subchart}
    (chart / "values.yaml").write_text(yaml.safe_dump(values))
    done = run(helm, "dependency", "update", chart)
    assert done.returncode == 0, done.stderr
    done = run(helm, "template", "p", chart, "--namespace", "nlp")
    assert done.returncode == 0, done.stderr
    deployment = Rendered(parsed(done.stdout)).of("Deployment")
    assert (deployment["metadata"]["name"], deployment["spec"]["replicas"]) == (
        "p-etcompile-watch",
        3,
    )
    done = run(helm, "template", "p", chart, "--set", "etcompile-watch.enabled=false")
    assert parsed(done.stdout) == []


@pytest.fixture
def registry(consumer, tmp_path: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    address = f"127.0.0.1:{port}"
    with (tmp_path / "registry.log").open("wb") as log:
        serving = subprocess.Popen(
            [consumer("crane"), "registry", "serve", "--address", address], stdout=log, stderr=log
        )
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            time.sleep(0.05)
    yield address
    serving.kill()
    serving.wait()


def test_a_registry_takes_the_chart_and_gives_it_back(
    helm: Path, registry: str, tmp_path: Path
) -> None:
    """As the release does it: what is signed is the digest that helm tells."""
    packaged = run(helm, "package", CHART, "--destination", tmp_path)
    assert packaged.returncode == 0, packaged.stderr
    [file] = tmp_path.glob("etcompile-watch-*.tgz")
    charts = f"oci://{registry}/charts"
    pushed = run(helm, "push", file, charts, "--plain-http")
    assert pushed.returncode == 0, pushed.stderr
    [digest] = re.findall(
        r"^Digest: (sha256:[0-9a-f]{64})$", pushed.stdout + pushed.stderr, re.MULTILINE
    )
    chart = f"{charts}/etcompile-watch@{digest}"
    options = ("--plain-http", "--namespace", "nlp", "--set", "image.tag=1")
    done = run(helm, "template", "w", chart, *options)
    assert done.returncode == 0, done.stderr
    here = by_helm(helm, {"image": {"tag": "1"}}, release="w", namespace="nlp").objects
    assert parsed(done.stdout) == here


@pytest.mark.parametrize("tag", ["1", "20241125", "1.10", "v1"])
def test_a_tag_that_is_a_number_is_a_tag(helm, tag):
    text = templated(helm, {"image": {}}, "--set", f"image.tag={tag}", namespace="ml").stdout
    assert f'image: "ghcr.io/etcompile/etcompile:{tag}"' in text


def test_a_tag_of_a_file_of_values_is_quoted(helm):
    done = templated(helm, {"image": {"tag": 1.0}}, namespace="ml")
    assert done.returncode == 1
    assert "image.tag: quote it in a file of values" in done.stderr
