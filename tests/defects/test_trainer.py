"""The numbered defects of Kubeflow Trainer v2 (reference/trainer-v2.md 11), and its other rules.

T15 and T24 are in tests/watch/rules/test_waiting_jobs.py, with what else a watcher decides.
"""

import copy
import hashlib
from typing import Any

import pytest
import yaml

import etcompile
from etcompile import Options, Settings
from etcompile.compiler.stored import read_stored


def part(name: str, step: str | None = None, **container: Any) -> dict[str, Any]:
    """A replicatedJob of one container, which is named as its step wants it."""
    main = {None: name, "trainer": "node"}.get(step, step)
    main_container = {"name": main, "image": "example.com/a:1", **container}
    template: dict[str, Any] = {"spec": {"template": {"spec": {"containers": [main_container]}}}}
    if step:
        template["metadata"] = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": step}}
    return {"name": name, "template": template}


def of_parts(policy: dict[str, Any], *parts: dict[str, Any], **job_set: Any) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": "own", "namespace": "ml"},
        "spec": {
            "mlPolicy": policy,
            "template": {"spec": {"replicatedJobs": [*parts], **job_set}},
        },
    }


def runtime() -> dict[str, Any]:
    return of_parts(
        {"numNodes": 2, "torch": {}}, part("node", "trainer", command=["torchrun", "t.py"])
    )


def job(**spec: Any) -> dict[str, Any]:
    reference = {"kind": "TrainingRuntime", "name": "own"}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "t", "namespace": "ml"},
        "spec": {"runtimeRef": reference, **spec},
    }


def replicated(value: dict[str, Any]) -> dict[str, Any]:
    [replicated_job] = value["spec"]["template"]["spec"]["replicatedJobs"]
    return dict(replicated_job)


def main(value: dict[str, Any]) -> dict[str, Any]:
    [container] = replicated(value)["template"]["spec"]["template"]["spec"]["containers"]
    return container


def pods(*inputs: dict[str, Any]) -> list[Any]:
    compilation = etcompile.compile(inputs)
    assert compilation.ok, compilation.diagnostics
    return [value for value in compilation.objects if value["kind"] == "Pod"]


def variables(pod: Any) -> dict[str, Any]:
    return {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0]["env"]}


def errors(*inputs: dict[str, Any]) -> set[tuple[str, str]]:
    compilation = etcompile.compile(inputs)
    assert not compilation.ok
    return {
        (diagnostic.code, diagnostic.where or diagnostic.message)
        for diagnostic in compilation.diagnostics
    }


@pytest.mark.parametrize(
    ("cpus", "limits", "processes"),
    [
        ("5", {"cpu": "5", "nvidia.com/gpu": "0"}, "5"),
        ("5", {"cpu": "5", "nvidia.com/gpu": "0", "amd.com/gpu": 2}, "auto"),
        ("5", {"cpu": "5", "nvidia.com/gpumem": 3000, "nvidia.com/gpu": "0"}, "auto"),
        ("5", {"cpu": "5", "nvidia.com/mig-1g.5gb": 1}, "5"),
        ("0", {"cpu": 4}, "4"),
    ],
)
def test_amount_of_zero_does_not_count(cpus: str, limits: dict[str, Any], processes: str) -> None:
    resources = {"requests": {"cpu": cpus}, "limits": limits}
    pod, _ = pods(runtime(), job(trainer={"resourcesPerNode": resources}))
    assert variables(pod)["PET_NPROC_PER_NODE"] == processes


def test_trainer_11_the_address_is_of_the_job_and_service_that_there_are() -> None:
    custom = runtime()
    custom["spec"]["template"]["spec"]["network"] = {"subdomain": "ring"}
    custom["spec"]["template"]["spec"]["replicatedJobs"][0]["name"] = "worker"
    pod, _ = pods(custom, job())
    assert variables(pod)["PET_MASTER_ADDR"] == "t-worker-0-0.ring"
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("t-worker-0-0", "ring")


def test_trainer_13_a_name_is_refused_when_it_is_compiled_or_fits() -> None:
    # JobSet leaves room for a random suffix, which our Pods do not have.
    long = job()
    long["metadata"]["name"] = "a" * 54
    assert pods(runtime(), long)[0]["metadata"]["name"] == f"{'a' * 54}-node-0-0"
    long["metadata"]["name"] = "a" * 55
    assert [code for code, _ in errors(runtime(), long)] == ["ET2021"]


def test_trainer_12_another_number_of_nodes_is_another_run() -> None:
    def run(nodes: int) -> tuple[str, str | None]:
        first = pods(runtime(), job(trainer={"numNodes": nodes}))[0]
        note = first["metadata"]["annotations"]["etcompile.dev/spec-hash"]
        return note, variables(first)["PET_NNODES"]

    assert [run(2)[1], run(3)[1]] == ["2", "3"]
    assert run(2)[0] != run(3)[0]


def test_trainer_17_variables_have_one_order() -> None:
    custom = runtime()
    custom["spec"]["mlPolicy"] = {"xgboost": {}}
    main(custom)["env"] = [{"name": "FIRST", "value": "a"}]
    env = variables(pods(custom, job(trainer={"env": [{"name": "LR", "value": "1"}]}))[0])
    assert [*env][:3] == ["FIRST", "LR", "DMLC_TRACKER_URI"]


def test_trainer_19_a_kind_of_runtime_that_there_is_not_is_refused() -> None:
    train_job = job()
    train_job["spec"]["runtimeRef"] = {"kind": "OtherRuntime", "name": "own"}
    assert "ET2007" in {code for code, _ in errors(runtime(), train_job)}


@pytest.mark.parametrize(
    ("of_runtime", "of_job", "expected"),
    [
        ("auto", None, "3"),  # the processors of the container
        ("cpu", None, "3"),
        ("gpu", None, "gpu"),
        (4, None, "4"),
        (4, 2, "2"),
        (4, "auto", "3"),
    ],
)
def test_trainer_23_processes_of_an_older_runtime_count(of_runtime, of_job, expected) -> None:
    custom = runtime()
    custom["spec"]["mlPolicy"]["torch"] = {"numProcPerNode": of_runtime}
    trainer = {"resourcesPerNode": {"requests": {"cpu": "2500m"}}}
    train_job = job(trainer=trainer if of_job is None else {**trainer, "numProcPerNode": of_job})
    warned = [fields for code, fields in warnings(custom, train_job) if code == "ET2145"]
    assert len(warned) == 1 + isinstance(of_job, str)
    for pod in pods(custom, train_job):
        [main] = pod["spec"]["containers"]
        values = {entry["name"]: entry.get("value") for entry in main["env"]}
        assert values["PET_NPROC_PER_NODE"] == expected


@pytest.mark.parametrize("field", ["podTemplateOverrides", "podSpecOverrides"])
def test_trainer_23_overrides_of_older_versions_are_patches(field) -> None:
    changed = {"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    pod = changed if field == "podSpecOverrides" else {"spec": changed}
    override = {"targetJobs": [{"name": "node"}], **pod}
    train_job = job(**{field: [override]})
    assert [where for code, where in warnings(runtime(), train_job) if code == "ET2145"]
    for node in pods(runtime(), train_job):
        assert node["spec"]["nodeSelector"] == {"zone": "a"}
    everywhere = job(**{field: [pod]})
    assert [code for code, _ in errors(runtime(), everywhere)] == ["ET2139"]


def test_trainer_25_name_conflict_with_another_object_is_an_error() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "t", "namespace": "ml"}}
    service["spec"] = {"ports": [{"port": 80}]}
    assert "ET4005" in {code for code, _ in errors(runtime(), job(), service)}


def test_trainer_26_a_field_that_is_added_later_changes_the_pods() -> None:
    for later in ({"activeDeadlineSeconds": 60}, {"trainer": {"image": "example.com/b:1"}}):
        assert pods(runtime(), job(**later)) != pods(runtime(), job())


def test_trainer_29_objects_have_no_owner_references_or_finalizers() -> None:
    for value in etcompile.compile([with_data(), job()]).objects:
        assert not {"ownerReferences", "finalizers"} & value["metadata"].keys()


MEET = "--rdzv_endpoint=t-node-0-0.t:29500"


def mpi(**policy: Any) -> dict[str, Any]:
    launcher = part("launcher", "trainer", command=["mpirun", "a"])
    launcher["dependsOn"] = [{"name": "node", "status": "Ready"}]
    node = part("node", command=["/usr/sbin/sshd", "-De"])
    success = {"operator": "All", "targetReplicatedJobs": ["launcher"]}
    return of_parts(
        {"mpi": {"runLauncherAsNode": True, **policy}}, node, launcher, successPolicy=success
    )


@pytest.mark.parametrize("field", ["runtimePatches", "podSpecOverrides"])
def test_invalid_patch_is_reported_with_its_field(field) -> None:
    volumes = {"volumes": [{"name": "x", "persistentVolumeClaim": "x"}]}
    patch: dict[str, Any] = {"targetJobs": [{"name": "node"}], **volumes}
    if field == "runtimePatches":
        template = {"spec": {"template": {"spec": volumes}}}
        jobs = {"replicatedJobs": [{"name": "node", "template": template}]}
        patch = {"manager": "a.b/c", "trainingRuntimeSpec": {"template": {"spec": jobs}}}
    reported = dict(errors(runtime(), job(**{field: [patch]})))
    assert "volumes[0].persistentVolumeClaim" in reported["ET4002"]


@pytest.mark.parametrize("policy", ["Failed", "TerminatingOrFailed"])
def test_how_a_job_replaces_pods_needs_no_word(policy: str) -> None:
    custom = runtime()
    replicated(custom)["template"]["spec"]["podReplacementPolicy"] = policy
    assert pods(custom, job()) == pods(runtime(), job())
    assert warnings(custom, job()) == warnings(runtime(), job())


def test_a_job_may_go_some_time_after_its_end() -> None:
    custom = runtime()
    replicated(custom)["template"]["spec"]["ttlSecondsAfterFinished"] = 60
    [warning] = warnings(custom, job()) - warnings(runtime(), job())
    assert warning[0] == "ET2041"
    of_job_set = runtime()
    of_job_set["spec"]["template"]["spec"]["ttlSecondsAfterFinished"] = 60
    assert stored_ttl(custom) == stored_ttl(of_job_set) == 60


def stored_ttl(custom: dict[str, Any]) -> int | None:
    compilation = etcompile.compile([custom, job()])
    maps = [value for value in compilation.objects if value["kind"] == "ConfigMap"]
    [text] = [value["data"]["job.yaml"] for value in maps if "job.yaml" in value["data"]]
    [read] = read_stored(yaml.safe_load(text))[:1]
    return read.run.ttl


def test_the_launcher_of_mpi_connects_to_the_annotated_port() -> None:
    train_job = job(trainer={"numNodes": 2})
    train_job["metadata"]["annotations"] = {"etcompile.dev/ssh-port": "2222"}
    env = variables(named(pods(mpi(), train_job))["t-launcher-0-0"])
    assert env["OMPI_MCA_plm_rsh_args"] == env["PRTE_MCA_plm_ssh_args"]
    assert env["OMPI_MCA_plm_rsh_args"].endswith(" -p 2222")


def test_nodes_of_mpi_need_no_label_to_be_counted() -> None:
    custom = mpi(numProcPerNode=2)
    for replicated in custom["spec"]["template"]["spec"]["replicatedJobs"]:
        replicated["template"].pop("metadata", None)
    by_name = named(pods(custom, job(trainer={"numNodes": 3, "numProcPerNode": 4})))
    assert set(by_name) == {"t-node-0-0", "t-node-0-1", "t-launcher-0-0"}


def test_fields_of_a_trainer_that_no_job_reads_are_one_warning():
    runtime = mpi()
    for replicated in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
        replicated["template"].pop("metadata", None)
    unread = {"image": "a:1", "args": ["x"], "env": [{"name": "A", "value": "b"}]}
    trainer = {"numNodes": 2, **unread}
    compilation = etcompile.compile([runtime, job(trainer=trainer)])
    assert compilation.ok
    assert [*compilation.objects]
    [one] = [each for each in compilation.diagnostics if "spec.trainer" in each.message]
    fields = ", ".join(f"spec.trainer.{field}" for field in unread)
    assert one.message.startswith(f"{fields} has no effect: no Job of the runtime has the label")


def with_data(**mount: Any) -> dict[str, Any]:
    """A runtime that fetches data before it trains."""
    mounts = {"volumeMounts": [{"name": "initializer", "mountPath": "/workspace", **mount}]}
    node = part("node", "trainer", command=["torchrun", "t.py"], **mounts)
    node["dependsOn"] = [{"name": "dataset-initializer", "status": "Complete"}]
    data = part("dataset-initializer", "dataset-initializer", command=["fetch"], **mounts)
    policies = [{"templates": [claim("initializer")]}]
    return of_parts({"torch": {}}, data, node, volumeClaimPolicies=policies)


def objects(kind: str, *inputs: dict[str, Any]) -> list[Any]:
    compilation = etcompile.compile(inputs)
    assert compilation.ok, compilation.diagnostics
    return [value for value in compilation.objects if value["kind"] == kind]


def named(objects: list[Any]) -> dict[str, Any]:
    return {value["metadata"]["name"]: value for value in objects}


def warnings(*inputs: dict[str, Any]) -> set[tuple[str, str]]:
    compilation = etcompile.compile(inputs)
    assert compilation.ok, compilation.diagnostics
    return {(diagnostic.code, diagnostic.message) for diagnostic in compilation.diagnostics}


def test_trainer_03_of_one_node_the_launcher_is_alone() -> None:
    documents = mpi(), job(trainer={"numNodes": 1})
    assert [*named(pods(*documents))] == ["t-launcher-0-0"]
    [config] = objects("ConfigMap", *documents)
    assert config["data"]["hostfile"] == "t-launcher-0-0.t slots=1\n"


def test_trainer_04_nodes_have_the_image_that_their_launcher_has() -> None:
    by_name = named(pods(mpi(), job(trainer={"numNodes": 2, "image": "example.com/own:1"})))
    assert {pod["spec"]["containers"][0]["image"] for pod in by_name.values()} == {
        "example.com/own:1"
    }
    assert by_name["t-node-0-0"]["spec"]["containers"][0]["command"][-2:] == [
        "/usr/sbin/sshd",
        "-De",
    ]


def test_trainer_04_image_of_the_node_template_is_preserved() -> None:
    custom = mpi()
    jobs = custom["spec"]["template"]["spec"]["replicatedJobs"]
    jobs[0]["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/ssh:1"
    by_name = named(pods(custom, job(trainer={"numNodes": 2, "image": "example.com/own:1"})))
    assert by_name["t-node-0-0"]["spec"]["containers"][0]["image"] == "example.com/ssh:1"


def test_trainer_18_launcher_that_is_a_node_waits_for_its_hostname() -> None:
    [config] = objects("ConfigMap", mpi(), job(trainer={"numNodes": 2}))
    assert config["data"]["hosts-of-launcher"].splitlines() == ["t-node-0-0.t", "t-launcher-0-0.t"]
    assert "is_up()" in config["data"]["wait-for-workers.sh"]


def test_keys_of_root_are_not_for_its_group() -> None:
    def modes(path: str) -> dict[str, int]:
        for volume in pods(mpi(sshAuthMountPath=path), job())[0]["spec"]["volumes"]:
            if volume["name"] == "mpi-ssh-auth":
                return {item["path"]: item["mode"] for item in volume["secret"]["items"]}
        raise AssertionError("no keys")

    assert modes("/root/.ssh")["id_rsa"] == 0o600
    assert modes("/home/mpiuser/.ssh")["id_rsa"] == 0o640


def test_only_nodes_and_launcher_have_the_keys() -> None:
    custom = mpi()
    custom["spec"]["template"]["spec"]["replicatedJobs"].insert(0, part("data"))
    by_name = named(pods(custom, job(trainer={"numNodes": 2})))
    assert {
        name
        for name, pod in by_name.items()
        if any(volume["name"] == "mpi-ssh-auth" for volume in pod["spec"].get("volumes", ()))
    } == {"t-node-0-0", "t-launcher-0-0"}


def test_trainer_08_a_volume_may_have_another_name() -> None:
    custom = with_data(name="initializer")
    text = copy.deepcopy(custom)
    for replicated in text["spec"]["template"]["spec"]["replicatedJobs"]:
        spec = replicated["template"]["spec"]["template"]["spec"]
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}]
        spec["containers"][0]["volumeMounts"][0]["name"] = "data"
    del text["spec"]["template"]["spec"]["volumeClaimPolicies"]
    train_job = job(initializer={"dataset": {"storageUri": "hf://a/b"}})
    by_name = named(pods(text, train_job))
    assert variables(by_name["t-dataset-initializer-0-0"])["STORAGE_URI"] == "hf://a/b"


def test_trainer_27_32_a_claim_is_one_object_that_stays() -> None:
    [claim] = objects("PersistentVolumeClaim", with_data(), job())
    assert claim["metadata"]["name"] == "initializer-t"
    for pod in pods(with_data(), job()):
        [volume] = [one for one in pod["spec"]["volumes"] if one["name"] == "initializer"]
        assert volume["persistentVolumeClaim"] == {"claimName": "initializer-t"}
    suspended = objects("PersistentVolumeClaim", with_data(), job(suspend=True))
    assert suspended == [claim]  # what is applied again is the same


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"accessmodes": ["ReadWriteMany"]}, "ET4001"),
        ({"accessModes": "ReadWriteMany"}, "ET4002"),
        ({"resources": {"requests": {"storage": "1GB"}}}, "ET4002"),
        ({"storageClassName": 3}, "ET4002"),
    ],
)
def test_a_claim_that_a_server_refuses_is_refused(spec: dict[str, Any], code: str) -> None:
    custom = with_data()
    [policy] = custom["spec"]["template"]["spec"]["volumeClaimPolicies"]
    policy["templates"][0]["spec"].update(spec)
    compilation = etcompile.compile([custom, job()])
    assert not compilation.ok
    diagnostics = compilation.diagnostics
    codes = [one.code for one in diagnostics if one.severity is etcompile.Severity.ERROR]
    assert codes == [code]


def test_claim_with_data_is_not_deleted_with_its_job() -> None:
    custom = with_data()
    policy = custom["spec"]["template"]["spec"]["volumeClaimPolicies"][0]
    policy["retentionPolicy"] = {"whenDeleted": "Delete"}
    reason = "no claim is deleted with its job, because it holds data"
    assert any(reason in message for _, message in warnings(custom, job()))


def test_pods_that_share_a_claim_have_affinity_for_one_node() -> None:
    alone = pods(with_data(), job())
    assert all("podAffinity" in pod["spec"].get("affinity", {}) for pod in alone)
    several = pods(with_data(), job(trainer={"numNodes": 2}))
    assert not any("affinity" in pod["spec"] for pod in several)


def test_who_waits_for_others_to_succeed_needs_a_watcher() -> None:
    assert any(code == "ET2140" for code, _ in warnings(with_data(), job()))
    [pod] = [one for one in pods(with_data(), job()) if one["metadata"]["name"] == "t-node-0-0"]
    [gate] = pod["spec"]["initContainers"]
    assert gate["name"] == "wait-for-jobs"


def test_overridden_completions_are_reported() -> None:
    custom = runtime()
    custom["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["completions"] = 7
    assert any(
        "completions of the Job 'node' has no effect" in m for _, m in warnings(custom, job())
    )


@pytest.mark.parametrize(
    ("trainer", "command"),
    [
        (
            {"args": ["model.lora_attn_modules=[q_proj]"], "numProcPerNode": 2},
            f"{MEET} lora_finetune_distributed --config llama3_2/1B_lora",
        ),
        (
            {"numProcPerNode": 1},
            "full_finetune_single_device --config llama3_2/1B_full_single_device",
        ),
        (
            {
                "args": ["model.lora_attn_modules=[a]", "model.quantize_base=true"],
                "numProcPerNode": 1,
            },
            "lora_finetune_single_device --config llama3_2/1B_qlora_single_device",
        ),
        (
            {},
            f"{MEET} full_finetune_distributed --config llama3_2/1B_full",
        ),
    ],
)
def test_the_command_of_torchtune_is_completed(trainer: Any, command: str) -> None:
    train_job = job(trainer={"command": ["tune", "run"], **trainer})
    train_job["spec"]["runtimeRef"] = {"name": "torchtune-llama3.2-1b"}
    container = named(pods(train_job))["t-node-0-0"]["spec"]["containers"][0]
    words = " ".join(container["command"])
    arguments = (
        "output_dir=/workspace/output tokenizer.path=/workspace/model/original/tokenizer.model"
    )
    assert f" tune run {command} {arguments}" in words
    assert "dataset" not in words
    assert not any(entry["name"].startswith("PET_MASTER") for entry in container["env"])


def patch(name: str = "node", manager: str = "example.com/a", **pod: Any) -> dict[str, Any]:
    spec = {"template": {"spec": pod}}
    jobs = {"replicatedJobs": [{"name": name, "template": {"spec": spec}}]}
    return {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": jobs}}}


def test_patches_are_merged_in_the_order_of_their_list() -> None:
    custom = runtime()
    pod = replicated(custom)["template"]["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]
    pod["tolerations"] = [{"key": "old", "operator": "Exists"}]
    first = patch(
        volumes=[{"name": "c", "emptyDir": {}}, {"name": "b", "emptyDir": {"sizeLimit": "1Gi"}}],
        nodeSelector={"pool": "a", "zone": "x"},
        tolerations=[{"key": "new", "operator": "Exists"}],
    )
    second = patch(manager="example.com/b", nodeSelector={"pool": "b"})
    patched, _ = pods(custom, job(runtimePatches=[first, second]))
    names = [volume["name"] for volume in patched["spec"]["volumes"]]
    assert names[:3] == ["c", "a", "b"]
    assert patched["spec"]["volumes"][2]["emptyDir"] == {"sizeLimit": "1Gi"}
    assert patched["spec"]["nodeSelector"] == {"pool": "b", "zone": "x"}
    assert [one["key"] for one in patched["spec"]["tolerations"]][:1] == ["new"]


def test_trainer_14_31_a_patch_comes_and_goes_as_any_other_text() -> None:
    plain = pods(runtime(), job())
    assert pods(runtime(), job(runtimePatches=[patch(nodeSelector={"a": "b"})])) != plain
    assert pods(runtime(), job(runtimePatches=[])) == plain


def test_trainer_21_a_volume_has_one_type() -> None:
    custom = runtime()
    pod = replicated(custom)["template"]["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "data", "emptyDir": {}}]
    change = patch(volumes=[{"name": "data", "configMap": {"name": "m"}}])
    assert {code for code, _ in errors(custom, job(runtimePatches=[change]))} == {"ET4002"}


TRAINER = """\
  trainer:
    env:
    - {name: A, valueFrom: {fieldRef: {fieldPath: spec.nonsense}}}
"""
PATCHES = """\
  runtimePatches:
  - manager: example.com/a
    trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node,
      template: {spec: {template: {spec: {volumes: [{name: a, emptyDir: {}},
        {name: b, nonsense: {}}]}}}}}]}}}
"""


@pytest.mark.parametrize(
    ("fields", "code", "line"), [(TRAINER, "ET4002", 8), (PATCHES, "ET4001", 10)]
)
def test_fault_in_a_merged_value_or_patch_is_reported_with_its_line(
    tmp_path: Any, fields: str, code: str, line: int
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "apiVersion: trainer.kubeflow.org/v1alpha1\n"
        "kind: TrainJob\n"
        "metadata: {name: t, namespace: ml}\n"
        "spec:\n"
        "  runtimeRef: {name: torch-distributed}\n" + fields,
    )
    compilation = etcompile.compile(str(file))
    [diagnostic] = [one for one in compilation.diagnostics if one.code == code]
    assert diagnostic.location is not None
    assert (diagnostic.location.file, diagnostic.location.line) == (str(file), line)


def in_gang(gang: str, **policy: Any) -> tuple[list[Any], set[str]]:
    """The objects of a job whose runtime has a podGroupPolicy, and what it is told."""
    custom = with_data()
    custom["spec"]["podGroupPolicy"] = policy
    queue = {"scheduling.volcano.sh/queue-name": "research"}
    custom["spec"]["template"]["metadata"] = {"annotations": queue}
    options = Options(settings=Settings(gang=gang))
    compilation = etcompile.compile([custom, job(trainer={"numNodes": 3})], options)
    assert compilation.ok, compilation.diagnostics
    return [*compilation.objects], {diagnostic.message for diagnostic in compilation.diagnostics}


def test_trainer_07_a_gang_has_its_scheduler_and_all_pods_that_there_are() -> None:
    topology = {"networkTopology": {"mode": "soft"}}
    objects, _ = in_gang("volcano", volcano=topology)
    [group] = [value for value in objects if value["kind"] == "PodGroup"]
    members = [value for value in objects if value["kind"] == "Pod"]
    assert group["spec"]["minMember"] == len(members) == 4
    assert group["spec"]["queue"] == "research"
    assert group["spec"]["networkTopology"] == {"mode": "soft", "highestTierAllowed": 1}
    assert {pod["spec"]["schedulerName"] for pod in members} == {"volcano"}


def test_an_empty_name_of_a_queue_is_refused() -> None:
    queue = "scheduling.volcano.sh/queue-name"
    custom = runtime()
    custom["spec"]["template"]["metadata"] = {"annotations": {queue: ""}}
    assert pods(custom, job())
    custom["spec"]["podGroupPolicy"] = {"volcano": {}}
    assert errors(custom, job()) == {("ET2139", queue)}


@pytest.mark.parametrize("gang", ["volcano", "kai"])
@pytest.mark.parametrize(("trainer", "expected"), [("high", "high"), (None, None)])
def test_a_gang_has_the_priority_of_the_job_that_trains(
    gang: str, trainer: str | None, expected: str | None
) -> None:
    custom = of_parts({"torch": {}}, part("helper"), part("node", "trainer"))
    helper, node = (
        entry["template"]["spec"]["template"]["spec"]
        for entry in custom["spec"]["template"]["spec"]["replicatedJobs"]
    )
    helper["priorityClassName"] = "low"
    if trainer:
        node["priorityClassName"] = trainer
    compilation = etcompile.compile([custom, job()], Options(settings=Settings(gang=gang)))
    [group] = [value for value in compilation.objects if value["kind"] == "PodGroup"]
    assert group["spec"].get("priorityClassName") == expected


def test_a_gang_of_coscheduling_waits_for_as_long_as_its_runtime_says() -> None:
    for policy, seconds in (({}, 60), ({"scheduleTimeoutSeconds": 90}, 90)):
        objects, _ = in_gang("coscheduling", coscheduling=policy)
        [group] = [value for value in objects if value["kind"] == "PodGroup"]
        assert group["spec"]["scheduleTimeoutSeconds"] == seconds


def test_volcano_policy_with_no_gang_scheduler_is_a_warning() -> None:
    warning = "spec.podGroupPolicy.volcano has no effect: no gang scheduler is chosen"
    assert warning in in_gang("none", volcano={})[1]


def test_the_variables_of_torch_go_to_other_containers_too() -> None:
    custom = runtime()
    pod = replicated(custom)["template"]["spec"]["template"]["spec"]
    pod["initContainers"] = [{"name": "check", "image": "example.com/a:1"}]
    targets = [{"jobName": "node", "containerNames": ["check"]}]
    custom["spec"]["mlPolicy"]["torch"] = {"envInjection": {"targets": targets}}
    first = pods(custom, job(trainer={"env": [{"name": "A", "value": "b"}]}))[0]
    names = [entry["name"] for entry in first["spec"]["initContainers"][0]["env"]]
    assert names[:2] == ["PET_NNODES", "PET_NPROC_PER_NODE"]
    assert "A" not in names
    targets[0]["containerNames"] = ["ghost"]
    assert errors(custom, job()) == {("ET2139", "envInjection of container 'ghost'")}


def test_all_pods_have_the_coordinator_label_and_annotation() -> None:
    custom = runtime()
    named = {"replicatedJob": "node", "podIndex": 1}
    custom["spec"]["template"]["spec"]["coordinator"] = named
    for pod in pods(custom, job()):
        for field in ("labels", "annotations"):
            assert pod["metadata"][field]["jobset.sigs.k8s.io/coordinator"] == "t-node-0-1.t"
    named["replicatedJob"] = "other"
    assert errors(custom, job()) == {("ET2139", "coordinator")}


def test_who_is_waited_for_until_ready_answers_on_one_port() -> None:
    def with_probes(first: int, second: int) -> dict[str, Any]:
        probes = [{"readinessProbe": {"tcpSocket": {"port": port}}} for port in (first, second)]
        node = part("node", "trainer")
        node["dependsOn"] = [{"name": name, "status": "Ready"} for name in ("a", "b")]
        return of_parts({"torch": {}}, part("a", **probes[0]), part("b", **probes[1]), node)

    assert pods(with_probes(80, 80), job())
    assert errors(with_probes(80, 81), job()) == {("ET2139", "dependsOn")}


def test_any_of_several_jobs_is_refused_where_one_has_several_pods() -> None:
    custom = of_parts({"torch": {}}, part("node", "trainer"), part("other"))
    custom["spec"]["template"]["spec"]["successPolicy"] = {"operator": "Any"}
    assert pods(custom, job())
    where = "successPolicy.operator Any"
    assert errors(custom, job(trainer={"numNodes": 2})) == {("ET2139", where)}
    custom["spec"]["template"]["spec"]["successPolicy"]["targetReplicatedJobs"] = ["node"]
    assert pods(custom, job(trainer={"numNodes": 2}))


PRIORITY = "jobset.sigs.k8s.io/priority"


def test_exclusive_topology_keeps_jobs_apart() -> None:
    custom = runtime()
    zone = "topology.kubernetes.io/zone"
    annotation = {"alpha.jobset.sigs.k8s.io/exclusive-topology": zone}
    custom["spec"]["template"]["metadata"] = {"annotations": annotation}
    # reference/trainer-v2.md 13: sha1 of NAMESPACE/JOB
    key = hashlib.sha1(b"ml/t-node-0", usedforsecurity=False).hexdigest()
    for pod in pods(custom, job()):
        assert pod["metadata"]["labels"]["jobset.sigs.k8s.io/job-key"] == key
        affinity = pod["spec"]["affinity"]
        for field in ("podAffinity", "podAntiAffinity"):
            [term] = affinity[field]["requiredDuringSchedulingIgnoredDuringExecution"]
            assert term["topologyKey"] == zone
        *_, same = term["labelSelector"]["matchExpressions"]
        assert same == {"key": PRIORITY, "operator": "In", "values": ["0"]}
        assert pod["metadata"]["labels"][PRIORITY] == "0"
    replicated(custom)["template"]["spec"]["template"]["spec"]["priorityClassName"] = "urgent"
    assert {pod["metadata"]["labels"][PRIORITY] for pod in pods(custom, job())} == {"urgent"}
    nowhere = job()
    del nowhere["metadata"]["namespace"]
    del custom["metadata"]["namespace"]
    assert "ET2043" in {code for code, _ in warnings(custom, nowhere)}
    key = hashlib.sha1(b"default/t-node-0", usedforsecurity=False).hexdigest()
    assert pods(custom, nowhere)[0]["metadata"]["labels"]["jobset.sigs.k8s.io/job-key"] == key


def test_runtime_that_no_job_names_is_a_warning() -> None:
    other = runtime()
    other["metadata"]["name"] = "misnamed"
    compilation = etcompile.compile([job(), runtime(), other])
    [diagnostic] = [one for one in compilation.diagnostics if one.code == "ET2041"]
    assert "TrainingRuntime misnamed" in diagnostic.message
    assert "no TrainJob of the input names it" in diagnostic.message
    assert compilation.ok


def test_deprecated_runtime_is_a_warning_if_a_job_names_it():
    old = runtime()
    old["metadata"]["labels"] = {"trainer.kubeflow.org/support": "deprecated"}
    words = "the TrainingRuntime own is deprecated: its label trainer.kubeflow.org/support says so"
    assert ("ET2144", words) in warnings(old, job())
    old["metadata"]["labels"] = {"trainer.kubeflow.org/support": "community"}
    assert not any(code == "ET2144" for code, _ in warnings(old, job()))


def env(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "value": "1"} for name in names]


def claim(name: str) -> dict[str, Any]:
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": storage}


URI = "hf://a/b"
WITH_DATA = {"initializer": {"dataset": {"storageUri": URI}}}


def test_entries_that_a_patch_would_merge_are_not_lost() -> None:
    custom = runtime()
    pod = replicated(custom)["template"]["spec"]["template"]["spec"]
    pod["initContainers"] = [{"name": "i", "image": image} for image in ("a:1", "b:1")]
    change = patch(initContainers=[{"name": "i", "env": env("A")}])
    reported = errors(custom, job(runtimePatches=[change]))
    assert any(
        code == "ET2139" and where.endswith("initContainers 'i'") for code, where in reported
    )


def test_ports_and_mounts_are_identified_by_the_list_keys_of_the_crds() -> None:
    custom = runtime()
    main(custom)["ports"] = [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]
    [(_, where)] = errors(custom, job())
    assert where.endswith("ports '80 TCP'")
    main(custom)["ports"][1]["protocol"] = "UDP"
    assert etcompile.compile([custom, job()]).ok
    mounts = [{"name": "v", "mountPath": path} for path in ("/a", "/b")]
    change = patch(
        volumes=[{"name": "v", "emptyDir": {}}],
        containers=[{"name": "node", "volumeMounts": mounts}],
    )
    [(_, where)] = errors(custom, job(runtimePatches=[change]))
    assert where.endswith("volumeMounts 'v'")


def test_a_runtime_is_named_as_objects_are() -> None:
    custom, train_job = runtime(), job()
    custom["metadata"]["name"] = train_job["spec"]["runtimeRef"]["name"] = "Own"
    assert errors(custom, train_job) == {("ET2139", "name 'Own' of the runtime")}
    custom["metadata"]["name"] = train_job["spec"]["runtimeRef"]["name"] = "own.v1"
    assert etcompile.compile([custom, train_job]).ok


@pytest.mark.parametrize(
    ("templates", "name", "where"),
    [
        (["initializer", "initializer"], "t", "claim 'initializer'"),
        (["initializer", "unused"], "t", "claim 'unused'"),
        (["initializer"], "a" * 54, "claim 'initializer'"),
    ],
)
def test_a_template_of_a_claim_is_one_that_jobset_takes(
    templates: list[str], name: str, where: str
) -> None:
    custom = with_data()
    policies = custom["spec"]["template"]["spec"]["volumeClaimPolicies"]
    policies[0]["templates"] = [claim(each) for each in templates]
    train_job = job(**WITH_DATA)
    train_job["metadata"]["name"] = name
    assert errors(custom, train_job) >= {("ET2139", where)}


def test_a_scheme_may_be_written_in_capitals_and_something_follows_it() -> None:
    capitals = job(initializer={"dataset": {"storageUri": "S3://bucket/a"}})
    assert etcompile.compile([with_data(), capitals]).ok
    nothing = job(initializer={"dataset": {"storageUri": "s3://"}})
    assert {code for code, _ in errors(with_data(), nothing)} == {"ET2009"}


def test_nulls_of_a_patch_take_nothing_away() -> None:
    custom = runtime()
    replicated(custom)["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"a": "b"}
    patched, _ = pods(custom, job(runtimePatches=[patch(nodeSelector={"a": None, "c": "d"})]))
    assert patched["spec"]["nodeSelector"] == {"a": "b", "c": "d"}


def test_an_empty_list_takes_the_command_of_the_runtime_away() -> None:
    custom = runtime()
    main(custom)["args"] = ["x"]
    assert "args" not in pods(custom, job(trainer={"args": []}))[0]["spec"]["containers"][0]
    container = pods(custom, job(trainer={"command": []}))[0]["spec"]["containers"][0]
    assert (container.get("command"), container["args"]) == (None, ["x"])


def test_an_empty_address_takes_the_place_of_the_runtimes() -> None:
    custom = with_data()
    data = custom["spec"]["template"]["spec"]["replicatedJobs"][0]
    [container] = data["template"]["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": "STORAGE_URI", "value": "hf://c/d"}]
    by_name = named(pods(custom, job(initializer={"dataset": {"storageUri": ""}})))
    assert variables(by_name["t-dataset-initializer-0-0"])["STORAGE_URI"] == ""


# Refused --------------------------------------------------------------------------------------


def changed(value: dict[str, Any], path: str, new: Any) -> dict[str, Any]:
    """A runtime with another value at a path below `spec.template.spec`."""
    inner: Any = value["spec"]["template"]["spec"]
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in steps:
        inner = inner[step]
    inner[last] = new
    return value


def of_policy(policy: str) -> dict[str, Any]:
    return of_parts({policy: {}}, part("node", "trainer"))


def patched(change: dict[str, Any]) -> dict[str, Any]:
    return job(runtimePatches=[change])


def tune(**trainer: Any) -> dict[str, Any]:
    train_job = job(trainer={"command": ["tune", "run"], **trainer})
    train_job["spec"]["runtimeRef"] = {"name": "torchtune-llama3.2-1b"}
    return train_job


FIRST = "replicatedJobs.0"
POD = "replicatedJobs.1.template.spec.template.spec"
ENV = [{"name": "A", "value": "b"}]
RULES = {"maxRestarts": 1, "rules": [{"name": "a", "action": "FailJobSet"}]}
CACHED = {**job(), "spec": {"runtimeRef": {"name": "torch-distributed-with-cache"}}}
WAITS = [{"name": "dataset-initializer", "status": status} for status in ("Complete", "Ready")]
REFUSED: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a cache (T9)": (
        [with_data(), job(initializer={"dataset": {"storageUri": "cache://a/b"}})],
        "spec.initializer.dataset",
    ),
    "a runtime with a cache (T9)": ([CACHED], "runtime torch-distributed-with-cache"),
    "data that reaches nobody (T10)": (
        [changed(with_data(), f"{POD}.containers.0.volumeMounts", []), job(**WITH_DATA)],
        "spec.initializer.dataset",
    ),
    "two replicas of a Job (T20)": (
        [changed(runtime(), f"{FIRST}.replicas", 2), job()],
        "replicas of 'node'",
    ),
    "a patch of a missing Job (T22)": (
        [runtime(), patched(patch("other", nodeSelector={}))],
        "patch of replicatedJob 'other'",
    ),
    "a patch of a missing container (T22)": (
        [runtime(), patched(patch(containers=[{"name": "ghost"}]))],
        "patch of container 'ghost'",
    ),
    "a patch of a missing init container (T22)": (
        [runtime(), patched(patch(initContainers=[{"name": "ghost"}]))],
        "patch of init container 'ghost'",
    ),
    "variables of the training in a patch": (
        [runtime(), patched(patch(containers=[{"name": "node", "env": ENV}]))],
        "env of container 'node' in a patch",
    ),
    "a variable twice": ([with_data(), job(trainer={"env": ENV * 2})], "spec.trainer.env 'A'"),
    "a variable of an initializer twice": (
        [with_data(), job(initializer={"dataset": {"storageUri": URI, "env": ENV * 2}})],
        "spec.initializer.dataset.env 'A'",
    ),
    "another policy": ([of_policy("flux"), job()], "spec.mlPolicy.flux"),
    "rules of a failure policy": (
        [changed(runtime(), "failurePolicy", RULES), job()],
        "spec.template.spec.failurePolicy.rules",
    ),
    "waiting for a missing Job": (
        [changed(with_data(), "replicatedJobs.1.dependsOn", [{**WAITS[0], "name": "x"}]), job()],
        "dependsOn 'x'",
    ),
    "waiting for itself": (
        [changed(with_data(), "replicatedJobs.1.dependsOn", [{**WAITS[0], "name": "node"}]), job()],
        "dependsOn 'node'",
    ),
    "waiting twice": (
        [changed(with_data(), "replicatedJobs.1.dependsOn", WAITS), job(**WITH_DATA)],
        "spec.template.spec.replicatedJobs[1].dependsOn 'dataset-initializer'",
    ),
    "a volume named like a claim": (
        [
            changed(with_data(), f"{POD}.volumes", [{"name": "initializer", "emptyDir": {}}]),
            job(**WITH_DATA),
        ],
        "volume 'initializer'",
    ),
    "several nodes of tune run": ([tune(numNodes=2)], "numNodes of tune run"),
    "an output folder of tune run": ([tune(args=["output_dir=/x"])], "args of tune run"),
    "quantization by several processes of tune run": (
        [tune(args=["model.quantize_base=true"], numProcPerNode=2)],
        "args of tune run",
    ),
}


@pytest.mark.parametrize(("documents", "where"), REFUSED.values(), ids=REFUSED)
def test_what_trainer_cannot_run_is_refused(documents: list[dict[str, Any]], where: str) -> None:
    assert errors(*documents) == {("ET2139", where)}


@pytest.mark.parametrize(
    ("path", "new", "code"),
    [
        ("network", {"subdomain": "Sub"}, "ET2009"),
        ("network", {"subdomain": "s" * 64}, "ET2012"),
        ("successPolicy", {"targetReplicatedJobs": ["node"]}, "ET2002"),
        ("startupPolicy", {"startupPolicyOrder": "Random"}, "ET2007"),
        ("startupPolicy", {"startupPolicyOrder": "InOrder"}, "ET2139"),
        ("coordinator", {"replicatedJob": "node", "podIndex": 9}, "ET2139"),
        (f"{FIRST}.groupName", "G g", "ET2009"),
    ],
)
def test_what_the_webhook_of_jobset_refuses_is_refused(path: str, new: Any, code: str) -> None:
    custom = changed(with_data(), path, new)
    assert {code for code, _ in errors(custom, job(**WITH_DATA))} == {code}


def test_name_of_the_coordinator_fits_a_host_name() -> None:
    custom = changed(with_data(), "coordinator", {"replicatedJob": "node"})
    custom = changed(custom, "network", {"subdomain": "s" * 60})
    assert {code for code, _ in errors(custom, job(**WITH_DATA))} == {"ET2139"}


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_metadata_of_objects_that_are_not_created_is_validated(field: str) -> None:
    custom = runtime()
    custom["spec"]["template"]["metadata"] = {field: {"a b": "c"}}
    assert {code for code, _ in errors(custom, job())} == {"ET2009"}


@pytest.mark.parametrize(
    ("train_job", "code"),
    [
        (job(trainer={"numNodes": 0}), "ET2008"),
        (job(trainer={"numNodes": -1}), "ET2008"),
        (job(trainer={"env": [{"name": "A", "value": True}]}), "ET2006"),
        (patched({"manager": "example.com/a", "time": "yesterday"}), "ET2009"),
        (patched({"manager": "a..b/c"}), "ET2009"),
        (patched({"manager": "example.com/a b"}), "ET2009"),
        ({**job(), "runtime": {"spec": {}}}, "ET2139"),
    ],
    ids=["T16", "T30", "T28", "time", "dots", "blank", "merged runtime"],
)
def test_field_of_a_job_that_the_server_refuses_is_refused(
    train_job: dict[str, Any], code: str
) -> None:
    assert {code for code, _ in errors(runtime(), train_job)} == {code}
