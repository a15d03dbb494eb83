"""What the schemas of jobs and scale intents take and refuse, and what a user reads then."""

import copy
import os
from pathlib import Path

import jsonschema
import pytest
import yaml

from etcompile.check.document_rules import check_schema
from etcompile.check.json_schemas import bundled_schema
from etcompile.load import from_values, parse
from specs import manifest

ROOT = Path(__file__).parents[2]
INPUTS = Path(os.environ.get("ETCOMPILE_INPUTS", ROOT.parent / "shared" / "inputs"))

ROLES = {
    "TrainingJob": ("etReplicaSpecs", ("launcher", "worker")),
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
VERSIONS = {"TrainingJob": "kai.alibabacloud.com/v1alpha1", "MPIJobV2": "kubeflow.org/v2beta1"}
"""The API versions of those that do not have kubeflow.org/v1."""
INTENTS = ("etcompile/ScaleOut", "etcompile/ScaleIn", "ScaleOut", "ScaleIn")
SCHEMAS = (*ROLES, *INTENTS, "Overlay", "diagnostics")
ABSENT = object()


def template():
    return {"spec": {"containers": [{"name": "main", "image": "trainer:1"}]}}


def job(schema):
    """The smallest document that uses every type of a kind."""
    roles, types = ROLES[schema]
    kind, version = schema.removesuffix("V2"), VERSIONS.get(schema, "kubeflow.org/v1")
    spec = {roles: {name: {"replicas": 1, "template": template()} for name in types}}
    return manifest(kind, "train", api_version=version, spec=spec)


def place(schema, path):
    """The whole path of a field of `spec`; those of metadata are whole."""
    whole = path if path.startswith(("metadata", "spec")) else f"spec.{path}"
    return whole.replace("roles", ROLES[schema][0])


def changed(schema, path, value):
    """The document with one field set, or removed if the value is ABSENT."""
    document = copy.deepcopy(job(schema))
    *above, last = place(schema, path).split(".")
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
    return [f"{one.code} {one.message}" for one in check_schema(loaded, f"{schema}.json")]


def rows(table):
    """The rows of a table by schema, each with the schema."""
    return [(schema, *row) for schema, of_schema in table.items() for row in of_schema]


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
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b"}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
    }
    for role in document["spec"][ROLES[schema][0]].values():
        role["template"]["metadata"] = {"creationTimestamp": None}
    document["status"] = {"conditions": [{"type": "Running"}], "replicaStatuses": {}}
    assert check(schema, document) == []


ACCEPTED = {
    "TrainingJob": [
        ("cleanPodPolicy", "All"),
        ("cleanPodPolicy", ""),
        ("launcherAttachMode", ""),
        ("restartPolicy", "OnFailure"),
        ("backoffLimit", 0),
        # Unknown fields of a Pod are left to the schemas of Kubernetes.
        ("roles.worker.template.spec.containers", [{"name": "main", "future": [1]}]),
    ],
    "TFJob": [
        ("successPolicy", ""),
        ("successPolicy", "AllWorkers"),
        ("enableDynamicWorker", True),
        ("roles", {"worker": {"template": template()}}),
        ("roles.ps", {"template": template()}),
        ("roles.Worker.replicas", 0),
        ("roles.Worker.replicas", ABSENT),
        ("roles.Worker.restartPolicy", ""),
        ("roles.Worker.restartPolicy", "ExitCode"),
        ("runPolicy.managedBy", "kubeflow.org/training-operator"),
        ("runPolicy.managedBy", "kueue.x-k8s.io/multikueue"),
        ("runPolicy.activeDeadlineSeconds", 0),
        ("runPolicy.activeDeadlineSeconds", 2**40),
        ("runPolicy.backoffLimit", 0),
        ("runPolicy.ttlSecondsAfterFinished", 0),
        ("runPolicy.cleanPodPolicy", "None"),
        ("runPolicy.suspend", True),
        ("runPolicy.schedulingPolicy", {"minAvailable": 2, "queue": "", "priorityClass": "a"}),
        ("runPolicy.schedulingPolicy.minResources", {"cpu": 4, "memory": "8Gi", "a/b": "1e3"}),
    ],
    "PyTorchJob": [
        ("nprocPerNode", "auto"),
        ("nprocPerNode", "8"),
        ("elasticPolicy", {}),
        (
            "elasticPolicy",
            {"minReplicas": 1, "maxReplicas": 3, "maxRestarts": 0, "nProcPerNode": 2},
        ),
        ("elasticPolicy.rdzvConf", [{"key": "timeout", "value": ""}]),
        ("elasticPolicy.metrics", [{"type": "Resource", "resource": {"name": "cpu"}}]),
        ("roles.Worker", ABSENT),
        ("roles.Worker.replicas", ABSENT),
        ("roles.Master", ABSENT),
    ],
    "MPIJob": [
        ("roles.Launcher.replicas", ABSENT),
        ("roles.Worker", ABSENT),
        ("roles.Worker.replicas", 0),
        ("cleanPodPolicy", "Running"),
        ("mainContainer", "trainer"),
    ],
    "MPIJobV2": [
        ("slotsPerWorker", 0),
        ("mpiImplementation", "MPICH"),
        ("launcherCreationPolicy", "WaitForWorkersReady"),
        ("runLauncherAsWorker", True),
        ("sshAuthMountPath", "/home/mpiuser/.ssh"),
        ("sshAuthMountPath", ""),
        ("roles.Worker", ABSENT),
        ("roles.Launcher.restartPolicy", ""),
        ("runPolicy.managedBy", "kubeflow.org/mpi-operator"),
    ],
    "XGBoostJob": [("roles.Worker.replicas", 0), ("roles.Worker", ABSENT)],
    "PaddleJob": [
        ("roles.Master.replicas", 3),
        ("elasticPolicy", {"minReplicas": 1, "maxReplicas": 2, "maxRestarts": 3}),
    ],
    "MXJob": [("jobMode", "MXTune"), ("roles.scheduler", {"template": template()})],
}


@pytest.mark.parametrize(("schema", "path", "value"), rows(ACCEPTED))
def test_values_that_upstream_accepts_are_valid_for_another_validator_too(schema, path, value):
    document = changed(schema, path, value)
    assert check(schema, document) == []
    jsonschema.Draft202012Validator(bundled_schema(f"{schema}.json")).validate(document)


NO_LABEL_KEY = (
    "'a b' is not a label key: letters, digits, '-', '_' and '.', at most 63, after an optional"
    " 'domain/'"
)
NO_DNS_LABEL = "'Team_A' is not a DNS label: lower-case letters, digits and '-'"
REFUSED = {
    "TrainingJob": [
        ("spec", ABSENT, "ET2002 TrainingJob needs 'spec'"),
        ("metadata.name", 7, "ET2006 {} must be text, not 7"),
        ("metadata.name", "", "ET2010 {} must not be empty"),
        ("metadata.labels", {"a b": "c"}, f"ET2009 key of {{}} {NO_LABEL_KEY}"),
        ("metadata.namespace", "Team_A", f"ET2009 {{}} {NO_DNS_LABEL}"),
        ("slotPerWorker", 1, "ET2001 {of} has no field 'slotPerWorker'"),
        ("backoffLimit", 2**31, "ET2008 {} must be at most 2147483647, not 2147483648"),
        ("cleanPodPolicy", 5, "ET2007 {} must be one of Running, All, None, not 5"),
        ("cleanPodPolicy", ["All"], "ET2006 {} must be text, not a list"),
        ("launcherAttachMode", "telnet", "ET2007 {} must be one of ssh, kubexec, not 'telnet'"),
        ("restartPolicy", "Always", "ET2007 {} must be one of Never, OnFailure, not 'Always'"),
        ("roles.launcher.replicas", 2, "ET2007 {} must be 1, not 2"),
        ("roles.launcher.template.spec.containers", [], "ET2010 {} must not be empty"),
        ("roles.worker.replicas", 0, "ET2008 {} must be at least 1, not 0"),
        ("roles.worker.replicas", None, "ET2002 {of} needs 'replicas'"),
        ("roles.worker.replicas", ABSENT, "ET2002 {of} needs 'replicas'"),
    ],
    "TFJob": [
        ("spec", ABSENT, "ET2002 TFJob needs 'spec'"),
        ("roles", ABSENT, "ET2002 {of} needs 'tfReplicaSpecs'"),
        ("roles", {}, "ET2010 {} must not be empty"),
        ("roles.Tuner", {}, "ET2001 {of} has no field 'Tuner'"),
        ("succesPolicy", "AllWorkers", "ET2001 {of} has no field 'succesPolicy'"),
        ("successPolicy", "allWorkers", "ET2007 {} must be AllWorkers, not 'allWorkers'"),
        ("roles.Worker.replicas", "2", "ET2006 {} must be a whole number, not the text '2'"),
        (
            "roles.worker",
            {"replicas": -1, "template": template()},
            "ET2008 spec.tfReplicaSpecs.worker.replicas must be at least 0, not -1",
        ),
        (
            "roles.Worker.restartPolicy",
            "never",
            "ET2007 {} must be one of Always, OnFailure, Never, ExitCode, not 'never'",
        ),
        ("roles.Worker.template.spec.containers", [], "ET2010 {} must not be empty"),
        ("roles.Worker.template.apiVersion", "v1", "ET2001 {of} has no field 'apiVersion'"),
        ("runPolicy.activeDeadlineSeconds", -1, "ET2008 {} must be at least 0, not -1"),
        ("runPolicy.backoffLimit", -1, "ET2008 {} must be at least 0, not -1"),
        ("runPolicy.ttlSecondsAfterFinished", -1, "ET2008 {} must be at least 0, not -1"),
        ("runPolicy.suspend", "true", "ET2006 {} must be true or false, not the text 'true'"),
        ("runPolicy.schedulingPolicy.minAvailible", 1, "ET2001 {of} has no field 'minAvailible'"),
        (
            "runPolicy.schedulingPolicy.minResources.cpu",
            "4 cores",
            "ET2009 {} '4 cores' is not an amount, such as 2, 500m or 8Gi",
        ),
        (
            "runPolicy.schedulingPolicy.minResources.cpu",
            True,
            "ET2006 {} must be a whole number or text, not true",
        ),
        ("metadata.name", ABSENT, "ET2002 {of} needs 'name'"),
    ],
    "PyTorchJob": [
        ("roles.worker", {}, "ET2001 {of} has no field 'worker'"),
        ("roles.Worker.replicas", 0, "ET2008 {} must be at least 1, not 0"),
        ("roles.Master.replicas", 2, "ET2007 {} must be 1, not 2"),
        ("roles.Master.replicas", ABSENT, "ET2002 {of} needs 'replicas'"),
        ("nprocPerNode", 8, "ET2006 {} must be text, not 8"),
        ("nprocPerNode", "0", "ET2009 {} '0' is not a number from 1, auto, cpu or gpu"),
        ("elasticPolicy.minReplicas", 0, "ET2008 {} must be at least 1, not 0"),
        ("elasticPolicy.rdzvConf", [{"key": "timeout"}], "ET2002 {}[0] needs 'value'"),
        ("elasticPolicy.rdzvPort", 70000, "ET2008 {} must be at most 65535, not 70000"),
    ],
    "MPIJob": [
        ("roles.Launcher", ABSENT, "ET2002 {of} needs 'Launcher'"),
        ("roles.Launcher.replicas", 2, "ET2007 {} must be 1, not 2"),
        ("roles.Worker.replicas", -1, "ET2008 {} must be at least 0, not -1"),
        ("slotsPerWorker", 0, "ET2008 {} must be at least 1, not 0"),
        ("cleanPodPolicy", "", "ET2007 {} must be one of None, Running, All, not ''"),
        ("mpiImplementation", "OpenMPI", "ET2001 {of} has no field 'mpiImplementation'"),
    ],
    "MPIJobV2": [
        ("roles.Launcher", ABSENT, "ET2002 {of} needs 'Launcher'"),
        ("roles.Worker.replicas", ABSENT, "ET2002 {of} needs 'replicas'"),
        (
            "roles.Worker.restartPolicy",
            "Always",
            "ET2007 {} must be one of Never, OnFailure, not 'Always'",
        ),
        ("slotsPerWorker", -1, "ET2008 {} must be at least 0, not -1"),
        ("sshAuthMountPath", "root/.ssh", "ET2009 {} 'root/.ssh' is not an absolute path"),
    ],
    "XGBoostJob": [
        ("roles.Master", ABSENT, "ET2002 {of} needs 'Master'"),
        ("roles.Master.replicas", ABSENT, "ET2002 {of} needs 'replicas'"),
    ],
    "PaddleJob": [("roles.PS", {}, "ET2001 {of} has no field 'PS'")],
    "JAXJob": [("roles.Worker", ABSENT, "ET2002 {of} needs 'Worker'")],
    "MXJob": [
        ("roles.tuner", {}, "ET2001 {of} has no field 'tuner'"),
        (
            "runPolicy.managedBy",
            "kubeflow.org/training-operator",
            "ET2001 {of} has no field 'managedBy'",
        ),
        ("jobMode", "MXTrane", "ET2007 {} must be one of MXTrain, MXTune, not 'MXTrane'"),
    ],
}


@pytest.mark.parametrize(("schema", "path", "value", "message"), rows(REFUSED))
def test_what_upstream_refuses_or_takes_for_something_else_is_an_error(
    schema, path, value, message
):
    where = place(schema, path)
    wanted = message.replace("{}", where).replace("{of}", where.rpartition(".")[0])
    document = changed(schema, path, value)
    assert check(schema, document) == [wanted]
    validator = jsonschema.Draft202012Validator(bundled_schema(f"{schema}.json"))
    assert not validator.is_valid(document)


def test_elastic_training_needs_workers():
    document = changed("PyTorchJob", "spec.elasticPolicy", {"minReplicas": 1})
    del document["spec"]["pytorchReplicaSpecs"]["Worker"]
    assert check("PyTorchJob", document) == ["ET2002 spec.pytorchReplicaSpecs needs 'Worker'"]


def test_processes_per_node_are_said_in_one_place():
    document = changed("PyTorchJob", "spec.elasticPolicy.nProcPerNode", 2)
    assert check("PyTorchJob", document) == []
    document["spec"]["nprocPerNode"] = "2"
    message = "ET2012 spec.nprocPerNode: may not stand beside elasticPolicy.nProcPerNode"
    assert check("PyTorchJob", document) == [message]


def test_a_misspelt_type_is_pointed_at_and_the_right_one_named():
    document = changed("TFJob", "spec.tfReplicaSpecs.Wroker", {"template": template()})
    text = yaml.safe_dump(document)
    [loaded] = parse(text).documents
    [diagnostic] = check_schema(loaded, "TFJob.json")
    assert text.splitlines()[diagnostic.location.line - 1].strip() == "Wroker:"
    assert diagnostic.hint == "did you mean 'Worker'?"


# The typed scale intents ------------------------------------------------------------------------


TRAIN = {"kind": "PyTorchJob", "name": "train"}
COUNT = {"count": 2}


@pytest.mark.parametrize(
    ("selector", "messages"),
    [
        (TRAIN, []),
        (TRAIN | {"apiVersion": "kubeflow.org/v1"}, []),
        ({"name": "train"}, ["ET2002 spec.selector needs 'kind'"]),
        (TRAIN | {"matchLabels": {}}, ["ET2001 spec.selector has no field 'matchLabels'"]),
    ],
)
def test_an_intent_names_the_kind_it_scales(selector, messages):
    for kind, change in {"ScaleOut": {"toAdd": COUNT}, "ScaleIn": {"toDelete": COUNT}}.items():
        intent = {
            "apiVersion": "etcompile.dev/v1alpha1",
            "kind": kind,
            "metadata": {"generateName": "train-"},
            "spec": {"selector": selector, **change},
        }
        assert check(f"etcompile/{kind}", intent) == messages


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


@pytest.mark.parametrize("name", [*ROLES, *INTENTS])
def test_no_object_takes_unknown_fields_but_where_kubernetes_says_which(name):
    schema = bundled_schema(f"{name}.json")
    templates = [one for key, one in schema["$defs"].items() if key.lower() == "podtemplate"]
    podspecs = [one["properties"]["spec"] for one in templates]
    containers = [one["properties"]["containers"]["items"] for one in podspecs]
    for node in nodes(schema):
        if "properties" in node and node not in (*podspecs, *containers) and "type" in node:
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
                messages = {one.message for one in diagnostics}
                assert messages == AGREED.get(file.name, set()), file.name
