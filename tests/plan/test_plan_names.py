"""How people name the objects of a plan on the command line."""

import pytest

from etcompile.plan.scope import is_named
from etcompile.plan.step import ObjectRef

POD = ObjectRef("v1", "Pod", "ml", "a")
POLICY = ObjectRef("networking.k8s.io/v1", "NetworkPolicy", "ml", "a")
INGRESS = ObjectRef("networking.k8s.io/v1", "Ingress", "ml", "a")
GROUP = ObjectRef("scheduling.volcano.sh/v1beta1", "PodGroup", "ml", "a")


@pytest.mark.parametrize(
    ("ref", "names"),
    [
        (POD, ["a", "Pod/a", "pod/a", "pods/a", "ml/pod/a", "ml/Pods/a", "*"]),
        (POLICY, ["networkpolicies/a", "NetworkPolicy.networking.k8s.io/a"]),
        (INGRESS, ["ingresses/a"]),
        (GROUP, ["podgroup/a", "PodGroup.scheduling.volcano.sh/a", "ml/podgroups/a"]),
    ],
)
def test_a_name_is_written_as_for_kubectl(ref: ObjectRef, names: list[str]) -> None:
    assert [one for one in names if not is_named(ref, [one])] == []


@pytest.mark.parametrize(
    "name",
    [
        *("b", "svc/a", "other/pod/a", "pod/b", "pod.apps/a", "Pod", "/a", "x/ml/pod/a"),
        *("A", "pod/A", "podes/b", ""),
    ],
)
def test_another_name_is_not_meant(name: str) -> None:
    assert not is_named(POD, [name])
