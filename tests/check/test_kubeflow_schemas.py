"""What the schemas of the Kubeflow kinds take and refuse, and what a user reads then."""

import copy
import os
from pathlib import Path

import jsonschema
import pytest
import yaml

from etcompile.check.document_rules import check_schema
from etcompile.check.json_schemas import bundled_schema
from etcompile.load import from_values, parse

ROOT = Path(__file__).parents[2]
INPUTS = Path(os.environ.get("ETCOMPILE_INPUTS", ROOT.parent / "shared" / "inputs"))

ROLES = {
    "TFJob": ("tfReplicaSpecs", ("PS", "Worker", "Chief", "Evaluator")),
    "PyTorchJob": ("pytorchReplicaSpecs", ("Master", "Worker")),
    "MPIJob": ("mpiReplicaSpecs", ("Launcher", "Worker")),
    "MPIJobV2": ("mpiReplicaSpecs", ("Launcher", "Worker")),
    "XGBoostJob": ("xgbReplicaSpecs", ("Master", "Worker")),
    "PaddleJob": ("paddleReplicaSpecs", ("Master", "Worker")),
    "JAXJob": ("jaxReplicaSpecs", ("Worker",)),
    "MXJob": (
        "mxReplicaSpecs",
        ("Scheduler", "Server", "Worker", "TunerTracker", "TunerServer", "Tuner"),
    ),
}
"""The schemas by file name, with their replica map and its types."""
INTENTS = ("etcompile/ScaleOut", "etcompile/ScaleIn")
SCHEMAS = (*ROLES, *INTENTS, "ScaleOut", "ScaleIn", "TrainingJob", "Overlay", "diagnostics")
ABSENT = object()
ELSEWHERE = "kueue.x-k8s.io/multikueue"


def template():
    return {"spec": {"containers": [{"name": "main", "image": "trainer:1"}]}}


def job(schema):
    """The smallest document that uses every type of a kind."""
    roles, types = ROLES[schema]
    return {
        "apiVersion": "kubeflow.org/v2beta1" if schema == "MPIJobV2" else "kubeflow.org/v1",
        "kind": "MPIJob" if schema == "MPIJobV2" else schema,
        "metadata": {"name": "train"},
        "spec": {roles: {name: {"replicas": 1, "template": template()} for name in types}},
    }


def changed(schema, path, value):
    """The document with one field set, or removed if the value is ABSENT."""
    document = copy.deepcopy(job(schema))
    *above, last = path.replace("roles", ROLES[schema][0]).split(".")
    node = document
    for step in above:
        node = node.setdefault(step, {})
    if value is ABSENT:
        del node[last]
    else:
        node[last] = value
    return document


def check(schema, document):
    (loaded,) = from_values([document]).documents
    return [
        f"{diagnostic.code} {diagnostic.message}"
        for diagnostic in check_schema(loaded, f"{schema}.json")
    ]


@pytest.mark.parametrize("schema", ROLES)
def test_a_job_with_every_type_is_valid(schema):
    assert check(schema, job(schema)) == []


@pytest.mark.parametrize("schema", ROLES)
def test_a_dump_from_a_cluster_is_valid(schema):
    document = job(schema)
    document["metadata"] |= {
        "uid": "1",
        "resourceVersion": "2",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
    }
    for role in document["spec"][ROLES[schema][0]].values():
        role["template"]["metadata"] = {"creationTimestamp": None}
    document["status"] = {"conditions": [{"type": "Running"}], "replicaStatuses": {}}
    assert check(schema, document) == []


ACCEPTED = [
    ("TFJob", "spec.successPolicy", ""),
    ("TFJob", "spec.successPolicy", "AllWorkers"),
    ("TFJob", "spec.enableDynamicWorker", True),
    ("TFJob", "spec.roles", {"worker": {"template": template()}}),
    ("TFJob", "spec.roles.ps", {"template": template()}),
    ("TFJob", "spec.roles.Worker.replicas", 0),
    ("TFJob", "spec.roles.Worker.replicas", ABSENT),
    ("TFJob", "spec.roles.Worker.restartPolicy", ""),
    ("TFJob", "spec.roles.Worker.restartPolicy", "ExitCode"),
    ("TFJob", "spec.runPolicy.managedBy", "kubeflow.org/training-operator"),
    ("TFJob", "spec.runPolicy.managedBy", "kueue.x-k8s.io/multikueue"),
    ("TFJob", "spec.runPolicy.activeDeadlineSeconds", 0),
    ("TFJob", "spec.runPolicy.activeDeadlineSeconds", 2**40),
    ("TFJob", "spec.runPolicy.backoffLimit", 0),
    ("TFJob", "spec.runPolicy.ttlSecondsAfterFinished", 0),
    ("TFJob", "spec.runPolicy.cleanPodPolicy", "None"),
    ("TFJob", "spec.runPolicy.suspend", True),
    (
        "TFJob",
        "spec.runPolicy.schedulingPolicy",
        {"minAvailable": 2, "queue": "", "priorityClass": "a"},
    ),
    (
        "TFJob",
        "spec.runPolicy.schedulingPolicy.minResources",
        {"cpu": 4, "memory": "8Gi", "a/b": "1e3"},
    ),
    ("PyTorchJob", "spec.nprocPerNode", "auto"),
    ("PyTorchJob", "spec.nprocPerNode", "8"),
    ("PyTorchJob", "spec.elasticPolicy", {}),
    (
        "PyTorchJob",
        "spec.elasticPolicy",
        {"minReplicas": 1, "maxReplicas": 3, "maxRestarts": 0, "nProcPerNode": 2},
    ),
    ("PyTorchJob", "spec.elasticPolicy.rdzvConf", [{"key": "timeout", "value": ""}]),
    (
        "PyTorchJob",
        "spec.elasticPolicy.metrics",
        [{"type": "Resource", "resource": {"name": "cpu"}}],
    ),
    ("PyTorchJob", "spec.roles.Worker", ABSENT),
    ("PyTorchJob", "spec.roles.Worker.replicas", ABSENT),
    ("PyTorchJob", "spec.roles.Master", ABSENT),
    ("MPIJob", "spec.roles.Launcher.replicas", ABSENT),
    ("MPIJob", "spec.roles.Worker", ABSENT),
    ("MPIJob", "spec.roles.Worker.replicas", 0),
    ("MPIJob", "spec.cleanPodPolicy", "Running"),
    ("MPIJob", "spec.mainContainer", "trainer"),
    ("MPIJobV2", "spec.slotsPerWorker", 0),
    ("MPIJobV2", "spec.mpiImplementation", "MPICH"),
    ("MPIJobV2", "spec.launcherCreationPolicy", "WaitForWorkersReady"),
    ("MPIJobV2", "spec.runLauncherAsWorker", True),
    ("MPIJobV2", "spec.sshAuthMountPath", "/home/mpiuser/.ssh"),
    ("MPIJobV2", "spec.sshAuthMountPath", ""),
    ("MPIJobV2", "spec.roles.Worker", ABSENT),
    ("MPIJobV2", "spec.roles.Launcher.restartPolicy", ""),
    ("MPIJobV2", "spec.runPolicy.managedBy", "kubeflow.org/mpi-operator"),
    ("XGBoostJob", "spec.roles.Worker.replicas", 0),
    ("XGBoostJob", "spec.roles.Worker", ABSENT),
    ("PaddleJob", "spec.roles.Master.replicas", 3),
    ("PaddleJob", "spec.elasticPolicy", {"minReplicas": 1, "maxReplicas": 2, "maxRestarts": 3}),
    ("MXJob", "spec.jobMode", "MXTune"),
    ("MXJob", "spec.roles.scheduler", {"template": template()}),
]


@pytest.mark.parametrize(("schema", "path", "value"), ACCEPTED)
def test_values_that_upstream_accepts_are_valid(schema, path, value):
    assert check(schema, changed(schema, path, value)) == []


REFUSED = [
    ("TFJob", "spec", ABSENT, "ET2002 TFJob needs 'spec'"),
    ("TFJob", "spec.roles", ABSENT, "ET2002 spec needs 'tfReplicaSpecs'"),
    ("TFJob", "spec.roles", {}, "ET2010 {} must not be empty"),
    ("TFJob", "spec.roles.Wroker", {}, "ET2001 spec.tfReplicaSpecs has no field 'Wroker'"),
    ("TFJob", "spec.roles.Tuner", {}, "ET2001 spec.tfReplicaSpecs has no field 'Tuner'"),
    ("TFJob", "spec.succesPolicy", "AllWorkers", "ET2001 spec has no field 'succesPolicy'"),
    ("TFJob", "spec.successPolicy", "allWorkers", "ET2007 {} must be AllWorkers, not 'allWorkers'"),
    ("TFJob", "spec.roles.Worker.replicas", -1, "ET2008 {} must be at least 0, not -1"),
    (
        "TFJob",
        "spec.roles.Worker.replicas",
        "2",
        "ET2006 {} must be a whole number, not the text '2'",
    ),
    (
        "TFJob",
        "spec.roles.worker",
        {"replicas": -1, "template": template()},
        "ET2008 spec.tfReplicaSpecs.worker.replicas must be at least 0, not -1",
    ),
    (
        "TFJob",
        "spec.roles.Worker.restartPolicy",
        "never",
        "ET2007 {} must be one of Always, OnFailure, Never, ExitCode, not 'never'",
    ),
    ("TFJob", "spec.roles.Worker.template.spec.containers", [], "ET2010 {} must not be empty"),
    (
        "TFJob",
        "spec.roles.Worker.template.apiVersion",
        "v1",
        "ET2001 spec.tfReplicaSpecs.Worker.template has no field 'apiVersion'",
    ),
    (
        "TFJob",
        "spec.runPolicy.cleanPodPolicy",
        "none",
        "ET2007 {} must be one of None, Running, All, not 'none'",
    ),
    (
        "TFJob",
        "spec.runPolicy.cleanPodPolicy",
        "",
        "ET2007 {} must be one of None, Running, All, not ''",
    ),
    (
        "TFJob",
        "spec.runPolicy.managedBy",
        "",
        f"ET2007 {{}} must be one of kubeflow.org/training-operator, {ELSEWHERE}, not ''",
    ),
    (
        "TFJob",
        "spec.runPolicy.managedBy",
        "me",
        f"ET2007 {{}} must be one of kubeflow.org/training-operator, {ELSEWHERE}, not 'me'",
    ),
    ("TFJob", "spec.runPolicy.activeDeadlineSeconds", -1, "ET2008 {} must be at least 0, not -1"),
    ("TFJob", "spec.runPolicy.backoffLimit", -1, "ET2008 {} must be at least 0, not -1"),
    ("TFJob", "spec.runPolicy.ttlSecondsAfterFinished", -1, "ET2008 {} must be at least 0, not -1"),
    (
        "TFJob",
        "spec.runPolicy.suspend",
        "true",
        "ET2006 {} must be true or false, not the text 'true'",
    ),
    (
        "TFJob",
        "spec.runPolicy.schedulingPolicy.minAvailible",
        1,
        "ET2001 spec.runPolicy.schedulingPolicy has no field 'minAvailible'",
    ),
    (
        "TFJob",
        "spec.runPolicy.schedulingPolicy.minResources.cpu",
        "4 cores",
        "ET2009 {} '4 cores' is not an amount, such as 2, 500m or 8Gi",
    ),
    (
        "TFJob",
        "spec.runPolicy.schedulingPolicy.minResources.cpu",
        True,
        "ET2006 {} must be a whole number or text, not true",
    ),
    ("TFJob", "metadata.name", ABSENT, "ET2002 metadata needs 'name'"),
    (
        "TFJob",
        "metadata.labels",
        {"a b": "c"},
        (
            "ET2009 key of metadata.labels 'a b' is not a label key: letters, digits, '-',"
            " '_' and '.', at most 63, after an optional 'domain/'"
        ),
    ),
    (
        "PyTorchJob",
        "spec.roles.worker",
        {},
        "ET2001 spec.pytorchReplicaSpecs has no field 'worker'",
    ),
    ("PyTorchJob", "spec.roles.Worker.replicas", 0, "ET2008 {} must be at least 1, not 0"),
    ("PyTorchJob", "spec.roles.Master.replicas", 2, "ET2007 {} must be 1, not 2"),
    (
        "PyTorchJob",
        "spec.roles.Master.replicas",
        ABSENT,
        "ET2002 spec.pytorchReplicaSpecs.Master needs 'replicas'",
    ),
    ("PyTorchJob", "spec.nprocPerNode", 8, "ET2006 {} must be text, not 8"),
    (
        "PyTorchJob",
        "spec.nprocPerNode",
        "0",
        "ET2009 {} '0' is not a number from 1, auto, cpu or gpu",
    ),
    ("PyTorchJob", "spec.elasticPolicy.minReplicas", 0, "ET2008 {} must be at least 1, not 0"),
    ("PyTorchJob", "spec.elasticPolicy.rdzvConf", [], "ET2010 {} must not be empty"),
    (
        "PyTorchJob",
        "spec.elasticPolicy.rdzvConf",
        [{"key": "timeout"}],
        "ET2002 spec.elasticPolicy.rdzvConf[0] needs 'value'",
    ),
    (
        "PyTorchJob",
        "spec.elasticPolicy.rdzvPort",
        70000,
        "ET2008 {} must be at most 65535, not 70000",
    ),
    ("MPIJob", "spec.roles.Launcher", ABSENT, "ET2002 spec.mpiReplicaSpecs needs 'Launcher'"),
    ("MPIJob", "spec.roles.Launcher.replicas", 2, "ET2007 {} must be 1, not 2"),
    ("MPIJob", "spec.roles.Worker.replicas", -1, "ET2008 {} must be at least 0, not -1"),
    ("MPIJob", "spec.slotsPerWorker", 0, "ET2008 {} must be at least 1, not 0"),
    ("MPIJob", "spec.cleanPodPolicy", "", "ET2007 {} must be one of None, Running, All, not ''"),
    ("MPIJob", "spec.mpiImplementation", "OpenMPI", "ET2001 spec has no field 'mpiImplementation'"),
    ("MPIJobV2", "spec.roles.Launcher", ABSENT, "ET2002 spec.mpiReplicaSpecs needs 'Launcher'"),
    ("MPIJobV2", "spec.roles.Worker.replicas", 0, "ET2008 {} must be at least 1, not 0"),
    (
        "MPIJobV2",
        "spec.roles.Worker.replicas",
        ABSENT,
        "ET2002 spec.mpiReplicaSpecs.Worker needs 'replicas'",
    ),
    (
        "MPIJobV2",
        "spec.roles.Worker.restartPolicy",
        "Always",
        "ET2007 {} must be one of Never, OnFailure, not 'Always'",
    ),
    ("MPIJobV2", "spec.slotsPerWorker", -1, "ET2008 {} must be at least 0, not -1"),
    (
        "MPIJobV2",
        "spec.mpiImplementation",
        "OpenMpi",
        "ET2007 {} must be one of OpenMPI, Intel, MPICH, not 'OpenMpi'",
    ),
    (
        "MPIJobV2",
        "spec.launcherCreationPolicy",
        "AtStartUp",
        "ET2007 {} must be one of AtStartup, WaitForWorkersReady, not 'AtStartUp'",
    ),
    (
        "MPIJobV2",
        "spec.sshAuthMountPath",
        "root/.ssh",
        "ET2009 {} 'root/.ssh' is not an absolute path",
    ),
    (
        "MPIJobV2",
        "spec.runPolicy.managedBy",
        "me",
        f"ET2007 {{}} must be one of kubeflow.org/mpi-operator, {ELSEWHERE}, not 'me'",
    ),
    ("XGBoostJob", "spec.roles.Master", ABSENT, "ET2002 spec.xgbReplicaSpecs needs 'Master'"),
    (
        "XGBoostJob",
        "spec.roles.Master.replicas",
        ABSENT,
        "ET2002 spec.xgbReplicaSpecs.Master needs 'replicas'",
    ),
    ("PaddleJob", "spec.roles.PS", {}, "ET2001 spec.paddleReplicaSpecs has no field 'PS'"),
    ("JAXJob", "spec.roles.Worker", ABSENT, "ET2002 spec.jaxReplicaSpecs needs 'Worker'"),
    ("MXJob", "spec.roles.tuner", {}, "ET2001 spec.mxReplicaSpecs has no field 'tuner'"),
    (
        "MXJob",
        "spec.roles.TunerServer.label",
        "2080ti",
        "ET2001 spec.mxReplicaSpecs.TunerServer has no field 'label'",
    ),
    (
        "MXJob",
        "spec.runPolicy.managedBy",
        "kubeflow.org/training-operator",
        "ET2001 spec.runPolicy has no field 'managedBy'",
    ),
    ("MXJob", "spec.jobMode", "MXTrane", "ET2007 {} must be one of MXTrain, MXTune, not 'MXTrane'"),
]


@pytest.mark.parametrize(("schema", "path", "value", "message"), REFUSED)
def test_what_upstream_refuses_or_takes_for_something_else_is_an_error(
    schema, path, value, message
):
    where = path.replace("roles", ROLES[schema][0])
    assert check(schema, changed(schema, path, value)) == [message.replace("{}", where)]


def test_elastic_training_needs_workers():
    document = changed("PyTorchJob", "spec.elasticPolicy", {"minReplicas": 1})
    del document["spec"]["pytorchReplicaSpecs"]["Worker"]
    assert check("PyTorchJob", document) == ["ET2002 spec.pytorchReplicaSpecs needs 'Worker'"]


def test_processes_per_node_are_said_in_one_place():
    document = changed("PyTorchJob", "spec.elasticPolicy.nProcPerNode", 2)
    assert check("PyTorchJob", document) == []
    document["spec"]["nprocPerNode"] = "2"
    assert check("PyTorchJob", document) == [
        "ET2012 spec.nprocPerNode: may not stand beside elasticPolicy.nProcPerNode"
    ]


def test_a_misspelt_type_is_pointed_at_and_the_right_one_named():
    document = changed("TFJob", "spec.tfReplicaSpecs.Wroker", {"template": template()})
    text = yaml.safe_dump(document)
    [loaded] = parse(text).documents
    [diagnostic] = check_schema(loaded, "TFJob.json")
    assert text.splitlines()[diagnostic.location.line - 1].strip() == "Wroker:"
    assert diagnostic.hint == "did you mean 'Worker'?"


@pytest.mark.parametrize(("schema", "path", "value", "message"), REFUSED)
def test_another_validator_refuses_the_same(schema, path, value, message):
    validator = jsonschema.Draft202012Validator(bundled_schema(f"{schema}.json"))
    assert not validator.is_valid(changed(schema, path, value)), message


@pytest.mark.parametrize(("schema", "path", "value"), ACCEPTED)
def test_another_validator_takes_the_same(schema, path, value):
    jsonschema.Draft202012Validator(bundled_schema(f"{schema}.json")).validate(
        changed(schema, path, value)
    )


# The typed scale intents ------------------------------------------------------------------------


def intent(kind, selector, change):
    return {
        "apiVersion": "etcompile.dev/v1alpha1",
        "kind": kind,
        "metadata": {"generateName": "train-"},
        "spec": {"selector": selector} | change,
    }


TRAIN = {"kind": "PyTorchJob", "name": "train"}


@pytest.mark.parametrize(
    ("kind", "selector", "change", "messages"),
    [
        ("ScaleOut", TRAIN, {"toAdd": {"count": 2}}, []),
        ("ScaleOut", TRAIN | {"apiVersion": "kubeflow.org/v1"}, {"toAdd": {"count": 2}}, []),
        ("ScaleIn", TRAIN, {"toDelete": {"podNames": ["train-worker-1"]}}, []),
        ("ScaleIn", TRAIN, {"toDelete": {"count": 1}, "timeout": 60}, []),
        (
            "ScaleOut",
            {"name": "train"},
            {"toAdd": {"count": 1}},
            ["ET2002 spec.selector needs 'kind'"],
        ),
        (
            "ScaleOut",
            TRAIN | {"matchLabels": {}},
            {"toAdd": {"count": 1}},
            ["ET2001 spec.selector has no field 'matchLabels'"],
        ),
        (
            "ScaleOut",
            TRAIN,
            {"toAdd": {"count": 0}},
            ["ET2008 spec.toAdd.count must be at least 1, not 0"],
        ),
        (
            "ScaleIn",
            TRAIN,
            {"toDelete": {}},
            ["ET2002 spec.toDelete needs 'count' or 'podNames'"],
        ),
    ],
)
def test_an_intent_names_the_kind_it_scales(kind, selector, change, messages):
    assert check(f"etcompile/{kind}", intent(kind, selector, change)) == messages


def test_the_two_groups_of_intents_differ_in_their_selector_only():
    for kind in ("ScaleOut", "ScaleIn"):
        ours, theirs = bundled_schema(f"etcompile/{kind}.json"), bundled_schema(f"{kind}.json")
        assert ours["$defs"] == theirs["$defs"]
        ours, theirs = (one["properties"]["spec"]["properties"] for one in (ours, theirs))
        assert [name for name in ours if ours[name] != theirs[name]] == ["selector"]


# The schemas themselves -------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_bundle_stands_alone(name):
    schema = bundled_schema(f"{name}.json")
    jsonschema.Draft202012Validator.check_schema(schema)
    for node in nodes(schema):
        if "$ref" in node:
            assert node["$ref"].removeprefix("#/$defs/") in schema["$defs"]


@pytest.mark.parametrize("name", [*ROLES, *INTENTS])
def test_every_field_is_described(name):
    schema = bundled_schema(f"{name}.json")
    fields = [
        (field, followed(rules, schema))
        for node in nodes(schema)
        for field, rules in node.get("properties", {}).items()
        if isinstance(rules, dict)
    ]
    # A rule without a type narrows a field that is described where it has one.
    silent = [field for field, rules in fields if "type" in rules and "description" not in rules]
    assert silent == []


@pytest.mark.parametrize("name", ROLES)
def test_no_object_takes_unknown_fields_but_where_kubernetes_says_which(name):
    schema = bundled_schema(f"{name}.json")
    podspec = schema["$defs"]["PodTemplate"]["properties"]["spec"]
    container = podspec["properties"]["containers"]["items"]
    for node in nodes(schema):
        if "properties" in node and node not in (podspec, container) and "type" in node:
            assert node["additionalProperties"] is False


@pytest.mark.parametrize(
    ("name", "path", "effect"),
    [
        ("TFJob", "runPolicy.schedulingPolicy", "gang"),
        ("TFJob", "runPolicy.schedulingPolicy.queue", "gang"),
        ("TFJob", "runPolicy.cleanPodPolicy", "watcher"),
        ("TFJob", "runPolicy.ttlSecondsAfterFinished", "watcher"),
        ("TFJob", "runPolicy.backoffLimit", "watcher"),
        ("TFJob", "runPolicy.activeDeadlineSeconds", "used"),
        ("TFJob", "runPolicy.suspend", "used"),
        ("TFJob", "runPolicy.managedBy", "used"),
        ("TFJob", "successPolicy", "watcher"),
        ("PyTorchJob", "elasticPolicy", "used"),
        ("PyTorchJob", "elasticPolicy.metrics", "ignored"),
        ("MPIJob", "cleanPodPolicy", "watcher"),
        ("MPIJobV2", "runPolicy.schedulingPolicy.minResources", "gang"),
        ("PaddleJob", "elasticPolicy", "ignored"),
        ("MXJob", "jobMode", "used"),
    ],
)
def test_the_schema_says_what_becomes_of_a_field(name, path, effect):
    schema = bundled_schema(f"{name}.json")
    node = schema["properties"]["spec"]
    for step in path.split("."):
        node = followed(node["properties"][step], schema)
    assert node.get("x-etcompile", "used") == effect


@pytest.mark.parametrize("name", ROLES)
def test_effects_are_of_five_sorts(name):
    effects = {node.get("x-etcompile", "used") for node in nodes(bundled_schema(f"{name}.json"))}
    assert effects <= {"used", "watcher", "gang", "ignored", "refused"}


def followed(rules, schema):
    """A field's rules with those of the definition it refers to."""
    if "$ref" not in rules:
        return rules
    target = schema["$defs"][rules["$ref"].removeprefix("#/$defs/")]
    return followed(target, schema) | rules


def nodes(schema):
    if isinstance(schema, dict):
        yield schema
    for one in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(one, dict | list):
            yield from nodes(one)


# Upstream's examples ----------------------------------------------------------------------------

AGREED = {
    # kubectl refuses both files with the same words (reference/training-operator.md 1.4).
    "mx_job_tune_gpu_v1.yaml": {"spec.mxReplicaSpecs.TunerServer has no field 'label'"},
    "xgboostjob_v1alpha1_rabit_test.yaml": {
        f"spec.xgbReplicaSpecs.{role}.template has no field '{field}'"
        for role in ("Master", "Worker")
        for field in ("apiVersion", "kind")
    },
}


@pytest.mark.parametrize("operator", ["training-operator", "mpi-operator"])
def test_upstreams_examples_are_valid_but_for_two(operator):
    if not (folder := INPUTS / operator).is_dir():
        pytest.skip(f"upstream's example files are absent: no {folder}")
    for file in sorted(folder.rglob("*.yaml")):
        for document in parse(file.read_text()).documents:
            if document.api_version.startswith("kubeflow.org/"):
                version = "V2" if document.api_version.endswith("v2beta1") else ""
                diagnostics = check_schema(document, f"{document.kind}{version}.json")
                assert {one.message for one in diagnostics} == AGREED.get(file.name, set()), (
                    file.name
                )
