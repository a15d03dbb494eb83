"""One test for each defect of et-operator that can be decided without a cluster.

The numbers are those of reference/et-operator.md 6. What is missing here happens at run time
and is the watcher's: test_watcher.py.
"""

from typing import Any

import pytest
import yaml

from specs import (
    HOROVOD,
    by_name,
    compiled,
    container,
    errors,
    launcher,
    pods,
    scale_in,
    scale_out,
    training_job,
    warnings,
    worker,
)


def pod(documents: list[dict[str, Any]], name: str, **options: Any) -> Any:
    return by_name(compiled(*documents, **options))["Pod", name]


def config(*documents: dict[str, Any]) -> Any:
    return by_name(compiled(*documents))["ConfigMap", "mnist-config"]["data"]


def stored(*documents: dict[str, Any]) -> Any:
    return yaml.safe_load(config(*documents)["job.yaml"])


def containers(pod: Any) -> dict[str, Any]:
    return {one["name"]: one for one in pod["spec"]["containers"]}


def mounts(one: Any) -> dict[str, Any]:
    return {mount["mountPath"]: mount for mount in one["volumeMounts"]}


def test_et_operator_01_scale_in_of_unknown_pods_deletes_nothing() -> None:
    assert errors(training_job(), scale_in("gone", ["mnist-worker-9"])) == ["ET3002"]


def test_et_operator_02_same_name_in_two_namespaces_shares_nothing() -> None:
    jobs = [training_job(), training_job(replicas=1)]
    jobs[0]["metadata"]["namespace"], jobs[1]["metadata"]["namespace"] = "a", "b"
    result = compiled(*jobs)
    workers = {
        one["metadata"]["namespace"]: one["data"]["hostfile"]
        for one in result.objects
        if one["kind"] == "ConfigMap"
    }
    assert workers == {
        "a": "mnist-worker-0:1\nmnist-worker-1:1\n",
        "b": "mnist-worker-0:1\n",
    }


def without(document: dict[str, Any], *path: str) -> dict[str, Any]:
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return document


@pytest.mark.parametrize(
    ("documents", "code"),
    [
        ([without(training_job(), "spec")], "ET2002"),
        ([without(training_job(), "spec", "etReplicaSpecs", "worker", "replicas")], "ET2002"),
        ([training_job(), without(scale_in("x", 1), "spec", "toDelete")], "ET2002"),
    ],
    ids=["no spec", "no worker.replicas", "no toDelete"],
)
def test_et_operator_03_what_crashes_the_operator_is_an_error(
    documents: list[dict[str, Any]], code: str
) -> None:
    assert errors(*documents) == [code]


@pytest.mark.parametrize("role", ["launcher", "worker"])
def test_et_operator_03_empty_containers_are_an_error(role: str) -> None:
    job = training_job()
    job["spec"]["etReplicaSpecs"][role]["template"]["spec"]["containers"] = []
    assert errors(job) == ["ET2010"]


def test_et_operator_04_fields_of_the_newer_crd_are_preserved() -> None:
    job = training_job(restartPolicy="OnFailure", backoffLimit=2, launcherAttachMode="ssh")
    spec = stored(job)["document"]["spec"]
    assert (spec["restartPolicy"], spec["backoffLimit"]) == ("OnFailure", 2)
    assert spec["launcherAttachMode"] == "ssh"


@pytest.mark.parametrize(
    ("bounds", "code"),
    [
        ({"replicas": 12, "maxReplicas": 9}, "ET2003"),
        ({"replicas": 1, "minReplicas": 2}, "ET2004"),
        ({"replicas": 3, "minReplicas": 4, "maxReplicas": 2}, "ET2005"),
    ],
)
def test_et_operator_05_bounds_hold_for_the_job(bounds: dict[str, int], code: str) -> None:
    job = training_job()
    worker(job).update(bounds)
    assert errors(job) == [code]


def test_et_operator_05_bounds_hold_for_intents() -> None:
    job = training_job()
    worker(job).update(minReplicas=2, maxReplicas=2)
    assert errors(job, scale_out("a", 1)) == ["ET3004"]
    assert errors(job, scale_in("a", 1)) == ["ET3005"]


def test_et_operator_06_the_role_names_resources_that_exist() -> None:
    objects = by_name(compiled(training_job(launcherAttachMode="kubexec"), namespace="ml"))
    rules = objects["Role", "mnist-launcher"]["rules"]
    assert {resource for rule in rules for resource in rule["resources"]} == {"pods", "pods/exec"}


def test_et_operator_09_the_launchers_hostfile_is_the_live_list() -> None:
    volumes = pod([training_job()], "mnist-launcher")["spec"]["volumes"]
    [volume] = (one for one in volumes if one["name"] == "training-job-hostfile")
    seed, live = (source["configMap"] for source in volume["projected"]["sources"])
    assert [item["path"] for item in seed["items"]] == ["hostfile", "discover_hosts.sh"]
    assert live == {"name": "mnist-etcompile-hosts", "optional": True}


def test_et_operator_09_the_config_follows_the_workers() -> None:
    assert config(training_job(), scale_out("a", 1))["hostfile"].count("\n") == 3


def test_et_operator_10_the_deepspeed_hostfile_follows_too() -> None:
    data = config(training_job(), scale_in("a", 1))
    assert data["deepspeed-hostfile"] == "mnist-worker-0 slots=1\n"


def test_et_operator_15_no_private_key_is_rendered_or_mounted_in_sidecars() -> None:
    job = training_job()
    worker(job)["template"]["spec"]["containers"].append(container("sidecar"))
    result = compiled(job)
    assert not [one for one in result.objects if one["kind"] == "Secret"]
    both = containers(by_name(result)["Pod", "mnist-worker-0"])
    assert "/root/.ssh" in mounts(both["main"])
    assert "volumeMounts" not in both["sidecar"]


def test_et_operator_16_a_named_secret_is_the_one_that_is_used() -> None:
    job = training_job()
    job["metadata"]["annotations"] = {"arena.kubeflow.org/ssh-secret": "team-key"}
    result = compiled(job)
    assert not [one for one in result.objects if one["kind"] in ("Secret", "ExternalSecret")]
    volumes = by_name(result)["Pod", "mnist-launcher"]["spec"]["volumes"]
    assert [v["secret"]["secretName"] for v in volumes if "secret" in v] == ["team-key"]


@pytest.mark.parametrize("secret", ["team.key", "k" * 64])
def test_et_operator_17_a_secret_whose_name_no_volume_can_have_works(secret: str) -> None:
    job = training_job()
    job["metadata"]["annotations"] = {"arena.kubeflow.org/ssh-secret": secret}
    volumes = pod([job], "mnist-launcher")["spec"]["volumes"]
    [volume] = [v for v in volumes if v.get("secret", {}).get("secretName") == secret]
    assert "." not in volume["name"]
    assert len(volume["name"]) <= 63


def non_root(job: dict[str, Any]) -> dict[str, Any]:
    for role in (launcher(job), worker(job)):
        role["template"]["spec"]["securityContext"] = {"runAsUser": 1000}
    return job


def test_et_operator_17_ssh_for_non_root_needs_to_know_the_home() -> None:
    assert errors(non_root(training_job())) == ["ET2045", "ET2045"]


def test_et_operator_17_keys_are_copied_for_a_user_who_is_not_root() -> None:
    job = non_root(training_job())
    job["metadata"]["annotations"] = {"etcompile.dev/ssh-mount-path": "/home/mpi/.ssh"}
    rendered = pod([job], "mnist-worker-0")
    [copy] = [c for c in rendered["spec"]["initContainers"] if c["name"] == "copy-ssh-keys"]
    assert "/home/mpi/.ssh" in mounts(copy)
    assert "/home/mpi/.ssh" in mounts(containers(rendered)["main"])
    assert containers(rendered)["main"]["readinessProbe"]["tcpSocket"]["port"] > 1023


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("cleanPodPolicy",), "running"),
        (("launcherAttachMode",), "SSH"),
        (("restartPolicy",), "Always"),
        (("etReplicaSpecs", "worker", "restartPolicy"), "onFailure"),
        (("etReplicaSpecs", "launcher", "restartPolicy"), "never"),
    ],
)
def test_et_operator_19_a_misspelt_choice_is_an_error(path: tuple[str, ...], value: str) -> None:
    job = training_job()
    inner = job["spec"]
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    assert errors(job) == ["ET2007"]


def test_et_operator_20_running_and_all_stay_apart_for_the_watcher() -> None:
    policies = [
        stored(training_job(cleanPodPolicy=policy))["document"]["spec"]["cleanPodPolicy"]
        for policy in ("Running", "All")
    ]
    assert policies == ["Running", "All"]


def test_et_operator_22_a_count_is_held_against_workers_that_are_there() -> None:
    assert errors(training_job(replicas=3), scale_in("a", 3)) == ["ET3005"]


def test_et_operator_24_intents_count_in_their_order() -> None:
    in_order = compiled(training_job(), scale_in("a", 1), scale_out("b", 2))
    assert pods(in_order) == ["mnist-worker-0", "mnist-worker-1", "mnist-worker-2"]


@pytest.mark.parametrize("field", ["timeout", "backoffLimit"])
def test_et_operator_26_a_dead_field_is_a_warning(field: str) -> None:
    assert warnings(training_job(), scale_in("a", 1, **{field: 5})) == ["ET2041"]


def test_et_operator_28_no_script_is_pasted_into_a_shell() -> None:
    hostile = scale_out("a", 1, script="/s.sh; rm -rf /", env=[{"name": "B", "value": "x y"}])
    result = compiled(training_job(), hostile)
    assert "/s.sh" not in str(result.objects)
    assert "ET3009" in {d.code for d in result.diagnostics}


def test_et_operator_29_the_host_list_belongs_to_the_user_who_reads_it() -> None:
    job = training_job(launcherAttachMode="kubexec")
    trainer = launcher(job)["template"]["spec"]["containers"][0]
    trainer["securityContext"] = {"runAsUser": 1000}
    [init, *_] = pod([job], "mnist-launcher", namespace="ml")["spec"]["initContainers"]
    assert init["name"] == "init-hostfile"
    assert init["securityContext"] == {"runAsUser": 1000}
    assert init["image"] == trainer["image"]


def test_et_operator_31_ready_means_that_sshd_listens() -> None:
    objects = by_name(compiled(training_job()))
    main = containers(objects["Pod", "mnist-worker-0"])["main"]
    assert main["readinessProbe"]["tcpSocket"] == {"port": 22}
    assert objects["Service", "mnist-worker-0"]["spec"]["publishNotReadyAddresses"] is True
    gate = objects["Pod", "mnist-launcher"]["spec"]["initContainers"][-1]
    assert gate["name"] == "wait-for-workers"


def test_et_operator_34_a_suspended_job_can_be_resumed() -> None:
    job = training_job()
    job["metadata"]["annotations"] = {"job-supervisor.kube-ai.io/job-suspended": "true"}
    kinds = {one["kind"] for one in compiled(job).objects}
    assert kinds == {"ConfigMap", "ServiceAccount"}
    assert warnings(job) == ["ET2046"]
    job["metadata"]["annotations"] = {"job-supervisor.kube-ai.io/job-suspended": "false"}
    assert len(pods(compiled(job))) == 2


def test_et_operator_36_an_intent_without_its_job_is_an_error() -> None:
    assert errors(training_job(), scale_out("a", 1, job="other")) == ["ET3001"]


def test_et_operator_40_no_rights_where_none_are_needed() -> None:
    kinds = {one["kind"] for one in compiled(training_job()).objects}
    assert not kinds & {"Role", "RoleBinding"}


def test_et_operator_40_service_account_of_the_launcher_is_preserved() -> None:
    job = training_job(launcherAttachMode="kubexec")
    launcher(job)["template"]["spec"]["serviceAccountName"] = "trainer"
    objects = by_name(compiled(job, namespace="ml"))
    assert objects["Pod", "mnist-launcher"]["spec"]["serviceAccountName"] == "trainer"
    assert not [name for kind, name in objects if kind == "ServiceAccount"]
    [subject] = objects["RoleBinding", "mnist-launcher"]["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": "trainer", "namespace": "ml"}


def test_et_operator_41_kubexec_brings_kubectl() -> None:
    job = training_job(launcherAttachMode="kubexec")
    rendered = pod([job], "mnist-launcher", namespace="ml")
    delivery = {c["name"]: c for c in rendered["spec"]["initContainers"]}["kubectl-delivery"]
    assert "/opt/kube" in mounts(delivery)
    assert "/opt/kube" in mounts(containers(rendered)["main"])


def test_et_operator_41_ssh_mode_does_not_hide_a_kubectl_of_the_image() -> None:
    assert "/opt/kube" not in mounts(containers(pod([training_job()], "mnist-launcher"))["main"])


def sidecar_first(job: dict[str, Any]) -> dict[str, Any]:
    for role in (launcher(job), worker(job)):
        role["template"]["spec"]["containers"].insert(0, container("log-shipper"))
    return job


def test_et_operator_42_the_trainer_need_not_be_the_first_container() -> None:
    job = sidecar_first(training_job())
    for role in (launcher(job), worker(job)):
        annotations = {"kubectl.kubernetes.io/default-container": "main"}
        role["template"]["metadata"] = {"annotations": annotations}
    both = containers(pod([job], "mnist-launcher"))
    assert "/etc/edl" in mounts(both["main"])
    assert both["main"]["command"][2:] == HOROVOD
    assert "volumeMounts" not in both["log-shipper"]
    assert "command" not in containers(pod([job], "mnist-worker-0"))["log-shipper"]


def test_et_operator_42_sidecar_mistaken_for_the_trainer_is_a_warning() -> None:
    assert "ET2049" in warnings(sidecar_first(training_job()))


def test_et_operator_42_the_host_list_is_there_before_the_users_init_containers() -> None:
    job = training_job()
    launcher(job)["template"]["spec"]["initContainers"] = [container("download")]
    names = [c["name"] for c in pod([job], "mnist-launcher")["spec"]["initContainers"]]
    assert names == ["init-hostfile", "download", "wait-for-workers"]


def test_et_operator_43_the_wait_for_workers_has_an_end() -> None:
    job = training_job()
    job["metadata"]["annotations"] = {"etcompile.dev/gate-timeout": "42"}
    assert "42" in config(job)["wait-for-workers.sh"]


def test_et_operator_46_every_object_is_declared_and_can_be_restored() -> None:
    first, second = (compiled(training_job()).objects for _ in range(2))
    assert first == second


def test_et_operator_47_an_edit_reaches_all_pods_or_none() -> None:
    job = training_job()
    before = by_name(compiled(job))
    worker(job)["template"]["spec"]["containers"][0]["image"] = "horovod/horovod:0.28.2"
    after = by_name(compiled(job))
    hashes = {
        which["Pod", name]["metadata"]["annotations"]["etcompile.dev/spec-hash"]
        for which in (before, after)
        for name in ("mnist-launcher", "mnist-worker-0", "mnist-worker-1")
    }
    assert len(hashes) == 2


def test_et_operator_50_a_count_of_one_removes_one() -> None:
    assert len(pods(compiled(training_job(replicas=5), scale_in("a", 1)))) == 4
    assert len(pods(compiled(training_job(replicas=5), scale_in("a", ["mnist-worker-4"])))) == 4


def test_et_operator_52_newer_fields_of_pods_survive() -> None:
    job = training_job()
    spec = worker(job)["template"]["spec"]
    spec["initContainers"] = [container("proxy", restartPolicy="Always")]
    spec["securityContext"] = {"seccompProfile": {"type": "RuntimeDefault"}}
    spec["containers"][0]["livenessProbe"] = {"grpc": {"port": 9}}
    rendered = pod([job], "mnist-worker-0")["spec"]
    assert rendered["initContainers"][0]["restartPolicy"] == "Always"
    assert rendered["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert rendered["containers"][0]["livenessProbe"] == {"grpc": {"port": 9}}
