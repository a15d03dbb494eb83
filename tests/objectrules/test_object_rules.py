"""What `etcompile check` says of objects that pass through and no API server would take."""

import pytest
import yaml

import etcompile
from etcompile.k8s.validation.objects import object_problems
from objectrules.rows import rows


def told(text: str, **options) -> list[str]:
    """The errors of a text, each with its line."""
    made = etcompile.compile(
        list(yaml.safe_load_all(text)), etcompile.Options(allow_plain_secrets=True, **options)
    )
    return [one.message for one in made.diagnostics if one.severity.name == "ERROR"]


def test_a_config_map_above_one_mebibyte_is_refused():
    value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    full = {**value, "data": {"a": "x" * 1024 * 1024}}
    assert etcompile.compile([full]).ok
    over = {**value, "data": {"a": "x" * 1024 * 1024}, "binaryData": {"b": "AAEC"}}
    problem, *_ = etcompile.compile([over]).diagnostics
    assert problem.message == "ConfigMap: holds 1025 KiB; the API server allows 1024 KiB"


@pytest.mark.parametrize("name", [False, 0, 1.5])
def test_a_name_that_yaml_reads_as_something_else_is_one_error(name):
    made = etcompile.compile(
        [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}]
    )
    assert [one.message for one in made.diagnostics] == [
        "metadata.name: must be text: put it in quotes"
    ]


@pytest.mark.parametrize("field", ["name", "generateName", "namespace"])
def test_names_of_any_object_are_text(field):
    metadata = {"name": "a", field: {"a": "b"}}
    made = etcompile.compile([{"apiVersion": "x.y/v1", "kind": "Foo", "metadata": metadata}])
    assert made.diagnostics[0].message == f"metadata.{field}: must be text"


@pytest.mark.parametrize(
    ("kind", "name", "what"),
    [
        ("v1/ConfigMap", "A b", "a DNS subdomain"),
        ("v1/Namespace", "a.b", "a DNS label"),
        ("v1/Service", "1a", "a DNS label that begins with a letter"),
        ("rbac.authorization.k8s.io/v1/Role", "a/b", "a valid name"),
        ("example.com/v1/Gauge", "A", "a DNS subdomain"),
    ],
)
def test_each_kind_has_its_form_of_names(kind, name, what):
    version, _, named = kind.rpartition("/")
    value = {"apiVersion": version, "kind": named, "metadata": {"name": name}}
    messages = [one.message for one in etcompile.compile([value]).diagnostics]
    assert f"metadata.name: '{name}' is not {what}" in messages


PORT = "spec.template.spec.containers[0].ports[0].containerPort"
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: other}}
    spec:
      restartPolicy: Never
      containers:
        - {name: My_Main, image: "nginx:1.27", ports: [{containerPort: 70000}]}
"""


def test_all_problems_of_a_controller_and_of_its_template_are_told_at_once():
    assert told(DEPLOYMENT) == [
        "spec.template.metadata.labels: the selector does not match the labels of the Pod template",
        "spec.template.spec.restartPolicy: must be Always here, not 'Never'",
        "spec.template.spec.containers[0].name: 'My_Main' is not a DNS label",
        f"{PORT}: must be between 1 and 65535, not 70000",
    ]


@pytest.mark.parametrize("image", ["ghcr.io/x//y:1", "pytorch/pytorch: 2.5.1", "ghcr.io/Ab/c:1"])
def test_images_that_no_runtime_can_pull_are_told_of_in_any_template(image):
    deployment = yaml.safe_load(DEPLOYMENT.replace("nginx:1.27", image))
    assert "ET4020" in [one.code for one in etcompile.compile([deployment]).diagnostics]
    pod = {"name": "a", "image": image}
    value = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    made = etcompile.compile([{**value, "spec": {"containers": [pod]}}])
    assert "ET4020" in [one.code for one in made.diagnostics]


def test_images_of_pods_that_overlays_change_are_looked_at_too(tmp_path):
    job = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 1
      template: {spec: {containers: [{name: pytorch, image: "a:1"}]}}
"""
    overlay = """
apiVersion: etcompile.dev/v1alpha1
kind: Overlay
metadata: {name: prod}
patches:
  - target: {kind: Pod}
    patch: [{op: replace, path: /spec/containers/0/image, value: "ghcr.io/x//y:1"}]
"""
    (tmp_path / "overlay.yaml").write_text(overlay)
    made = etcompile.compile(
        list(yaml.safe_load_all(job)),
        etcompile.Options(overlays=(str(tmp_path / "overlay.yaml"),)),
    )
    assert "ET4020" in [one.code for one in made.diagnostics]


def test_a_place_that_the_schema_complains_about_is_told_once():
    text = "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: '80'}]}}"
    assert told(text) == ["spec.ports[0].port: must be a whole number, not the text '80'"]


def test_a_volume_of_a_stateful_set_may_come_from_its_claim_templates():
    text = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: "a:1", volumeMounts: [{name: data, mountPath: /d}]}]}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""
    assert told(text) == []
    (problem,) = told(text.replace("storage: 1Gi", "storage: 0"))
    assert problem.endswith("resources.requests.storage: must be more than zero, not 0")


def test_rules_hold_for_the_versions_that_have_them():
    text = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: a}
spec:
  schedule: TZ=UTC 0 0 * * *
  jobTemplate:
    spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: "a:1"}]}}}
"""
    old, new = (etcompile.Settings(kubernetes_version=one) for one in ("1.25", "1.34"))
    assert told(text, settings=old) == []
    assert told(text, settings=new) == ["spec.schedule: cannot name a time zone"]


def places(box):
    """All mappings and lists of a value, each with each of its keys."""
    for key in list(box) if isinstance(box, dict) else range(len(box)):
        yield box, key
        if isinstance(box[key], dict | list):
            yield from places(box[key])


def test_no_row_is_upset_by_a_value_of_another_type():
    seen = set()
    for row in rows():
        if (shape := (row.kind, row.rule.path)) in seen or len(str(row.corrected)) > 5000:
            continue
        seen.add(shape)
        for box, key in places(row.corrected):
            kept = box[key]
            for wrong in (1, "x", True, [], {}, [{}], [[1]], ["a"], {"a": {}}, {"a": [1]}):
                box[key] = wrong
                list(object_problems(row.corrected, 34))
            box[key] = kept


@pytest.mark.parametrize("key", ["30000", "007"])
def test_a_key_of_digits_is_a_key_and_no_index(key):
    container = {"name": "pytorch", "image": "a:1", "resources": {"limits": {key: "1 Gi"}}}
    worker = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "a"},
        "spec": {"pytorchReplicaSpecs": {"Worker": worker}},
    }
    messages = [one.message for one in etcompile.compile([job]).diagnostics]
    assert any(f"limits['{key}']: '1 Gi' is not a quantity" in one for one in messages)


@pytest.mark.parametrize(("labels", "is_refused"), [({}, False), ({"a": "b"}, True)])
def test_a_selector_of_nothing_is_no_selector_of_a_job(labels, is_refused):
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1"}]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"spec": pod}},
    }
    problems = [one.message for one in object_problems(job, 34)]
    assert any("makes the selector itself" in one for one in problems) == is_refused
