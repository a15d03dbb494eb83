"""What overlays make of jobs, and what a user reads when they cannot."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

import etcompile
import specs
from etcompile import Options, backend, data, emit
from etcompile.compiler.stored import read_patches, read_stored
from etcompile.overlays.object_patches import patched_objects
from randomness import examples
from specs import manifest, overlay, patch

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/*/job.yaml"))
SHIPPED = ("dev", "prod", "resilient", "spot")

JOB = """\
apiVersion: kai.alibabacloud.com/v1alpha1
kind: TrainingJob
metadata:
  name: mnist
spec:
  etReplicaSpecs:
    launcher:
      template:
        spec:
          containers:
            - name: main
              image: horovod/horovod:0.28.1
              command: [python, train.py]
    worker:
      replicas: 2
      maxReplicas: 4
      template:
        spec:
          containers:
            - name: main
              image: horovod/horovod:0.28.1
              resources: {limits: {cpu: "2", memory: 4Gi}, requests: {cpu: "1"}}
"""
HEAD = "apiVersion: etcompile.dev/v1alpha1\nkind: Overlay\n"


def compiled(*overlays: Any, documents: Any = None, **options: Any) -> dict[tuple[str, str], Any]:
    documents = documents or [yaml.safe_load(JOB)]
    return specs.by_name(specs.compiled(*documents, overlays=overlays, **options))


def codes(*overlays: Any, documents: Any = None, **options: Any) -> list[str]:
    documents = documents or [yaml.safe_load(JOB)]
    return specs.errors(*documents, overlays=overlays, **options)


def worker(objects: Any, index: int = 0) -> Any:
    return objects["Pod", f"mnist-worker-{index}"]


def stored(objects: Any) -> Any:
    return yaml.safe_load(objects["ConfigMap", "mnist-config"]["data"]["job.yaml"])


def problems(folder: Path, text: str, *, job: str = JOB) -> list[tuple[str, str, str]]:
    """The code, file and line of each problem that a job and an overlay, both files, have."""
    (folder / "job.yaml").write_text(job)
    (folder / "mine.yaml").write_text(HEAD + text)
    options = Options(overlays=(folder / "mine.yaml",))
    diagnostics = etcompile.compile(folder / "job.yaml", options).diagnostics
    places = [(d.code, d.location) for d in diagnostics]
    return [(code, Path(p.file).name, f"{p.line}:{p.column}") for code, p in places if p]


# Documents --------------------------------------------------------------------------------------


def test_patch_of_a_job_document_is_applied_before_compilation() -> None:
    change = patch({"spec": {"etReplicaSpecs": {"worker": {"replicas": 3}}}}, kind="TrainingJob")
    objects = compiled(change)
    assert ("Pod", "mnist-worker-2") in objects
    assert "mnist-worker-2:1" in objects["ConfigMap", "mnist-config"]["data"]["hostfile"]


def test_a_patch_with_a_role_is_of_its_pod_template() -> None:
    change = patch({"spec": {"nodeSelector": {"disk": "ssd"}}}, role="worker")
    objects = compiled(change)
    assert worker(objects)["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert "nodeSelector" not in objects["Pod", "mnist-launcher"]["spec"]


def test_a_patch_without_a_target_is_for_job_documents_and_one_may_be_for_intents() -> None:
    documents = [yaml.safe_load(JOB), specs.scale_out("more", 1)]
    change = patch({"spec": {"slotsPerWorker": 3}})
    more = patch({"spec": {"toAdd": {"count": 2}}}, kind="ScaleOut", name="mo*")
    objects = compiled(change, more, documents=documents)
    assert "mnist-worker-3:3" in objects["ConfigMap", "mnist-config"]["data"]["hostfile"]
    assert ("Pod", "mnist-worker-3") in objects


def test_a_json_patch_of_a_document() -> None:
    notes = "/metadata/annotations"
    operations = [
        {"op": "test", "path": "/metadata/name", "value": "mnist"},
        {"op": "add", "path": notes, "value": {}},
        {"op": "add", "path": f"{notes}/etcompile.dev~1gate-timeout", "value": "7"},
        {"op": "remove", "path": "/spec/etReplicaSpecs/worker/maxReplicas"},
    ]
    document = stored(compiled(patch(operations, kind="TrainingJob")))["document"]
    assert document["metadata"]["annotations"] == {"etcompile.dev/gate-timeout": "7"}
    assert "maxReplicas" not in document["spec"]["etReplicaSpecs"]["worker"]


def test_later_overlays_select_by_labels_that_earlier_overlays_add() -> None:
    first = patch({"metadata": {"labels": {"team": "nlp"}}}, kind="TrainingJob")
    second = patch({"spec": {"slotsPerWorker": 2}}, kind="TrainingJob", labels={"team": "nlp"})
    assert stored(compiled(first, second))["document"]["spec"]["slotsPerWorker"] == 2
    assert codes(second, first) == ["ET6001"]


def test_the_input_is_not_changed_in_place() -> None:
    document = yaml.safe_load(JOB)
    compiled(patch({"spec": {"slotsPerWorker": 2}}, kind="TrainingJob"), documents=[document])
    assert document == yaml.safe_load(JOB)


CLAIM = specs.claim("data")


def test_other_objects_among_the_inputs_are_patched() -> None:
    wish = {"spec": {"resources": {"requests": {"storage": "5Gi"}}}}
    change = patch(wish, kind="PersistentVolumeClaim", name="data")
    objects = compiled(change, documents=[yaml.safe_load(JOB), CLAIM])
    claim = objects["PersistentVolumeClaim", "data"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "5Gi"


# Conveniences -----------------------------------------------------------------------------------


def test_a_namespace_moves_everything_that_has_one() -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}
    role = {"kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "r"}}
    binding = manifest(
        "RoleBinding",
        "b",
        api_version="rbac.authorization.k8s.io/v1",
        metadata={"namespace": "old"},
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        subjects=[
            {"kind": "ServiceAccount", "name": "a", "namespace": "old"},
            {"kind": "ServiceAccount", "name": "a", "namespace": "other"},
        ],
    )
    priority = manifest("PriorityClass", "p", api_version="scheduling.k8s.io/v1", value=1)
    documents = [yaml.safe_load(JOB), specs.scale_out("m", 1), account, role, binding, priority]
    objects = compiled(overlay(namespace="new"), documents=documents)
    places = {key: one["metadata"].get("namespace") for key, one in objects.items()}
    assert places.pop(("PriorityClass", "p")) is None
    assert set(places.values()) == {"new"}
    subjects = objects["RoleBinding", "b"]["subjects"]
    assert [one["namespace"] for one in subjects] == ["new", "other"]


def test_a_namespace_flag_wins_over_the_overlay() -> None:
    objects = compiled(overlay(namespace="new"), namespace="flag")
    assert {one["metadata"]["namespace"] for one in objects.values()} == {"flag"}


def test_a_target_names_the_namespace_that_was_chosen() -> None:
    change = patch({"spec": {}}, kind="TrainingJob", namespace="new")
    assert codes({**change, "namespace": "new"}) == []
    change = patch({"spec": {}}, kind="TrainingJob", namespace="default")
    assert codes(change) == []
    assert codes(change, namespace="ml") == ["ET6001"]


def test_labels_and_annotations_mark_what_is_rendered() -> None:
    change = overlay(
        labels=[
            {"pairs": {"team": "nlp"}},
            {"pairs": {"fast": "yes"}, "target": {"role": "worker"}},
        ],
        annotations=[{"pairs": {"note": "x"}, "target": {"kind": "Pod", "name": "*-launcher"}}],
    )
    objects = compiled(change, documents=[yaml.safe_load(JOB), CLAIM])
    assert all(one["metadata"]["labels"]["team"] == "nlp" for one in objects.values())
    fast = [key for key, one in objects.items() if "fast" in one["metadata"]["labels"]]
    assert {kind for kind, _ in fast} == {"Pod", "Service"}
    assert all("worker" in name for _, name in fast)
    noted = [key for key, o in objects.items() if "note" in o["metadata"].get("annotations", {})]
    assert noted == [("Pod", "mnist-launcher")]


def test_labels_leave_selectors_and_the_identity_of_the_run_alone() -> None:
    plain, marked = compiled(), compiled(overlay(labels=[{"pairs": {"team": "nlp"}}]))
    service = "Service", "mnist-worker-0"
    assert marked[service]["spec"] == plain[service]["spec"]
    key = "etcompile.dev/spec-hash"
    hashes = {worker(one)["metadata"]["annotations"][key] for one in (plain, marked)}
    assert len(hashes) == 1


IMAGES = [
    ({"newTag": "1.0"}, "horovod/horovod:1.0"),
    ({"newName": "r.io:5000/h"}, "r.io:5000/h:0.28.1"),
    ({"newName": "h", "newTag": "2"}, "h:2"),
    ({"digest": f"sha256:{'a' * 64}"}, f"horovod/horovod@sha256:{'a' * 64}"),
    ({"digest": f"sha256:{'a' * 64}", "newTag": "3"}, f"horovod/horovod:3@sha256:{'a' * 64}"),
]


@pytest.mark.parametrize(("change", "image"), IMAGES)
def test_an_image_is_changed_wherever_it_is_used(change: Any, image: str) -> None:
    objects = compiled(overlay(images=[{"name": "horovod/horovod", **change}]))
    launcher = objects["Pod", "mnist-launcher"]["spec"]
    images = {c["image"] for c in (*launcher["containers"], *launcher["initContainers"])}
    assert images == {image}
    assert worker(objects)["spec"]["containers"][0]["image"] == image


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("r.io:5000/a/b", "new"),
        ("r.io:5000/a/b:1", "new:1"),
        (f"r.io:5000/a/b:1@sha256:{'b' * 64}", f"new:1@sha256:{'b' * 64}"),
        ("r.io:5000/a/bc:1", "r.io:5000/a/bc:1"),
    ],
)
def test_the_port_of_a_registry_is_no_tag(before: str, after: str) -> None:
    document = specs.training_job()
    specs.worker(document)["template"]["spec"]["containers"][0]["image"] = before
    change = overlay(images=[{"name": "r.io:5000/a/b", "newName": "new", "optional": True}])
    objects = compiled(change, documents=[document])
    assert worker(objects)["spec"]["containers"][0]["image"] == after


def test_images_of_the_settings_are_images_too() -> None:
    document = specs.training_job(launcherAttachMode="kubexec")
    document["metadata"]["namespace"] = "ml"
    change = overlay(
        settings={"initImage": "busybox:1"},
        images=[
            {"name": "busybox", "newName": "mirror/busybox"},
            {"name": "alpine/kubectl", "newTag": "1.35.0"},
        ],
    )
    launcher = compiled(change, documents=[document])["Pod", "mnist-launcher"]
    images = [one["image"] for one in launcher["spec"]["initContainers"]]
    assert images[:2] == ["mirror/busybox:1", "alpine/kubectl:1.35.0"]


def test_a_pull_policy_is_for_all_images_of_a_glob() -> None:
    change = overlay(images=[{"name": "horovod/*", "pullPolicy": "Always"}])
    main = worker(compiled(change))["spec"]["containers"][0]
    assert (main["image"], main["imagePullPolicy"]) == ("horovod/horovod:0.28.1", "Always")


def test_resources_merge_by_name() -> None:
    change = {"limits": {"cpu": 4, "memory": None}, "requests": {"memory": "1Gi"}}
    objects = compiled(overlay(resources=[{"target": {"role": "worker"}, **change}]))
    assert worker(objects)["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": 4},
        "requests": {"cpu": "1", "memory": "1Gi"},
    }
    assert "resources" not in objects["Pod", "mnist-launcher"]["spec"]["containers"][0]


def test_requests_can_be_the_limits() -> None:
    objects = compiled(overlay(resources=[{"requests": "limits"}]))
    resources = worker(objects)["spec"]["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"] == {"cpu": "2", "memory": "4Gi"}


def test_resources_can_be_for_some_containers() -> None:
    document = specs.training_job()
    sidecar = specs.container("log-shipper")
    specs.worker(document)["template"]["spec"]["containers"].append(sidecar)
    change = overlay(resources=[{"container": "log-*", "limits": {"memory": "64Mi"}}])
    main, shipper = worker(compiled(change, documents=[document]))["spec"]["containers"]
    assert "resources" not in main
    assert shipper["resources"] == {"limits": {"memory": "64Mi"}}


# Settings ---------------------------------------------------------------------------------------


def test_profiles_can_be_set() -> None:
    settings = stored(compiled(overlay(settings={"profiles": ["flux", "argocd"]})))["settings"]
    assert settings["profiles"] == ["argocd", "flux"]


# Objects ----------------------------------------------------------------------------------------


def test_patch_of_pods_is_applied_after_compilation() -> None:
    wish = {
        "spec": {
            "containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}],
            "initContainers": [{"name": "wait-for-workers", "resources": {"limits": {"cpu": "2"}}}],
        }
    }
    spec = compiled(patch(wish, kind="Pod", role="launcher"))["Pod", "mnist-launcher"]["spec"]
    gate = next(c for c in spec["initContainers"] if c["name"] == "wait-for-workers")
    assert gate["resources"]["limits"]["cpu"] == "2"
    assert "memory" in gate["resources"]["limits"]
    assert {"name": "A", "value": "1"} in spec["containers"][0]["env"]


def test_one_pod_can_be_patched_alone() -> None:
    wish = [{"op": "add", "path": "/spec/nodeName", "value": "node-7"}]
    objects = compiled(patch(wish, kind="Pod", name="mnist-worker-1"))
    assert "nodeName" not in worker(objects, 0)["spec"]
    assert worker(objects, 1)["spec"]["nodeName"] == "node-7"


def test_a_null_in_a_patch_of_pods_removes_a_field() -> None:
    wish = {"spec": {"containers": [{"name": "main", "readinessProbe": None}]}}
    objects = compiled(patch(wish, kind="Pod", role="worker"))
    assert "readinessProbe" not in worker(objects)["spec"]["containers"][0]


def test_a_patch_of_what_pods_do_makes_another_run() -> None:
    def run(objects: Any) -> str:
        return str(worker(objects)["metadata"]["annotations"]["etcompile.dev/spec-hash"])

    pods = patch({"spec": {"activeDeadlineSeconds": 1}}, kind="Pod")
    other = patch({"spec": {"activeDeadlineSeconds": 1}}, kind="Pod", name="somebody-else-*")
    other["patches"][0]["optional"] = True
    notes = patch({"metadata": {"annotations": {"a": "b"}}}, kind="Pod")
    assert run(compiled(pods)) != run(compiled())
    assert run(compiled(notes)) == run(compiled(other)) == run(compiled())


BREAKING = [
    ("Pod", {"metadata": {"name": "other"}}, "ET6007"),
    ("Pod", {"metadata": {"namespace": "other"}}, "ET6007"),
    ("Pod", {"kind": "Job"}, "ET6007"),
    ("Pod", {"$patch": "delete"}, "ET6007"),
    ("Pod", [{"op": "replace", "path": "", "value": {}}], "ET6007"),
    ("Pod", [{"op": "replace", "path": "", "value": 1}], "ET6007"),
    ("Pod", {"metadata": {"labels": {"training-job-name": "x"}}}, "ET6006"),
    ("Pod", {"metadata": {"labels": None}}, "ET6006"),
    ("Pod", {"metadata": {"annotations": {"etcompile.dev/spec-hash": "x"}}}, "ET6006"),
    ("Pod", {"spec": None}, "ET6006"),
    ("Pod", {"spec": {"restartPolicy": "Always"}}, "ET6006"),
    ("Pod", {"spec": {"hostname": "x"}}, "ET6006"),
    ("Pod", {"spec": {"containers": [{"name": "main", "command": ["sh"]}]}}, "ET6006"),
    ("Pod", {"spec": {"containers": [{"name": "main", "$patch": "delete"}]}}, "ET6006"),
    ("Pod", {"spec": {"volumes": [{"name": "etcompile-status", "$patch": "delete"}]}}, "ET6006"),
    ("Pod", [{"op": "remove", "path": "/spec/volumes"}], "ET6006"),
    ("Pod", [{"op": "remove", "path": "/metadata"}], "ET6007"),
    ("Service", {"spec": {"selector": {"a": "b"}}}, "ET6006"),
    ("Service", {"spec": {"clusterIP": "10.0.0.1"}}, "ET6006"),
    ("Service", {"metadata": {"labels": {"replica-index": "7"}}}, "ET6006"),
    ("ConfigMap", {"data": {"job.yaml": "x"}}, "ET6006"),
    ("ConfigMap", {"data": None}, "ET6006"),
]


@pytest.mark.parametrize(("kind", "wish", "code"), BREAKING)
def test_what_a_job_relies_on_cannot_be_patched(kind: str, wish: Any, code: str) -> None:
    reported = codes(patch(wish, kind=kind))
    assert set(reported) == {code}


def test_overlay_label_that_selects_pods_is_refused() -> None:
    assert set(codes(overlay(labels=[{"pairs": {"training-job-role": "x"}}]))) == {"ET6006"}
    assert codes(overlay(labels=[{"pairs": {"app": "mnist"}}])) == []


# The stored job ---------------------------------------------------------------------------------

STACK = (
    patch({"spec": {"slotsPerWorker": 2}}, kind="TrainingJob"),
    overlay(
        settings={"secret": "existing:keys"},
        labels=[{"pairs": {"team": "nlp"}}],
        images=[{"name": "horovod/horovod", "newTag": "1.0"}],
        resources=[{"limits": {"cpu": "7"}}],
    ),
    patch(
        {"spec": {"containers": [{"name": "main", "livenessProbe": None, "tty": True}]}}, kind="Pod"
    ),
    patch(
        [{"op": "add", "path": "/spec/ports/-", "value": {"port": 80, "name": "x"}}], kind="Service"
    ),
    patch({"data": {"extra": "x"}}, kind="ConfigMap"),
)


def test_the_stored_job_is_the_one_after_overlays() -> None:
    value = stored(compiled(*STACK))
    assert value["document"]["spec"]["slotsPerWorker"] == 2
    template = specs.worker(value["document"])["template"]
    assert template["spec"]["containers"][0]["image"] == "horovod/horovod:1.0"
    assert value["settings"]["secret"] == "existing:keys"
    targets = [one.get("target", {}).get("kind") for one in value["patches"]]
    assert targets == [None, "Pod", "Service"]


def test_a_job_that_no_overlay_touches_is_stored_as_ever() -> None:
    assert "patches" not in stored(compiled())
    others = patch({"spec": {}}, kind="Pod", name="x-*")
    others["patches"][0]["optional"] = True
    assert compiled(others) == compiled()


@pytest.mark.parametrize("overlays", [STACK, *([name] for name in SHIPPED), SHIPPED], ids=str)
def test_a_replacement_compiled_from_the_stored_job_equals_the_rendered_one(overlays: Any) -> None:
    assert_replacements_equal(compiled(*overlays))


def assert_replacements_equal(objects: dict[tuple[str, str], Any]) -> None:
    value = stored(objects)
    job, settings = read_stored(value)
    lowered = backend.lower(job, settings, backend.Texts(None), emit.to_yaml(value))
    labels = backend.protected_labels(job)
    again = patched_objects(lowered, read_patches(value), protected_labels=labels)
    assert not again.diagnostics
    for one in again.objects:
        if one["kind"] in ("Pod", "Service"):
            assert one == objects[one["kind"], one["metadata"]["name"]]


FIELDS = [
    *("metadata", "spec", "name", "labels", "annotations", "template", "containers", "volumes"),
    *("initContainers", "env", "ports", "image", "etReplicaSpecs", "worker", "launcher", "data"),
    *("replicas", "selector", "restartPolicy", "tolerations", "$patch", "resources", "command"),
]
SCALARS = ["main", "wait-for-workers", "training-job-config", "a", "job.yaml", "delete", "replace"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(SCALARS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
    ),
    max_leaves=12,
)
POINTERS = st.lists(st.sampled_from([*FIELDS, "0", "1", "-", "~0"]), max_size=4).map(
    lambda steps: "".join(f"/{step}" for step in steps)
)
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "replace", "test", "remove", "move", "copy"]), "path": POINTERS},
    optional={"value": VALUES, "from": POINTERS},
)
PATCHES = st.dictionaries(st.sampled_from(FIELDS), VALUES, min_size=1, max_size=4) | st.lists(
    OPERATIONS, min_size=1, max_size=3
)
KINDS = ["TrainingJob", "ScaleOut", "Pod", "Service", "ConfigMap", "PersistentVolumeClaim"]


@examples(300)
@example("ConfigMap", {"data": {"metadata": False}})
@given(st.sampled_from(KINDS), PATCHES)
def test_any_patch_is_refused_or_also_in_the_replacements(kind: str, change: Any) -> None:
    documents = [yaml.safe_load(JOB), specs.scale_out("more", 1), specs.claim("a")]
    result = etcompile.compile(documents, Options(overlays=(patch(change, kind=kind),)))
    if result.ok:
        assert_replacements_equal(specs.by_name(result))


# What is wrong, and where -----------------------------------------------------------------------


def test_a_bad_value_of_an_overlay_is_reported_in_the_overlay(tmp_path: Path) -> None:
    wish = "{spec: {etReplicaSpecs: {worker: {replicas: 12}}}}"
    text = f"patches:\n  - target: {{kind: TrainingJob}}\n    patch: {wish}\n"
    assert problems(tmp_path, text) == [("ET2003", "mine.yaml", "5:56")]


def test_a_bad_value_of_the_document_is_still_reported_there(tmp_path: Path) -> None:
    text = "patches:\n  - target: {kind: TrainingJob}\n    patch: {spec: {slotsPerWorker: 2}}\n"
    job = JOB.replace("replicas: 2", "replicas: 12")
    assert problems(tmp_path, text, job=job) == [("ET2003", "job.yaml", "15:17")]


def test_items_that_an_overlay_moves_keep_their_lines(tmp_path: Path) -> None:
    text = """\
patches:
  - target: {role: worker}
    patch:
      - {op: add, path: /spec/containers/0, value: {name: first, image: "first:1"}}
"""
    job = JOB.replace("              resources:", "              resorces:")
    assert problems(tmp_path, text, job=job) == [("ET4001", "job.yaml", "22:15")]


PLACES = [
    ("the schema of a kind", "spec: {slotsPerWorkr: 2}", "TrainingJob", ("ET2001", "5:20")),
    ("Kubernetes' schema", "spec: {priorty: 2}", "Pod", ("ET4001", "5:20")),
    ("Pods", "spec: {volumes: [{name: A_B, emptyDir: {}}]}", "Pod", ("ET4002", "5:37")),
    ("what must stay", "spec: {restartPolicy: Always}", "Pod", ("ET6006", "5:35")),
    ("a directive", "spec: {$setElementOrder/volumes: []}", "Pod", ("ET6007", "5:46")),
    ("another name", "metadata: {name: x}", "TrainingJob", ("ET6007", "5:30")),
]


@pytest.mark.parametrize(
    ("wish", "kind", "problem"), [p[1:] for p in PLACES], ids=[p[0] for p in PLACES]
)
def test_each_check_points_into_the_overlay(
    tmp_path: Path, wish: str, kind: str, problem: tuple[str, str]
) -> None:
    text = f"patches:\n  - target: {{kind: {kind}}}\n    patch: {{{wish}}}\n"
    reported = problems(tmp_path, text)
    assert {(code, file) for code, file, _ in reported} == {(problem[0], "mine.yaml")}
    assert len(reported) == 1
    assert reported[0][2].split(":")[0] == problem[1].split(":")[0]


def test_a_failed_operation_is_reported_at_that_operation(tmp_path: Path) -> None:
    text = """\
patches:
  - target: {kind: TrainingJob}
    patch:
      - {op: test, path: /metadata/name, value: mnist}
      - {op: replace, path: /spec/replicas, value: 2}
"""
    assert problems(tmp_path, text) == [("ET6007", "mine.yaml", "7:29")]


NOTHING = [
    "patches:\n  - target: {kind: TrainingJob, name: minst}\n    patch: {spec: {}}\n",
    "patches:\n  - target: {kind: Trainingjob}\n    patch: {spec: {}}\n",
    "patches:\n  - target: {kind: Pod, role: chief}\n    patch: {spec: {}}\n",
    "patches:\n  - target: {role: chief}\n    patch: {spec: {}}\n",
    "patches:\n  - target: {kind: Pod, labels: {a: b}}\n    patch: {spec: {}}\n",
    "images:\n  - name: horvod/horovod\n    newTag: '1'\n",
    "images:\n  - {name: '*', newTag: '1', target: {kind: Pod}}\n",
    "resources:\n  - container: trainer\n    limits: {cpu: 1}\n",
    "labels:\n  - target: {kind: Deployment}\n    pairs: {a: b}\n",
]


@pytest.mark.parametrize("text", NOTHING)
def test_an_entry_that_matches_nothing_is_an_error(tmp_path: Path, text: str) -> None:
    ((code, file, place),) = problems(tmp_path, text)
    assert (code, file, place[0]) == ("ET6001", "mine.yaml", "4")
    head, _, body = text.partition("\n")
    optional = f"{head}\n{body.rstrip()}\n    optional: true\n"
    if "{name: '*'" not in text:
        assert problems(tmp_path, optional) == []


def test_image_rule_without_a_match_lists_the_images_of_the_job() -> None:
    change = overlay(images=[{"name": "horvod", "newTag": "1"}])
    (problem,) = etcompile.compile(specs.training_job(), Options(overlays=(change,))).diagnostics
    assert "horovod/horovod:0.28.1" in (problem.hint or "")


def test_no_entry_is_said_to_match_nothing_while_a_document_is_broken(tmp_path: Path) -> None:
    text = "patches:\n  - target: {kind: Pod}\n    patch: {spec: {}}\n"
    job = JOB.replace("replicas: 2", "replicas: two")
    assert [code for code, *_ in problems(tmp_path, text, job=job)] == ["ET2006"]


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("patchs: []\n", "ET2001", "3"),
        ("settings:\n  service: shared\n", "ET2001", "4"),
        ("settings:\n  kubernetesVersion: 1.30\n", "ET2006", "4"),
        ("settings:\n  kubernetesVersion: '1.99'\n", "ET6005", "4"),
        ("settings:\n  secret: vault\n", "ET2009", "4"),
        ("patches:\n  - target: {kind: Pod}\n    patch: 'text'\n", "ET2006", "5"),
        ("patches:\n  - patch:\n      - {op: add, path: /metadata/labels}\n", "ET2002", "5"),
        ("patches:\n  - patch:\n      - {op: put, path: /a, value: 1}\n", "ET2007", "5"),
        ("images:\n  - name: '*'\n", "ET2002", "4"),
        ("labels:\n  - pairs: {a: 1}\n", "ET2006", "4"),
        ("namespace: [a\n", "ET1005", None),
    ],
)
def test_a_malformed_overlay_is_refused_with_its_line(
    tmp_path: Path, text: str, code: str, line: str | None
) -> None:
    ((reported, file, place), *more) = problems(tmp_path, text)
    assert (reported, file, more) == (code, "mine.yaml", [])
    assert line in (None, place.split(":")[0])


def test_an_overlay_among_the_inputs_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "prod").mkdir()
    (tmp_path / "prod" / "overlay.yaml").write_text(HEAD + "namespace: prod\n")
    alone = etcompile.compile(tmp_path)
    assert [d.code for d in alone.diagnostics] == ["ET6004"]
    compilation = etcompile.compile(tmp_path, Options(overlays=(tmp_path / "prod",)))
    assert not compilation.diagnostics
    assert {o["metadata"]["namespace"] for o in compilation.objects} == {"prod"}


def test_a_file_that_is_no_overlay_is_refused(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    assert codes(tmp_path / "job.yaml") == ["ET6003"]


def test_overlays_are_among_the_sources_of_what_they_touch(tmp_path: Path) -> None:
    text = yaml.safe_dump(patch({"spec": {}}, kind="TrainingJob", name="a"))
    (tmp_path / "mine.yaml").write_text(text)
    jobs = [specs.training_job("a"), specs.training_job("b")]
    options = Options(overlays=(tmp_path / "mine.yaml",))
    groups = {group.name: group.sources for group in etcompile.compile(jobs, options).groups}
    assert groups == {"a": ("<python>", "mine.yaml"), "b": ("<python>",)}


def test_shipped_overlays_have_one_name_everywhere() -> None:
    compilation = etcompile.compile(specs.training_job(), Options(overlays=("prod",)))
    assert compilation.sources == ("<python>", "overlays/prod/overlay.yaml")


# The schema and the shipped overlays ------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_overlay_conforms_to_the_overlay_schema(name: str) -> None:
    schema = json.loads((data.folder("schemas") / "Overlay.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    text = (data.folder("overlays") / name / "overlay.yaml").read_text("utf-8")
    jsonschema.validate(yaml.safe_load(text), schema)
    assert text.startswith("# yaml-language-server: $schema=../../schemas/Overlay.json\n")


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_a_shipped_overlay_works_on_every_example(example: Path, name: str) -> None:
    compilation = etcompile.compile([example], Options(overlays=(name,)))
    assert compilation.ok
    # What DLRover's own master makes of a template is its business, and that is told.
    expected = {"ET2041", "ET2042"} if example.name == "parameter-servers-master" else set()
    assert {one.code for one in compilation.diagnostics} <= expected


def test_the_shipped_overlays_work_on_a_suspended_job() -> None:
    document = specs.training_job()
    document["metadata"]["annotations"] = {"job-supervisor.kube-ai.io/job-suspended": "true"}
    for name in SHIPPED:
        assert codes(name, documents=[document]) == []


def test_the_overlay_of_the_documentation_is_one() -> None:
    schema = json.loads((data.folder("schemas") / "Overlay.json").read_text("utf-8"))
    page = (ROOT / "docs" / "overlays.md").read_text("utf-8")
    value = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])
    jsonschema.validate(value, schema)
    document = specs.training_job("bert-large")
    template = specs.worker(document)["template"]
    template["spec"]["containers"][0]["name"] = "train"
    assert codes(value, documents=[document]) == []


def test_prod_requests_what_it_may_use() -> None:
    resources = worker(compiled("prod"))["spec"]["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"]


def test_the_launcher_of_a_spot_job_stays_on_ordinary_nodes() -> None:
    objects = compiled("prod", "spot")
    spec = worker(objects)["spec"]
    assert spec["nodeSelector"] == {"node.kubernetes.io/lifecycle": "spot"}
    assert spec["terminationGracePeriodSeconds"] == 25
    launcher = objects["Pod", "mnist-launcher"]["spec"]
    assert "nodeSelector" not in launcher
    assert launcher["terminationGracePeriodSeconds"] == 120
    roles = stored(objects)["document"]["spec"]["etReplicaSpecs"]
    assert roles["worker"]["restartPolicy"] == "Always"
