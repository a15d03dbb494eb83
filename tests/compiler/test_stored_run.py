"""A Pod compiled from the job in its ConfigMap is the Pod that Git declares, byte for byte."""

import json
from pathlib import Path

import pytest

from etcompile.compiler.choices import Options
from etcompile.compiler.pipeline import compile  # noqa: A004
from etcompile.compiler.stored import StoredJobError
from etcompile.compiler.stored_run import StoredRun, Tracking
from etcompile.model import GANGS, PROFILES, Member, Settings
from specs import training_job

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = sorted(path for path in EXAMPLES.glob("*/*") if path.is_dir())
OTHERS = {
    "services": "shared",
    "init_image": "busybox:1.36",
    "kubectl_image": "example.com/kubectl:1.34",
    "cluster_domain": "example.internal",
}
"""Settings that Pods depend on."""


def live(config: dict, namespace: str = "ml", **metadata) -> dict:
    """The job's ConfigMap as a cluster has it."""
    identity = {"namespace": namespace, "uid": "u", "resourceVersion": "1"}
    return {**config, "metadata": {**identity, **config["metadata"], **metadata}}


def recompiled(run: StoredRun) -> dict[str, dict]:
    return {
        pod["metadata"]["name"]: pod
        for role in run.job.roles
        for member in role.members
        for _, pod in run.pods(role.name, [member.index])
    }


@pytest.mark.parametrize(
    ("profiles", "gang"),
    [(chosen, gang) for gang in GANGS for chosen in ((), PROFILES)],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)}-profiles",
)
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_stored_run_compiles_each_pod_of_each_example(folder, profiles, gang):
    # Kueue wants a group for each run.
    name = "a" if gang == "kueue" else "auto" if profiles else None
    settings = Settings(profiles=profiles, gang=gang, run=name, **(OTHERS if profiles else {}))
    compilation = compile([folder], Options(settings=settings))
    if not compilation.ok:
        assert gang != "none"
        pytest.skip(f"{gang} does not take it")
    for group in compilation.groups:
        configs = [v for v in group.objects if v["kind"] == "ConfigMap" and "job.yaml" in v["data"]]
        for config in configs:
            run = StoredRun(live(config, group.namespace or "ml"))
            declared = {
                value["metadata"]["name"]: value
                for value in group.objects
                if value["kind"] == "Pod" or (value["kind"] == "Job" and not run.job.run.suspended)
            }
            again = recompiled(run) if declared else {}
            for value in again.values():
                if group.namespace is None:
                    del value["metadata"]["namespace"]
            assert again == declared


def test_compiled_pod_has_the_gitops_marks_of_its_config_map():
    (group,) = compile([training_job("bert")], Options(namespace="ml")).groups
    config = next(value for value in group.objects if value["kind"] == "ConfigMap")
    marks = {"argocd.argoproj.io/tracking-id": "team_app:/ConfigMap:ml/bert-config"}
    labels = {"kustomize.toolkit.fluxcd.io/name": "ml", "somebody/else": "x"}
    labels |= config["metadata"]["labels"]
    run = StoredRun(live(config, annotations=marks, labels=labels))
    pod = recompiled(run)["bert-worker-1"]["metadata"]
    tracked = pod["annotations"]["argocd.argoproj.io/tracking-id"]
    assert tracked == "team_app:/Pod:ml/bert-worker-1"
    assert pod["labels"]["kustomize.toolkit.fluxcd.io/name"] == "ml"
    assert "somebody/else" not in pod["labels"]
    assert run.tracking.synced


def test_compiled_pod_has_the_marks_of_live_pods_of_another_kustomization():
    (group,) = compile([training_job("bert")], Options(namespace="ml")).groups
    config = next(value for value in group.objects if value["kind"] == "ConfigMap")
    key = "kustomize.toolkit.fluxcd.io/name"
    labels = {key: "ml-prereqs", **config["metadata"]["labels"]}
    run = StoredRun(live(config, labels=labels))
    # What only the template of some Pods has is no mark, even if a tool might have set it.
    seen = Tracking.of({"labels": {key: "ml", "app.kubernetes.io/instance": "mine"}})
    [(_, pod)] = run.pods("worker", [1], seen)
    assert pod["metadata"]["labels"][key] == "ml"
    assert "app.kubernetes.io/instance" not in pod["metadata"]["labels"]


def test_compiled_pod_waits_for_the_wave_that_an_overlay_gave_to_a_service(tmp_path):
    overlay = tmp_path / "wave.yaml"
    overlay.write_text(
        "apiVersion: etcompile.dev/v1alpha1\nkind: Overlay\nmetadata: {name: wave}\npatches:\n"
        "- target: {kind: Service}\n"
        '  patch: {metadata: {annotations: {etcompile.dev/wave: "50"}}}\n'
    )
    options = Options(namespace="ml", settings=Settings(profiles=("kapp",)), overlays=(overlay,))
    (group,) = compile([training_job("bert")], options).groups
    config = next(value for value in group.objects if value["kind"] == "ConfigMap")
    declared = {v["metadata"]["name"]: v for v in group.objects if v["kind"] == "Pod"}
    rules = declared["bert-worker-1"]["metadata"]["annotations"]
    assert "upsert after upserting etcompile.dev/bert-50" in rules.values()
    assert recompiled(StoredRun(live(config))) == declared


@pytest.mark.parametrize("overlays", [(), ("spot",)], ids=["plain", "overlaid"])
@pytest.mark.parametrize("gang", ["none", "volcano"])
def test_follower_differs_from_its_worker_only_in_numbers_and_has_no_marks(gang, overlays):
    options = Options(settings=Settings(profiles=PROFILES, gang=gang), overlays=overlays)
    (group,) = compile([EXAMPLES / "elasticjob" / "all-reduce" / "job.yaml"], options).groups
    config = next(value for value in group.objects if value["kind"] == "ConfigMap")
    marks = {"argocd.argoproj.io/tracking-id": "app:/ConfigMap:ml/mnist-config"}
    labels = {"kustomize.toolkit.fluxcd.io/name": "ml", **config["metadata"]["labels"]}
    run = StoredRun(live(config, annotations=marks, labels=labels))
    member = Member(7, rank=1, relaunches=2)
    follower = json.loads(json.dumps(run.undeclared_pod("worker", member, "mnist-edljob-worker-7")))
    (declared,) = [
        json.loads(json.dumps(one))
        for one in group.objects
        if (one["kind"], one["metadata"]["name"]) == ("Pod", "mnist-edljob-worker-1")
    ]
    assert follower["metadata"].pop("name") == "mnist-edljob-worker-7"
    assert declared["metadata"].pop("name") == "mnist-edljob-worker-1"
    changed = {
        "elasticjob.dlrover/replica-index": "7",
        "elasticjob.dlrover/relaunch-count": "2",
        "etcompile.dev/index": "7",
    }
    assert follower["metadata"]["labels"] == {**declared["metadata"]["labels"], **changed}
    tools = ("argocd.argoproj.io/", "kustomize.toolkit", "kapp.k14s.io/", "config.kubernetes.io/")
    for names in (follower["metadata"]["labels"], follower["metadata"].get("annotations", {})):
        assert not [name for name in names if name.startswith(tools)]
    assert numbered(declared, "7") == numbered(follower, "7")
    assert {**follower["spec"], "containers": []} == {**declared["spec"], "containers": []}


def numbered(pod: dict, number: str) -> list[dict]:
    for container in pod["spec"]["containers"]:
        for one in container["env"]:
            if one["name"] in ("NODE_ID", "WORKER_ID"):
                one["value"] = number
    return pod["spec"]["containers"]


@pytest.mark.parametrize(
    ("metadata", "synced"),
    [
        ({}, False),
        ({"labels": {"app.kubernetes.io/managed-by": "etcompile"}}, False),
        ({"labels": {"applyset.kubernetes.io/part-of": "applyset-x-v1"}}, False),
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "x"}}, True),
        ({"labels": {"kapp.k14s.io/app": "1"}}, True),
        ({"annotations": {"argocd.argoproj.io/tracking-id": "a:/ConfigMap:b/c"}}, True),
        ({"annotations": {"config.k8s.io/owning-inventory": "x"}}, True),
    ],
)
def test_marks_say_whether_a_tool_recreates_deleted_objects(metadata, synced):
    assert Tracking.of(metadata).synced is synced


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "a: b: c",
        "kind: StoredJob",
        "apiVersion: etcompile.dev/v1alpha1\nkind: StoredJob",
        "{apiVersion: etcompile.dev/v9, kind: StoredJob, document: {}}",
        json.dumps({"apiVersion": "etcompile.dev/v1alpha1", "kind": "StoredJob", "document": 7}),
    ],
)
def test_text_that_is_no_stored_job_raises_stored_job_error(text):
    config = {"metadata": {"name": "x-config"}, "data": {"job.yaml": text}}
    with pytest.raises(StoredJobError):
        StoredRun(live(config))
