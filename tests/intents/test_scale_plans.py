"""A ScalePlan in Git: who comes, who goes, who moves, and what no plan can do."""

from typing import Any

import pytest
import yaml

from etcompile.compiler.stored import read_stored
from specs import by_name, compiled, dlrover_type, elastic_job, errors, scale_in, scale_out
from specs import scale_plan as plan

BY_MASTER = {"etcompile.dev/parameter-servers": "master"}
STATIC = {"etcompile.dev/parameter-servers": "static"}


def job(count: int = 4, nnodes: str = "1:8") -> dict[str, Any]:
    command = ["dlrover-run", f"--nnodes={nnodes}", "train.py"]
    return elastic_job({"worker": dlrover_type(count, command=command)})


def servers(annotations: dict[str, str]) -> dict[str, Any]:
    types = {name: {**dlrover_type(2), "autoScale": False} for name in ("ps", "worker")}
    return elastic_job(
        types, annotations=annotations, distributionStrategy="ParameterServerStrategy"
    )


def workers(*values: dict[str, Any]) -> dict[int, int]:
    """The workers that are left: number to rank."""
    ranks = {}
    for one in compiled(*values).objects:
        labels = one["metadata"].get("labels", {})
        if one["kind"] == "Pod" and labels["etcompile.dev/role"] == "worker":
            index = int(labels["elasticjob.dlrover/replica-index"])
            ranks[index] = int(labels["elasticjob.dlrover/rank-index"])
    return ranks


def of_workers(replicas: int, **resource: str) -> dict[str, Any]:
    return {"replicaResourceSpecs": {"worker": {"replicas": replicas, "resource": resource}}}


def pod(index: int) -> str:
    return f"mnist-edljob-worker-{index}"


@pytest.mark.parametrize(
    ("spec", "left"),
    [
        (of_workers(6), {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5}),
        (of_workers(2), {0: 0, 1: 1}),
        (of_workers(0), {0: 0, 1: 1, 2: 2, 3: 3}),
        ({"removePods": [{"name": pod(1)}]}, {0: 0, 2: 2, 3: 3}),
        ({"removePods": [{"type": "worker", "id": 2}]}, {0: 0, 1: 1, 3: 3}),
        ({"migratePods": [{"name": pod(1)}]}, {0: 0, 2: 2, 3: 3, 4: 1}),
        ({"createPods": [{"type": "worker"}]}, {0: 0, 1: 1, 2: 2, 3: 3, 4: 4}),
        (
            {"createPods": [{"type": "worker", "id": 7, "rankIndex": 5}]},
            {0: 0, 1: 1, 2: 2, 3: 3, 7: 5},
        ),
        ({"removePods": [{"name": pod(1)}], **of_workers(4)}, {0: 0, 2: 2, 3: 3, 4: 1}),
    ],
)
def test_who_is_left(spec: dict[str, Any], left: dict[int, int]) -> None:
    assert workers(job(), plan(**spec)) == left


def test_a_plan_touches_nobody_else() -> None:
    before = by_name(compiled(job()))
    after = by_name(compiled(job(), plan(**of_workers(6))))
    assert all(after[key] == one for key, one in before.items() if key[0] != "ConfigMap")
    new = after["Pod", pod(5)]["spec"]["containers"][0]["env"]
    assert {"name": "NODE_NUM", "value": "4"} in new


def test_who_moves_is_behind_the_service_of_its_rank() -> None:
    objects = by_name(compiled(job(), plan(migratePods=[{"name": pod(1)}])))
    selector = objects["Service", pod(1)]["spec"]["selector"]
    moved = objects["Pod", pod(4)]
    assert selector.items() <= moved["metadata"]["labels"].items()
    env = {one["name"]: one.get("value") for one in moved["spec"]["containers"][0]["env"]}
    assert (env["NODE_ID"], env["NODE_RANK"], env["RANK"]) == ("4", "1", "1")
    assert ("Service", pod(4)) not in objects


def test_sizes_are_for_pods_to_come_and_0_keeps_them() -> None:
    more = plan(**of_workers(5, cpu="3", memory="0"))
    objects = by_name(compiled(job(), more, plan("then", **of_workers(6))))
    sizes = [
        objects["Pod", pod(index)]["spec"]["containers"][0].get("resources") for index in (3, 4, 5)
    ]
    grown = {"limits": {"cpu": "3"}, "requests": {"cpu": "3"}}
    assert sizes == [None, grown, grown]


def test_the_stored_job_has_ranks_and_sizes() -> None:
    move = plan(migratePods=[{"name": pod(1), "resource": {"memory": "2Gi"}}])
    objects = compiled(job(), move).objects
    [text] = [one["data"]["job.yaml"] for one in objects if one["kind"] == "ConfigMap"]
    stored, _ = read_stored(yaml.safe_load(text))
    worker = stored.role("worker")
    assert worker is not None
    assert [(one.index, one.place) for one in worker.members] == [(0, 0), (2, 2), (3, 3), (4, 1)]
    assert worker.members[-1].resources == {"memory": "2Gi"}


def test_other_intents_keep_ranks_whole_too() -> None:
    less = scale_in("less", [pod(1)], of="ElasticJob", namespace="ml")
    more = scale_out("more", 2, of="ElasticJob", namespace="ml")
    assert workers(job(), less, more) == {0: 0, 2: 2, 3: 3, 4: 1, 5: 4}


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (of_workers(9), "ET3004"),
        (of_workers(1), "ET3005"),
        ({"removePods": [{"name": pod(7)}]}, "ET3016"),
        ({"migratePods": [{"name": "other-edljob-worker-1"}]}, "ET3016"),
        ({"createPods": [{"type": "worker", "id": 1}]}, "ET3016"),
        ({"createPods": [{"type": "worker", "rankIndex": 1}]}, "ET3016"),
        ({"createPods": [{"type": "ps"}]}, "ET3016"),
        ({"replicaResourceSpecs": {"ps": {"replicas": 2}}}, "ET3016"),
        ({"psHosts": ["ps-0:2222"]}, "ET3016"),
        ({"replicaResourceSpecs": {"worker": {"resource": {"cpu": "2"}}}}, "ET2002"),
    ],
)
def test_what_cannot_be_is_refused(spec: dict[str, Any], code: str) -> None:
    assert errors(job(nnodes="2:8"), plan(**spec)) == [code]


def test_a_refused_plan_leaves_no_trace() -> None:
    wrong = plan(removePods=[{"name": pod(0)}, {"name": pod(9)}])
    assert errors(job(), wrong, plan("next", removePods=[{"name": pod(0)}])) == ["ET3016"]


def test_a_plan_of_a_masters_and_one_without_a_job_are_refused() -> None:
    wrong = plan(**of_workers(5))
    wrong["metadata"]["labels"]["scale-type"] = "auto"
    assert errors(job(), wrong) == ["ET3016"]
    del wrong["metadata"]["labels"]
    assert errors(job(), wrong) == ["ET3017"]


@pytest.mark.parametrize(("version", "codes"), [("0.6", ["ET3006"]), ("0.5", [])])
def test_with_a_master_its_version_decides(version: str, codes: list[str]) -> None:
    value = servers({**BY_MASTER, "etcompile.dev/dlrover-version": version})
    scale = plan(**of_workers(3))
    assert errors(value, scale) == codes
    if not codes:
        objects = by_name(compiled(value, scale))
        rendered_plan = objects["ScalePlan", "plan"]
        assert rendered_plan["metadata"]["labels"]["elasticjob.dlrover/name"] == "mnist"
        assert rendered_plan["spec"]["replicaResourceSpecs"]["worker"]["replicas"] == 3
        rules = objects["Role", "mnist-dlrover-master"]["rules"]
        assert any("scaleplans" in rule["resources"] for rule in rules)
        assert errors(value, plan(createPods=[{"type": "worker"}])) == ["ET3016"]


def test_static_parameter_servers_are_not_scaled() -> None:
    assert errors(servers(STATIC), plan(**of_workers(3))) == ["ET3006"]
