"""What is installed, on a real API server: all accepted, changed by upgrades, and removed."""

import contextlib
import json
import os
import subprocess
import sys
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from consumers.programs import INSTALLATION
from etcompile.integrations.watcher_manifests import NAME, Installation, manifests
from gobuilds import NoProgramError, run_go
from installation.choices import CHOICES, IMAGE, REGISTRY, RIGHTS
from installation.doors import (
    CHART,
    KUSTOMIZE,
    Rendered,
    by_helm,
    by_kustomize,
    overlay,
    run,
)
from waiting import eventually

OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
"""A Go module, among whose files is the definition of PodMonitors."""
SUM = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="

WAYS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/"
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/"
    "validatingadmissionpolicybindings",
}


@pytest.fixture(scope="module")
def pod_monitors(control_plane, require) -> None:
    """The kind PodMonitor, as the Prometheus operator defines it."""
    try:
        said = json.loads(run_go(INSTALLATION, "mod", "download", "-json", OPERATOR))
    except NoProgramError as error:
        require("controlplane", present=False, why=str(error))
        raise
    assert said["Sum"] == SUM
    folder = Path(said["Dir"], "example", "prometheus-operator-crd")
    definition = (folder / "monitoring.coreos.com_podmonitors.yaml").read_text("utf-8")
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    with contextlib.suppress(urllib.error.HTTPError):
        control_plane.ask("POST", path, yaml.safe_load(definition))

    def served() -> bool:
        with contextlib.suppress(urllib.error.HTTPError):
            return bool(control_plane.ask("GET", "/apis/monitoring.coreos.com/v1"))
        return False

    eventually(served, 30, lambda: "PodMonitors are not served")


@pytest.fixture
def tried(control_plane, kubectl_program) -> Callable[[Rendered], None]:
    """`tried(rendered)`: the API server takes all of it, strictly, in a dry run."""
    kubeconfig = control_plane.kubeconfig()

    def attempt(rendered: Rendered) -> None:
        for value in rendered.objects:
            namespace = {"metadata": {"name": value["metadata"].get("namespace", "default")}}
            with contextlib.suppress(urllib.error.HTTPError):
                control_plane.ask("POST", "/api/v1/namespaces", namespace)
        done = run(
            *(kubectl_program, "--kubeconfig", kubeconfig, "apply", "--filename", "-"),
            *("--server-side", "--dry-run=server", "--validate=strict"),
            stdin=yaml.safe_dump_all(rendered.objects),
        )
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == len(rendered.objects)

    return attempt


@pytest.mark.parametrize("choice", CHOICES)
def test_the_server_takes_all_that_the_chart_renders(
    choice: str, tried, consumer, pod_monitors
) -> None:
    installation, values = CHOICES[choice]
    tried(by_helm(consumer("helm"), values, namespace=installation.home))


def test_the_server_takes_all_that_the_kustomizations_build(
    tried, consumer, pod_monitors, tmp_path: Path
) -> None:
    kustomize = consumer("kustomize")
    rights = [component for _, component in RIGHTS.values()]
    more = [*rights, "components/pod-monitor", "components/dashboard"]
    folder = overlay(tmp_path / "nlp", namespace="nlp", resources=["namespaced"], components=more)
    tried(by_kustomize(kustomize, folder))
    for name in ("cluster-wide", "policy", "rights"):
        tried(by_kustomize(kustomize, KUSTOMIZE / name))


def test_the_watcher_of_all_namespaces_may_have_another_namespace(
    tried, consumer, tmp_path: Path
) -> None:
    """kustomize gives the policy a namespace, too, of which Kubernetes makes nothing."""
    folder = overlay(tmp_path / "own", namespace="ops", resources=["cluster-wide"])
    rendered = by_kustomize(consumer("kustomize"), folder)
    assert rendered.of("Namespace")["metadata"]["name"] == "ops"
    [subject] = rendered.of("ClusterRoleBinding")["subjects"]
    assert subject["namespace"] == "ops"
    tried(rendered)


def test_the_server_takes_all_of_the_manifests(tried, pod_monitors) -> None:
    rendered = Installation(
        "etcompile-watch", None, IMAGE, name="night", pod_monitor=True, dashboard=True
    )
    tried(Rendered(json.loads(json.dumps(manifests(rendered)))))


def test_a_pod_monitor_with_a_field_that_there_is_not_is_refused(
    control_plane, kubectl_program, pod_monitors
) -> None:
    """So that the tests above would have seen one."""
    kubeconfig = control_plane.kubeconfig()
    objects = manifests(Installation("default", ("default",), IMAGE, pod_monitor=True))
    monitor = Rendered(json.loads(json.dumps(objects))).of("PodMonitor")
    monitor["spec"]["podMetricsEndpoints"][0]["intervall"] = "30s"
    done = run(
        *(kubectl_program, "--kubeconfig", kubeconfig, "apply", "--filename", "-"),
        *("--server-side", "--dry-run=server", "--validate=strict"),
        stdin=json.dumps(monitor),
    )
    assert done.returncode == 1
    assert "intervall" in done.stderr


# ---- the admin of a namespace -------------------------------------------------------------------


@pytest.fixture
def admin(control_plane, namespace: str) -> Path:
    """A kubeconfig of who is bound to the ClusterRole `admin` in a namespace, and nothing else."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    parts = [
        control_plane.ask("GET", f"{rbac}/clusterroles/system:aggregate-to-{name}")["rules"]
        for name in ("admin", "edit", "view")
    ]
    # As the kube-controller-manager fills it, which does not run here.
    rules = [rule for part in parts for rule in part]
    merge = "application/merge-patch+json"
    control_plane.ask("PATCH", f"{rbac}/clusterroles/admin", {"rules": rules}, merge)
    group, user = "rbac.authorization.k8s.io", f"ada-{namespace}"
    binding = {
        "metadata": {"name": "admins"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    control_plane.ask("POST", f"{rbac}/namespaces/{namespace}/rolebindings", binding)
    return control_plane.kubeconfig(user=user, groups=(), namespace=namespace)


@pytest.fixture
def install(
    admin: Path, consumer, kubectl_program, namespace: str, tmp_path: Path, monkeypatch
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`install(way, rights, policy)`: what becomes of it when that admin installs a watcher."""
    monkeypatch.setenv("KUBECONFIG", str(admin))
    for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))

    def by(way: str, rights: list[str], *, policy: bool) -> subprocess.CompletedProcess[str]:
        if way == "helm":
            values = {RIGHTS[right][0]: True for right in rights}
            values |= {"policy": {"create": policy}, "image": REGISTRY}
            words = (consumer("helm"), "install", NAME, CHART, "--values", "-")
            return run(*words, "--namespace", namespace, stdin=json.dumps(values))
        if way == "kustomize":
            components = [RIGHTS[right][1] for right in rights]
            folder = tmp_path / "own" / "-".join(["with", *rights])
            overlay(folder, namespace=namespace, resources=["namespaced"], components=components)
            built = by_kustomize(consumer("kustomize"), folder).objects
            # Beside it, because it has no namespace.
            built += by_kustomize(consumer("kustomize"), KUSTOMIZE / "policy").objects * policy
            text = yaml.safe_dump_all(built)
        else:
            names = [RIGHTS[right][1].removeprefix("components/") for right in rights]
            options = [word for name in names for word in ("--with", name)]
            if not policy:
                options.append("--without-policy")
            words = (sys.executable, "-m", "etcompile", "watch", "--manifests", "-n", namespace)
            written = run(*words, "--image", IMAGE, *options)
            assert written.returncode == 0, written.stderr
            text = written.stdout
        return run(kubectl_program, "apply", "--server-side", "--filename", "-", stdin=text)

    return by


WITHOUT_CLUSTER_RIGHTS = ["logs", "removal"]


@pytest.mark.parametrize("rights", [[], WITHOUT_CLUSTER_RIGHTS], ids=["base", "options"])
@pytest.mark.parametrize("way", ["manifests", "helm", "kustomize"])
def test_the_admin_of_a_namespace_can_install_a_watcher_that_runs(
    way: str, rights: list[str], install, control_plane, namespace: str
) -> None:
    done = install(way, rights, policy=False)
    assert done.returncode == 0, done.stderr
    account = control_plane.service_account(namespace, NAME)
    watcher = run(
        *(sys.executable, "-m", "etcompile", "watch", "--once", "--namespace", namespace),
        *("--kubeconfig", control_plane.kubeconfig(token=account, namespace=namespace)),
    )
    assert watcher.returncode == 0, watcher.stderr
    assert "Forbidden" not in watcher.stderr


@pytest.mark.parametrize("way", ["manifests", "helm", "kustomize"])
@pytest.mark.parametrize("what", ["gangs", "policy"])
def test_what_such_an_admin_may_not_grant_is_refused(what: str, way: str, install) -> None:
    done = install(way, ["gangs"] if what == "gangs" else [], policy=what == "policy")
    assert done.returncode != 0
    words = {"gangs": "podgroups", "policy": "validatingadmissionpolic"}
    assert words[what] in done.stderr.lower()


# ---- releases ------------------------------------------------------------------------------------


class Releases:
    def __init__(self, helm: Path, control_plane: Any, folder: Path) -> None:
        self._helm = helm
        self._plane = control_plane
        names = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")
        self._environment = {
            **os.environ,
            **{name: str(folder / name) for name in names},
            "KUBECONFIG": str(control_plane.kubeconfig()),
        }
        self.releases: list[tuple[str, str]] = []

    def __call__(
        self, verb: str, release: str, namespace: str, *words: object, values: Any = None
    ) -> subprocess.CompletedProcess[str]:
        values_text = json.dumps({"image": REGISTRY, **(values or {})})
        reads = ("--values", "-") if verb in ("install", "upgrade") else ()
        # Without it an upgrade without values keeps those of before.
        reset = ("--reset-values",) if verb == "upgrade" else ()
        command = (self._helm, verb, release, *words, "--namespace", namespace, *reads, *reset)
        if verb == "install":
            self.releases.append((release, namespace))
        return run(*command, stdin=values_text, env=self._environment)

    def objects(self, release: str, *namespaces: str) -> dict[str, set[str]]:
        by_kind = {}
        for kind, path in WAYS.items():
            for namespace in namespaces if "{}" in path else namespaces[:1]:
                label = f"app.kubernetes.io/instance%3D{release}"
                where = f"{path.format(namespace)}?labelSelector={label}"
                names = {
                    value["metadata"]["name"] for value in self._plane.ask("GET", where)["items"]
                }
                if names:
                    by_kind[kind] = by_kind.get(kind, set()) | names
        return by_kind


@pytest.fixture
def releases(consumer, control_plane, tmp_path: Path) -> Iterator[Releases]:
    installed = Releases(consumer("helm"), control_plane, tmp_path)
    yield installed
    for release, namespace in installed.releases:
        installed("uninstall", release, namespace, "--ignore-not-found")


def test_a_release_is_installed_changed_and_removed(
    releases: Releases, control_plane, namespace: str, tmp_path: Path
) -> None:
    other = control_plane.namespace()
    release = f"w-{namespace}"
    done = releases("install", release, namespace, CHART, values={"commonLabels": {"a": "b"}})
    assert done.returncode == 0, done.stderr
    first = releases.objects(release, namespace, other)
    assert first.keys() == WAYS.keys() - {"ClusterRole", "ClusterRoleBinding", "ConfigMap"}
    paths = (
        {"namespaces": [namespace, other], "readLogs": True, "replicas": 3},
        {"namespaces": [other], "serviceAccount": {"create": False, "name": "default"}},
        # Everywhere, where other tests are: without the policy.
        {"allNamespaces": True, "policy": {"create": False}, "dashboard": {"enabled": True}},
        {"networkPolicy": {"enabled": False}},
        {},
    )
    for values in paths:
        done = releases("upgrade", release, namespace, CHART, values=values)
        assert done.returncode == 0, (values, done.stderr)
        installed = releases.objects(release, namespace, other)
        assert ("ClusterRole" in installed) == ("allNamespaces" in values)
        assert ("ConfigMap" in installed) == ("dashboard" in values)
    assert releases.objects(release, namespace, other) == first
    # The next version is a change of the same objects, too.
    packaged = run(
        *(releases._helm, "package", CHART, "--destination", tmp_path),  # noqa: SLF001
        *("--version", "9.9.9", "--app-version", "9.9.9"),
    )
    assert packaged.returncode == 0, packaged.stderr
    done = releases("upgrade", release, namespace, tmp_path / "etcompile-watch-9.9.9.tgz")
    assert done.returncode == 0, done.stderr
    assert releases.objects(release, namespace, other) == first
    done = releases("uninstall", release, namespace)
    assert done.returncode == 0, done.stderr
    assert releases.objects(release, namespace, other) == {}


def test_uninstalling_one_release_does_not_affect_the_others(
    releases: Releases, control_plane, namespace: str
) -> None:
    other = control_plane.namespace()
    shared = control_plane.namespace()
    values = {"namespaces": [shared]}
    for release, where in (("a", namespace), ("b", namespace), ("a", other)):
        done = releases("install", release, where, CHART, values=values)
        assert done.returncode == 0, done.stderr
    done = releases("uninstall", "a", namespace)
    assert done.returncode == 0, done.stderr
    # Whoever is left has all rights, and the policy still holds.
    left = {"b": namespace, "a": other}
    for release, where in left.items():
        installed = releases.objects(release, where, shared)
        rights = f"{where}.{release}-etcompile-watch"
        assert rights in installed["Role"]
        assert installed["ValidatingAdmissionPolicyBinding"] == {f"etcompile-jobs.{rights}"}


def test_both_ways_at_once_are_refused_before_anything_is_written(
    releases: Releases, namespace: str
) -> None:
    values = {"allNamespaces": True, "namespaces": [namespace]}
    done = releases("install", "w", namespace, CHART, values=values)
    assert done.returncode == 1
    assert "allNamespaces and namespaces cannot be combined" in done.stderr
    assert releases.objects("w", namespace) == {}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "of the namespace nlp."),
        ({"namespaces": ["a", "b", "c"]}, "of the namespaces a, b and c."),
        ({"allNamespaces": True}, "of all namespaces."),
    ],
)
def test_what_is_said_after_an_installation(
    values: dict[str, Any], says: str, releases: Releases
) -> None:
    def notes(values: dict[str, Any]) -> str:
        done = releases("install", "w", "nlp", CHART, "--dry-run=client", values=values)
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.partition("NOTES:\n")[2].split())

    said = notes(values)
    assert says in said
    assert "kubectl -n nlp get lease w-etcompile-watch" in said
    assert "trusts" not in said
    said = notes({**values, "policy": {"create": False}})
    assert "trusts everyone who can write ConfigMaps" in said
