"""What etcompile renders, held against recordings of DLRover's operator and master.

Every difference is one that docs/differences.md lists, and every one that it lists still occurs.
What the operator made and what its master made are one job here.
"""

import copy
import functools
import json
from typing import Any

import pytest
import yaml
from msgspec import structs

import etcompile
from defaults import defaulted
from differences import Difference, Row, compare, rows
from etcompile import Options, backend
from etcompile.compiler.stored import read_stored
from etcompile.model import Member, Settings
from operator_recordings import recordings
from recordings import DIFFERENCES, Identity, compared, creations, identity, title, unlisted

CASES = {recording.name: recording for recording in recordings("dlrover")}
ALLREDUCE = (
    *("chaos-test", "llama2", "master-deleted", "master-failover", "nanogpt", "torch-mnist"),
    *("torch-mnist-early-success", "torch-mnist-worker-deleted", "torch-mnist-worker-failures"),
)
REFUSED = {
    "invalid-no-worker": "ET2002",
    "invalid-strategy-missing": "ET2075",
    "invalid-strategy-spelling": "ET2007",
}
SCALING = " --enable_auto_scaling=True"
SECTION = "DLRover"


def compiled(name: str, values: list[Any] | None = None) -> etcompile.Compilation:
    """The job of a recording, without its ScalePlans."""
    values = values or CASES[name].input()[:1]
    result = etcompile.compile(values, Options(namespace="dlrover", dlrover_version="0.6.1"))
    assert result.ok, result.diagnostics
    return result


def at_start(name: str) -> dict[Identity, Any]:
    """What was created until the job ran."""
    [start] = CASES[name].ends
    return creations(r for r in CASES[name].requests if r["n"] <= start)


def without_master(bodies: dict[Identity, Any]) -> dict[Identity, Any]:
    return {key: body for key, body in bodies.items() if "dlrover-master" not in key[1]}


@functools.cache
def differences(name: str) -> tuple[Difference, ...]:
    return tuple(compared(at_start(name), compiled(name).objects))


@functools.cache
def of_static_job() -> tuple[Difference, ...]:
    """The parameter servers of a recording and ours without a master.

    Upstream's example asks for DLRover's scaling, which no static job may: so neither side does.
    """
    text = json.dumps(CASES["criteo-manual"].input()[0]).replace(SCALING, "")
    job = json.loads(text)
    job["metadata"]["annotations"] = {"etcompile.dev/parameter-servers": "static"}
    job["spec"]["replicaSpecs"].pop("dlrover-master", None)
    bodies = json.loads(json.dumps([*at_start("criteo-manual").values()]).replace(SCALING, ""))
    created = without_master({identity(body): body for body in bodies})
    return tuple(compared(created, compiled("criteo-manual", [job]).objects))


def listed() -> list[Row]:
    return rows(DIFFERENCES, SECTION)


@pytest.mark.parametrize("name", ALLREDUCE)
def test_every_difference_of_an_allreduce_job_is_listed(name: str) -> None:
    assert not unlisted(differences(name), listed())


def test_every_difference_of_static_parameter_servers_is_listed() -> None:
    assert not unlisted(of_static_job(), listed())


def test_every_listed_difference_occurs() -> None:
    occurring = [*of_static_job(), *(one for name in ALLREDUCE for one in differences(name))]
    assert [row for row in listed() if not any(row.lists(one) for one in occurring)] == []


@pytest.mark.parametrize("name", ALLREDUCE)
def test_names_and_variables_are_upstreams(name: str) -> None:
    upstream = at_start(name)
    ours = {identity(one): one for one in compiled(name).objects}
    assert {key for key in ours if key[0] in ("Pod", "Service")} == {*upstream}
    for key, body in upstream.items():
        if key[0] == "Pod":
            env_of_ours = [one for one in env(ours[key]) if one["name"] != "PYTHONUNBUFFERED"]
            assert env_of_ours == [one for one in env(body) if one["name"] != "JOB_UID"]
            labels = ours[key]["metadata"]["labels"]
            for label, value in body["metadata"]["labels"].items():
                assert labels[label] == value or label == "app.kubernetes.io/name"


def env(pod: dict[str, Any]) -> list[Any]:
    return [*defaulted(pod)["spec"]["containers"][0]["env"]]


@pytest.mark.parametrize(
    ("pod", "member"),
    [
        ("torch-mnist-edljob-worker-4", Member(4, rank=1, relaunches=1)),
        ("torch-mnist-edljob-worker-5", Member(5, rank=1, relaunches=2)),
    ],
)
def test_who_follows_a_lost_worker_is_who_followed_it_upstream(pod: str, member: Member) -> None:
    """Made from the stored job, as whoever looks after the run would make it."""
    [config] = [one for one in compiled("torch-mnist").objects if one["kind"] == "ConfigMap"]
    job, settings = read_stored(yaml.safe_load(config["data"]["job.yaml"]))
    assert isinstance(settings, Settings)
    [worker] = [role for role in job.roles if role.name == "worker"]
    alone = structs.replace(job, roles=(structs.replace(worker, members=(member,)),))
    objects = backend.lower(alone, settings, backend.Texts(), "")
    by_identity = {identity(one): one for one in objects}
    recorded = creations(CASES["torch-mnist-worker-deleted"].requests)["Pod", pod]
    actual_differences = compare(
        title(recorded), recorded, defaulted(copy.deepcopy(by_identity["Pod", pod]))
    )
    assert not unlisted(actual_differences, listed())
    # Its Service is that of the rank, which is there already.
    assert ("Service", "torch-mnist-edljob-worker-1") in by_identity


@pytest.mark.parametrize("name", REFUSED)
def test_what_ended_the_master_at_its_start_is_refused(name: str) -> None:
    result = etcompile.compile(CASES[name].input()[:1], Options(namespace="dlrover"))
    assert REFUSED[name] in {one.code for one in result.diagnostics}
    assert not result.ok


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("criteo-manual", {"ps": 1, "worker": 2}),
        ("criteo-manual-as-is", {"ps": 1, "worker": 2}),
        ("criteo-autoscale", {"ps": 1, "worker": 1, "evaluator": 1}),
        ("operator-sample", {"ps": 1, "worker": 1}),
        ("tests-sample", {"ps": 3, "worker": 1, "chief": 0}),
        ("iris-autoscale", {"ps": 1, "worker": 1}),
    ],
)
def test_compiled_job_lists_the_replicas_that_the_upstream_master_creates(
    name: str, types: dict[str, int]
) -> None:
    """With parameter servers: what the master would count is written out for it."""
    objects = {identity(one): one for one in compiled(name).objects}
    job = CASES[name].input()[0]["metadata"]["name"]
    specs = objects["ElasticJob", job]["spec"]["replicaSpecs"]
    assert {key: one["replicas"] for key, one in specs.items()} == types
    assert [key for key in objects if key[0] == "Pod"] == [
        ("Pod", f"elasticjob-{job}-dlrover-master-0")
    ]


def test_a_suspended_job_has_no_pods_at_all() -> None:
    kinds = {one["kind"] for one in compiled("suspend").objects}
    assert kinds == {"ConfigMap"}
