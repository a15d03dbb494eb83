"""What the API server refuses in a Pod although the schema allows it, told with its line."""

import json
import re

import pytest

from etcompile.check import kubernetes
from etcompile.check.pod_rules import check_images, check_pod_template
from etcompile.diagnostics import Severity
from etcompile.load import from_values, parse

TEMPLATE = """\
apiVersion: v1
kind: PodTemplate
metadata: {name: t}
template:
  metadata:
    labels: {team: vision}
    annotations: {example.com/Note: "anything at all"}
  spec:
    initContainers:
    - {name: fetch, image: "fetch:1", volumeMounts: [{name: data, mountPath: /data}]}
    containers:
    - name: main
      image: trainer:1
      env: [{name: A, value: x}]
      ports: [{name: ssh, containerPort: 22}]
      resources: {limits: {cpu: 2, memory: 4Gi}, requests: {cpu: 500m, memory: 4096Mi}}
      volumeMounts: [{name: data, mountPath: /data}]
      livenessProbe: {tcpSocket: {port: 22}}
    volumes: [{name: data, emptyDir: {sizeLimit: 1Gi}}]
"""
AT = ("template",)
NODE = {"fieldRef": {"fieldPath": "spec.nodeName"}}


def problems(document, path, *version, **options):
    return [problem for _, problem in check_pod_template(document, path, *version, **options)]


def image_problems(document):
    return [problem for _, problem in check_images(document, AT)]


def check(text, **options):
    (document,) = parse(text).documents
    return problems(document, AT, **options)


def changed(old, new, **options):
    assert old in TEMPLATE
    return check(TEMPLATE.replace(old, new), **options)


def only(diagnostics):
    (diagnostic,) = diagnostics
    return diagnostic


def main_with(**fields):
    container = {"name": "main", "image": "trainer:1", **fields}
    return with_spec(containers=[container])


def with_spec(**spec):
    spec = {"containers": [{"name": "main", "image": "trainer:1"}], **spec}
    value = {"apiVersion": "v1", "kind": "PodTemplate", "template": {"spec": spec}}
    (document,) = from_values([value]).documents
    return problems(document, AT)


def test_a_sound_template_has_no_faults():
    assert check(TEMPLATE) == []


def test_a_variable_that_is_set_twice_is_shown_at_the_second():
    diagnostic = only(changed("{name: A, value: x}", "{name: A, value: x}, {name: A, value: y}"))
    assert diagnostic.code == "ET4004"
    assert diagnostic.message == (
        "template.spec.containers[0]: environment variable 'A' is set twice"
    )
    assert (diagnostic.location.line, diagnostic.location.column) == (14, 41)


def test_the_same_variable_in_two_containers_is_no_fault():
    both = [{"name": name, "image": "x:1", "env": [{"name": "A", "value": "b"}]} for name in "ab"]
    assert with_spec(containers=both) == []


def test_a_mount_of_a_volume_that_is_not_there_suggests_the_one_that_is():
    diagnostic = only(
        changed("      volumeMounts: [{name: data", "      volumeMounts: [{name: dta")
    )
    assert diagnostic.code == "ET4002"
    assert diagnostic.message == (
        "template.spec.containers[0].volumeMounts[0].name: no volume is named 'dta'"
    )
    assert diagnostic.hint == "did you mean 'data'?"
    assert (diagnostic.location.line, diagnostic.location.column) == (17, 29)


def test_a_volume_that_the_compiler_adds_may_be_mounted():
    change = ("      volumeMounts: [{name: data", "      volumeMounts: [{name: live-hosts")
    assert changed(*change, known_volumes=("live-hosts",)) == []
    assert only(changed(*change)).hint == "its volumes are: data"


@pytest.mark.parametrize(
    ("old", "new", "where", "problem"),
    [
        (
            "name: main",
            "name: fetch",
            "containers[0].name",
            "another container has the name 'fetch'",
        ),
        ("image: trainer:1", "tty: true", "containers[0]", "needs 'image'"),
        ("name: A,", 'name: "A=B",', "containers[0].env[0].name", "'A=B' is not a name for an"),
        (
            "containerPort: 22",
            "containerPort: 0",
            "ports[0].containerPort",
            "must be between 1 and",
        ),
        ("name: ssh", "name: 22", "", None),
        ("cpu: 2,", "cpu: -2,", "resources.limits.cpu", "must not be negative: -2"),
        (
            "[{name: data, emptyDir",
            "[{name: data}, {name: data, emptyDir",
            "spec.volumes[1].name",
            "another volume has the name 'data'",
        ),
        ("{team: vision}", "{team: a b}", "metadata.labels.team", "'a b' is not a label value"),
        ("{team: vision}", "{a b: c}", "metadata.labels['a b']", "'a b' is not a valid key"),
        (
            "    containers:\n",
            "    nodeSelector: {gpu: a/b}\n    containers:\n",
            "nodeSelector.gpu",
            "'a/b' is not a label value",
        ),
        (
            "    containers:\n",
            "    ephemeralContainers: [{name: e, image: x}]\n    containers:\n",
            "spec.ephemeralContainers",
            "cannot be set when a Pod is created",
        ),
    ],
)
def test_pod_that_the_api_server_would_refuse_is_reported_before_a_request(
    old, new, where, problem
):
    diagnostics = changed(old, new)
    if problem is None:  # text or not is the schema's business
        assert diagnostics == []
        return
    assert [one.code for one in diagnostics] == ["ET4002"]
    subject, _, rest = only(diagnostics).message.partition(": ")
    assert subject.endswith(where)
    assert problem in rest
    changed_line = TEMPLATE[: TEMPLATE.index(old)].count("\n") + 1
    added = new.count("\n") - old.count("\n")
    assert only(diagnostics).location.line in range(changed_line - 2, changed_line + added + 3)


@pytest.mark.parametrize(
    ("old", "new", "where", "hint"),
    [
        ("cpu: 2,", "cpu: two,", "resources.limits.cpu", "for example 500m, 2, 4Gi"),
        ("memory: 4Gi", "memory: 4GB", "resources.limits.memory", "did you mean '4Gi'?"),
        ("sizeLimit: 1Gi", "sizeLimit: 1 gb", "emptyDir.sizeLimit", "did you mean '1Gi'?"),
    ],
)
def test_a_quantity_with_a_wrong_unit_suggests_the_right_one(old, new, where, hint):
    (document,) = parse(TEMPLATE.replace(old, new)).documents
    fault = only(kubernetes.template_faults(document.data, AT, "1.34"))
    diagnostic = kubernetes.diagnostic(document, fault, "1.34")
    assert re.fullmatch(rf".*{where}: '.*' is not a quantity", diagnostic.message)
    assert diagnostic.hint == hint


@pytest.mark.parametrize(
    ("name", "limit", "wanted", "problem"),
    [
        ("nvidia.com/gpu", 1, 1, None),
        ("nvidia.com/gpu", 1, None, None),
        ("nvidia.com/gpu", None, 1, "nvidia.com/gpu needs a limit as well as a request"),
        ("nvidia.com/gpu", 2, 1, "must be equal to the limit 2, not 1"),
        ("nvidia.com/gpu", "500m", None, "must be a whole number, not 500m"),
        ("hugepages-2Mi", "4Mi", "2Mi", "must be equal to the limit 4Mi, not 2Mi"),
        ("cpu", None, "1", None),
        ("memory", "1Gi", "1024Mi", None),
        ("memory", "1G", "1Gi", "1Gi is above the limit 1G"),
        ("gpu", 1, None, "'gpu' is not a resource of containers"),
    ],
)
def test_requests_are_held_against_limits_as_the_scheduler_would(name, limit, wanted, problem):
    amounts = {"limits": {name: limit}, "requests": {name: wanted}}
    resources = {key: value for key, value in amounts.items() if value[name] is not None}
    if name.startswith("hugepages-"):
        resources["limits"]["memory"] = "1Gi"
    messages = [one.message for one in main_with(resources=resources)]
    assert [problem is not None and problem in one for one in messages] == [True] * bool(problem)


@pytest.mark.parametrize(
    "fields",
    [
        {"env": [{"name": "relaxed since 1.30: a/b", "value": "x"}]},
        {"env": [{"name": "A", "value": "", "valueFrom": NODE}]},
        {"ports": [{"containerPort": 1}, {"containerPort": 1, "protocol": "UDP", "hostPort": 0}]},
        {"ports": [{"containerPort": 1, "name": ""}, {"containerPort": 2, "name": ""}]},
        {"image": "x y"},
        {"resources": {"limits": {"cpu": "1e-1", "memory": "1.5Gi"}, "requests": {"cpu": ".1"}}},
        {"lifecycle": {"postStart": {"sleep": {"seconds": 1}}}},
    ],
)
def test_what_the_api_server_lets_pass_passes(fields):
    assert main_with(**fields) == []


def test_a_rule_holds_for_the_versions_that_have_it():
    main = {"name": "m", "image": "a:1", "env": [{"name": "a/b", "value": "c"}]}
    value = {"template": {"spec": {"containers": [main]}}}
    (document,) = from_values([{"apiVersion": "v1", "kind": "PodTemplate", **value}]).documents
    assert len(problems(document, AT, "1.31")) == 1
    assert problems(document, AT, "1.32") == []
    assert problems(document, AT) == []


def test_thousands_of_bad_mounts_get_short_advice():
    volumes = [{"name": f"volume-{index}", "emptyDir": {}} for index in range(200)]
    mounts = [{"name": f"none-{index}", "mountPath": f"/{index}"} for index in range(200)]
    main = {"name": "main", "image": "a:1", "volumeMounts": mounts}
    diagnostics = with_spec(containers=[main], volumes=volumes)
    assert len(diagnostics) == 200
    assert diagnostics[0].hint.endswith("volume-7 and 192 more")
    assert sum(len(one.hint or "") for one in diagnostics) < 10_000


def test_a_volume_without_a_source_is_an_empty_directory():
    assert with_spec(volumes=[{"name": "v"}]) == []


def test_a_sidecar_may_have_probes():
    probe = {"exec": {"command": ["true"]}}
    sidecar = {"name": "s", "image": "x:1", "restartPolicy": "Always", "startupProbe": probe}
    assert with_spec(initContainers=[sidecar]) == []


@pytest.mark.parametrize(
    ("image", "mutable"),
    [
        ("trainer", True),
        ("trainer:latest", True),
        ("registry.example.com:5000/ml/trainer", True),
        ("registry.example.com:5000/ml/trainer:latest", True),
        ("registry.example.com:5000/ml/trainer:2.1", False),
        ("trainer:1", False),
        (f"trainer@sha256:{64 * '0'}", False),
        (f"trainer:latest@sha256:{64 * '0'}", False),
    ],
)
def test_an_image_that_can_change_under_its_name_is_a_warning(image, mutable):
    (document,) = parse(TEMPLATE.replace("trainer:1", image)).documents
    diagnostics = image_problems(document)
    expected = [("ET2040", f"image '{image}' can change under the same name", 13)]
    assert [(one.code, one.message, one.location.line) for one in diagnostics] == expected * mutable


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        ("pytorch/pytorch: 2.5.1", "it contains a blank"),
        ("ghcr.io/x//y:1", "it has a '/' too many"),
        ("ghcr.io/Org/App:V1", "'Org' has upper-case letters"),
        ("PyTorch/pytorch:2.5.1", "has upper-case letters"),
        ("https://ghcr.io/x/y:1", "it begins with 'https://'"),
        ("trainer:", "its tag is empty"),
        ("trainer:v1,", "'v1,' is not a tag"),
        ("trainer@sha256:0123", "'sha256:0123' is not a digest"),
        ("-trainer", "'-trainer' is not a name"),
        ("IMG_PLACEHOLDER", "has upper-case letters"),
        ("${IMAGE}", "'${IMAGE}' is not a name"),
        ("<account>.dkr.ecr/x:1", "'<account>.dkr.ecr' is not a"),
    ],
)
def test_an_image_that_no_runtime_can_pull_is_warned_about(image, problem):
    (document,) = parse(TEMPLATE.replace("trainer:1", json.dumps(image))).documents
    diagnostic = only(image_problems(document))
    assert (diagnostic.code, diagnostic.location.line) == ("ET4020", 13)
    assert diagnostic.severity == Severity.WARNING
    assert diagnostic.message.startswith(f"image '{image}' can never be pulled: ")
    assert problem in diagnostic.message
    assert diagnostic.hint == "write [REGISTRY/]PATH[:TAG][@DIGEST]"


@pytest.mark.parametrize(
    "image",
    [
        "localhost/trainer:1",
        "registry:5000/ml/trainer:V1.2_3-x",
        "Registry.example.com/ml/a__b.c--d:1",
        "[fd00::1]:5000/trainer:1",
    ],
)
def test_an_image_that_a_runtime_may_pull_is_none(image):
    (document,) = parse(TEMPLATE.replace("trainer:1", json.dumps(image))).documents
    assert image_problems(document) == []


def test_images_of_init_containers_count_too():
    (document,) = parse(TEMPLATE.replace("fetch:1", "fetch")).documents
    assert only(image_problems(document)).location.line == 10


def test_misspelt_image_is_not_also_reported_as_missing():
    assert changed("      image: trainer:1", "      imag: trainer:1") == []
