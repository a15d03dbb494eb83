"""Messages name fields as the user's own kind has them, and are true wherever the job goes."""

from typing import Any

import pytest

import etcompile
from etcompile import Options
from specs import container, kubeflow_job, training_job, worker

MORE = {
    "apiVersion": "etcompile.dev/v1alpha1",
    "kind": "ScaleOut",
    "metadata": {"name": "more"},
    "spec": {"selector": {"name": "mnist"}, "toAdd": {"count": 1}},
}


def problems(*documents: Any) -> list[tuple[str, str, str]]:
    diagnostics = etcompile.compile(list(documents), Options(default_namespace="ml")).diagnostics
    return [(one.code, one.message, one.hint or "") for one in diagnostics]


@pytest.mark.parametrize(
    ("replicas", "elastic", "code", "message"),
    [
        (9, (2, 4), "ET2003", "worker.replicas 9 is above elasticPolicy.maxReplicas 4"),
        (1, (2, 4), "ET2004", "worker.replicas 1 is below elasticPolicy.minReplicas 2"),
        (5, (7, 4), "ET2005", "worker: elasticPolicy.minReplicas 7 is above elasticPolicy.max"),
        (1, (None, 4), "ET2004", "worker.replicas 1 is below elasticPolicy.maxReplicas 4"),
        (9, (2, None), "ET2003", "worker.replicas 9 is above elasticPolicy.minReplicas 2"),
    ],
)
def test_bounds_messages_of_a_pytorchjob_name_its_elastic_policy(
    replicas: int, elastic: tuple[int | None, int | None], code: str, message: str
) -> None:
    named = zip(("minReplicas", "maxReplicas"), elastic, strict=True)
    policy = {name: value for name, value in named if value is not None}
    job = kubeflow_job("PyTorchJob", {"Worker": replicas}, elasticPolicy=policy)
    [(actual, said, hint)] = [one for one in problems(job) if one[0].startswith("ET200")]
    assert actual == code
    assert said.startswith(message)
    assert "elasticPolicy." in hint or code == "ET2005"


def test_a_scale_out_of_a_pytorch_job_is_held_against_its_elastic_policy() -> None:
    job = kubeflow_job("PyTorchJob", {"Worker": 4}, elasticPolicy={"maxReplicas": 4})
    selector = {"kind": "PyTorchJob", "name": "mnist"}
    more = {**MORE, "spec": {**MORE["spec"], "selector": selector}}
    [(_, said, _)] = [one for one in problems(job, more) if one[0] == "ET3004"]
    assert said.endswith("elasticPolicy.maxReplicas is 4")


@pytest.mark.parametrize("written", ["minReplicas", "maxReplicas"])
@pytest.mark.parametrize("scaled", [False, True], ids=["replicas", "intent"])
def test_bound_that_is_missing_is_named_with_the_value_to_add(written: str, scaled: bool) -> None:
    count = 5 if written == "minReplicas" else 1
    policy = {written: 3}
    job = kubeflow_job("PyTorchJob", {"Worker": 3 if scaled else count}, elasticPolicy=policy)
    documents = [job]
    if scaled:
        kind, how = ("ScaleOut", "toAdd") if count > 3 else ("ScaleIn", "toDelete")
        spec = {"selector": {"kind": "PyTorchJob", "name": "mnist"}, how: {"count": 2}}
        documents.append({**MORE, "kind": kind, "spec": spec})
    codes = ("ET2003", "ET2004", "ET3004", "ET3005")
    [(_, _, hint)] = [problem for problem in problems(*documents) if problem[0] in codes]
    missing = "maxReplicas" if written == "minReplicas" else "minReplicas"
    expected = f"add elasticPolicy.{missing}: {count} (without it, elasticPolicy.{written} stands"
    assert hint.startswith(expected)
    policy[missing] = count
    assert not [problem for problem in problems(*documents) if problem[0] in codes]


def test_ttl_warning_explains_both_git_sync_and_the_watcher() -> None:
    job = kubeflow_job("PyTorchJob", {"Worker": 2}, runPolicy={"ttlSecondsAfterFinished": 60})
    [(_, said, hint)] = [one for one in problems(job) if one[0] == "ET2041"]
    assert said.startswith(
        "spec.runPolicy.ttlSecondsAfterFinished, where a tool syncs Git, has no effect: "
    )
    assert "where no tool syncs Git, `etcompile watch` deletes its Pods" in hint


@pytest.mark.parametrize("kind", ["ScaleOut", "ScaleIn"])
def test_an_intent_that_does_not_say_which_kind_it_scales_is_shown_how(kind: str) -> None:
    how = {"toAdd": {"count": 1}} if kind == "ScaleOut" else {"toDelete": {"count": 1}}
    intent = {**MORE, "kind": kind, "spec": {"selector": {"name": "mnist"}, **how}}
    [(_, said, hint)] = [one for one in problems(training_job(), intent) if one[0] == "ET2002"]
    assert said == "spec.selector needs 'kind'"
    assert hint == "write kind, for example kind: PyTorchJob"


@pytest.mark.parametrize("version", ["kai.alibabacloud.com/v1alpha1", "etcompile.dev/v1alpha1"])
@pytest.mark.parametrize(
    ("kind", "field", "meant"),
    [("ScaleIn", "toAdd", "ScaleOut"), ("ScaleOut", "toDelete", "ScaleIn")],
)
def test_field_of_the_opposite_intent_is_recognised(
    version: str, kind: str, field: str, meant: str
) -> None:
    selector = {"kind": "TrainingJob", "name": "mnist"}
    if version.startswith("kai"):
        del selector["kind"]
    spec = {"selector": selector, field: {"count": 1}}
    intent = {**MORE, "apiVersion": version, "kind": kind, "spec": spec}
    [(_, said, hint)] = [one for one in problems(training_job(), intent) if one[0] == "ET2001"]
    assert said == f"spec has no field '{field}'"
    assert hint.startswith(f"write kind: {meant} if that is meant")
    assert not [
        one for one in problems(training_job(), {**intent, "kind": meant}) if "ET2" in one[0]
    ]


# Fields that stand elsewhere in the compiled document -------------------------------------------

OVERRIDE = {"tolerations": [{"key": "a", "operator": "Exis"}], "nodeSelector": {"disk": 5}}


def train_job(**spec: Any) -> dict[str, Any]:
    trainer = {"image": "example.com/llm:1", "command": ["torchrun", "train.py"], "numNodes": 2}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "llm"},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer, **spec},
    }


@pytest.mark.parametrize("name", ["podTemplateOverrides", "podSpecOverrides"])
@pytest.mark.parametrize("field", OVERRIDE)
def test_error_in_an_override_names_the_field_of_the_override(name: str, field: str) -> None:
    pod: Any = {field: OVERRIDE[field]}
    of_template = name == "podTemplateOverrides"
    override = {"targetJobs": [{"name": "node"}], **({"spec": pod} if of_template else pod)}
    job = train_job(**{name: [override]})
    whole = f"spec.{name}[0]{'.spec' if of_template else ''}.{field}"
    messages = [one for one in problems(job) if one[0] != "ET2145"]
    assert messages
    assert all(said.startswith(whole) for _, said, _ in messages)


def test_error_of_a_runtime_names_the_field_of_the_runtime() -> None:
    pod = {"spec": {"containers": [{"name": "node"}], "priority": "high"}}
    job = {"name": "node", "template": {"spec": {"template": pod}}}
    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": "own"},
        "spec": {"template": {"spec": {"replicatedJobs": [job]}}},
    }
    reference = {"kind": "TrainingRuntime", "name": "own"}
    messages = [said for _, said, _ in problems(train_job(runtimeRef=reference), runtime)]
    below = "spec.template.spec.replicatedJobs[0].template.spec.template.spec.priority"
    assert any(said.startswith(below) for said in messages), messages


# A variable that no program can be started with -------------------------------------------------


def too_long(job: Any) -> list[tuple[str, str]]:
    return [(said, hint) for code, said, hint in problems(job) if code == "ET2051"]


def test_replica_list_too_long_for_linux_is_reported() -> None:
    name, namespace = "a-job-with-a-name-of-some-fifty-characters-in-all", "n" * 63
    job = kubeflow_job("TFJob", {"Worker": 1000})
    job["metadata"] = {"name": name, "namespace": namespace}
    [(said, hint)] = too_long(job)
    assert said.startswith("environment variable TF_CONFIG of worker has 1")
    assert "spec.enableDynamicWorker" in hint
    job["spec"]["enableDynamicWorker"] = True
    assert too_long(job) == []


@pytest.mark.parametrize(("length", "count"), [(131072 - 5, 0), (131072 - 4, 1)])
def test_128_kib_with_the_name_is_the_most(length: int, count: int) -> None:
    job = training_job()
    env = [{"name": "KEY", "value": "x" * length}]
    worker(job)["template"]["spec"]["containers"] = [container(env=env)]
    problems = too_long(job)
    assert len(problems) == count
    assert all("put it into a file" in hint for _, hint in problems)


@pytest.mark.parametrize("field", ["command", "args"])
@pytest.mark.parametrize(("length", "count"), [(131071, 0), (131072, 1)])
def test_argument_above_128_kib_is_an_error_at_its_place(field, length, count) -> None:
    job = training_job()
    long = "x" * length
    words = {"command": ["sh", "-c", long]} if field == "command" else {"args": [long]}
    worker(job)["template"]["spec"]["containers"] = [container(**words)]
    problems = too_long(job)
    assert len(problems) == count
    for said, hint in problems:
        assert said.startswith(f"{field}[{len(words[field]) - 1}] of container '")
        assert "put it into a file" in hint


# Autoscalers of what is compiled ----------------------------------------------------------------


def autoscaler(**target: str) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "by-load", "namespace": "ml"},
        "spec": {"maxReplicas": 4, "scaleTargetRef": target},
    }


def test_autoscaler_of_a_compiled_job_is_reported_with_the_scale_command() -> None:
    job = kubeflow_job("PyTorchJob", {"Worker": 2})
    target = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "mnist"}
    [(said, hint)] = [one[1:] for one in problems(job, autoscaler(**target)) if one[0] == "ET4014"]
    assert said.startswith("HorizontalPodAutoscaler 'by-load' would scale PyTorchJob 'mnist'")
    assert "etcompile scale mnist --to N" in hint


@pytest.mark.parametrize(
    "target",
    [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "mnist"},
        {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "another"},
        {"apiVersion": "example.com/v1", "kind": "PyTorchJob", "name": "mnist"},
    ],
)
def test_an_autoscaler_of_anything_else_passes(target: dict[str, str]) -> None:
    job = kubeflow_job("PyTorchJob", {"Worker": 2})
    assert "ET4014" not in [one[0] for one in problems(job, autoscaler(**target))]
