"""The command: the objects that run it, what it serves, and what it refuses."""

import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from watched import eventually, training_job

from etcompile.cli.watch import command
from etcompile.integrations.watcher_manifests import NAME, Installation, manifests
from etcompile.kubeapi.controller.endpoints import Endpoints
from etcompile.load import parse


def written(*arguments: str) -> list[dict]:
    result = CliRunner().invoke(command, ["--manifests", "--image", "watcher:1", *arguments])
    assert result.exit_code == 0, result.output
    return [document.data for document in parse(result.stdout).documents]


def test_the_manifests_of_a_namespace_hold_no_right_beyond_it():
    kinds = [value["kind"] for value in written("--namespace", "ml", "--namespace", "nlp")]
    assert "ClusterRole" not in kinds
    assert kinds.count("Role") == 3  # one in each, and one for the Lease
    assert {"Deployment", "NetworkPolicy", "PodDisruptionBudget", "ServiceAccount"} <= {*kinds}


@pytest.mark.parametrize(
    ("option", "resource", "verb"),
    [
        ("--read-logs", "pods/log", "get"),
        ("--remove-finished", "rolebindings", "delete"),
        ("--remove-pod-groups", "podgroups", "delete"),
    ],
)
def test_what_replacement_does_not_need_is_granted_only_by_an_option(option, resource, verb):
    def allowed(*arguments: str) -> set[tuple[str, str]]:
        roles = [one for one in written("-n", "nlp", *arguments) if one["kind"] == "Role"]
        rules = [rule for role in roles for rule in role["rules"]]
        return {
            (name, verb) for rule in rules for name in rule["resources"] for verb in rule["verbs"]
        }

    assert (resource, verb) not in allowed()
    assert (resource, verb) in allowed(option)


def test_the_policy_comes_first_and_may_be_left_out():
    kinds = [value["kind"] for value in written("-n", "ml", "-n", "nlp", "--home", "ml")]
    assert kinds[:2] == ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]
    kinds = [value["kind"] for value in written("-n", "ml", "--without-policy")]
    assert not [kind for kind in kinds if kind.startswith("Validating")]


def test_the_manifests_for_all_namespaces_bring_their_own():
    objects = written("--all-namespaces", "--image", "here/etcompile:1")
    kinds = [value["kind"] for value in objects]
    assert kinds[0] == "Namespace"
    assert "ClusterRole" in kinds
    pod = objects[-1]["spec"]["template"]["spec"]["containers"][0]
    assert pod["image"] == "here/etcompile:1"
    assert pod["args"][:2] == ["watch", "--all-namespaces"]


def test_the_deployment_s_arguments_are_ones_that_the_command_knows(monkeypatch):
    arguments = written("--namespace", "ml")[-1]["spec"]["template"]["spec"]["containers"][0][
        "args"
    ]
    assert arguments[0] == "watch"
    with command.make_context("watch", arguments[1:]) as context:
        assert context.params["namespaces"] == ("ml",)
        assert context.params["home"] == "ml"


def keys(*arguments: str) -> set[tuple[str, str, str]]:
    return {
        (value["kind"], value["metadata"].get("namespace", ""), value["metadata"]["name"])
        for value in written(*arguments)
    }


INSTALLATIONS = [
    ("-n", "nlp"),
    ("-n", "vision"),
    ("-n", "nlp", "-n", "vision", "--home", "ops"),
    ("-n", "vision", "-n", "nlp", "--home", "ops", "--name", "night"),
    ("--all-namespaces",),
    ("--all-namespaces", "--home", "ops", "--name", "all"),
    ("--all-namespaces", "--name", "night"),
]


@pytest.mark.parametrize("one", INSTALLATIONS, ids=" ".join)
def test_deleting_an_installation_leaves_every_other_whole(one):
    """What `kubectl delete` gets of one are no objects of another."""
    for other in INSTALLATIONS:
        assert other == one or keys(*one) & keys(*other) == set()


def test_the_namespace_of_other_things_is_not_among_the_manifests():
    own = ("Namespace", "", "etcompile-watch")
    assert own in keys("--all-namespaces")
    assert "Namespace" not in [kind for kind, _, _ in keys("--all-namespaces", "--home", "ops")]
    assert keys("-n", "ml") == keys("-n", "ml", "--name", NAME)


def test_the_pods_of_a_watcher_are_not_those_of_another():
    [one] = [v for v in written("-n", "ml") if v["kind"] == "PodDisruptionBudget"]
    deployment = written("-n", "ml", "--name", "night")[-1]
    selected = one["spec"]["selector"]["matchLabels"]
    assert not selected.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


def test_its_metrics_are_found_by_the_prometheus_operator_if_somebody_asks_for_that():
    objects = written("-n", "ml", "--pod-monitor")
    [monitor] = [one for one in objects if one["kind"] == "PodMonitor"]
    pod = objects[-1]["spec"]["template"]
    selected = monitor["spec"]["selector"]["matchLabels"]
    assert selected.items() <= pod["metadata"]["labels"].items()
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    [port] = pod["spec"]["containers"][0]["ports"]
    assert endpoint["port"] == port["name"]


def test_the_dashboard_is_found_by_the_sidecar_of_grafana_if_somebody_asks_for_that():
    [board] = [one for one in written("-n", "ml", "--dashboard") if one["kind"] == "ConfigMap"]
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    [text] = board["data"].values()
    chart = Path(__file__).parents[3] / "templates" / "watcher" / "helm" / "etcompile-watch"
    shown = chart / "dashboards" / "etcompile.json"
    assert text == shown.read_text("utf-8")
    assert "ConfigMap" not in [one["kind"] for one in written("-n", "ml")]


@pytest.mark.parametrize("namespaces", [None, "its own"])
def test_an_api_server_accepts_all_of_them(place, namespaces):
    where = None if namespaces is None else (place.namespace,)
    for value in manifests(Installation(place.namespace, where, "watcher:1")):
        place.cluster.server_side_apply(value, dry_run=True)


def test_what_it_serves_tells_how_it_is(place, watching):
    running = watching()
    place.kubelets()
    place.submit(training_job())
    eventually(lambda: len(place.hosts()) == 2)
    checks = {"/healthz": running.watcher.healthy, "/readyz": running.watcher.ready}
    with closing(Endpoints("127.0.0.1", 0, running.watcher.metrics.text, checks)) as serving:

        def get(path: str) -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{serving.port}{path}") as answer:
                return answer.read().decode()

        assert get("/healthz") == "healthy\n"
        assert get("/readyz") == "ready\n"
        metrics = get("/metrics")
        assert "etcompile_watch_leader 1.0" in metrics
        assert "etcompile_watch_pods 3.0" in metrics
        assert (
            'etcompile_watch_api_writes_total{kind="ConfigMap",status="ok",verb="create"}'
            in metrics
        )
        labels = f'job_name="bert",job_namespace="{place.namespace}"'
        goodput = f"etcompile_watch_goodput_ratio{{{labels}}}"
        eventually(lambda: goodput in get("/metrics"))
        with pytest.raises(urllib.error.HTTPError):
            get("/other")


def test_a_check_that_fails_is_answered_with_503():
    with closing(
        Endpoints("127.0.0.1", 0, bytes, {"/readyz": lambda: (False, "not yet")})
    ) as serving:
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://127.0.0.1:{serving.port}/readyz")
        with caught.value as answer:
            assert (answer.code, answer.read()) == (503, b"not yet\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-n", "a", "-A"], "cannot be combined"),
        (["--manifests"], "needs --namespace NS or --all-namespaces"),
        (["--image", "x"], "needs --manifests"),
        (["--read-logs"], "needs --manifests"),
        (["--remove-finished"], "needs --manifests"),
        (["--remove-pod-groups"], "needs --manifests"),
        (["--name", "Night_Shift"], "not a name that objects of Kubernetes can have"),
        (["--name", "n" * 64], "not a name that objects of Kubernetes can have"),
        (["--without-policy"], "needs --manifests"),
        (["--pod-monitor"], "needs --manifests"),
        (["--dashboard"], "needs --manifests"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, words):
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert words in result.output


def test_a_kubeconfig_that_is_not_there_is_said_so(tmp_path):
    result = CliRunner().invoke(command, ["--once", "--kubeconfig", str(tmp_path / "none")])
    assert result.exit_code == 6
    assert "none" in result.output


def test_once_leaves_jobs_to_the_watcher_that_holds_the_lease(place, watching, control_plane):
    running = watching()
    eventually(lambda: running.leading.valid)
    kubeconfig = control_plane.kubeconfig(token="admin-token", namespace=place.namespace)
    result = CliRunner().invoke(command, ["--once", "--kubeconfig", str(kubeconfig)])
    assert result.exit_code == 0, result.output
    assert "nothing to do" in result.output
    assert NAME not in result.output
