"""The compact bundle of Kubernetes schemas: as strict as the full one, and quickly opened."""

import copy
import json
import subprocess
import sys

import kubernetes_validate
import pytest

from etcompile import data
from etcompile.check import kubernetes
from etcompile.check.kubernetes import check_object
from etcompile.load import from_values, parse
from kubernetes_schemas import is_valid as the_full_schema_accepts

CHECKED = ("1.25", "1.31", "1.37")

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {a: b}, creationTimestamp: "2024-05-01T10:00:00Z"}
spec:
  restartPolicy: Never
  nodeSelector: {zone: a}
  initContainers: [{name: i, image: x, command: [sh]}]
  containers:
  - name: main
    image: trainer:1
    env: [{name: A, value: b}, {name: C, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    ports: [{containerPort: 80, protocol: TCP}]
    resources: {limits: {cpu: 500m, memory: 1Gi, nvidia.com/gpu: 1}, requests: {cpu: 0.5}}
    readinessProbe: {tcpSocket: {port: ssh}, periodSeconds: 2}
    volumeMounts: [{name: v, mountPath: /v, readOnly: true}]
    securityContext: {runAsUser: 1000, capabilities: {add: [SYS_PTRACE]}}
  volumes:
  - {name: v, emptyDir: {sizeLimit: 1Gi}}
  - {name: w, configMap: {name: c, defaultMode: 292, items: [{key: a, path: b, mode: 365}]}}
"""
OBJECTS = {
    "Pod": POD,
    "Service": """\
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {clusterIP: None, selector: {a: b}, ports: [{name: ssh, port: 22, targetPort: ssh}]}
""",
    "ConfigMap": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n",
    "Secret": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: Yg==}\n",
    "RoleBinding": """\
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: r}
subjects: [{kind: ServiceAccount, name: a, namespace: b}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}
""",
    "Job": """\
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}
""",
    "Deployment": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  strategy: {rollingUpdate: {maxSurge: 25%, maxUnavailable: 1}}
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b}]}}
""",
    "NetworkPolicy": """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: np}
spec: {podSelector: {}, ingress: [{from: [{podSelector: {}}], ports: [{port: 22}]}]}
""",
    "CustomResourceDefinition": """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
""",
    "HorizontalPodAutoscaler": """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: h}
spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}
""",
}


def value(kind):
    return parse(OBJECTS[kind]).documents[0].data


def changes(node, path=()):
    """Ways to spoil a value: at every place a field too many, another type, or a field too few."""
    if isinstance(node, dict):
        yield (*path, "surelyUnknown"), "add"
        for key, inner in node.items():
            if path or key not in ("apiVersion", "kind"):
                yield (*path, key), "drop"
                yield (*path, key), "retype"
                yield from changes(inner, (*path, key))
    elif isinstance(node, list):
        for index, inner in enumerate(node):
            yield from changes(inner, (*path, index))


def spoilt(whole, path, how):
    whole = copy.deepcopy(whole)
    parent = whole
    for step in path[:-1]:
        parent = parent[step]
    match how:
        case "add":
            parent[path[-1]] = "1"  # among limits it is an amount
        case "drop":
            del parent[path[-1]]
        case "retype":
            parent[path[-1]] = {"a": 1} if not isinstance(parent[path[-1]], dict) else True
    return whole


def the_package_accepts(whole, version):
    try:
        kubernetes_validate.validate(whole, version, strict=True)
    except kubernetes_validate.ValidationError:
        return False
    return True


def check_value(whole, version):
    (document,) = from_values([whole]).documents
    return check_object(document, version)


def accepted(whole, version):
    # No schema asks for the object's own name; the full ones do not either.
    problems = [one.message for one in check_value(whole, version)]
    return set(problems) <= {"metadata: needs 'name'"}


@pytest.mark.parametrize("version", CHECKED)
@pytest.mark.parametrize("kind", OBJECTS)
def test_good_objects_are_accepted(kind, version):
    assert check_value(value(kind), version) == []
    assert the_full_schema_accepts(value(kind), version)
    assert the_package_accepts(value(kind), version)


UNLIKE_THE_SERVER = (
    ("Pod", ("spec",), "drop"),  # the full schemas allow it
    ("RoleBinding", ("roleRef", "apiGroup"), "drop"),  # the API server fills it in
)


@pytest.mark.parametrize("version", CHECKED)
@pytest.mark.parametrize("kind", ["Pod", "Service", "RoleBinding", "Deployment", "NetworkPolicy"])
def test_the_bundle_decides_as_the_full_schemas_do(kind, version):
    whole = value(kind)
    cases = [one for one in changes(whole) if (kind, *one) not in UNLIKE_THE_SERVER]
    decided = {True: 0, False: 0}
    for path, how in cases:
        bad = spoilt(whole, path, how)
        expected = the_full_schema_accepts(bad, version)
        assert accepted(bad, version) == expected, (path, how)
        decided[expected] += 1
        # The package itself takes a second for two of these: it is asked about some.
        if sum(decided.values()) % 10 == 0:
            assert the_package_accepts(bad, version) == expected, (path, how)
    assert decided[False] > 0


@pytest.mark.parametrize("version", CHECKED)
@pytest.mark.parametrize("name", ["restartPolicy", "hostUsers", "resizePolicy", "schedulingGates"])
def test_fields_come_with_the_version_that_brought_them(name, version):
    pod = value("Pod")
    owner = pod["spec"]["initContainers"][0] if name in ("restartPolicy", "resizePolicy") else None
    samples = {"restartPolicy": "Always", "hostUsers": True}
    (owner or pod["spec"])[name] = samples.get(name, [])
    assert accepted(pod, version) == the_full_schema_accepts(pod, version)


def test_the_versions_are_in_order_and_the_newest_is_last():
    assert kubernetes.versions()[0] == "1.25"
    assert kubernetes.versions()[-1] == kubernetes_validate.latest_version().rpartition(".")[0]
    minors = [int(version.partition(".")[2]) for version in kubernetes.versions()]
    assert minors == sorted(minors)


def test_a_version_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match=r"no schemas of Kubernetes 1\.2;"):
        check_value(value("Pod"), "1.2")


def test_the_committed_bundle_is_what_the_generator_makes():
    script = data.folder("schemas") / "kubernetes" / "generate.py"
    ran = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout


def test_the_bundle_is_small():
    folder = data.folder("schemas") / "kubernetes"
    assert sum(path.stat().st_size for path in folder.glob("*.json")) < 2_000_000


def test_kinds_of_every_run_never_open_the_file_of_the_rest():
    program = """\
import json, sys
from etcompile.check import kubernetes
from etcompile.load import from_values
for document in from_values(json.load(sys.stdin)).documents:
    assert kubernetes.check_object(document, "1.31") == [], document
print(kubernetes._read.cache_info().currsize)
"""
    every_run = ("Pod", "Service", "ConfigMap", "Secret", "RoleBinding", "Job")
    opened = []
    for kinds in (every_run, (*every_run, "Deployment")):
        objects = json.dumps([value(kind) for kind in kinds]).encode()
        opened.append(int(subprocess.check_output([sys.executable, "-c", program], input=objects)))
    assert opened == [1, 2]


def check_template(document, path, version):
    faults = kubernetes.template_faults(document.data, path, version)
    return [kubernetes.diagnostic(document, fault, version) for fault in faults]


# What a user reads ----------------------------------------------------------------------------


def pod(old, new, version="1.31"):
    assert old in POD
    (document,) = parse(POD.replace(old, new)).documents
    return check_object(document, version)


def only(diagnostics):
    (diagnostic,) = diagnostics
    return diagnostic


def test_an_unknown_field_is_shown_at_its_key_with_the_field_that_was_meant():
    diagnostic = only(pod("    image: trainer:1", "    imag: trainer:1"))
    assert (diagnostic.code, diagnostic.message, diagnostic.hint) == (
        "ET4001",
        "spec.containers[0]: Container of Kubernetes 1.31 has no field 'imag'",
        "did you mean 'image'?",
    )
    assert (diagnostic.location.line, diagnostic.location.column) == (10, 5)


def test_a_field_of_a_later_kubernetes_says_since_when():
    diagnostic = only(pod("name: i, image: x", "name: i, image: x, restartPolicy: Always", "1.27"))
    assert diagnostic.code == "ET4001"
    hint = "Kubernetes has it since 1.28: set kubernetes-version to 1.28 or later"
    assert diagnostic.hint == hint


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        (
            "containerPort: 80",
            'containerPort: "80"',
            "spec.containers[0].ports[0].containerPort: must be a whole number, not the text '80'",
            "remove the quotes: 80",
        ),
        (
            "periodSeconds: 2",
            "periodSeconds: yes",
            "spec.containers[0].readinessProbe.periodSeconds: must be a whole number, not true",
            None,
        ),
        (
            "defaultMode: 292",
            "defaultMode: 99999999999",
            "spec.volumes[1].configMap.defaultMode: must be at most 2147483647, not 99999999999",
            None,
        ),
        (
            "sizeLimit: 1Gi",
            "sizeLimit: [1Gi]",
            "spec.volumes[0].emptyDir.sizeLimit: must be a number or text, not a list",
            None,
        ),
        (
            "nodeSelector: {zone: a}",
            "nodeSelector: [zone]",
            "spec.nodeSelector: must be a mapping, not a list",
            "remove the '- '",
        ),
    ],
)
def test_a_wrong_value_is_explained(old, new, message, hint):
    diagnostic = only(pod(old, new))
    assert (diagnostic.code, diagnostic.message, diagnostic.hint) == ("ET4002", message, hint)


def test_data_of_a_secret_that_is_not_base64_is_refused_without_repeating_it():
    text = OBJECTS["Secret"].replace("Yg==", "s3cr3t-token")
    diagnostic = only(check_object(parse(text).documents[0], "1.31"))
    assert (diagnostic.code, diagnostic.message) == ("ET4002", "data.a: is not base64")
    assert "s3cr3t" not in f"{diagnostic.message}{diagnostic.hint}"


@pytest.mark.parametrize("text", ["", "Yg==", "YWI=", "YWJj", "|\n    YWJj\n    YWI=\n"])
def test_base64_is_accepted_as_the_api_server_reads_it(text):
    document = OBJECTS["Secret"].replace("{a: Yg==}", f"\n  a: {text or chr(34) * 2}")
    assert check_object(parse(document).documents[0], "1.31") == []


def test_null_counts_as_absent():
    assert pod('creationTimestamp: "2024-05-01T10:00:00Z"', "creationTimestamp: null") == []
    assert pod("restartPolicy: Never", "restartPolicy: null") == []
    diagnostic = only(pod("  - name: main", "  - name: null"))
    assert diagnostic.message == "spec.containers[0]: needs 'name'"


def test_the_empty_text_is_accepted_where_the_api_server_puts_a_default():
    assert pod("restartPolicy: Never", 'restartPolicy: ""') == []


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("example.com/v1", "Widget"), ("apps/v1beta1", "Deployment"), ("v1", "Deployment")],
)
def test_a_kind_that_this_kubernetes_does_not_have_is_one_warning(api_version, kind):
    text = f"apiVersion: {api_version}\nkind: {kind}\nanything: [1]\n"
    diagnostic = only(check_object(parse(text).documents[0], "1.31"))
    assert diagnostic.code == "ET4003"
    assert diagnostic.location.line == 2


def test_a_kind_is_known_only_to_the_versions_that_have_it():
    text = OBJECTS["HorizontalPodAutoscaler"].replace("/v2\n", "/v2beta2\n")
    (document,) = parse(text).documents
    assert [one.code for one in check_object(document, "1.25")] == []
    assert [one.code for one in check_object(document, "1.26")] == ["ET4003"]


def test_an_object_without_a_name_is_refused():
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n"
    diagnostic = only(check_object(parse(text).documents[0], "1.31"))
    assert (diagnostic.code, diagnostic.message) == ("ET4002", "metadata: needs 'name'")


def test_what_a_cluster_wrote_into_the_status_does_not_matter():
    (document,) = parse(POD + "status: {phase: Running, fieldOfTheFuture: 1}\n").documents
    assert check_object(document, "1.25") == []


def test_a_pod_template_is_checked_where_it_stands():
    job = OBJECTS["Deployment"].replace("name: a, image: b", "name: a, image: b, tty: yess")
    diagnostic = only(check_template(parse(job).documents[0], ("spec", "template"), "1.31"))
    assert diagnostic.message == (
        "spec.template.spec.containers[0].tty: must be true or false, not the text 'yess'"
    )
    assert diagnostic.location.line == 7


def test_a_template_that_is_not_there_has_no_faults():
    (document,) = parse(POD).documents
    assert check_template(document, ("spec", "absent", 3, "template"), "1.31") == []
