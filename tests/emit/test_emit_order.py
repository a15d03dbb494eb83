import itertools
import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from etcompile.emit import ordered
from etcompile.k8s.objects import WAVE_CONFIG, WAVE_IDENTITY, WAVE_PODS, wave
from etcompile.naming import natural


def _object(kind: str, name: str = "a", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **metadata}}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        *((kind, WAVE_IDENTITY) for kind in ("Namespace", "ServiceAccount", "Role", "SSHKey")),
        *((kind, WAVE_IDENTITY) for kind in ("RoleBinding", "ExternalSecret", "Secret")),
        *((kind, WAVE_CONFIG) for kind in ("ConfigMap", "Service", "PodGroup", "Widget")),
        *((kind, WAVE_PODS) for kind in ("Pod", "Job", "Deployment", "StatefulSet")),
        ("PersistentVolumeClaim", WAVE_PODS),
    ],
)
def test_every_kind_has_its_wave(kind: str, expected: int) -> None:
    assert wave(_object(kind)) == expected


def test_an_annotation_moves_an_object_to_another_wave() -> None:
    argocd = {"argocd.argoproj.io/sync-wave": "-3"}
    assert wave(_object("Pod", annotations=argocd)) == -3
    assert wave(_object("Pod", annotations={**argocd, "etcompile.dev/wave": "+7"})) == 7


@pytest.mark.parametrize("written", ["", "soon", "1.5", " 1", "1_0", "٣", 5, None, True, ["1"]])
def test_an_annotation_that_is_no_quoted_integer_does_not_count(written: Any) -> None:
    assert wave(_object("Pod", annotations={"etcompile.dev/wave": written})) == WAVE_PODS


@pytest.mark.parametrize("metadata", [None, [], "text", {"annotations": ["a"]}, {"name": 5}])
def test_objects_with_odd_metadata_are_ordered_too(metadata: Any) -> None:
    odd = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}
    assert ordered([_object("Pod"), odd]) == [odd, _object("Pod")]


def test_waves_come_first_then_kinds_namespaces_and_names() -> None:
    expected = [
        _object("Namespace", "ml"),
        _object("CustomResourceDefinition", "widgets.example.com"),
        _object("ClusterRole", "reader"),
        _object("Role", "reader"),
        _object("RoleBinding", "reader"),
        _object("ConfigMap", "z", namespace="ml2"),
        _object("ConfigMap", "a", namespace="ml10"),
        _object("Service", "job-worker-2"),
        _object("Service", "job-worker-10"),
        _object("PersistentVolumeClaim", "checkpoints"),
        _object("Pod", "job-launcher"),
        _object("Pod", "job-worker-0"),
        _object("Pod", "job-worker-2"),
        _object("Pod", "job-worker-10"),
    ]
    for seed in range(20):
        shuffled = random.Random(seed).sample(expected, len(expected))
        assert ordered(shuffled) == expected


_NAMES = st.text(alphabet="a-.019", max_size=6)


@given(_NAMES, _NAMES)
@example("a1", "a01")
@example("0", "00")
@example("", "0")
def test_two_names_are_never_equal_in_order(one: str, other: str) -> None:
    assert (natural(one) == natural(other)) == (one == other)


@given(st.lists(_NAMES, max_size=5))
def test_the_order_of_names_does_not_depend_on_where_they_start(names: list[str]) -> None:
    expected = sorted(names, key=natural)
    for shuffled in itertools.permutations(names):
        assert sorted(shuffled, key=natural) == expected


def test_numbers_in_names_are_numbers_however_long() -> None:
    names = ["10", "a", "a-b", "a1", "a01", "a2", "a2b3", "a2b10", "a10", "a" + "9" * 9000]
    expected = ["10", "a", "a01", "a1", "a2", "a2b3", "a2b10", "a10", "a" + "9" * 9000, "a-b"]
    for shuffled in (names, list(reversed(names))):
        assert sorted(shuffled, key=natural) == expected
