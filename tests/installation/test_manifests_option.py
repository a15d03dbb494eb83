"""`etcompile watch --manifests`: which objects it prints, and what it refuses."""

import pytest
from click.testing import CliRunner

from etcompile.cli.watch import command
from etcompile.integrations.watcher_manifests import NAME
from etcompile.load import parse


def written(*arguments: str) -> list[dict]:
    result = CliRunner().invoke(command, ["--manifests", "--image", "watcher:1", *arguments])
    assert result.exit_code == 0, result.output
    return [document.data for document in parse(result.stdout).documents]


def keys(*arguments: str) -> set[tuple[str, str, str]]:
    return {
        (value["kind"], value["metadata"].get("namespace", ""), value["metadata"]["name"])
        for value in written(*arguments)
    }


def test_manifests_of_namespaces_grant_nothing_beyond_them():
    kinds = [value["kind"] for value in written("--namespace", "ml", "--namespace", "nlp")]
    assert "ClusterRole" not in kinds
    assert kinds.count("Role") == 3  # one in each, and one for the Lease
    assert {"Deployment", "NetworkPolicy", "PodDisruptionBudget", "ServiceAccount"} <= {*kinds}


@pytest.mark.parametrize(
    ("option", "resource", "verb"),
    [
        ("read-logs", "pods/log", "get"),
        ("remove-finished", "rolebindings", "delete"),
        ("remove-pod-groups", "podgroups", "delete"),
    ],
)
def test_manifests_grant_an_optional_right_only_with_its_option(option, resource, verb):
    def allowed(*arguments: str) -> set[tuple[str, str]]:
        roles = [one for one in written("-n", "nlp", *arguments) if one["kind"] == "Role"]
        rules = [rule for role in roles for rule in role["rules"]]
        return {
            (name, verb) for rule in rules for name in rule["resources"] for verb in rule["verbs"]
        }

    assert (resource, verb) not in allowed()
    assert (resource, verb) in allowed("--with", option)


def test_manifests_begin_with_the_policy_unless_it_is_left_out():
    kinds = [value["kind"] for value in written("-n", "ml", "-n", "nlp", "--home", "ml")]
    assert kinds[:2] == ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]
    kinds = [value["kind"] for value in written("-n", "ml", "--without-policy")]
    assert not [kind for kind in kinds if kind.startswith("Validating")]


def test_manifests_for_all_namespaces_include_a_separate_namespace():
    objects = written("--all-namespaces", "--image", "here/etcompile:1")
    kinds = [value["kind"] for value in objects]
    assert kinds[0] == "Namespace"
    assert "ClusterRole" in kinds
    pod = objects[-1]["spec"]["template"]["spec"]["containers"][0]
    assert pod["image"] == "here/etcompile:1"
    assert pod["args"][:2] == ["watch", "--all-namespaces"]
    assert "Namespace" not in [kind for kind, _, _ in keys("--all-namespaces", "--home", "ops")]


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
def test_installation_shares_no_object_with_any_other(one):
    for other in INSTALLATIONS:
        assert other == one or keys(*one) & keys(*other) == set()


def test_default_name_of_an_installation_is_that_of_the_watcher():
    assert keys("-n", "ml") == keys("-n", "ml", "--name", NAME)


def test_disruption_budget_selects_no_pod_of_another_watcher():
    [one] = [v for v in written("-n", "ml") if v["kind"] == "PodDisruptionBudget"]
    deployment = written("-n", "ml", "--name", "night")[-1]
    selected = one["spec"]["selector"]["matchLabels"]
    assert not selected.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


def test_pod_monitor_selects_the_pods_and_their_port():
    objects = written("-n", "ml", "--with", "pod-monitor")
    [monitor] = [one for one in objects if one["kind"] == "PodMonitor"]
    pod = objects[-1]["spec"]["template"]
    selected = monitor["spec"]["selector"]["matchLabels"]
    assert selected.items() <= pod["metadata"]["labels"].items()
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    [port] = pod["spec"]["containers"][0]["ports"]
    assert endpoint["port"] == port["name"]


def test_dashboard_has_the_label_that_the_sidecar_of_grafana_selects():
    [board] = [
        one for one in written("-n", "ml", "--with", "dashboard") if one["kind"] == "ConfigMap"
    ]
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert "ConfigMap" not in [one["kind"] for one in written("-n", "ml")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-n", "a", "-A"], "cannot be combined"),
        (["--manifests"], "needs --namespace NS or --all-namespaces"),
        (["--image", "x"], "needs --manifests"),
        (["--with", "read-logs"], "needs --manifests"),
        (["--name", "Night_Shift"], "not a name that objects of Kubernetes can have"),
        (["--name", "n" * 64], "not a name that objects of Kubernetes can have"),
        (["--without-policy"], "needs --manifests"),
        (["--with", "dashboard"], "needs --manifests"),
        (["--with", "logs"], "'read-logs'"),
        (["--log-format", "xml"], "'text', 'json'"),
    ],
)
def test_options_that_contradict_each_other_are_refused(arguments, words):
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert words in result.output
