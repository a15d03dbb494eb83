"""A Pod that avoids nodes and is what Git declares for a tool that compares."""

from typing import Any

import pytest

from etcompile.compiler.stored_run import away_from

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM = {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a100"]}]}
OTHER = {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["h100"]}]}
NOT = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in ("n1", "n2")]


def pod(**affinity: Any) -> dict[str, Any]:
    fields = {"affinity": affinity} if affinity else {}
    return {"metadata": {"name": "w-0"}, "spec": {"containers": [], **fields}}


def affinity_of(value: dict[str, Any], *, git: bool) -> Any:
    before = repr(value)
    changed = away_from(value, ("n1", "n2"), git_managed=git)
    assert repr(value) == before, "the Pod that Git declares stays as it is"
    return changed and changed["spec"]["affinity"]


@pytest.mark.parametrize("git", [True, False])
def test_pod_without_affinity_gets_a_required_term(git: bool) -> None:
    assert affinity_of(pod(), git=git) == {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": NOT}]}}
    }


@pytest.mark.parametrize("git", [True, False])
def test_other_affinities_of_a_pod_stay(git: bool) -> None:
    apart = {REQUIRED: [{"topologyKey": "kubernetes.io/hostname"}]}
    likes = [{"weight": 1, "preference": TERM}]
    value = pod(podAntiAffinity=apart, nodeAffinity={PREFERRED: likes})
    assert affinity_of(value, git=git) == {
        "podAntiAffinity": apart,
        "nodeAffinity": {PREFERRED: likes, REQUIRED: {"nodeSelectorTerms": [{"matchFields": NOT}]}},
    }


def test_each_alternative_of_required_terms_avoids_the_nodes() -> None:
    value = pod(nodeAffinity={REQUIRED: {"nodeSelectorTerms": [TERM, OTHER]}})
    terms = [{**TERM, "matchFields": NOT}, {**OTHER, "matchFields": NOT}]
    assert affinity_of(value, git=False)["nodeAffinity"] == {REQUIRED: {"nodeSelectorTerms": terms}}


def test_pod_synced_from_git_keeps_its_terms_and_gets_a_preference() -> None:
    required = {"nodeSelectorTerms": [TERM]}
    assert affinity_of(pod(nodeAffinity={REQUIRED: required}), git=True)["nodeAffinity"] == {
        REQUIRED: required,
        PREFERRED: [{"weight": 100, "preference": {"matchFields": NOT}}],
    }


def test_pod_synced_from_git_with_terms_and_preferences_stays_as_it_is() -> None:
    node_affinity = {
        REQUIRED: {"nodeSelectorTerms": [TERM]},
        PREFERRED: [{"weight": 1, "preference": TERM}],
    }
    assert affinity_of(pod(nodeAffinity=node_affinity), git=True) is None
