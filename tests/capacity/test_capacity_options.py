"""`check --capacity`, `diff` and `capacity snapshot` as people use them, with a cluster, too."""

import pytest
import yaml

from capacity.clusters import gpu_cluster, node, pod, running
from commandline import etcompile
from etcompile.capacity import snapshot
from etcompile.emit import to_yaml

JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: bert, namespace: ml}
spec:
  runPolicy: {activeDeadlineSeconds: 14400}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: pytorch
            image: registry.example.com/bert:1.2
            command: [torchrun, train.py]
            resources: {limits: {cpu: 2, memory: 8Gi, nvidia.com/gpu: 1}}
"""


@pytest.fixture
def folder(tmp_path):
    """A job, and a snapshot of a cluster where two GPUs are free."""
    (tmp_path / "job.yaml").write_text(JOB, "utf-8")
    write(tmp_path, gpu_cluster())
    return tmp_path


def write(folder, shot):
    (folder / "capacity.yaml").write_text(to_yaml(snapshot.to_document(shot)), "utf-8")


def check(folder, *words):
    words = words or ("--capacity", "capacity.yaml")
    return etcompile("check", "job.yaml", *words, "--ignore", "ET9001", cwd=folder)


def edit(folder, old, new, file="job.yaml"):
    path = folder / file
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def test_says_that_a_job_fits_does_not_fit_now_or_never(folder):
    done = check(folder)
    assert done.returncode == 0
    assert "capacity: ml/bert fits now" in done.stderr
    edit(folder, "replicas: 2", "replicas: 3")
    done = check(folder)
    assert done.returncode == 0
    assert (
        "warning[ET7012]: ml/bert does not fit now: 2 of 3 worker Pods find a node" in done.stderr
    )
    assert "it fits after the end of Pods of priority 0 or less with cpu: 2" in done.stderr
    edit(folder, "nvidia.com/gpu: 1", "nvidia.com/gpu: 8")
    done = check(folder)
    assert done.returncode == 2
    assert (
        "error[ET7010]: ml/bert never fits this cluster: worker asks nvidia.com/gpu: 8 on one node;"
        " the largest node has 4" in done.stderr
    )


def test_says_that_jobs_fit_one_by_one_but_not_together(folder):
    other = JOB.replace("bert", "llama")
    (folder / "job.yaml").write_text(f"{JOB}---\n{other}", "utf-8")
    done = check(folder)
    assert "capacity: ml/bert fits now" in done.stderr
    assert "warning[ET7012]: the set of all 2 jobs does not fit now" in done.stderr.replace(
        "do ", "does "
    )


def test_reads_the_file_that_the_configuration_names(folder):
    (folder / "etcompile.toml").write_text('capacity = "capacity.yaml"\n', "utf-8")
    assert (
        "capacity: ml/bert fits now"
        in check(folder, "--quiet", "--strict").stderr + check(folder, "--color", "never").stderr
    )


def test_adds_a_row_for_each_job_to_a_comment(folder):
    (folder / "old").mkdir()
    price = ("--config", "price=nvidia.com/gpu=2.5,cpu=0.5")
    words = ("--against", "old", "-o", "markdown", "--capacity", "capacity.yaml", *price)
    done = etcompile("diff", "job.yaml", *words, cwd=folder)
    assert "| ml/bert | fits now | at most 8.0 GPU-hours, 28.00 |" in done.stdout
    plain = etcompile("diff", "job.yaml", "--against", "old", "-o", "markdown", cwd=folder)
    assert "GPU-hours" not in plain.stdout


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("count: 2", "count: two", "capacity.yaml:12:12"),
        ("kind: CapacitySnapshot", "kind: Pod", "capacity.yaml:2:7"),
        ("nodes:", "nods:", "capacity.yaml:1"),
    ],
)
def test_says_where_a_file_is_no_snapshot(folder, old, new, place):
    edit(folder, old, new, "capacity.yaml")
    done = check(folder)
    assert done.returncode == 2
    assert "error[ET7014]" in done.stderr
    assert place in done.stderr


def test_says_of_an_empty_cluster_that_it_has_no_node(folder):
    write(folder, snapshot.of_objects([]))
    done = check(folder)
    assert done.returncode == 2
    assert "no node takes worker: there is no node" in done.stderr


def test_a_snapshot_names_no_pods_images_or_nodes():
    pods = [running("gpu-node", name="secret-pod"), running("gpu-node", name="another")]
    text = to_yaml(snapshot.to_document(snapshot.of_objects([node("gpu-node")], pods)))
    assert not any(word in text for word in ("secret-pod", "another", "gpu-node", "train"))


# With an API server ------------------------------------------------------------------------------


@pytest.fixture
def cluster_with_nodes(control_plane, namespace):
    """Two nodes with four GPUs each, and a Pod that uses three of them."""
    names = [f"{namespace}-a", f"{namespace}-b"]
    for name in names:
        declared = node(name, gpus=4)
        control_plane.ask("POST", "/api/v1/nodes", {"metadata": declared["metadata"]})
        live = control_plane.ask("GET", f"/api/v1/nodes/{name}")
        control_plane.ask("PUT", f"/api/v1/nodes/{name}", {**live, "spec": {}})  # it is ready
        control_plane.set_status(f"/api/v1/nodes/{name}", declared["status"])
    busy = pod("busy", gpus=3, namespace=namespace, nodeName=names[0])
    control_plane.ask("POST", f"/api/v1/namespaces/{namespace}/pods", busy)
    quota = {"metadata": {"name": "team"}, "spec": {"hard": {"requests.nvidia.com/gpu": "6"}}}
    control_plane.ask("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
    yield namespace
    for name in names:
        control_plane.ask("DELETE", f"/api/v1/nodes/{name}")


def test_writes_a_snapshot_of_a_cluster_and_reads_it(
    folder, control_plane, cluster_with_nodes, monkeypatch
):
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig(context="prod")))
    written = etcompile("capacity", "snapshot", "--context", "prod")
    assert (written.returncode, written.stderr) == (0, "")
    document = yaml.safe_load(written.stdout)
    assert sum(state["count"] for group in document["nodes"] for state in group["states"]) == 2
    (folder / "capacity.yaml").write_text(written.stdout, "utf-8")
    edit(folder, "namespace: ml", f"namespace: {cluster_with_nodes}")
    for words in (("--capacity", "capacity.yaml"), ("--capacity", "cluster:prod")):
        assert "fits now" in check(folder, *words).stderr
    edit(folder, "replicas: 2", "replicas: 7")
    for words in (("--capacity", "capacity.yaml"), ("--capacity", "cluster:prod")):
        done = check(folder, *words)
        assert "error[ET7011]" in done.stderr
        assert "needs requests.nvidia.com/gpu: 7, and the ResourceQuota" in done.stderr


def test_knows_the_names_of_nodes_of_a_cluster(
    folder, control_plane, cluster_with_nodes, monkeypatch
):
    edit(folder, "replicas: 2", "replicas: 1")
    name = f"{cluster_with_nodes}-a"
    edit(
        folder,
        "containers:",
        f"nodeSelector: {{kubernetes.io/hostname: {name}}}\n          containers:",
    )
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig()))
    words = ("--capacity", "cluster")
    assert "fits now" in check(folder, *words).stderr
    edit(folder, name, "elsewhere")
    assert "that its node selector or affinity excludes" in check(folder, *words).stderr


def test_why_says_what_a_pod_without_a_node_waits_for(
    folder, control_plane, cluster_with_nodes, monkeypatch
):
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig(namespace=cluster_with_nodes)))
    edit(folder, "namespace: ml", f"namespace: {cluster_with_nodes}")
    edit(folder, "nvidia.com/gpu: 1", "nvidia.com/gpu: 3")
    rendered = etcompile("render", "job.yaml", cwd=folder).stdout
    path = f"/api/v1/namespaces/{cluster_with_nodes}"
    control_plane.ask("DELETE", f"{path}/resourcequotas/team")
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    for value in yaml.safe_load_all(rendered):
        control_plane.ask("POST", f"{path}/{value['kind'].lower()}s", value)
        if value["kind"] == "Pod":
            status = {"phase": "Pending", "conditions": [waits]}
            control_plane.set_status(f"{path}/pods/{value['metadata']['name']}", status)
    done = etcompile("why", "bert")
    assert "nodes: 1 of 2 worker Pods find a node: of 2 nodes 1 with room, 1 with too little" in (
        done.stdout
    )


def test_says_who_may_not_list_nodes(folder, control_plane, namespace, monkeypatch):
    control_plane.grant(namespace, "ann")
    config = control_plane.kubeconfig(user="ann", groups=(), namespace=namespace)
    monkeypatch.setenv("KUBECONFIG", str(config))
    for words in (("capacity", "snapshot"), ("check", "job.yaml", "--capacity", "cluster")):
        done = etcompile(*words, cwd=folder, code=6)
        assert "nodes is forbidden" in done.stderr.replace("\n", " ")
