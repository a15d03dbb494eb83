"""What `etcompile check` says of objects that pass through and no API server would take."""

import pytest
import yaml

import etcompile
from etcompile.k8s.validation import object_problems
from objectrules.rows import problems, rows
from specs import kubeflow_job, manifest, patch, replicas, warnings


def messages(text: str, **options) -> list[str]:
    compilation = etcompile.compile(
        list(yaml.safe_load_all(text)), etcompile.Options(allow_plain_secrets=True, **options)
    )
    return [one.message for one in compilation.diagnostics if one.severity.name == "ERROR"]


def test_a_config_map_above_one_mebibyte_is_refused():
    full = manifest("ConfigMap", "a", data={"a": "x" * 1024 * 1024})
    assert etcompile.compile([full]).ok
    problem, *_ = etcompile.compile([{**full, "binaryData": {"b": "AAEC"}}]).diagnostics
    assert problem.message == "ConfigMap: holds 1025 KiB; the API server allows 1024 KiB"


@pytest.mark.parametrize("name", [False, 0, 1.5])
def test_a_name_that_yaml_reads_as_something_else_is_one_error(name):
    [problem] = etcompile.compile([manifest("ConfigMap", name)]).diagnostics
    assert problem.message.startswith("metadata.name: must be text, not")
    assert problem.hint == "put it in quotes"


@pytest.mark.parametrize("field", ["name", "generateName", "namespace"])
def test_names_of_any_object_are_text(field):
    metadata = {"name": "a", field: {"a": "b"}}
    compilation = etcompile.compile([{"apiVersion": "x.y/v1", "kind": "Foo", "metadata": metadata}])
    assert compilation.diagnostics[0].message == f"metadata.{field}: must be text, not a mapping"


@pytest.mark.parametrize(
    ("kind", "name", "what"),
    [
        ("v1/ConfigMap", "A b", "a DNS subdomain"),
        ("apps/v1/Deployment", "a/b", "a valid name"),
        ("v1/Service", "A b", "a DNS label"),
        ("rbac.authorization.k8s.io/v1/Role", "a/b", "a valid name"),
        ("example.com/v1/Gauge", "A", "a DNS subdomain"),
    ],
)
def test_each_kind_has_its_form_of_names(kind, name, what):
    version, _, named = kind.rpartition("/")
    value = {"apiVersion": version, "kind": named, "metadata": {"name": name}}
    messages = [one.message for one in etcompile.compile([value]).diagnostics]
    assert f"metadata.name: '{name}' is not {what}" in messages


@pytest.mark.parametrize(
    ("version", "problems"),
    [("1.35", ["metadata.name: '1a' is not a DNS label that begins with a letter"]), ("1.36", [])],
)
def test_the_name_of_a_service_may_begin_with_a_digit_since_1_36(version, problems):
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "1a"}, "spec": {}}
    settings = etcompile.Settings(kubernetes_version=version)
    compilation = etcompile.compile([service], etcompile.Options(settings=settings))
    names = [one.message for one in compilation.diagnostics if ".name" in one.message]
    assert names == problems


PORT = "spec.template.spec.containers[0].ports[0].containerPort"
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: web}
spec:
  template:
    spec:
      restartPolicy: Always
      containers:
        - {name: My_Main, image: "nginx:1.27", ports: [{containerPort: 70000}]}
"""


def test_all_problems_of_a_job_and_of_its_template_are_reported_at_once():
    assert messages(JOB) == [
        "spec.template.spec.restartPolicy: restartPolicy must be OnFailure or Never, not 'Always'",
        "spec.template.spec.containers[0].name: 'My_Main' is not a DNS label",
        f"{PORT}: must be between 1 and 65535, not 70000",
    ]


def test_what_only_passes_through_is_left_to_the_api_server_beyond_its_schema():
    claim = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never"}}
    spec = {"selector": {"matchLabels": {"a": "c"}}, "serviceName": "db", "template": template}
    template["spec"]["containers"] = [{"name": "My_Main", "image": "a:1"}]
    assert messages(yaml.safe_dump({**claim, "spec": spec})) == []
    assert messages(yaml.safe_dump({**claim, "spec": {**spec, "replicas": "2"}})) != []


@pytest.mark.parametrize("image", ["ghcr.io/x//y:1", "pytorch/pytorch: 2.5.1", "ghcr.io/Ab/c:1"])
def test_images_that_no_runtime_can_pull_are_reported_in_any_template(image):
    job = yaml.safe_load(JOB.replace("nginx:1.27", image))
    assert "ET4020" in [one.code for one in etcompile.compile([job]).diagnostics]
    pod = manifest("Pod", "a", spec={"containers": [{"name": "a", "image": image}]})
    assert "ET4020" in warnings(pod)


def test_images_of_pods_that_overlays_change_are_looked_at_too():
    change = {"op": "replace", "path": "/spec/containers/0/image", "value": "ghcr.io/x//y:1"}
    overlay = patch([change], kind="Pod")
    assert "ET4020" in warnings(kubeflow_job("PyTorchJob", {"Worker": 1}), overlays=(overlay,))


def test_field_rejected_by_the_schema_is_reported_once():
    text = "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: '80'}]}}"
    assert messages(text) == ["spec.ports[0].port: must be a whole number, not the text '80'"]


def test_rules_hold_for_the_versions_that_have_them():
    job = yaml.safe_load(JOB)
    job["spec"]["managedBy"] = "kueue"
    old, new = (etcompile.Settings(kubernetes_version=one) for one in ("1.31", "1.34"))
    problem = "spec.managedBy: 'kueue' is not the name of a controller"
    assert problem not in messages(yaml.safe_dump(job), settings=old)
    assert problem in messages(yaml.safe_dump(job), settings=new)


def places(box):
    """All mappings and lists of a value, each with each of its keys."""
    for key in list(box) if isinstance(box, dict) else range(len(box)):
        yield box, key
        if isinstance(box[key], dict | list):
            yield from places(box[key])


def test_no_row_is_upset_by_a_value_of_another_type():
    seen = set()
    for row in rows():
        if (shape := (row.kind, row.row["path"])) in seen or len(str(row.corrected)) > 5000:
            continue
        seen.add(shape)
        for box, key in places(row.corrected):
            previous = box[key]
            for wrong in (1, "x", [], [{}], [[1]], {"a": {}}):
                box[key] = wrong
                problems(row.corrected, 34)
            box[key] = previous


@pytest.mark.parametrize("key", ["30000", "007"])
def test_a_key_of_digits_is_a_key_and_no_index(key):
    worker = replicas("PyTorchJob", 1, resources={"limits": {key: "1 Gi"}})
    job = kubeflow_job("PyTorchJob", {"Worker": worker})
    messages = [one.message for one in etcompile.compile([job]).diagnostics]
    assert any(f"limits['{key}']: '1 Gi' is not a quantity" in one for one in messages)


@pytest.mark.parametrize(("labels", "is_refused"), [({}, False), ({"a": "b"}, True)])
def test_a_selector_of_nothing_is_no_selector_of_a_job(labels, is_refused):
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1"}]}
    spec = {"selector": {"matchLabels": labels}, "template": {"spec": pod}}
    job = manifest("Job", "a", api_version="batch/v1", spec=spec)
    problems = [one.message for one in object_problems(job, 34)]
    assert any("makes the selector itself" in one for one in problems) == is_refused
