"""A document is refused with all problems of the first stage that refuses it; the others go on.

Two faults that do not depend on each other are put into one input, for pairs of a list of faults
over kinds, sections, scale intents and overlays: the diagnostics must be those of the one and of
the other, each once, or those of the earlier stage.
"""

import copy
import io
import itertools
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
import yaml

import specs
from etcompile import compile as compiled
from etcompile.compiler.choices import Options
from etcompile.diagnostics import Severity
from etcompile.load import parse

Fault = Callable[[dict[str, Any]], None]


def template(container: str) -> dict[str, Any]:
    main = {
        "name": container,
        "image": "registry.example/train:1.2",
        "command": ["python", "train.py"],
        "ports": [{"name": "metrics", "containerPort": 9090}],
        "env": [{"name": "LEVEL", "value": "info"}],
        "resources": {"limits": {"cpu": "2", "memory": "4Gi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    spec = {"containers": [main], "volumes": [{"name": "data", "emptyDir": {}}]}
    return {"metadata": {"labels": {"team": "nlp"}}, "spec": spec}


def kubeflow(kind: str, types: str, container: str, roles: tuple[str, ...]) -> dict[str, Any]:
    role = {"replicas": 1, "restartPolicy": "Never", "template": template(container)}
    policy = {"cleanPodPolicy": "Running", "backoffLimit": 2}
    spec = {"runPolicy": policy, types: {name: copy.deepcopy(role) for name in roles}}
    version, place = "kubeflow.org/v1", {"namespace": "nlp"}
    return specs.manifest(kind, "bert", api_version=version, metadata=place, spec=spec)


def training_job() -> dict[str, Any]:
    worker = {"replicas": 2, "maxReplicas": 4, "template": template("main")}
    roles = {"launcher": {"template": template("main")}, "worker": worker}
    spec = {"cleanPodPolicy": "Running", "backoffLimit": 2, "etReplicaSpecs": roles}
    job = specs.training_job("bert") | {"spec": spec}
    job["metadata"]["namespace"] = "nlp"
    return job


JOBS = {
    "TrainingJob": (training_job, ("spec", "etReplicaSpecs"), ("launcher", "worker"), ("spec",)),
    **{
        kind: (
            lambda kind=kind, types=types, main=main, roles=roles: kubeflow(
                kind, types, main, roles
            ),
            ("spec", types),
            roles,
            ("spec", "runPolicy"),
        )
        for kind, types, main, roles in (
            ("PyTorchJob", "pytorchReplicaSpecs", "pytorch", ("Master", "Worker")),
            ("TFJob", "tfReplicaSpecs", "tensorflow", ("Chief", "Worker")),
            ("XGBoostJob", "xgbReplicaSpecs", "xgboost", ("Master", "Worker")),
            ("PaddleJob", "paddleReplicaSpecs", "paddle", ("Master", "Worker")),
            ("MPIJob", "mpiReplicaSpecs", "mpi", ("Launcher", "Worker")),
            ("JAXJob", "jaxReplicaSpecs", "jax", ("Worker",)),
        )
    },
}


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def rename(value: dict[str, Any], old: str, new: str) -> None:
    value[new] = value.pop(old)


def faults(kind: str) -> dict[str, Fault]:
    """Single faults of a job of this kind, each in a place of its own."""
    _, types, roles, policy = JOBS[kind]
    first, last = (*types, roles[0], "template"), (*types, roles[-1], "template")
    main = (*last, "spec", "containers", 0)
    faults: dict[str, Fault] = {
        "enum": lambda v: at(v, policy).update(cleanPodPolicy="Runing"),
        "negative": lambda v: at(v, policy).update(backoffLimit=-1),
        "type": lambda v: at(v, policy).update(ttlSecondsAfterFinished="soon"),
        "unknown": lambda v: v["spec"].update(colour="red"),
        "label": lambda v: v["metadata"].update(labels={"a b": "x"}),
        "port": lambda v: at(v, main)["ports"][0].update(containerPort=70000),
        "memory": lambda v: at(v, main)["resources"]["limits"].update(memory="64gb"),
        "env": lambda v: at(v, main)["env"][0].update(name="A=B"),
        "mount": lambda v: at(v, main)["volumeMounts"][0].update(name="dta"),
        "policy": lambda v: at(v, last)["spec"].update(dnsPolicy="Clusterfirst"),
        "reserved": lambda v: at(v, last)["spec"]["volumes"].append(
            {"name": "etcompile-scripts", "emptyDir": {}}
        ),
        "name": lambda v: v["metadata"].update(name="2bert"),
        "image": lambda v: at(v, main).update(image=7),
    }
    if first != last:
        begin = (*first, "spec", "containers", 0)
        faults["command"] = lambda v: rename(at(v, begin), "command", "comand")
        faults["containers"] = lambda v: rename(at(v, first)["spec"], "containers", "contaners")
    if kind == "TrainingJob":
        faults["bounds"] = lambda v: at(v, types)["worker"].update(replicas=9)
    return faults


STAGES = {"reserved": 1, "bounds": 1}
"""The stage that finds a fault of a job; 0 for the schemas and the rules of Pods."""

OVERLAYS: dict[str, Fault] = {
    "setting": lambda v: v["settings"].update(services="sharde"),
    "version": lambda v: v["settings"].update(kubernetesVersion="1.99"),
    "gang": lambda v: v["settings"].update(gang="volcanoo"),
    "unknown": lambda v: v.update(patchs=[]),
    "target": lambda v: v["images"].append({"name": "nowhere", "newTag": "1"}),
    "patch": lambda v: v["patches"].append(
        {"target": {"kind": "Pod"}, "patch": [{"op": "remove", "path": "/spec/nothing"}]}
    ),
}
STAGES_OF_OVERLAYS = {"setting": 0, "unknown": 0, "gang": 1, "version": 1, "target": 3, "patch": 3}
"""Those of jobs are between them."""

INTENTS: dict[str, Fault] = {
    "job": lambda v: v["spec"]["selector"].update(name="bart"),
    "count": lambda v: v["spec"]["toAdd"].update(count=0),
    "many": lambda v: v["spec"]["toAdd"].update(count=7),
    "field": lambda v: rename(v["spec"], "toAdd", "toAd"),
}


def reported_errors(
    *values: dict[str, Any], overlay: dict[str, Any] | None = None
) -> list[tuple[str, str]]:
    """The errors of documents, in the order of their words."""
    text = "---\n".join(yaml.safe_dump(value, sort_keys=False) for value in values)
    overlays = ()
    if overlay is not None:
        overlays = parse(yaml.safe_dump(overlay), file="overlay.yaml").documents
    documents = parse(text, file="job.yaml").documents
    diagnostics = compiled(documents, Options(overlays=overlays)).diagnostics
    errors = [one for one in diagnostics if one.severity is Severity.ERROR]
    lines = {"job.yaml": text.count("\n") + 1, "overlay.yaml": 1000}
    for one in errors:
        assert one.location is not None, one
        assert 1 <= (one.location.line or 0) <= lines[one.location.file], one
    return sorted((one.code, one.message) for one in errors)


def of_first_stage(*by_stage: tuple[int, list[tuple[str, str]]]) -> list[tuple[str, str]]:
    """The errors of the earliest of these stages."""
    earliest = min(stage for stage, _ in by_stage)
    return sorted({error for stage, errors in by_stage if stage == earliest for error in errors})


def with_fault(value: dict[str, Any], *faults: Fault) -> dict[str, Any]:
    value = copy.deepcopy(value)
    for fault in faults:
        fault(value)
    return value


@pytest.mark.parametrize("kind", JOBS)
def test_two_faults_of_the_same_stage_are_both_reported(kind: str) -> None:
    job, known = JOBS[kind][0](), faults(kind)
    assert reported_errors(job) == []
    alone = {name: reported_errors(with_fault(job, fault)) for name, fault in known.items()}
    assert all(alone.values()), [name for name, one in alone.items() if not one]
    pairs = [*itertools.combinations(known, 2)]
    # Every pair of one kind; of the others, each fault a few times.
    for one, other in pairs if kind == "TrainingJob" else pairs[::11]:
        if "name" in (one, other):
            continue  # messages name the job
        if (one, other) == ("command", "containers"):
            continue  # what is below a misspelt field is not looked at
        both = reported_errors(with_fault(job, known[one], known[other]))
        faulty = [(STAGES.get(name, 0), alone[name]) for name in (one, other)]
        assert both == of_first_stage(*faulty), (one, other)


@pytest.mark.parametrize("kind", [kind for kind in JOBS if kind not in ("TrainingJob", "MPIJob")])
def test_malformed_label_hides_neither_name_nor_container_nor_annotation(kind: str) -> None:
    job = JOBS[kind][0]()
    _, types, roles, _ = JOBS[kind]
    job["metadata"].update(
        name="2bert", labels={"a b": "x"}, annotations={"etcompile.dev/restart": "of-course"}
    )
    for role in roles:
        at(job, (*types, role, "template", "spec", "containers", 0)).update(name="train")
    codes = [code for code, _ in reported_errors(job)]
    assert codes == ["ET2009", "ET2020", "ET2050", *["ET2062"] * len(roles)]


def test_container_without_a_name_is_one_problem() -> None:
    job = kubeflow("PyTorchJob", "pytorchReplicaSpecs", "pytorch", ("Worker",))
    container = at(job, ("spec", "pytorchReplicaSpecs", "Worker", "template", "spec", "containers"))
    rename(container[0], "name", "nmae")
    assert [code for code, _ in reported_errors(job)] == ["ET4001"]


def test_each_type_of_an_elastic_job_reports_its_containers() -> None:
    containers = [{"name": name, "image": "x:1", "command": ["train"]} for name in ("a", "b")]
    spec = {"replicas": 1, "template": {"spec": {"containers": containers}}}
    types = {"ps": spec, "worker": copy.deepcopy(spec)}
    job = specs.elastic_job(types, distributionStrategy="ParameterServerStrategy")
    assert [code for code, _ in reported_errors(job)] == ["ET2062", "ET2062"]


@pytest.mark.parametrize("kind", ["v1/ConfigMap", "v1/Secret", "v1/Service", "apps/v1/Deployment"])
def test_malformed_metadata_of_an_object_hides_nothing_else_in_it(kind: str) -> None:
    version, _, name = kind.rpartition("/")
    value = {"apiVersion": version, "kind": name, "metadata": {"labels": {"a": 5}}, "spec": 5}
    places = [message.partition(":")[0] for _, message in reported_errors(value | {"data": 5})]
    assert {"metadata", "metadata.labels.a"} < set(places)
    assert len(places) == len(set(places)) >= 3


def test_a_fault_of_a_job_hides_none_of_its_intents() -> None:
    job = training_job()
    intent = specs.scale_out("more", 1, job="bert", namespace="nlp")
    assert reported_errors(job, intent) == []
    known = faults("TrainingJob")
    del known["name"], known["bounds"]  # what an intent makes of too many is another number
    of_job = {one: reported_errors(with_fault(job, fault), intent) for one, fault in known.items()}
    of_intent = {
        one: reported_errors(job, with_fault(intent, wrong)) for one, wrong in INTENTS.items()
    }
    for (one, fault), (other, wrong) in itertools.product(known.items(), INTENTS.items()):
        both = reported_errors(with_fault(job, fault), with_fault(intent, wrong))
        # A document that is no job has no intents, nor bounds.
        is_read = STAGES.get(one, 0) > 0
        of_other = [] if other == "job" or (other == "many" and not is_read) else of_intent[other]
        assert both == sorted({*of_job[one], *of_other}), (one, other)


def test_a_fault_of_a_job_hides_none_of_another_job() -> None:
    one = training_job()
    other = kubeflow("PyTorchJob", "pytorchReplicaSpecs", "pytorch", ("Worker",))
    other["metadata"]["name"] = "gpt"
    mine, theirs = faults("TrainingJob"), faults("PyTorchJob")
    for name in ("enum", "port", "reserved"):
        for second in ("negative", "memory", "mount"):
            first_fault = with_fault(one, mine[name])
            second_fault = with_fault(other, theirs[second])
            alone = {*reported_errors(first_fault, other), *reported_errors(one, second_fault)}
            assert reported_errors(first_fault, second_fault) == sorted(alone), (name, second)


def test_overlay_faults_are_reported_before_job_faults() -> None:
    job = training_job()
    overlay = specs.overlay(settings={}, images=[], patches=[])
    assert reported_errors(job, overlay=overlay) == []
    alone = {
        name: reported_errors(job, overlay=with_fault(overlay, f)) for name, f in OVERLAYS.items()
    }
    assert all(alone.values()), [name for name, one in alone.items() if not one]
    for one, other in itertools.combinations(OVERLAYS, 2):
        both = reported_errors(job, overlay=with_fault(overlay, OVERLAYS[one], OVERLAYS[other]))
        faulty = [(STAGES_OF_OVERLAYS[name], alone[name]) for name in (one, other)]
        assert both == of_first_stage(*faulty), (one, other)
    known = faults("TrainingJob")
    for one, name in itertools.product(OVERLAYS, ("enum", "port", "command", "bounds", "reserved")):
        mine = reported_errors(with_fault(job, known[name]))
        both = reported_errors(
            with_fault(job, known[name]), overlay=with_fault(overlay, OVERLAYS[one])
        )
        # A target is said to be nowhere only if all documents could be read.
        stage = 4 if one == "target" else STAGES_OF_OVERLAYS[one]
        of_job = 2 + STAGES.get(name, 0), mine
        assert both == of_first_stage((stage, alone[one]), of_job), (one, name)


def test_a_misspelt_list_of_containers_is_read_once_it_is_spelt_well() -> None:
    job = training_job()
    spec = job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]
    spec["containers"][0]["ports"][0]["containerPort"] = 70000
    rename(spec, "containers", "contaners")
    assert [code for code, _ in reported_errors(job)] == ["ET4001"]
    rename(spec, "contaners", "containers")
    assert [code for code, _ in reported_errors(job)] == ["ET4002"]


def test_too_large_pod_lists_in_variables_are_refused_before_they_are_written():
    """A few bytes of input would be many gigabytes of output."""
    job = specs.kubeflow_job("TFJob", {"Worker": 32767})
    diagnostics = [one for one in compiled([job]).diagnostics if one.code == "ET2131"]
    assert "GiB of output" in diagnostics[0].message
    assert compiled([specs.kubeflow_job("TFJob", {"Worker": 500})]).ok


def test_a_file_that_is_not_yaml_is_refused_and_the_others_are_checked(tmp_path):
    job = kubeflow("PyTorchJob", "pytorchReplicaSpecs", "pytorch", ("Master",))
    faulty = copy.deepcopy(job)
    faulty["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["contaners"] = []
    other = copy.deepcopy(job)
    other["metadata"]["name"] = "Bert"
    (tmp_path / "a.yaml").write_text("\n---\n".join((yaml.safe_dump(faulty), "a: [")), "utf-8")
    (tmp_path / "b.yaml").write_text(yaml.safe_dump(other), "utf-8")
    compilation = compiled(tmp_path)
    errors = [one for one in compilation.diagnostics if one.severity is Severity.ERROR]
    assert [one.code for one in errors] == ["ET1005", "ET2020"]
    assert compilation.groups == ()


@pytest.mark.parametrize("written", ["y", "on", "true"])
def test_nothing_is_said_of_what_a_boolean_was_meant_to_be(written: str) -> None:
    text = yaml.safe_dump(specs.scale_in("less", 1)).replace("name: mnist", f"name: {written}")
    diagnostics = compiled("-", stdin=io.BytesIO(text.encode())).diagnostics
    assert [one.code for one in diagnostics] == ["ET2006"]


def test_an_object_that_is_refused_is_not_said_to_be_missing() -> None:
    text = "{apiVersion: x.y/v1, kind: Foo, metadata: {name: {a: b}}}"
    diagnostics = compiled("-", stdin=io.BytesIO(text.encode())).diagnostics
    assert [one.code for one in diagnostics] == ["ET4002"]


def test_what_is_wrong_with_a_large_job_is_what_is_wrong_with_a_small_one() -> None:
    def messages(replicas: int) -> list[str]:
        job = kubeflow("PyTorchJob", "pytorchReplicaSpecs", "pytorch", ("Master", "Worker"))
        worker = job["spec"]["pytorchReplicaSpecs"]["Worker"]
        worker["replicas"] = replicas
        container = worker["template"]["spec"]["containers"][0]
        container["command"] = ["python", []]
        container["resources"] = {"limits": {"cpu": "1 Gi"}}
        container["volumeMounts"] = [{"name": "absent", "mountPath": "/a"}]
        compilation = compiled([job])
        return sorted(
            one.message for one in compilation.diagnostics if one.severity is Severity.ERROR
        )

    small = messages(10)
    assert len(small) >= 3
    assert messages(50_000) == small


def test_a_host_list_that_is_too_long_hides_no_other_problem() -> None:
    job = specs.training_job("b" * 40, replicas=12_000)
    token = {"name": "HF_TOKEN", "value": "hf_abcdefghijklmnopqrstuvwxyzABCDEF12"}
    specs.worker(job)["template"]["spec"]["containers"][0]["env"] = [token]
    codes = [one.code for one in compiled([job]).diagnostics]
    assert codes.count("ET4008") == codes.count("ET2095") == 1
    assert "ET2136" in codes


def test_large_job_is_not_built_whole_if_another_document_has_a_fault() -> None:
    job = kubeflow("PyTorchJob", "pytorchReplicaSpecs", "pytorch", ("Master", "Worker"))
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 50_000
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": 1}}
    tracemalloc.start()
    compilation = compiled([job, config])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    errors = [one.code for one in compilation.diagnostics if one.severity is Severity.ERROR]
    assert errors == ["ET4002"]
    assert peak < 30_000_000  # 50,000 Pods and their Services take ten times as much
