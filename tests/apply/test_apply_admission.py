"""Admission that changes what is sent: what it made of our objects is no difference."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from apply.policies import mutate
from specs import copy_example, training_job

EXAMPLES = Path(__file__).parents[2] / "examples"
SET_REQUESTS = (
    '[JSONPatch{op: "add", path: "/spec/containers/0/resources/requests",'
    ' value: {"cpu": "250m", "memory": "64Mi"}}]'
)
SET_IMAGE = (
    '[JSONPatch{op: "replace", path: "/spec/containers/0/image",'
    ' value: "mirror.example.com/" + object.spec.containers[0].image}]'
)
ADD_CONTAINER = (
    '[JSONPatch{op: "add", path: "/spec/containers/-",'
    ' value: Object.spec.containers{name: "mesh", image: "mesh:1"}}]'
)


@pytest.fixture
def home(admitting_plane, monkeypatch) -> str:
    """A namespace of the API server that admits, in which etcompile runs."""
    namespace = admitting_plane.namespace()
    config = admitting_plane.kubeconfig(token="admin-token", namespace=namespace)
    monkeypatch.setenv("KUBECONFIG", str(config))
    return namespace


@pytest.fixture
def etc(run):
    return lambda *arguments: run(*arguments, KUBECONFIG=os.environ["KUBECONFIG"])


def pod_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def same(etc: Any, plane: Any, namespace: str, *options: str) -> None:
    """Neither diff nor a dry run nor apply finds anything to do."""
    before = len(plane.writes(namespace))
    diff = etc("diff", "jobs", *options)
    assert diff.returncode == 0, diff.stdout + diff.stderr
    tried = etc("apply", "jobs", "--dry-run=server", *options)
    assert tried.returncode == 0, tried.stdout + tried.stderr
    done = etc("apply", "jobs", "--wait", "none", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(plane.writes(namespace)) == before


@pytest.mark.parametrize("kind", sorted(one.name for one in EXAMPLES.iterdir() if one.is_dir()))
def test_examples_stay_unchanged_where_images_are_always_pulled(
    admitting_plane, home, run, kind, tmp_path
) -> None:
    for example in sorted((EXAMPLES / kind).glob("*/")):
        namespace = admitting_plane.namespace()
        config = admitting_plane.kubeconfig(token="admin-token", namespace=namespace)
        copy_example(example, tmp_path / example.name, namespace)
        options = (
            example.name,
            "--wait",
            "none",
            "--config",
            "set=s",
            "--config",
            "secret=runtime",
        )
        run("apply", *options, KUBECONFIG=str(config), code=0)
        writes = len(admitting_plane.writes(namespace))
        again = run("apply", *options, KUBECONFIG=str(config))
        assert (again.returncode, len(admitting_plane.writes(namespace))) == (0, writes), (
            example,
            again.stderr,
        )


@pytest.mark.parametrize(
    ("patch", "operations", "limits", "set_to"),
    [
        (SET_REQUESTS, ("CREATE",), False, "250m"),
        (SET_REQUESTS, ("CREATE",), True, "250m"),
        (SET_IMAGE, ("CREATE",), False, "mirror.example.com/"),
        (SET_IMAGE, ("CREATE", "UPDATE"), False, "mirror.example.com/"),
        (ADD_CONTAINER, ("CREATE",), False, "mesh:1"),
    ],
    ids=["requests", "requests that are declared", "image", "image always", "container"],
)
def test_what_a_policy_sets_is_no_difference_and_never_written_back(
    admitting_plane, home, etc, write, patch, operations, limits, set_to
) -> None:
    condition = {"once": "!object.spec.containers[0].image.startsWith('mirror')"}
    when = condition if patch is SET_IMAGE else {}
    mutate(admitting_plane, home, patch, operations=operations, when=when)
    spec = training_job(replicas=2, cleanPodPolicy="None")
    if limits:
        for role in spec["spec"]["etReplicaSpecs"].values():
            (one,) = role["template"]["spec"]["containers"]
            one["resources"] = {"limits": {"cpu": 2}, "requests": {"cpu": 1}}
    write(spec)
    first = etc("apply", "jobs", "--wait", "none")
    assert first.returncode == 0, first.stderr
    pod = admitting_plane.ask("GET", pod_path(home, "mnist-worker-0"))
    assert set_to in json.dumps(pod["spec"])
    same(etc, admitting_plane, home)


def test_only_the_real_change_shows_if_a_policy_sets_other_fields(
    admitting_plane, home, etc, write
) -> None:
    mutate(
        admitting_plane,
        home,
        SET_IMAGE,
        when={"once": "!object.spec.containers[0].image.startsWith('mirror')"},
    )
    job = training_job(replicas=1)
    write(job)
    assert etc("apply", "jobs", "--wait", "none").returncode == 0
    labels = "application/merge-patch+json"
    change = {"metadata": {"labels": {"etcompile.dev/role": "drifted"}}}
    path = pod_path(home, "mnist-worker-0")
    admitting_plane.ask("PATCH", path + "?fieldManager=etcompile", change, labels)
    diff = etc("diff", "jobs", "--output", "json")
    steps = [one for one in json.loads(diff.stdout)["steps"] if one["action"] != "unchanged"]
    assert [(one["action"], [c["path"] for c in one["changes"]]) for one in steps] == [
        ("conflict", ["metadata.labels[etcompile.dev/role]"])
    ]
    flags = ("--config", "take-ownership=etcompile")
    done = etc("apply", "jobs", "--wait", "none", *flags)
    assert done.returncode == 0, done.stderr
    pod = admitting_plane.ask("GET", path)
    assert pod["spec"]["containers"][0]["image"].startswith("mirror.example.com/")
    assert pod["metadata"]["labels"]["etcompile.dev/role"] == "worker"
    same(etc, admitting_plane, home)


def test_only_apparent_differences_are_dry_run_each_once(
    applied, run, job, kubelet, proxy, through
):
    applied(replicas=3)
    for command in (("diff", "jobs"), ("apply", "jobs")):
        run(*command, KUBECONFIG=str(through), code=0)
    assert proxy.count("PATCH", "dryRun") == proxy.count("POST", "dryRun") == 0
    job(replicas=2)
    run("apply", "jobs", KUBECONFIG=str(through), code=0)
    # The host list: what an update makes of it, and what it would be if it were new.
    assert proxy.count("PATCH", "dryRun") == proxy.count("POST", "dryRun") == 1
