"""Which changes Kubernetes refuses: a table of changes against the table of rules."""

import copy
import re
from pathlib import Path

import pytest
from immutable_cases import ACCEPTED, CASES, REFUSED, RESTARTS, Case, changed

from etcompile.k8s.path import keyed
from etcompile.kubeapi import ClusterError, connect
from etcompile.plan import updates
from etcompile.plan.comparison import compared
from specs import manifest


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_a_change_is_judged_as_the_api_server_judges_it(case: Case) -> None:
    before = copy.deepcopy((case.old, case.new))
    verdicts = updates.changes(case.old, case.new)
    assert [(change.verdict, change.field) for change in verdicts] == (
        [] if case.verdict == ACCEPTED else [(case.verdict, case.field)]
    )
    assert (case.old, case.new) == before


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case.untried], ids=lambda case: case.title
)
def test_the_table_says_what_the_api_server_does(control_plane, namespace, case: Case) -> None:
    with connect(kubeconfig=control_plane.kubeconfig(), namespace=namespace) as cluster:
        cluster.server_side_apply(case.old)
        if case.old["kind"] == "PersistentVolumeClaim":
            cluster.server_side_apply(EXPANDABLE)
            capacity = case.old["spec"]["resources"]["requests"]
            path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/x"
            control_plane.set_status(path, {"phase": "Bound", "capacity": capacity})
        if case.verdict == REFUSED and not case.silent:
            with pytest.raises(ClusterError) as caught:
                cluster.server_side_apply(case.new, force=True)
            assert caught.value.invalid
        else:
            cluster.server_side_apply(case.new, force=True)


EXPANDABLE = manifest(
    "StorageClass",
    "etcompile-lab",
    api_version="storage.k8s.io/v1",
    provisioner="a/b",
    allowVolumeExpansion=True,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_what_stays_as_it_is_is_no_change(case: Case) -> None:
    assert updates.changes(case.new, copy.deepcopy(case.new)) == []


def test_every_row_decides_a_case() -> None:
    """A row that no case reaches would be a rule that nobody has tried."""
    reached = set()
    for case in CASES:
        kind = (case.old["apiVersion"].rpartition("/")[0], case.old["kind"])
        for place in compared(case.new, case.old, None):
            for path in updates.leaves(place):
                match = updates.row_of(kind, path)
                reached |= {(kind, keyed(match[0]))} if match else set()
    rows = {(kind, keyed(path)) for kind, of_kind in updates.rows().items() for path, _ in of_kind}
    assert rows - reached == UNTRIED


UNTRIED = {
    # The same judgement as that of its neighbour in the table.
    (("batch", "Job"), "spec.backoffLimitPerIndex"),
    (("batch", "Job"), "spec.podFailurePolicy"),
    (("batch", "Job"), "spec.selector"),
    (("batch", "Job"), "spec.successPolicy"),
    (("batch", "Job"), "spec.template.metadata.annotations"),
    (("batch", "Job"), "spec.template.metadata.labels"),
    (("batch", "Job"), "spec.template.spec.schedulingGates"),
}


def test_kinds_without_rules_may_change() -> None:
    for kind in ("PodTemplate", "ServiceAccount", "PodDisruptionBudget", "Namespace", "Widget"):
        old = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, "spec": {"a": 1}}
        assert updates.changes(old, {**old, "spec": {"a": 2}}) == []


def test_a_kind_of_the_same_name_in_another_group_has_no_rules() -> None:
    old = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "x"}}
    assert updates.changes(old, {**old, "spec": {"clusterIP": "None"}}) == []


def test_a_newer_version_of_a_kind_is_the_same_kind() -> None:
    api = "rbac.authorization.k8s.io"
    old = {"apiVersion": f"{api}/v1beta1", "kind": "RoleBinding", "roleRef": {"name": "a"}}
    new = {"apiVersion": f"{api}/v1", "kind": "RoleBinding", "roleRef": {"name": "b"}}
    assert [change.field for change in updates.changes(old, new)] == ["roleRef.name"]


def test_the_values_of_a_secret_are_marked() -> None:
    old = {"apiVersion": "v1", "kind": "Secret", "data": {"k": "dg=="}, "immutable": True}
    [change] = updates.changes(old, {**old, "data": {"k": "dw=="}})
    assert change.secret
    text = {**old, "data": {}, "stringData": {"k": "v"}}
    [change] = updates.changes(text, {**text, "stringData": {"k": "w"}})
    assert (change.field, change.secret) == ("data.k", True)


def test_every_changed_field_is_one_change_and_an_image_one_more() -> None:
    container = {"image": "other:1", "args": ["x"]}
    spec = {"restartPolicy": "Never", "hostname": "h", "containers": [container]}
    result = updates.changes(changed("Pod"), changed("Pod", {"spec": spec}))
    assert [change.field for change in result] == [
        "spec.containers[main].args",
        "spec.containers[main].image",
        "spec.hostname",
        "spec.restartPolicy",
    ]
    assert [change.verdict == RESTARTS for change in result] == [False, True, False, False]


def test_the_page_names_every_kind_with_rules() -> None:
    page = (Path(__file__).parents[2] / "docs" / "output.md").read_text()
    items = re.findall(r"^- \*\*(.+?)\*\*", page, re.MULTILINE)
    named = {kind for item in items for kind in item.split(", ")}
    assert {kind for _, kind in updates.rows()} <= named
