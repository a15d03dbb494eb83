"""Defects of DLRover that can be decided without a cluster.

Letters and numbers are those of reference/dlrover.md 7. test_every_defect.py says where the others
are.
"""

import copy
from typing import Any

import pytest

import etcompile
from etcompile.compiler.lower import lower
from etcompile.load import from_values
from etcompile.model import Relaunch
from specs import by_name, compiled, dlrover_type, elastic_job, errors, scale_plan, warnings

MASTER = ("Pod", "elasticjob-mnist-dlrover-master-0")
WORKER = ("Pod", "mnist-edljob-worker-0")
BY_MASTER = {"etcompile.dev/parameter-servers": "master"}
STATIC = {"etcompile.dev/parameter-servers": "static"}


def servers(annotations: dict[str, str], **types: Any) -> dict[str, Any]:
    plain = {"ps": {**dlrover_type(1), "autoScale": False}}
    plain["worker"] = {**dlrover_type(2), "autoScale": False}
    return elastic_job(
        {**plain, **types},
        annotations=annotations,
        distributionStrategy="ParameterServerStrategy",
    )


def with_sidecar(name: str) -> dict[str, Any]:
    worker = dlrover_type(1)
    sidecar = {"name": "log", "image": "log:1", "resources": {"requests": {"cpu": "1"}}}
    containers = worker["template"]["spec"]["containers"]
    containers[0] |= {"name": name, "resources": {"requests": {"cpu": "8", "memory": "1Gi"}}}
    worker["template"]["spec"]["containers"] = [sidecar, *containers]
    return worker


def main(pod: Any) -> Any:
    return next(one for one in pod["spec"]["containers"] if one["name"] == "main")


def objects(*values: dict[str, Any], **options: Any) -> dict[tuple[str, str], Any]:
    return by_name(compiled(*values, **options))


def resource(value: dict[str, Any], **options: Any) -> Any:
    return objects(value, **options)["ElasticJob", "mnist"]["spec"]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (elastic_job({"worker": with_sidecar("trainer")}), "ET2062"),
        (elastic_job({"ps": 1}, distributionStrategy="ParameterServerStrategy"), "ET2002"),
        (elastic_job(name="v1.mnist"), "ET2020"),
        (elastic_job({"worker": {**dlrover_type(1), "priority": "urgent"}}), "ET2009"),
        (elastic_job({"worker": 0}), "ET2068"),
    ],
)
def test_dlrover_a_what_brings_no_workers_is_refused(value: dict[str, Any], code: str) -> None:
    assert code in errors(value)


def test_dlrover_a_templates_need_no_restart_policy_and_no_labels() -> None:
    assert warnings(elastic_job()) == []
    assert WORKER in objects(elastic_job())


def test_dlrover_a_required_priority_classes_are_reported() -> None:
    value = elastic_job({"worker": {**dlrover_type(4), "priority": "0.5"}})
    assert warnings(value) == ["ET2071"]
    classes = [
        objects(value)["Pod", f"mnist-edljob-worker-{index}"]["spec"]["priorityClassName"]
        for index in range(4)
    ]
    assert classes == ["high", "high", "low", "low"]


@pytest.mark.parametrize("tag", ["master", "test", "latest"])
def test_dlrover_b_mutable_image_tag_is_reported(tag: str) -> None:
    image = f"example.com/dlrover:{tag}"
    version = {"etcompile.dev/dlrover-version": "0.6.1"}
    value = elastic_job({"worker": dlrover_type(1, image=image)}, annotations=version)
    assert warnings(value) == ["ET2040"]


@pytest.mark.parametrize("field", ["brainService", "envs", "enableElasticScheduling"])
def test_dlrover_f_dead_fields_are_warnings(field: str) -> None:
    values = {"brainService": "brain:1", "envs": {}, "enableElasticScheduling": True}
    assert warnings(elastic_job(**{field: values[field]})) == ["ET2041"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("restartPolicy", "Always"),
        ("restartTimeout", 9),
        ("criticalNodes", "all"),
        ("BatchScheduler", "volcano"),
    ],
)
def test_dlrover_f_dead_fields_of_types_are_warnings(field: str, value: Any) -> None:
    worker = {**dlrover_type(1), field: value}
    assert warnings(elastic_job({"worker": worker})) == ["ET2041"]


@pytest.mark.parametrize("name", ["pending_timeout", "pre_check_bypass", "hang_detection"])
def test_dlrover_f_dead_annotations_are_warnings(name: str) -> None:
    assert warnings(elastic_job(annotations={name: "1"})) == ["ET2041"]


def test_dlrover_01_for_dlrovers_master_limits_without_requests_are_requests() -> None:
    worker = {**dlrover_type(2, resources={"limits": {"cpu": "8"}}), "autoScale": False}
    container = main(
        resource(servers(BY_MASTER, worker=worker))["replicaSpecs"]["worker"]["template"]
    )
    assert container["resources"] == {"requests": {"cpu": "8"}, "limits": {"cpu": "8"}}


def test_dlrover_03_new_master_receives_the_rendezvous_node_range() -> None:
    command = ["bash", "-c", "dlrover-run --nnodes=3:$NODE_NUM --node_unit 2 train.py"]
    value = elastic_job({"worker": dlrover_type(4, command=command)})
    data = objects(value)["ConfigMap", "mnist-etcompile"]["data"]
    assert "RENDEZVOUS = (3, 4, 60, 2, 600)" in data["prime-rendezvous.py"]
    assert "/etc/etcompile/scripts/start-master.sh" in main(objects(value)[MASTER])["command"]


def test_dlrover_05_a_template_of_the_master_is_completed() -> None:
    block = {"template": {"spec": {"containers": [{"name": "main", "imagePullPolicy": "Always"}]}}}
    master = main(objects(elastic_job({"worker": 2, "dlrover-master": block}))[MASTER])
    assert master["imagePullPolicy"] == "Always"
    assert master["image"] == "example.com/dlrover:v0.6.1"
    assert "dlrover.python.master.main" in master["command"]
    assert master["resources"]["limits"]["memory"] == "2Gi"


def test_dlrover_06_fields_that_old_crds_and_masters_drop_are_preserved() -> None:
    worker = dlrover_type(1, lifecycle={"preStop": {"exec": {"command": ["save"]}}})
    worker["template"]["metadata"] = {"labels": {"team": "vision"}}
    worker["template"]["spec"] |= {
        "terminationGracePeriodSeconds": 90,
        "priorityClassName": "training",
    }
    pod = objects(elastic_job({"worker": worker}))[WORKER]
    assert pod["metadata"]["labels"]["team"] == "vision"
    assert pod["spec"]["terminationGracePeriodSeconds"] == 90
    assert pod["spec"]["priorityClassName"] == "training"
    assert "preStop" in main(pod)["lifecycle"]
    suspended = compiled(elastic_job(suspend=True))
    assert [one["kind"] for one in suspended.objects] == ["ConfigMap"]


def test_dlrover_06_fields_that_a_master_drops_are_reported() -> None:
    worker = {**dlrover_type(2), "autoScale": False}
    worker["template"]["spec"]["terminationGracePeriodSeconds"] = 90
    assert warnings(servers(BY_MASTER, worker=worker)) == ["ET2041"]


def test_dlrover_10_an_annotation_is_no_shells_business() -> None:
    checks = "[('a.b', 'C', True)]; rm -rf /"
    assert errors(servers({**BY_MASTER, "pre_check_ops": checks})) == ["ET2050"]
    good = {**BY_MASTER, "pre_check_ops": "[('a.b', 'C', True)]"}
    command = main(objects(servers(good))[MASTER])["command"]
    assert command[-2:] == ["--pre_check_ops", "[('a.b', 'C', True)]"]
    assert "bash" not in command


def test_dlrover_11_rights_are_in_the_jobs_namespace_and_few() -> None:
    rendered = objects(servers(BY_MASTER))
    rules = rendered["Role", "mnist-dlrover-master"]["rules"]
    assert all("exec" not in name for rule in rules for name in rule["resources"])
    assert not any(kind.startswith("Cluster") for kind, _ in rendered)
    assert rendered[MASTER]["spec"]["serviceAccountName"] == "mnist-dlrover-master"
    assert not any(kind in ("Role", "ServiceAccount") for kind, _ in objects(elastic_job()))


def test_dlrover_15_sizes_that_evaluate_to_zero_are_reported() -> None:
    assert warnings(servers(BY_MASTER, worker=dlrover_type(2))) == ["ET2077"]
    assert warnings(servers(BY_MASTER)) == []


def test_dlrover_17_plan_with_the_documented_label_applies_with_a_warning() -> None:
    plan = scale_plan(replicaResourceSpecs={"worker": {"replicas": 3}})
    plan["metadata"]["labels"] = {"elasticjob-name": "mnist"}
    assert warnings(elastic_job(), plan) == ["ET3018"]
    assert ("Pod", "mnist-edljob-worker-2") in objects(elastic_job(), plan)


def test_dlrover_20_main_container_gets_the_type_resources_despite_a_sidecar() -> None:
    spec = resource(servers(BY_MASTER, worker={**with_sidecar("main"), "autoScale": False}))
    containers = spec["replicaSpecs"]["worker"]["template"]["spec"]["containers"]
    assert [one["name"] for one in containers] == ["main", "log"]
    pod = objects(elastic_job({"worker": with_sidecar("main")}))[WORKER]
    assert main(pod)["resources"]["requests"]["cpu"] == "8"


@pytest.mark.parametrize(
    ("length", "codes"), [(37, []), (38, []), (47, []), (48, ["ET2021"]), (63, ["ET2021"])]
)
def test_dlrover_21_a_name_fits_the_services_of_the_workers(length: int, codes: list[str]) -> None:
    assert errors(elastic_job(name="m" * length)) == codes


@pytest.mark.parametrize("length", [*range(36, 48)])
@pytest.mark.parametrize("end", ["", "-a", "-b"])
def test_dlrover_21_the_masters_service_has_a_name_that_workers_find(length: int, end: str) -> None:
    name = "m-" * 30
    name = name[: length - len(end)].rstrip("-") + end
    rendered = objects(elastic_job(name=name))
    [service] = [n for k, n in rendered if k == "Service" and n.endswith("dlrover-master")]
    whole = f"elasticjob-{name}-dlrover-master"
    assert service == whole if len(whole) <= 63 else len(service) <= 63
    assert ("Pod", f"{whole}-0") in rendered
    worker = rendered["Pod", f"{name}-edljob-worker-0"]
    variables = {one["name"]: one.get("value") for one in main(worker)["env"]}
    assert variables["DLROVER_MASTER_ADDR"] == f"{service}:50001"
    assert rendered["ConfigMap", f"{name}-etcompile"]["data"]["peers"] == f"{service}\n"
    pod = rendered["Pod", f"{whole}-0"]
    selector = rendered["Service", service]["spec"]["selector"]
    assert selector.items() <= pod["metadata"]["labels"].items()


def test_dlrover_21_jobs_with_a_common_prefix_have_separate_masters() -> None:
    jobs = [elastic_job(name="m" * 40 + end) for end in ("a", "b")]
    services = {n for k, n in objects(*jobs) if k == "Service" and n.endswith("dlrover-master")}
    assert len(services) == 2


@pytest.mark.parametrize(
    ("requests", "limits"),
    [
        ({"requests": {"cpu": "4", "memory": "16Gi"}}, {"cpu": "4", "memory": "16Gi"}),
        ({"requests": {"cpu": "4"}, "limits": {"memory": "1Gi"}}, {"cpu": "4", "memory": "1Gi"}),
        ({"requests": {"cpu": "4"}, "limits": {"cpu": "8"}}, {"cpu": "8"}),
        ({"limits": {"cpu": "8"}}, {"cpu": "8"}),
        (
            {"requests": {"cpu": "1", "ephemeral-storage": "5Gi"}},
            {"cpu": "1", "ephemeral-storage": "5Gi"},
        ),
    ],
)
def test_dlrover_1_a_request_without_a_limit_is_the_limit(
    requests: dict[str, Any], limits: dict[str, str]
) -> None:
    allreduce = elastic_job({"worker": dlrover_type(2, resources=requests)})
    types = {name: dlrover_type(2, resources=requests) for name in ("ps", "worker")}
    static = elastic_job(
        types,
        distributionStrategy="ParameterServerStrategy",
        annotations={"etcompile.dev/parameter-servers": "static"},
    )
    for job in (allreduce, static):
        for (kind, name), pod in objects(job).items():
            if kind == "Pod" and "dlrover-master" not in name:
                assert main(pod)["resources"]["limits"] == limits
                assert main(pod)["resources"].get("requests") == requests.get("requests")


def test_dlrover_22_a_label_does_not_hide_the_master() -> None:
    value = copy.deepcopy(elastic_job())
    value["metadata"]["labels"] = {"elasticjob.dlrover/name": "other", "team": "vision"}
    assert warnings(value) == ["ET2041"]
    rendered = objects(value)
    labels = rendered[MASTER]["metadata"]["labels"]
    selector = rendered["Service", "elasticjob-mnist-dlrover-master"]["spec"]["selector"]
    assert selector.items() <= labels.items()
    assert labels["team"] == "vision"


def test_dlrover_23_a_misspelt_strategy_is_named_right() -> None:
    result = etcompile.compile([elastic_job(distributionStrategy="AllReduceStrategy")])
    [problem] = result.diagnostics
    assert "AllreduceStrategy" in problem.message


def test_what_the_watcher_will_need_is_in_the_job() -> None:
    worker = {**dlrover_type(4), "restartCount": 9}
    [job] = lower(_documents(elastic_job({"worker": worker})), "1.34").jobs
    master, workers = job.roles
    assert workers.recovery.relaunch == Relaunch(
        limit=5,
        free=(137, 143),
        never=("OOMKilled", 247),
        budget=8,
        pending=900,
        tolerance="minimum",
        joint=True,
    )
    assert (job.run.success.roles, job.run.success.least) == (("worker",), 1)
    assert (job.run.clean_pods, job.run.keeps) == ("Running", ("dlrover-master",))
    assert (master.recovery.relaunch, master.recovery.restart) == (None, "OnFailure")


def _documents(value: dict[str, Any]) -> Any:
    return from_values([value]).documents
