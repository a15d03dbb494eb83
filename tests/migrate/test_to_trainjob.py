"""`etcompile migrate --to trainjob`: what jobs become, and what is told."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

import etcompile
from commandline import etcompile as run
from etcompile.compiler import load
from etcompile.compiler.choices import Options
from etcompile.integrations.migrate import Migrated
from etcompile.integrations.migrate.to_trainjob import to_trainjobs
from specs import kubeflow_job, replicas

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(
    path
    for kind in ("pytorchjob", "jaxjob", "xgboostjob")
    for path in (ROOT / "examples" / kind).glob("*/job.yaml")
)
HOSTS = {
    *("MASTER_ADDR", "MASTER_PORT", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
    *("COORDINATOR_ADDRESS", "COORDINATOR_PORT", "JAX_COORDINATOR_ADDRESS"),
    *("WORKER_ADDRS", "WORKER_PORT", "DMLC_TRACKER_URI", "DMLC_TRACKER_PORT"),
}
"""Variables whose values name a host and a port: Trainer's are called otherwise."""
TRAINERS = {"JOB_COMPLETION_INDEX"}
"""A variable that Kubernetes' Jobs add."""
RENDEZVOUS = {"PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND", "PET_MAX_RESTARTS", "PET_NNODES"}
"""What an elastic job is told, and Trainer has nothing for: a warning each."""
PLACES = {"RANK", "PET_NODE_RANK", "PROCESS_ID", "JAX_PROCESS_ID", "DMLC_TASK_ID"}
"""Variables that Trainer takes from an annotation of the Pod."""


def pytorch_job(**spec: Any) -> dict[str, Any]:
    role = replicas("PyTorchJob", command=["torchrun", "a.py"])
    types = {"Master": {**role, "replicas": 1}, "Worker": {**copy.deepcopy(role), "replicas": 2}}
    value = kubeflow_job("PyTorchJob", types, **spec)
    value["metadata"] = {"name": "mn", "namespace": "ml", "labels": {"team": "nlp"}}
    return value


def converted(*values: Any) -> Migrated:
    return to_trainjobs(load.loaded(list(values), Options(), None).documents)


def documents(result: Migrated) -> dict[str, dict[str, Any]]:
    return {name: yaml.safe_load(text) for name, text in result.files.items()}


def messages(result: Migrated, code: str) -> list[str]:
    return [one.message for one in result.diagnostics if one.code == code]


def pods(compilation: etcompile.Compilation) -> list[dict[str, Any]]:
    pod_list = [one for one in compilation.objects if one["kind"] == "Pod"]
    return sorted(pod_list, key=lambda pod: int(rank(pod)))


def rank(pod: dict[str, Any]) -> str:
    """The number of a node among all."""
    env = variables(pod)
    for name in ("RANK", "PROCESS_ID"):
        if (value := env.get(name)) is not None:
            return str(value)
    return str(pod["metadata"]["name"].rpartition("-")[2])


def main(pod: dict[str, Any]) -> dict[str, Any]:
    names = ("pytorch", "jax", "xgboost", "node")
    [container] = [one for one in pod["spec"]["containers"] if one["name"] in names]
    return container


def variables(pod: dict[str, Any]) -> dict[str, Any]:
    """The variables of the container that trains, those of fields with what they come to."""
    env = {}
    for one in main(pod).get("env", ()):
        path = one.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        if path.startswith("metadata.annotations["):
            env[one["name"]] = pod["metadata"]["annotations"][path.split("'")[1]]
        else:
            env[one["name"]] = one.get("value", one.get("valueFrom"))
    return env


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_what_the_program_sees_is_the_same_but_for_what_is_listed(path, tmp_path):
    jobs = [one for one in yaml.safe_load_all(path.read_text()) if one]
    jobs = [one for one in jobs if one["kind"] in ("PyTorchJob", "JAXJob", "XGBoostJob")]
    result = converted(*jobs)
    assert result.files, [one.message for one in result.diagnostics]
    before = etcompile.compile(jobs)
    after = etcompile.compile(list(documents(result).values()))
    assert before.ok
    assert after.ok
    assert len(pods(before)) == len(pods(after)) > 0
    for was, now in zip(pods(before), pods(after), strict=True):
        one, other = main(was), main(now)
        if one["command"][1].endswith("/wait-for-workers.sh"):  # it runs the rest as it is
            one = {**one, "command": one["command"][2:]}
        if "in-place" in path.parts:  # which exit codes are not restarted is lost, and told
            assert any("restartPolicy" in words for words in messages(result, "ET2141"))
            assert "--permanent=exit-code" in one["command"]
            assert "--gang=master:1,worker:3" in one["command"]
            assert "--gang=node:4" in other["command"]
            one, other = (
                {**container, "command": container["command"][container["command"].index("--") :]}
                for container in (one, other)
            )
        for field in ("image", "command", "args", "resources", "workingDir", "securityContext"):
            assert one.get(field) == other.get(field), field
        assert user_mounts(one) == user_mounts(other)
        assert user_volumes(was) == user_volumes(now)
        had, has = variables(was), variables(now)
        assert {*had} - {*has} <= RENDEZVOUS
        assert {*has} - {*had} <= TRAINERS | HOSTS | RENDEZVOUS | PLACES | {
            "WORLD_SIZE",
            "DMLC_NUM_WORKER",
        }
        for name in {*had} & {*has} - HOSTS - RENDEZVOUS - {"PET_NPROC_PER_NODE"}:
            assert had[name] == has[name], name


def user_mounts(container: dict[str, Any]) -> list[Any]:
    mounts = container.get("volumeMounts", ())
    return [one for one in mounts if not one["name"].startswith("etcompile-")]


def user_volumes(pod: dict[str, Any]) -> list[Any]:
    volumes = pod["spec"].get("volumes", ())
    return [one for one in volumes if not one["name"].startswith("etcompile-")]


def test_job_becomes_a_trainjob_with_a_dedicated_runtime():
    policy = {"activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 5, "suspend": True}
    result = converted(pytorch_job(nprocPerNode="4", runPolicy={**policy, "backoffLimit": 3}))
    files = documents(result)
    assert [*files] == ["mn.yaml", "mn-runtime.yaml"]
    assert files["mn.yaml"]["metadata"] == {
        "name": "mn",
        "namespace": "ml",
        "labels": {"team": "nlp"},
    }
    assert files["mn.yaml"]["spec"] == {
        "runtimeRef": {"kind": "TrainingRuntime", "name": "mn"},
        "trainer": {"numNodes": 3, "numProcPerNode": 4},
        "suspend": True,
        "activeDeadlineSeconds": 60,
    }
    job_set = files["mn-runtime.yaml"]["spec"]["template"]["spec"]
    assert job_set["ttlSecondsAfterFinished"] == 5
    spec = job_set["replicatedJobs"][0]["template"]["spec"]
    assert spec["backoffLimit"] == 3
    assert spec["template"]["spec"]["restartPolicy"] == "OnFailure"
    env = {
        one["name"]: one.get("value") for one in spec["template"]["spec"]["containers"][0]["env"]
    }
    assert env["WORLD_SIZE"] == "12"
    assert env["MASTER_ADDR"] == "mn-node-0-0.mn"


def test_each_field_without_an_equivalent_in_a_trainjob_is_reported():
    job = pytorch_job(
        runPolicy={"cleanPodPolicy": "All", "schedulingPolicy": {"queue": "q", "minAvailable": 3}},
        elasticPolicy={"minReplicas": 1, "maxReplicas": 4},
        nprocPerNode="gpu",
    )
    types = job["spec"]["pytorchReplicaSpecs"]
    types["Master"]["restartPolicy"] = types["Worker"]["restartPolicy"] = "ExitCode"
    for replica in types.values():
        env = [{"name": "PET_NNODES", "value": "9"}]
        replica["template"]["spec"]["containers"][0]["env"] = env
    result = converted(job)
    words = "\n".join(messages(result, "ET2141"))
    for field in (
        "spec.runPolicy.cleanPodPolicy ",
        "spec.runPolicy.schedulingPolicy.queue ",
        "spec.runPolicy.schedulingPolicy.minAvailable ",
        "spec.elasticPolicy.minReplicas ",
        "spec.elasticPolicy.maxReplicas ",
        "spec.nprocPerNode ",
        "spec.pytorchReplicaSpecs.Master.restartPolicy ",
        "spec.pytorchReplicaSpecs.Worker.restartPolicy ",
        "env PET_NNODES ",
        "the master's success ",
    ):
        assert field in words
    assert "PET_NNODES" not in result.files["mn-runtime.yaml"]
    # For ever would go on with what ExitCode calls a failure for good.
    assert "backoffLimit: 6" in result.files["mn-runtime.yaml"]


def test_an_xgboostjob_finds_its_tracker_and_its_machines_where_the_nodes_are():
    path = ROOT / "examples" / "xgboostjob" / "iris" / "job.yaml"
    result = converted(yaml.safe_load(path.read_text()))
    by_file = documents(result)
    assert by_file["iris.yaml"]["spec"]["trainer"] == {"numNodes": 3}
    assert by_file["iris-runtime.yaml"]["spec"]["mlPolicy"] == {"xgboost": {}}
    nodes = pods(etcompile.compile(list(by_file.values())))
    for index, pod in enumerate(nodes):
        env = variables(pod)
        assert env["WORLD_SIZE"] == env["DMLC_NUM_WORKER"] == "3"
        assert env["RANK"] == env["DMLC_TASK_ID"] == str(index)
        assert env["MASTER_ADDR"] == env["DMLC_TRACKER_URI"] == "iris-node-0-0.iris"
        assert env["MASTER_PORT"] == env["DMLC_TRACKER_PORT"] == env["WORKER_PORT"] == "29500"
        assert env["WORKER_ADDRS"] == "iris-node-0-1.iris,iris-node-0-2.iris"
    words = messages(result, "ET2141")
    assert any("xgbReplicaSpecs.Worker.restartPolicy" in one for one in words)
    assert any("the master's success" in one for one in words)


def test_templates_that_differ_are_refused_field_by_field(tmp_path):
    job = pytorch_job()
    worker = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    worker["containers"][0]["image"] = "example.com/other:1"
    worker["nodeSelector"] = {"gpu": "a100"}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    done = run("migrate", "--to", "trainjob", tmp_path / "job.yaml", code=2)
    assert done.stdout == ""
    assert done.stderr.count("error[ET2142]") == 2
    assert "Worker.template.spec.containers[0].image differs from the master's" in done.stderr
    assert "Worker.template.spec.nodeSelector differs from the master's" in done.stderr
    assert "job.yaml:" in done.stderr


@pytest.mark.parametrize("kind", ["tfjob", "paddlejob", "mxjob", "mpijob", "mpijob-v2beta1"])
def test_kinds_that_trainer_runs_otherwise_are_refused_with_the_reason(kind):
    path = min((ROOT / "examples" / kind).glob("*/job.yaml"))
    done = run("migrate", "--to", "trainjob", path, code=2)
    assert "error[ET2143]" in done.stderr
    assert "cannot become a TrainJob: " in done.stderr


def test_the_files_are_written_and_compile(tmp_path):
    path = ROOT / "examples" / "pytorchjob" / "torchrun" / "job.yaml"
    done = run("migrate", "--to", "trainjob", path, "-d", tmp_path / "out", code=0)
    assert "HANDOVER" not in done.stderr
    run("render", tmp_path / "out", code=0)


def of_the_runtime(job: dict[str, Any]) -> list[dict[str, Any]]:
    """The containers of the first replicated job that a job becomes."""
    result = converted(job)
    assert result.files, [one.message for one in result.diagnostics]
    [runtime] = [one for one in documents(result).values() if one["kind"] == "TrainingRuntime"]
    spec = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]
    containers: list[dict[str, Any]] = spec["template"]["spec"]["containers"]
    return containers


def with_env(job: dict[str, Any], *env: dict[str, str]) -> dict[str, Any]:
    for replica in job["spec"]["pytorchReplicaSpecs"].values():
        replica["template"]["spec"]["containers"][0]["env"] = [*env]
    return job


def test_what_the_operator_says_of_the_nodes_still_counts_before_the_template():
    port = {"name": "MASTER_PORT", "value": "29400"}
    store = {"name": "STORE", "value": "tcp://rendezvous:$(MASTER_PORT)"}
    [node] = of_the_runtime(with_env(pytorch_job(), port, store))
    env = {one["name"]: one.get("value") for one in node["env"]}
    assert len(env) == len(node["env"])
    assert env["MASTER_PORT"] == "29500"
    # The kubelet put in the template's, which stood before it.
    assert env["STORE"] == "tcp://rendezvous:29400"


def test_workers_without_a_master_keep_the_master_address_they_set():
    job = with_env(pytorch_job(), {"name": "MASTER_ADDR", "value": "store.example.com"})
    del job["spec"]["pytorchReplicaSpecs"]["Master"]
    [node] = of_the_runtime(job)
    env = {one["name"]: one.get("value") for one in node["env"]}
    assert env["MASTER_ADDR"] == "store.example.com"


def with_sidecar(**container: Any) -> dict[str, Any]:
    job = pytorch_job()
    for replica in job["spec"]["pytorchReplicaSpecs"].values():
        side = {"name": "side", "image": "example.com/s:1", **container}
        replica["template"]["spec"]["containers"].append(side)
    return job


def test_sidecars_stay_as_they_are_written_and_that_is_said():
    job = with_sidecar()
    job["metadata"]["annotations"] = {"etcompile.dev/sidecar-env": "true"}
    _, side = of_the_runtime(job)
    assert "env" not in side
    lost = messages(converted(job), "ET2141")
    assert [words for words in lost if "container side" in words]
    assert [words for words in lost if "annotation etcompile.dev/sidecar-env" in words]


def test_ports_without_a_name_get_one_because_trainer_takes_them_for_one_another():
    ports = [{"containerPort": 6006}, {"containerPort": 6006, "protocol": "UDP"}]
    job = with_sidecar(ports=[*ports, {"containerPort": 80, "name": "http"}])
    for replica in job["spec"]["pytorchReplicaSpecs"].values():
        replica["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 8080}]
    node, side = of_the_runtime(job)
    assert node["ports"] == [{"containerPort": 8080, "name": "tcp-8080"}]
    assert [port["name"] for port in side["ports"]] == ["tcp-6006", "udp-6006", "http"]


def test_a_name_that_is_too_long_for_jobset_is_refused():
    most = 48

    def named(length: int) -> dict[str, Any]:
        job = pytorch_job()
        job["metadata"]["name"] = "a" * length
        return job

    assert converted(named(most)).files
    [why] = messages(converted(named(most + 1)), "ET2143")
    assert f"the job's name may have {most}, and has {most + 1}" in why


def test_a_container_that_has_trainers_name_already_is_refused():
    job = with_sidecar()
    for replica in job["spec"]["pytorchReplicaSpecs"].values():
        replica["template"]["spec"]["containers"][1]["name"] = "node"
    [why] = messages(converted(job), "ET2143")
    assert "Trainer wants the name 'node' for the container that trains" in why


def test_a_job_that_kueue_starts_in_another_cluster_is_converted_with_its_manager():
    manager = "kueue.x-k8s.io/multikueue"
    files = documents(converted(pytorch_job(runPolicy={"managedBy": manager})))
    assert files["mn.yaml"]["spec"]["managedBy"] == manager
