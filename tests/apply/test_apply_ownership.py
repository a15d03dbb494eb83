"""One question before every write: may this object be changed or deleted by whoever asks?"""

import contextlib
import json
import subprocess
import time
from urllib.error import HTTPError

import pytest
import yaml
from msgspec import structs

from apply.test_apply_rights import rules
from definitions import ask_until_served, definition
from etcompile.plan.plan_file import plan_value, read_plan
from specs import claim, kubeflow_job, manifest, training_job


def mounting(name, kind, of):
    source = {
        "Secret": {"secret": {"secretName": of}},
        "ConfigMap": {"configMap": {"name": of}},
        "PersistentVolumeClaim": {"persistentVolumeClaim": {"claimName": of}},
    }[kind]
    container = {"name": "main", "image": "a:1"}
    spec = {"containers": [container], "volumes": [{"name": "data", **source}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("state", ["pending", "scheduled"])
def test_a_claim_that_a_pod_of_another_job_mounts_is_not_replaced(run, write, writes, ask, state):
    write(claim("data"))
    run("apply", "jobs", "--wait", "none", code=0)
    pod = mounting("stranger", "PersistentVolumeClaim", "data")
    if state == "scheduled":
        pod["spec"]["nodeName"] = "a"
    ask("POST", "pods", pod)
    before = writes()
    write(claim("data", "ReadWriteMany"))
    options = ("--replace", "--adopt", "--replace-data", "*")
    done = run("apply", "jobs", *options, code=4)
    assert "Pod stranger would keep it" in done.stderr
    assert "Pod stranger" in run("diff", "jobs", *options).stdout
    assert writes() == before


@pytest.mark.parametrize(("kind", "name"), [("Secret", "mnist"), ("ConfigMap", "mnist-config")])
@pytest.mark.parametrize("how", ["delete", "delete --job", "prune"])
def test_what_a_pod_of_another_job_mounts_is_not_deleted(
    run, write, writes, ask, kubelet, tmp_path, kind, name, how
):
    write(training_job(replicas=1))
    write(training_job("other", replicas=1), name="other")
    run("apply", "jobs", "--config", "set=team", code=0)
    secrets = [one["metadata"]["name"] for one in ask("GET", "secrets")["items"]]
    name = (
        next((one for one in secrets if one.startswith("mnist")), name)
        if kind == "Secret"
        else name
    )
    ask("POST", "pods", mounting("stranger", kind, name))
    before = writes()
    if how == "prune":
        (tmp_path / "jobs" / "job.yaml").unlink()
        done = run("apply", "jobs", "--config", "set=team", "--prune")
    else:
        done = run(
            "delete", *(("jobs", "--config", "set=team") if how == "delete" else ("--job", "mnist"))
        )
    assert done.returncode == 4, done.stdout + done.stderr
    assert f"/{name}: " in done.stderr
    assert f"{kind} " in done.stderr
    assert "Pod stranger" in done.stderr
    assert writes() == before
    ask("DELETE", "pods/stranger", {"gracePeriodSeconds": 0})
    run("delete", "--job", "mnist", code=0)


LABELS = {
    "label": ({"app.kubernetes.io/instance": "team"}, "argocd-controller"),
    "label by hand": ({"app.kubernetes.io/instance": "team"}, "kubectl-label"),
    "own label": ({"argocd.argoproj.io/instance": "team"}, "argocd-controller"),
    "configured label": ({"example.com/app": "team"}, "argocd-controller"),
    "flux": ({"kustomize.toolkit.fluxcd.io/name": "team"}, "kustomize-controller"),
    "flux helm": ({"helm.toolkit.fluxcd.io/name": "team"}, "helm-controller"),
}


TRACKING_ID = {"argocd.argoproj.io/tracking-id": "team:/Pod:nlp/mnist-worker-0"}


@pytest.mark.parametrize("annotations", [{}, TRACKING_ID], ids=["", "annotation"])
@pytest.mark.parametrize(("labels", "manager"), LABELS.values(), ids=LABELS)
def test_what_a_sync_tool_tracks_by_a_label_is_left_alone_by_every_verb(
    applied, run, write, writes, ask, kubelet, labels, manager, annotations
):
    if annotations and "app.kubernetes.io/instance" not in labels:
        pytest.skip("the mode annotation+label writes this label")
    applied(replicas=1)
    for path in ("pods/mnist-worker-0", "configmaps/mnist-config"):
        ask(
            "PATCH",
            path,
            {"metadata": {"labels": labels, "annotations": annotations}},
            manager=manager,
        )
    before = writes()
    changed = training_job(replicas=2)
    write(changed)
    for command in (
        ("apply", "jobs"),
        ("delete", "jobs"),
        ("delete", "--job", "mnist"),
        ("restart", "mnist", "--yes"),
    ):
        done = run(*command, code=4)
        assert "manages it" in done.stderr, command
    assert writes() == before
    run("delete", "jobs", "--adopt", code=0)


def test_label_of_the_file_is_not_mistaken_for_tracking(run, write, kubelet):
    config = manifest(
        "ConfigMap",
        "seed",
        metadata={"labels": {"app.kubernetes.io/instance": "chart"}},
        data={"a": "1"},
    )
    write(config, training_job(replicas=1))
    run("apply", "jobs", code=0)
    config["data"] = {"a": "2"}
    write(config, training_job(replicas=1))
    run("apply", "jobs", code=0)


def repository(path, remote, *documents, config=""):
    folder = path / "jobs"
    folder.mkdir(parents=True)
    (folder / "job.yaml").write_text(yaml.safe_dump_all(documents))
    if remote:
        subprocess.run(["git", "init", "-q", path], check=True)
        subprocess.run(["git", "-C", path, "remote", "add", "origin", remote], check=True)
    if config:
        (path / "etcompile.toml").write_text(config)
    return folder


PAIRS = {
    "two remotes": (("git@git.example.com:a/jobs.git", ""), ("git@git.example.com:b/jobs.git", "")),
    "two names": (("", 'repository-name = "a"\n'), ("", 'repository-name = "b"\n')),
    "a remote and none": (("git@git.example.com:a/jobs.git", ""), ("", "")),
}


@pytest.mark.parametrize("form", ["folder", "file"])
@pytest.mark.parametrize(("first", "second"), PAIRS.values(), ids=PAIRS)
def test_a_job_of_another_repository_is_left_alone_until_it_is_adopted(
    run, writes, kubelet, tmp_path, first, second, form
):
    a = repository(tmp_path / "a", first[0], training_job(replicas=1), config=first[1])
    b = repository(tmp_path / "b", second[0], training_job(replicas=2), config=second[1])
    if form == "file":
        a, b = a / "job.yaml", b / "job.yaml"
    run("apply", a, code=0)
    before = writes()
    run("diff", b, "--plan", "plan.json", code=1)
    for command in (("apply", b), ("delete", b), ("apply", b, "--replace", "--prune")):
        done = run(*command, code=4)
        assert "another set of jobs" in done.stderr
        assert "--adopt" in done.stderr
    run("apply", "plan.json", code=4)
    assert "another set of jobs" in run("diff", b).stdout
    assert writes() == before
    run("apply", a, code=0)
    if not any(second):
        return
    run("apply", b, "--adopt", code=0)
    run("apply", b, code=0)
    run("apply", a, code=4)


def test_a_plan_keeps_the_set_of_its_jobs(run, kubelet, objects, tmp_path):
    jobs = repository(
        tmp_path / "a", "git@git.example.com:a/jobs.git", training_job("one", replicas=1)
    )
    (jobs / "two.yaml").write_text(yaml.safe_dump(training_job("two", replicas=1)))
    run("diff", jobs, "--plan", "plan.json")
    run("apply", "plan.json", code=0)
    (jobs / "two.yaml").unlink()
    run("apply", jobs, "--prune", code=0)
    assert {name for name in objects() if "two" in name} == set()


def test_a_plan_of_another_cluster_is_refused(run, job, writes, tmp_path, kubelet):
    job(replicas=1)
    run("diff", "jobs", "--plan", "plan.json")
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["cluster"]
    saved = read_plan((tmp_path / "plan.json").read_bytes())
    elsewhere = structs.replace(saved, cluster="00000000-0000-0000-0000-000000000000 https://a 0")
    (tmp_path / "plan.json").write_text(json.dumps(plan_value(elsewhere)))
    done = run("apply", "plan.json", code=7)
    assert "another cluster" in done.stderr
    assert writes() == []


def test_who_may_not_read_kube_system_knows_a_cluster_by_its_address(
    run, as_user, job, writes, tmp_path, kubelet
):
    job(replicas=1)
    user = as_user(rules())
    user("diff", "jobs", "--plan", "plan.json")
    saved = read_plan((tmp_path / "plan.json").read_bytes())
    unknown, server, authority = saved.cluster.split(" ")
    assert unknown == "-"
    assert server.startswith("https://")
    for other in (f"- https://elsewhere:6443 {authority}", f"- {server} 0123456789abcdef"):
        elsewhere = structs.replace(saved, cluster=other)
        (tmp_path / "other.json").write_text(json.dumps(plan_value(elsewhere)))
        for anybody in (run, user):
            done = anybody("apply", "other.json", code=7)
            assert "another cluster" in done.stderr
    assert writes() == []
    run("diff", "jobs", "--plan", "plan.json")  # a plan of somebody with more rights
    user("apply", "plan.json", code=0)


def test_renamed_folder_lists_what_stays_in_the_previous_set(
    run, kubelet, objects, tmp_path, namespace
):
    jobs = repository(tmp_path / "a", "git@git.example.com:a/jobs.git", training_job("one"))
    (jobs / "two.yaml").write_text(yaml.safe_dump(training_job("two", replicas=1)))
    run("apply", jobs, code=0)
    renamed = jobs.rename(tmp_path / "a" / "training")
    (renamed / "two.yaml").unlink()
    for command in ("diff", "apply"):
        done = run(command, renamed, "--prune", code=0)
        assert done.stderr.count("ET8027") == 1, done.stderr
        assert f"no file declares them: {namespace}/two" in done.stderr
    assert any("two" in name for name in objects())
    again = run("apply", renamed, "--prune")
    assert "ET8027" not in again.stderr
    run("delete", "--job", "two", code=0)
    assert {name for name in objects() if "two" in name} == set()


def test_a_folder_that_nothing_names_says_what_prune_does_not_find(run, job, kubelet):
    job(replicas=1)
    done = run("apply", "jobs", "--prune", code=0)
    assert done.stderr.count("Set repository-name in etcompile.toml") == 1
    assert "repository-name" not in run("apply", "jobs").stderr
    assert "repository-name" not in run("apply", "jobs", "--prune", "--config", "set=team").stderr


def test_a_set_that_has_a_name_is_named_to_every_verb(run, job, writes, kubelet):
    job(replicas=1)
    run("apply", "jobs", "--config", "set=team", code=0)
    before = writes()
    for command in (("apply", "jobs"), ("delete", "jobs")):
        for other in ((), ("--config", "set=other")):
            done = run(*command, *other, code=4)
            assert "--config set=team" in done.stderr
    assert writes() == before
    for command in (("apply", "jobs"), ("delete", "jobs")):
        run(*command, "--config", "set=team", code=0)


def gpt(name="gpt"):
    return {**kubeflow_job("PyTorchJob", {"Worker": 1}), "metadata": {"name": name}}


@pytest.fixture
def operated(control_plane, namespace):
    """The operator's object `gpt` with a status is there, or is deleted."""
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    root = f"/apis/kubeflow.org/v1/namespaces/{namespace}/pytorchjobs"
    control_plane.ask("POST", crds, definition("kubeflow.org", "PyTorchJob"))

    def there(status):
        ask_until_served(control_plane, root, {**gpt(), "status": status})
        return lambda: control_plane.ask("DELETE", f"{root}/gpt")

    yield there
    path = f"{crds}/pytorchjobs.kubeflow.org"
    control_plane.ask("DELETE", path)
    with contextlib.suppress(HTTPError):
        while control_plane.ask("GET", path):
            time.sleep(0.1)


def having(condition):
    return {"conditions": [{"type": condition, "status": "True"}]}


LIVE = {"new": {}, "running": having("Running"), "suspended": having("Suspended")}


@pytest.mark.parametrize("status", LIVE.values(), ids=LIVE)
def test_a_job_that_an_operator_runs_is_not_run_twice(
    run, write, writes, operated, kubelet, status
):
    write(gpt())
    delete = operated(status)
    before = writes()
    done = run("apply", "jobs", code=4)
    assert "PyTorchJob" in done.stderr
    assert "etcompile migrate" in done.stderr
    assert "etcompile migrate" in run("diff", "jobs").stdout
    assert writes() == before
    delete()
    run("apply", "jobs", code=0)


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
def test_a_job_that_an_operator_has_finished_is_no_hindrance(run, write, operated, kubelet, end):
    write(gpt())
    operated(having(end))
    run("apply", "jobs", code=0)


def test_who_may_not_read_the_operators_jobs_is_warned_once(as_user, write, operated, kubelet):
    operated({})
    write(gpt(), gpt("bert"))
    done = as_user(rules())("apply", "jobs", code=0)
    assert done.stderr.count("ET8028") == 1, done.stderr
    assert "PyTorchJob" in done.stderr
