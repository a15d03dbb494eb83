"""What a plan decides to do about one object, and why: the table of classes."""

import copy
from typing import Any

import pytest

from etcompile.plan.planner import plan
from etcompile.plan.scope import Rights
from etcompile.plan.step import Declared, Plan, Step
from plan.live_objects import live
from specs import manifest

SET = "applyset-x-v1"


def config(name: str = "c", **metadata: Any) -> dict[str, Any]:
    return manifest("ConfigMap", name, metadata={"namespace": "n", **metadata}, data={"a": "1"})


def changed(value: dict[str, Any]) -> dict[str, Any]:
    return {**copy.deepcopy(value), "data": {"a": "2"}}


def pod(image: str = "busybox:1", *command: str) -> dict[str, Any]:
    container = {"name": "main", "image": image, "command": [*command]}
    return manifest("Pod", "p", metadata={"namespace": "n"}, spec={"containers": [container]})


def planned(
    desired: list[Any], there: list[Any], *, inventory: str | None = None, **rights: Any
) -> Plan:
    group = Declared("n/j", desired, inventory=inventory)
    pods = [value for value in there if value["kind"] == "Pod"]
    return plan([group], there, Rights(**rights), pods={"n": pods})


def only(*args: Any, **options: Any) -> Step:
    (step,) = planned(*args, **options).steps
    return step


def member(value: dict[str, Any], of: str = SET, **metadata: Any) -> dict[str, Any]:
    value = copy.deepcopy(value)
    value["metadata"]["labels"] = {"applyset.kubernetes.io/part-of": of}
    return live(value, **metadata)


ARGO = {"annotations": {"argocd.argoproj.io/tracking-id": "team:/ConfigMap:n/c"}}
COPIED = {"annotations": {"argocd.argoproj.io/tracking-id": "team:/ConfigMap:n/other"}}
FLUX = {"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}
PREVENTED = {"annotations": {"etcompile.dev/prevent-destroy": "true"}}
NOTES = {"people": {"data": {"notes": "x"}}}
CONTROLLED = {"ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": True}]}


@pytest.mark.parametrize(
    ("there", "rights", "action", "words"),
    [
        ([], {}, "create", "does not exist"),
        ([live(config())], {}, "unchanged", ""),
        ([live(config(), by="kubectl")], {}, "unchanged", ""),
        ([live(changed(config()))], {}, "update", ""),
        ([live(changed(config()), by="kubectl")], {}, "conflict", "kubectl owns data.a"),
        (
            [live(changed(config()), by="kubectl")],
            {"take_ownership": frozenset({"kubectl"})},
            "conflict",
            "kubectl made it",
        ),
        (
            [live(changed(config()), by="kubectl")],
            {"take_ownership": frozenset({"kubectl"}), "adopt": True},
            "adopt",
            "taken over: kubectl made it",
        ),
        (
            [live(changed(config()), others={"scaler": {"data": {"a": "3"}}})],
            {},
            "conflict",
            "scaler owns data.a",
        ),
        ([live(changed(config()), **ARGO)], {}, "conflict", "Argo CD application team"),
        ([live(config(), **ARGO)], {}, "unchanged", ""),
        ([live(changed(config()), **ARGO)], {"adopt": True}, "adopt", "Argo CD application team"),
        ([live(changed(config()), **COPIED)], {}, "update", ""),
        ([live(changed(config()), **FLUX)], {}, "conflict", "Flux Kustomization apps"),
        ([live(changed(config()), **CONTROLLED)], {"adopt": True}, "conflict", "ReplicaSet web"),
        ([member(changed(config()), "applyset-other-v1")], {}, "conflict", "applyset-other-v1"),
    ],
)
def test_what_is_there_decides(there: Any, rights: Any, action: str, words: str) -> None:
    step = only([config()], there, **rights)
    assert step.action == action
    assert words in " ".join(step.reasons)


def test_an_image_changes_in_place_and_says_what_that_does() -> None:
    step = only([pod("busybox:2")], [live(pod("busybox:1"))])
    assert step.action == "update"
    assert "restarts the container" in step.reasons[0]


def test_object_under_deletion_is_created_again_once_it_is_gone() -> None:
    going = live(config(), deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["example.com/x"])
    wait, create = planned([config()], [going]).steps
    assert (wait.action, wait.until, wait.uid) == ("wait", "gone", "uid-c")
    assert "example.com/x" in wait.reasons[0]
    assert (create.action, create.after) == ("create", (wait.id,))


@pytest.mark.parametrize(
    ("there", "rights", "action", "words"),
    [
        (member(config("old")), {"prune": True}, "delete", "no longer in the files"),
        (member(config("old")), {}, "unmanaged", "--prune"),
        (live(config("old")), {"prune": True}, "unmanaged", "not in the inventory"),
        (
            member(config("old"), ownerReferences=[{"kind": "Job", "name": "x"}]),
            {"prune": True},
            "unmanaged",
            "owner Job x",
        ),
        (
            member(config("old"), annotations={"etcompile.dev/prune": "disabled"}),
            {"prune": True},
            "unmanaged",
            "etcompile.dev/prune",
        ),
        (
            member(
                config("c"),
                annotations={"argocd.argoproj.io/tracking-id": "team:/ConfigMap:n/old"},
                name="old",
            ),
            {"prune": True},
            "unmanaged",
            "Argo CD",
        ),
        (
            member(config("old"), deletionTimestamp="2026-01-01T00:00:00Z"),
            {"prune": True},
            "unmanaged",
            "being deleted already",
        ),
        (
            member(config("old"), others=NOTES),
            {"prune": True},
            "release",
            "it also holds data.notes of people",
        ),
        (
            member(config("old"), others=NOTES, **PREVENTED),
            {"prune": True},
            "conflict",
            "etcompile.dev/prevent-destroy",
        ),
    ],
)
def test_only_what_is_ours_alone_is_pruned(
    there: Any, rights: Any, action: str, words: str
) -> None:
    retained, left = planned([config()], [member(config()), there], inventory=SET, **rights).steps[
        ::-1
    ]
    if left.action == "unchanged":
        retained, left = left, retained
    assert (retained.action, left.action) == ("unchanged", action)
    assert words in left.reasons[0]


def test_an_object_joins_the_inventory_and_nothing_else_of_it_changes() -> None:
    step = only([config()], [live(config())], inventory=SET)
    assert step.action == "update"
    assert [one.path for one in step.changes] == ["metadata.labels[applyset.kubernetes.io/part-of]"]


def test_what_is_only_to_exist_is_left_as_it_is() -> None:
    created_once = frozenset({("", "ConfigMap", "n", "c")})
    result = plan([Declared(None, [config()], create_only=created_once)], [live(changed(config()))])
    assert [step.action for step in result.steps] == ["unchanged"]


def test_values_of_secrets_are_nowhere_in_a_plan() -> None:
    metadata = {"namespace": "n"}
    encoded = {"old": "c2VjcmV0LW9sZA==", "both": "c2VjcmV0LWE="}
    there = live(manifest("Secret", "s", metadata=metadata, data=encoded))
    values = {"both": "secret-b", "new": "secret-new"}
    result = planned([manifest("Secret", "s", metadata=metadata, stringData=values)], [there])
    text = repr(result)
    assert len(result.steps[0].changes) == 3
    assert "secret-" not in text
    assert "c2VjcmV0" not in text


def test_a_plan_says_whether_it_differs() -> None:
    assert not planned([config()], [live(config())]).differs
    assert not planned([config()], [live(config()), live(config("x"))]).differs
    assert planned([config()], []).differs


def immutable(kind: str, api_version: str = "v1", **fields: Any) -> dict[str, Any]:
    metadata = {"name": "x", "namespace": "n"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


CLAIM = immutable("PersistentVolumeClaim", spec={"accessModes": ["ReadWriteOnce"]})
OTHER_CLAIM = immutable("PersistentVolumeClaim", spec={"accessModes": ["ReadWriteMany"]})
SECRET = immutable("Secret", data={"a": "MQ=="}, immutable=True)
OTHER_SECRET = immutable("Secret", data={"a": "Mg=="}, immutable=True)
MAP = immutable("ConfigMap", data={"a": "1"}, immutable=True)
OTHER_MAP = immutable("ConfigMap", data={"a": "2"}, immutable=True)


@pytest.mark.parametrize(
    ("desired", "there"),
    [
        (OTHER_CLAIM, live(CLAIM)),
        (OTHER_SECRET, live(SECRET)),
        (OTHER_MAP, live(MAP, others={"people": {"data": {"notes": "kept nowhere else"}}})),
    ],
    ids=["claim", "secret", "keys-of-others"],
)
def test_what_holds_data_is_replaced_only_if_it_is_named(desired: Any, there: Any) -> None:
    for rights in ({}, {"replace": True}, {"replace": True, "adopt": True, "prune": True}):
        step = only([desired], [there], **rights)
        assert (step.action, step.needs) == ("replace", "replace-data")
        assert f"--replace-data {desired['kind']}/x" in step.reasons[-1]
    for name in ("x", f"{desired['kind'].lower()}/x", f"n/{desired['kind']}/x"):
        named = only([desired], [there], replace_data=frozenset({name}))
        assert (named.action, named.needs) == ("replace", None)
    other = only([desired], [there], replace=True, replace_data=frozenset({"y", "Pod/x"}))
    assert other.needs == "replace-data"


def test_an_immutable_map_of_ours_holds_nothing_that_is_not_in_its_manifest() -> None:
    assert only([OTHER_MAP], [live(MAP)], replace=True).needs is None


@pytest.mark.parametrize("desired", [OTHER_CLAIM, pod("busybox:1", "b")])
def test_conflict_requires_ownership_before_a_replacement(desired: Any) -> None:
    before = CLAIM if desired is OTHER_CLAIM else pod("busybox:1", "a")
    there = live(before, by="kubectl-create")
    step = only([desired], [there], replace=True, take_ownership=frozenset("*"))
    assert (step.action, step.needs) == ("conflict", "adopt")
    assert "--replace" not in " ".join(step.reasons)


@pytest.mark.parametrize("of", ["live", "desired"])
def test_nothing_deletes_an_object_that_prevents_it(of: str) -> None:
    every = {
        "replace": True,
        "adopt": True,
        "prune": True,
        "replace_data": frozenset("*"),
        "take_ownership": frozenset("*"),
    }
    annotated = copy.deepcopy(pod("busybox:1", "b"))
    annotated["metadata"] |= PREVENTED
    desired = annotated if of == "desired" else pod("busybox:1", "b")
    there = live(pod("busybox:1", "a"), **(PREVENTED if of == "live" else {}))
    step = only([desired], [there], **every)
    assert (step.action, step.needs) == ("conflict", None)
    assert "etcompile.dev/prevent-destroy" in step.reasons[-1]


def using(claim: str, name: str, **spec: Any) -> dict[str, Any]:
    value = pod()
    value["metadata"]["name"] = name
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    return {**value, "spec": {**value["spec"], "volumes": [volume], **spec}}


@pytest.mark.parametrize(
    ("there", "blockers"),
    [
        ([], []),
        ([using("x", "waits")], []),
        ([using("y", "other", nodeName="a")], []),
        ([using("x", "p1", nodeName="a")], ["Pod p1 would keep it"]),
        (
            [using("x", f"p{number}", nodeName="a") for number in range(5)],
            ["Pods p0, p1, p2 and 2 more would keep it"],
        ),
    ],
    ids=["none", "unscheduled", "of-another-claim", "one", "five"],
)
def test_a_claim_that_pods_keep_is_not_replaced_before_they_are_gone(
    there: list[dict[str, Any]], blockers: list[str]
) -> None:
    result = planned(
        [OTHER_CLAIM, *there],
        [live(CLAIM), *(live(one) for one in there)],
        replace_data=frozenset({"x"}),
    )
    [step] = [one for one in result.steps if one.ref.name == "x"]
    assert (step.action == "conflict") is bool(blockers)
    assert all(words in step.reasons[-1] for words in blockers)
    assert bool(result.refused) is bool(blockers)


def test_claim_used_by_a_pod_that_the_plan_deletes_later_is_not_replaced() -> None:
    left = member(using("x", "old", nodeName="a"))
    there = [live(CLAIM), left]
    rights: dict[str, Any] = {"inventory": SET, "prune": True, "replace_data": frozenset({"x"})}
    refused = planned([OTHER_CLAIM], there, **rights).refused
    assert [one.ref.name for one in refused] == ["x"]
    first = planned([CLAIM], there, **rights)
    assert not first.refused
    assert [one.ref.name for one in first.steps if one.action == "delete"] == ["old"]
