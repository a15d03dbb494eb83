"""The Helm chart and the kustomizations install what `etcompile watch --manifests` does."""

from pathlib import Path

import pytest
import yaml
from msgspec import structs

from etcompile._version import IS_RELEASE, __version__
from etcompile.integrations.watcher_manifests import POLICY, Installation, kustomize_file
from etcompile.model.protocol import HOSTS_END, JOB_LABEL, STATUS_END
from installation.choices import CHOICES, HERE, IMAGE, REGISTRY, RIGHTS
from installation.doors import (
    KUSTOMIZE,
    Rendered,
    by_helm,
    by_kustomize,
    by_manifests,
    comparable,
    overlay,
)
from stability.test_version import NO_IMAGE


def expected(installation: Installation, *, namespace: bool = False) -> Rendered:
    """What `--manifests` writes, where it leaves the namespace to others unless it is wanted."""
    rendered = by_manifests(installation)
    wanted = [one for one in rendered.objects if namespace or one["kind"] != "Namespace"]
    return structs.replace(rendered, objects=wanted)


@pytest.mark.parametrize("choice", CHOICES)
def test_the_chart_installs_what_the_manifests_do(choice: str, consumer) -> None:
    installation, values = CHOICES[choice]
    rendered = by_helm(consumer("helm"), {**values, "image": REGISTRY}, namespace=installation.home)
    assert comparable(rendered) == comparable(expected(installation))


def test_other_resources_change_nothing_else(consumer) -> None:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    values = {"image": REGISTRY, "resources": resources}
    rendered = by_helm(consumer("helm"), values, namespace="nlp")
    wanted = expected(HERE)
    wanted.container["resources"] = resources
    assert comparable(rendered) == comparable(wanted)


CHOSEN = [
    *(component for _, component in RIGHTS.values()),
    *("components/pod-monitor", "components/dashboard"),
]
OTHER_IMAGE = [
    {"name": "ghcr.io/etcompile/etcompile", "newName": REGISTRY["repository"], "newTag": "1.2.3"}
]
BOUND = {
    "target": {"kind": "ValidatingAdmissionPolicyBinding"},
    "patch": yaml.safe_dump(
        [
            {
                "op": "replace",
                "path": "/spec/matchResources/namespaceSelector/matchExpressions/0/values",
                "value": ["nlp"],
            },
        ]
    ),
}


@pytest.mark.parametrize("more", [False, True], ids=["nothing more", "everything"])
def test_the_kustomization_of_a_namespace_installs_what_the_manifests_do(
    more: bool, consumer, tmp_path: Path
) -> None:
    watcher = overlay(
        tmp_path / "own" / "nlp",
        namespace="nlp",
        resources=["namespaced"],
        components=CHOSEN if more else [],
        replicas=[{"name": "etcompile-watch", "count": 3}],
        images=OTHER_IMAGE,
    )
    # The policy is not below `namespace:`, which kustomize would give to it, too.
    folder = overlay(tmp_path / "own", resources=["nlp", "policy"], patches=[BOUND])
    for policy, built in ((False, watcher), (True, folder)):
        installation = structs.replace(
            HERE,
            replicas=3,
            policy=policy,
            pod_monitor=more,
            dashboard=more,
            **dict.fromkeys(RIGHTS, more),
        )
        rendered = by_kustomize(consumer("kustomize"), built)
        assert comparable(rendered) == comparable(expected(installation))


@pytest.mark.parametrize("more", [False, True], ids=["nothing more", "everything"])
def test_the_kustomization_of_all_namespaces_installs_what_the_manifests_do(
    more: bool, consumer, tmp_path: Path
) -> None:
    installation = Installation(
        "etcompile-watch",
        None,
        IMAGE,
        pod_monitor=more,
        dashboard=more,
        **dict.fromkeys(RIGHTS, more),
    )
    components = CHOSEN if more else []
    folder = overlay(
        tmp_path / "own", resources=["cluster-wide"], components=components, images=OTHER_IMAGE
    )
    rendered = by_kustomize(consumer("kustomize"), folder)
    assert comparable(rendered) == comparable(expected(installation, namespace=True))


@pytest.mark.parametrize("name", ["namespaced", "cluster-wide"])
def test_what_is_not_changed_runs_the_image_of_the_release_if_it_is_one(
    name: str, consumer
) -> None:
    rendered = by_kustomize(consumer("kustomize"), KUSTOMIZE / name)
    tag = __version__ if IS_RELEASE else NO_IMAGE
    assert rendered.container["image"] == f"ghcr.io/etcompile/etcompile:{tag}"


def test_the_policy_is_about_the_config_maps_that_the_watcher_goes_by() -> None:
    policy, binding = kustomize_file("policy/policy.yaml")
    assert policy["metadata"]["name"] == binding["spec"]["policyName"] == POLICY
    conditions = {one["name"]: one["expression"] for one in policy["spec"]["matchConditions"]}
    assert f"'{JOB_LABEL}' in one.metadata.labels" in conditions["of-a-job"]
    for end in (STATUS_END, HOSTS_END):
        assert f"one.metadata.name.endsWith('{end}')" in conditions["of-a-job"]
