"""Each gang scheduler with each kind: its scheduler's name, annotations, queue and priority.

The rules are the operators' own (reference/training-operator.md 2.5, reference/mpi-operator-v2.md
3.8, reference/gang-scheduling.md 7 and 10): a row of a table for each, and every cell is compiled.
"""

import copy
import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import structs

import etcompile
from etcompile import Options, Settings
from etcompile.compiler.stored_run import StoredRun
from specs import compiled, elastic_job, kubeflow_job, mpi_job, train_job, training_job, worker

RESOURCES = {"requests": {"cpu": "1", "memory": "1Gi"}}
SCHEDULERS = {
    "volcano": "volcano",
    "coscheduling": "scheduler-plugins-scheduler",
    "kueue": None,
    "native": None,
    "yunikorn": "yunikorn",
    "kai": "kai-scheduler",
    "koordinator": "koord-scheduler",
}
"""Each gang scheduler, and the schedulerName that its Pods get."""
WITH_GROUP = ("volcano", "coscheduling", "native", "kai", "koordinator")
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
QUEUES = {
    "volcano": ("annotations", "scheduling.volcano.sh/queue-name"),
    "kueue": ("labels", KUEUE_QUEUE),
    "yunikorn": ("labels", "yunikorn.apache.org/queue"),
    "kai": ("labels", "kai.scheduler/queue"),
    "koordinator": ("labels", "quota.scheduling.koordinator.sh/name"),
}


KINDS = {
    "TFJob": kubeflow_job("TFJob", {"PS": 1, "Worker": 2}),
    "PyTorchJob": kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 2}),
    "XGBoostJob": kubeflow_job("XGBoostJob", {"Master": 1, "Worker": 2}),
    "PaddleJob": kubeflow_job("PaddleJob", {"Master": 1, "Worker": 2}),
    "JAXJob": kubeflow_job("JAXJob", {"Worker": 3}),
    "MXJob": kubeflow_job("MXJob", {"Scheduler": 1, "Server": 1, "Worker": 1}),
    "MPIJob v1": mpi_job("v1"),
    "MPIJob v2beta1": mpi_job("v2beta1"),
    "TrainingJob": training_job(),
    "ElasticJob": elastic_job(),
}
KUEUE_RANK = "kueue.x-k8s.io/pod-group-pod-index"
TRAINING_OPERATOR = tuple(KINDS)[:7]
SEVERAL_ROLES = tuple(kind for kind in KINDS if kind not in ("JAXJob", "ElasticJob"))


def each(schedulers: Iterable[str], kinds: Iterable[str]) -> list[tuple[str, str]]:
    return list(itertools.product(schedulers, kinds))


EVERY = each(SCHEDULERS, KINDS)


def job(kind: str, **metadata: dict[str, str]) -> dict[str, Any]:
    value = copy.deepcopy(KINDS[kind])
    value["metadata"]["namespace"] = "ml"
    for field, entries in metadata.items():
        value["metadata"][field] = {**value["metadata"].get(field, {}), **entries}
    for template in templates(value):
        template["spec"]["containers"][0]["resources"] = RESOURCES
    return value


def templates(value: dict[str, Any]) -> list[dict[str, Any]]:
    """The Pod templates of a job, the leading one first."""
    [types] = [one for key, one in value["spec"].items() if key.lower().endswith("replicaspecs")]
    return [one["template"] for one in types.values()]


def job_of_scheduler(kind: str, name: str | None) -> dict[str, Any]:
    """A job all of whose templates name a scheduler."""
    value = job(kind)
    for template in templates(value):
        template["spec"]["schedulerName"] = name or "default-scheduler"
    return value


def job_of_labelled_pods(kind: str, gang: str, name: str) -> dict[str, Any]:
    """A job all of whose templates name a queue of a gang scheduler."""
    field, key = QUEUES[gang]
    value = job(kind)
    for template in templates(value):
        template["metadata"] = {field: {key: name}}
    return value


def options(gang: str, **settings: Any) -> Options:
    chosen = Settings(gang=gang, run="r1", kubernetes_version="1.37", **settings)
    return Options(namespace="ml", settings=chosen)


def messages(value: Any, gang: str, **settings: Any) -> dict[str, str]:
    diagnostics = etcompile.compile([value], options(gang, **settings)).diagnostics
    return {one.code: one.message for one in diagnostics}


def rendered(value: Any, gang: str, **settings: Any) -> list[dict[str, Any]]:
    chosen = options(gang, **settings)
    return list(compiled(value, settings=chosen.settings, namespace="ml").objects)


def pods(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        value["spec"]["template"] if value["kind"] == "Job" else value
        for value in objects
        if value["kind"] in ("Pod", "Job")
    ]


def group(objects: list[dict[str, Any]]) -> dict[str, Any]:
    [pod_group] = [value for value in objects if value["kind"] == "PodGroup"]
    return pod_group


# The scheduler's name --------------------------------------------------------------------------


@pytest.mark.parametrize(("gang", "kind"), EVERY)
def test_scheduler_named_by_all_templates_is_replaced_or_reported(gang: str, kind: str) -> None:
    value = job_of_scheduler(kind, "my-scheduler")
    if kind == "ElasticJob" and gang in ("kueue", "native"):
        # The Pod of DLRover's master has no template here, and keeps the default one.
        assert "ET2082" in messages(value, gang)
        return
    reported = messages(value, gang)
    if kind == "ElasticJob":
        assert "my-scheduler (worker)" in reported["ET2082"]
        return
    names = {pod["spec"].get("schedulerName") for pod in pods(rendered(value, gang))}
    replaces = kind == "MPIJob v2beta1" and SCHEDULERS[gang]
    assert names == {SCHEDULERS[gang] if replaces else "my-scheduler"}
    # Kueue admits Pods of any scheduler.
    expected = {"ET2102"} if replaces else set() if gang == "kueue" else {"ET2101"}
    assert {code for code in reported if code in ("ET2082", "ET2101", "ET2102")} == expected
    assert "my-scheduler" in "".join(reported[code] for code in expected) or not expected


@pytest.mark.parametrize(("gang", "kind"), each(SCHEDULERS, SEVERAL_ROLES))
def test_a_scheduler_that_one_template_names_is_replaced_or_refused(gang: str, kind: str) -> None:
    value = job(kind)
    templates(value)[0]["spec"]["schedulerName"] = "my-scheduler"
    reported = messages(value, gang)
    if kind == "MPIJob v2beta1" and SCHEDULERS[gang]:
        assert "ET2082" not in reported
        assert reported["ET2102"].startswith("schedulerName 'my-scheduler' of launcher")
        names = {pod["spec"]["schedulerName"] for pod in pods(rendered(value, gang))}
        assert names == {SCHEDULERS[gang]}
    else:
        assert "my-scheduler" in reported["ET2082"]


@pytest.mark.parametrize(("gang", "kind"), EVERY)
def test_scheduler_of_the_gang_or_of_the_settings_may_be_named(gang: str, kind: str) -> None:
    named = {SCHEDULERS[gang]: {}, "my-scheduler": {"gang_scheduler": "my-scheduler"}}
    for name, settings in named.items():
        reported = messages(job_of_scheduler(kind, name), gang, **settings)
        assert reported.keys() & {"ET2082", "ET2101", "ET2102"} == set()


@pytest.mark.parametrize("name", [name for name in SCHEDULERS.values() if name])
def test_scheduler_that_binds_pods_one_by_one_is_reported_with_kueue(name: str) -> None:
    assert name in messages(job_of_scheduler("TFJob", name), "kueue")["ET2101"]


def test_scheduler_of_a_template_is_reported_at_its_line(tmp_path: Path) -> None:
    text = yaml.safe_dump(job_of_scheduler("TFJob", "mine"))
    (tmp_path / "job.yaml").write_text(text)
    diagnostics = etcompile.compile([tmp_path / "job.yaml"], options("volcano")).diagnostics
    [problem] = [one for one in diagnostics if one.code == "ET2101"]
    assert problem.location is not None
    assert problem.location.line is not None
    assert "schedulerName: mine" in text.splitlines()[problem.location.line - 1]
    assert "gang-scheduler to mine" in str(problem.hint)


# Annotations of the job ------------------------------------------------------------------------

GANG_ANNOTATIONS = {
    "volcano": {
        "volcano.sh/preemptable": "true",
        "volcano.sh/sla-waiting-time": "45m",
        "volcano.sh/jdb-min-available": "2",
        "volcano.sh/revocable-zone": "*",
    },
    "coscheduling": {"scheduling.x-k8s.io/anything": "a"},
    "koordinator": {"gang.scheduling.koordinator.sh/mode": "NonStrict"},
    "kai": {"kai.scheduler/topology": "rack"},
}
BOOKKEEPING = {
    "kubectl.kubernetes.io/last-applied-configuration": "{}",
    "argocd.argoproj.io/tracking-id": "a:b/c:d/e",
    "argocd.argoproj.io/sync-options": "Prune=false",
    "kustomize.toolkit.fluxcd.io/reconcile": "disabled",
    "kapp.k14s.io/identity": "v1",
    "meta.helm.sh/release-name": "a",
    "helm.sh/hook": "pre-install",
    "config.kubernetes.io/origin": "path: a.yaml",
    "internal.config.kubernetes.io/index": "0",
    "etcompile.dev/gate-timeout": "60",
}


@pytest.mark.parametrize(("gang", "kind"), each(GANG_ANNOTATIONS, KINDS))
def test_what_a_scheduler_reads_from_its_group_is_on_it(gang: str, kind: str) -> None:
    objects = rendered(job(kind, annotations=GANG_ANNOTATIONS[gang]), gang)
    assert group(objects)["metadata"]["annotations"].items() >= GANG_ANNOTATIONS[gang].items()
    assert messages(job(kind, annotations=GANG_ANNOTATIONS[gang]), gang) == messages(
        job(kind), gang
    )


@pytest.mark.parametrize(("gang", "kind"), each(WITH_GROUP, KINDS))
def test_all_annotations_are_on_the_group_where_upstream_copies_them(gang: str, kind: str) -> None:
    objects = rendered(job(kind, annotations={"example.com/team": "vision"}), gang)
    annotations = group(objects)["metadata"].get("annotations", {})
    copied = kind in TRAINING_OPERATOR and gang in ("volcano", "coscheduling")
    assert ("example.com/team" in annotations) == (copied or gang == "kai")


@pytest.mark.parametrize(("gang", "kind"), each(WITH_GROUP, KINDS))
def test_what_tools_keep_on_the_job_is_on_no_group(gang: str, kind: str) -> None:
    known = {"etcompile.dev/gate-timeout"} if kind in TRAINING_OPERATOR else set()
    notes = {name: text for name, text in BOOKKEEPING.items() if name not in known}
    instance = {"app.kubernetes.io/instance": "argo", "argocd.argoproj.io/instance": "argo"}
    objects = rendered(job(kind, annotations=notes, labels=instance), gang)
    metadata = group(objects)["metadata"]
    assert BOOKKEEPING.keys().isdisjoint(metadata.get("annotations", {}))
    assert instance.keys().isdisjoint(metadata["labels"])


def test_the_order_of_annotations_changes_no_byte() -> None:
    first = job("TFJob", annotations=GANG_ANNOTATIONS["volcano"])
    second = job("TFJob", annotations=dict(reversed(GANG_ANNOTATIONS["volcano"].items())))
    groups = [group(rendered(value, "volcano"))["metadata"] for value in (first, second)]
    assert yaml.safe_dump(groups[0], sort_keys=False) == yaml.safe_dump(groups[1], sort_keys=False)


def test_volcano_waits_as_long_as_the_annotation_says() -> None:
    value = job("TFJob", annotations={"volcano.sh/sla-waiting-time": "45m"})
    value["spec"]["runPolicy"] = {"schedulingPolicy": {"scheduleTimeoutSeconds": 60}}
    notes = group(rendered(value, "volcano"))["metadata"]["annotations"]
    assert notes["volcano.sh/sla-waiting-time"] == "45m"
    assert "timeout has no effect with Volcano" in messages(value, "volcano")["ET2092"]


def test_koordinators_group_keeps_what_the_job_says_of_it() -> None:
    value = job(
        "TFJob", annotations={"gang.scheduling.koordinator.sh/match-policy": "only-waiting"}
    )
    notes = group(rendered(value, "koordinator"))["metadata"]["annotations"]
    assert notes["gang.scheduling.koordinator.sh/match-policy"] == "only-waiting"
    assert notes["gang.scheduling.koordinator.sh/mode"] == "Strict"


# Queues ----------------------------------------------------------------------------------------


def in_queue(objects: list[dict[str, Any]], gang: str) -> set[str]:
    if gang == "volcano":
        return {group(objects)["spec"]["queue"]}
    field, key = QUEUES[gang]
    queues = {pod["metadata"][field].get(key) for pod in pods(objects)}
    return queues | ({group(objects)["spec"]["queue"]} if gang == "kai" else set())


def queue(gang: str, name: str = "research") -> str:
    return f"root.{name}" if gang == "yunikorn" else name


@pytest.mark.parametrize(("gang", "kind"), each(QUEUES, KINDS))
def test_scheduler_specific_key_on_the_job_sets_the_queue(gang: str, kind: str) -> None:
    field, key = QUEUES[gang]
    value = job(kind, **{field: {key: queue(gang)}})
    assert in_queue(rendered(value, gang), gang) == {queue(gang)}
    assert messages(value, gang) == messages(job(kind), gang)


@pytest.mark.parametrize(("gang", "kind"), each(QUEUES, KINDS))
def test_scheduler_specific_key_on_the_templates_sets_the_queue(gang: str, kind: str) -> None:
    value = job_of_labelled_pods(kind, gang, queue(gang))
    assert in_queue(rendered(value, gang), gang) == {queue(gang)}


@pytest.mark.parametrize("gang", QUEUES)
def test_queue_of_the_job_overrides_its_templates_with_a_warning(gang: str) -> None:
    field, key = QUEUES[gang]
    value = job("PyTorchJob", **{field: {key: queue(gang)}})
    templates(value)[1]["metadata"] = {field: {key: queue(gang, "other")}}
    assert in_queue(rendered(value, gang), gang) == {queue(gang)}
    assert key in messages(value, gang)["ET2103"]
    assert queue(gang, "other") in messages(value, gang)["ET2103"]


@pytest.mark.parametrize("gang", QUEUES)
def test_the_policy_counts_before_the_annotation_of_volcano_only(gang: str) -> None:
    field, key = QUEUES[gang]
    value = job("MPIJob v2beta1", **{field: {key: queue(gang)}})
    policy = {"queue": queue(gang, "other")}
    value["spec"]["runPolicy"] = {"schedulingPolicy": policy}
    first = "other" if gang == "volcano" else "research"
    assert in_queue(rendered(value, gang), gang) == {queue(gang, first)}
    assert "ET2103" in messages(value, gang)


@pytest.mark.parametrize(("gang", "kind"), each(QUEUES, KINDS))
def test_queue_of_the_job_without_a_gang_scheduler_is_reported(gang: str, kind: str) -> None:
    field, key = QUEUES[gang]
    reported = messages(job(kind, **{field: {key: "research"}}), "none")
    assert key in reported["ET2041"]
    # The Pod of DLRover's master has all labels of its job, so that Kueue sees this one Pod.
    assert ("ET2093" in reported) == (gang == "kueue" and kind == "ElasticJob")
    if gang == "kueue":
        assert "only the setting gang = kueue gives them its labels" in reported["ET2041"]


@pytest.mark.parametrize(("gang", "kind"), each(QUEUES, KINDS))
def test_queue_of_templates_without_a_gang_scheduler_is_reported(gang: str, kind: str) -> None:
    reported = messages(job_of_labelled_pods(kind, gang, "research"), "none")
    code = "ET2093" if gang == "kueue" and "ET2093" in reported else "ET2041"
    assert QUEUES[gang][1] in reported[code]


@pytest.mark.parametrize(("gang", "alone"), [("volcano", True), ("kai", True), ("yunikorn", False)])
def test_pods_that_a_scheduler_binds_one_by_one_are_reported(gang: str, alone: bool) -> None:
    value = job_of_labelled_pods("PyTorchJob", gang, "research")
    for template in templates(value):
        template["spec"]["schedulerName"] = SCHEDULERS[gang]
    # YuniKorn reads the queue of each Pod, and the operator made no gang for it either.
    assert set(messages(value, "none")) == ({"ET2104"} if alone else set())


@pytest.mark.parametrize(
    ("gang", "other"), [pair for pair in itertools.product(SCHEDULERS, QUEUES) if len({*pair}) > 1]
)
def test_queue_of_another_scheduler_is_reported(gang: str, other: str) -> None:
    field, key = QUEUES[other]
    message = messages(job("PyTorchJob", **{field: {key: "research"}}), gang)["ET2092"]
    assert key in message
    assert ("only Kueue has LocalQueues" in message) == (other == "kueue")


def test_queue_that_the_job_names_for_any_scheduler_overrides_the_label() -> None:
    notes = {"etcompile.dev/gang-queue": "own"}
    value = job("TrainingJob", labels={KUEUE_QUEUE: "research"}, annotations=notes)
    assert in_queue(rendered(value, "kueue"), "kueue") == {"own"}


@pytest.mark.parametrize("gang", ["none", "volcano"])
def test_kueue_label_of_pods_alone_is_reported_as_queueing_them_one_by_one(gang: str) -> None:
    value = job_of_labelled_pods("TrainingJob", "kueue", "research")
    assert KUEUE_QUEUE in messages(value, gang)["ET2093"]
    assert messages(value, "kueue") == {}


MISPLACED = {
    "kai.scheduler/queue": ("annotations", "labels"),
    KUEUE_QUEUE: ("annotations", "labels"),
    "quota.scheduling.koordinator.sh/name": ("annotations", "labels"),
    "scheduling.volcano.sh/queue-name": ("labels", "annotations"),
}


@pytest.mark.parametrize("key", MISPLACED)
@pytest.mark.parametrize("gang", ["none", "kai", "kueue", "volcano"])
@pytest.mark.parametrize("of_pods", [False, True], ids=["job", "Pods"])
def test_queue_in_the_wrong_map_is_moved_to_the_other(key: str, gang: str, of_pods: bool) -> None:
    wrong, right = MISPLACED[key]

    def problems(field: str) -> list[tuple[str, str]]:
        value = job("TrainingJob")
        holder = worker(value)["template"] if of_pods else value
        holder.setdefault("metadata", {}).setdefault(field, {})[key] = "research"
        diagnostics = etcompile.compile([value], options(gang)).diagnostics
        return [(one.code, one.hint or "") for one in diagnostics if key in one.message]

    assert problems(wrong) == [("ET2041", f"move it to metadata.{right}")]
    assert ("ET2041", f"move it to metadata.{wrong}") not in problems(right)


def test_job_annotation_that_yunikorn_reads_only_from_pods_is_reported() -> None:
    notes = {"yunikorn.apache.org/user.info": "{}"}
    message = messages(job("TFJob", annotations=notes), "yunikorn")["ET2041"]
    assert "YuniKorn reads it from Pods only" in message


def test_kueue_takes_priority_and_provisioning_parameters_of_the_job() -> None:
    labels = {
        KUEUE_QUEUE: "q",
        "kueue.x-k8s.io/priority-class": "high",
        "kueue.x-k8s.io/max-exec-time-seconds": "600",
    }
    notes = {"provreq.kueue.x-k8s.io/maxRunDurationSeconds": "600"}
    value = job("PyTorchJob", labels=labels, annotations=notes)
    for pod in pods(rendered(value, "kueue")):
        assert pod["metadata"]["labels"].items() >= labels.items()
        assert pod["metadata"]["annotations"].items() >= notes.items()
    assert messages(value, "kueue") == {}


def kueue_ranks(objects: list[dict[str, Any]]) -> dict[str, list[int]]:
    """The rank of each Pod of a group by its role, as Kueue's webhook and its ungater read it."""
    ranks: dict[str, list[int]] = {}
    for pod in pods(objects):
        labels, notes = pod["metadata"]["labels"], pod["metadata"]["annotations"]
        if "kueue.x-k8s.io/pod-group-name" not in labels:
            assert KUEUE_RANK not in labels  # beyond the minimum: it is placed alone
            continue
        label = notes.get(f"{KUEUE_RANK}-label", KUEUE_RANK)
        index, size = int(labels[label]), int(notes["kueue.x-k8s.io/pod-group-total-count"])
        assert 0 <= index < size
        rank = index - int(notes.get("kueue.x-k8s.io/pod-index-offset", "0"))
        ranks.setdefault(notes["kueue.x-k8s.io/role-hash"], []).append(rank)
    return ranks


@pytest.mark.parametrize("kind", [*KINDS, "TrainJob"])
def test_kueue_knows_the_rank_of_each_pod_within_its_role(kind: str) -> None:
    objects = rendered(train_job(3) if kind == "TrainJob" else job(kind), "kueue")
    ranks = kueue_ranks(objects)
    assert ranks
    for numbers in ranks.values():
        assert sorted(numbers) == [*range(len(numbers))]
    # Whoever follows a failed replica of DLRover's has a new index, and its rank.
    if kind == "ElasticJob":
        notes = pods(objects)[0]["metadata"]["annotations"]
        assert notes[f"{KUEUE_RANK}-label"] == "etcompile.dev/rank"


@pytest.mark.parametrize("kind", ["PyTorchJob", "XGBoostJob", "MPIJob v1", "MPIJob v2beta1"])
def test_ranks_of_two_roles_placed_as_one_follow_each_other(kind: str) -> None:
    together = {
        "kueue.x-k8s.io/podset-required-topology": "example.org/rack",
        "kueue.x-k8s.io/podset-group-name": "all",
    }
    value = job(kind, annotations=together)
    assert "ET2085" not in messages(value, "kueue")
    first, others = sorted(kueue_ranks(rendered(value, "kueue")).values(), key=len)
    assert [*first, *sorted(others)] == [*range(1 + len(others))]


@pytest.mark.parametrize("types", [{"PS": 1, "Chief": 1, "Worker": 2}, {"PS": 2, "Worker": 2}])
def test_other_roles_than_two_with_a_single_pod_cannot_be_placed_as_one(
    types: dict[str, int],
) -> None:
    value = kubeflow_job("TFJob", types)
    value["metadata"]["annotations"] = {"kueue.x-k8s.io/podset-group-name": "all"}
    assert "places two roles as one" in messages(value, "kueue")["ET2085"]


def test_kai_pod_group_copies_the_job_metadata_its_podgrouper_reads() -> None:
    labels = {
        "kai.scheduler/queue": "research",
        "kai.scheduler/preemptibility": "non-preemptible",
        "kai.scheduler/node-pool": "a100",
        "priorityClassName": "build",
    }
    notes = {
        "kai.scheduler/topology": "cluster",
        "kai.scheduler/topology-required-placement": "rack",
    }
    pod_group = group(rendered(job("PyTorchJob", labels=labels, annotations=notes), "kai"))
    assert pod_group["metadata"]["labels"].items() >= labels.items()
    assert pod_group["spec"]["queue"] == "research"
    assert pod_group["spec"]["preemptibility"] == "non-preemptible"
    assert pod_group["spec"]["priorityClassName"] == "build"
    topology = {"topology": "cluster", "requiredTopologyLevel": "rack"}
    assert pod_group["spec"]["topologyConstraint"] == topology


# Priorities ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("gang", "kind"), each(SCHEDULERS, SEVERAL_ROLES))
def test_different_priorities_are_refused_only_by_native_gangs(gang: str, kind: str) -> None:
    value = job(kind)
    first, *others = templates(value)
    first["spec"]["priorityClassName"] = "urgent"
    for template in others:
        template["spec"]["priorityClassName"] = "usual"
    reported = messages(value, gang)
    if gang == "native":
        assert "urgent" in reported["ET2082"]
        return
    assert "ET2082" not in reported
    assert "urgent" in reported["ET2100"]
    assert "usual" in reported["ET2100"]
    objects = rendered(value, gang)
    assert {pod["spec"]["priorityClassName"] for pod in pods(objects)} == {"urgent", "usual"}
    if gang == "kai" or (gang == "volcano" and kind not in TRAINING_OPERATOR):
        assert group(objects)["spec"]["priorityClassName"] == "urgent"
    elif gang == "volcano":
        # The Training Operator's PodGroup has that of schedulingPolicy, or none.
        assert "priorityClassName" not in group(objects)["spec"]


@pytest.mark.parametrize(
    ("policy", "launcher", "worker", "expected"),
    [
        ("batch", "urgent", "usual", "batch"),
        (None, "urgent", "usual", "urgent"),
        (None, None, "usual", "usual"),
        (None, "urgent", None, "urgent"),
        (None, None, None, None),
    ],
)
def test_the_group_of_an_mpijob_has_the_class_that_its_operator_gives_it(
    policy: str | None, launcher: str | None, worker: str | None, expected: str | None
) -> None:
    value = job("MPIJob v2beta1")
    for template, name in zip(templates(value), (launcher, worker), strict=True):
        if name:
            template["spec"]["priorityClassName"] = name
    if policy:
        value["spec"]["runPolicy"] = {"schedulingPolicy": {"priorityClass": policy}}
    assert group(rendered(value, "volcano"))["spec"].get("priorityClassName") == expected


@pytest.mark.parametrize("kind", SEVERAL_ROLES)
def test_volcano_orders_pods_of_different_priorities_by_these(kind: str) -> None:
    key = "volcano.sh/task-priority"
    value = job(kind)
    assert all(key in pod["metadata"]["annotations"] for pod in pods(rendered(value, "volcano")))
    templates(value)[-1]["spec"]["priorityClassName"] = "urgent"
    assert not any(
        key in pod["metadata"]["annotations"] for pod in pods(rendered(value, "volcano"))
    )
    prioritized = job(kind)
    templates(prioritized)[-1]["metadata"] = {"annotations": {key: "7"}}
    assert "7" in {
        pod["metadata"]["annotations"][key] for pod in pods(rendered(prioritized, "volcano"))
    }
    assert messages(prioritized, "volcano") == messages(job(kind), "volcano")


@pytest.mark.parametrize(
    ("gang", "field", "key"),
    [
        ("volcano", "annotations", "scheduling.k8s.io/group-name"),
        ("coscheduling", "labels", "scheduling.x-k8s.io/pod-group"),
        ("kueue", "labels", "kueue.x-k8s.io/pod-group-name"),
        ("yunikorn", "labels", "yunikorn.apache.org/app-id"),
        ("kai", "annotations", "pod-group-name"),
        ("koordinator", "labels", "pod-group.scheduling.sigs.k8s.io"),
    ],
)
def test_gang_metadata_of_another_gang_is_replaced_and_reported(
    gang: str, field: str, key: str
) -> None:
    value = job("MPIJob v2beta1")
    templates(value)[1]["metadata"] = {field: {key: "mine"}}
    message = messages(value, gang)["ET2105"]
    assert key in message
    assert "'mine'" in message
    assert {pod["metadata"][field][key] for pod in pods(rendered(value, gang))} == {"mnist-r1"}


def test_unknown_kai_preemptibility_is_omitted_and_reported() -> None:
    value = job("TFJob", labels={"kai.scheduler/preemptibility": "maybe"})
    assert "preemptibility" not in group(rendered(value, "kai"))["spec"]
    assert "preemptible or non-preemptible" in messages(value, "kai")["ET2092"]


# Pods that the watcher makes -------------------------------------------------------------------


@pytest.mark.parametrize(("gang", "kind"), EVERY)
def test_recreated_pod_is_the_same_gang_member(gang: str, kind: str) -> None:
    field, key = QUEUES.get(gang, ("labels", "example.com/none"))
    value = job(kind, annotations=GANG_ANNOTATIONS.get(gang, {}))
    value["metadata"].setdefault(field, {})[key] = queue(gang)
    if kind == "MPIJob v2beta1":
        templates(value)[0]["spec"]["schedulerName"] = SCHEDULERS[gang] or "default-scheduler"
        templates(value)[1]["spec"]["schedulerName"] = SCHEDULERS[gang] and "my-scheduler"
    objects = rendered(value, gang)
    [config] = [one for one in objects if "job.yaml" in one.get("data", {})]
    metadata = {**config["metadata"], "uid": "1", "resourceVersion": "1"}
    run = StoredRun({**config, "metadata": metadata})
    for one in objects:
        labels = one["metadata"].get("labels", {})
        if one["kind"] == "Pod" and "etcompile.dev/role" in labels:
            index = labels.get("etcompile.dev/index")
            where = None if index is None else int(index)
            [(_, again)] = run.pods(labels["etcompile.dev/role"], [where])
            assert again == one


# Overlays --------------------------------------------------------------------------------------


def overlaid(folder: Path, gang: str, patch: str) -> dict[str, tuple[str, int]]:
    """The codes about a job and an overlay of one patch, each with its file and line."""
    (folder / "job.yaml").write_text(yaml.safe_dump(job("TFJob")))
    (folder / "overlay.yaml").write_text(
        "apiVersion: etcompile.dev/v1alpha1\nkind: Overlay\npatches:\n"
        f"  - target: {{kind: Pod}}\n    patch: {patch}\n"
    )
    chosen = structs.replace(options(gang), overlays=(folder / "overlay.yaml",))
    diagnostics = etcompile.compile([folder / "job.yaml"], chosen).diagnostics
    return {
        one.code: (Path(one.location.file).name, one.location.line or 0)
        for one in diagnostics
        if one.location
    }


@pytest.mark.parametrize("gang", [gang for gang in SCHEDULERS if gang != "kueue"])
def test_scheduler_of_an_overlay_is_reported_at_the_overlay(tmp_path: Path, gang: str) -> None:
    reported = overlaid(tmp_path, gang, "{spec: {schedulerName: mine}}")
    assert reported["ET2101"] == ("overlay.yaml", 5)


@pytest.mark.parametrize(("gang", "code"), [("none", "ET2041"), ("volcano", "ET2092")])
def test_queue_of_an_overlay_is_reported_at_the_overlay(
    tmp_path: Path, gang: str, code: str
) -> None:
    reported = overlaid(tmp_path, gang, "{metadata: {labels: {kai.scheduler/queue: a}}}")
    assert reported[code] == ("overlay.yaml", 5)
