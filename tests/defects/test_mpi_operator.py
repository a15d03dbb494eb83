"""Defects of the two MPIJob operators that can be decided without a cluster.

D1 to D15 are those of reference/mpi-operator-v2.md 7, 39 to 43 those of
reference/training-operator.md 7. test_every_defect.py says where the others are.
"""

from typing import Any

import pytest
import yaml

import specs
from etcompile import Settings
from etcompile.compiler.stored import read_stored
from specs import by_name, compiled, errors, pods, scale_in


def mpi_job(version: str = "v2beta1", workers: int = 2, **spec: Any) -> dict[str, Any]:
    job = specs.mpi_job(version, "pi", workers, **spec)
    job["metadata"]["namespace"] = "ml"
    return job


def less(wanted: int | list[str]) -> dict[str, Any]:
    return scale_in("less", wanted, job="pi", of="MPIJob", namespace="ml")


def objects(*documents: dict[str, Any], **options: Any) -> dict[tuple[str, str], Any]:
    return by_name(compiled(*documents, **options))


def launcher(*documents: dict[str, Any], **options: Any) -> Any:
    """The PodSpec of the launcher, be it a Pod's or a Job's."""
    rendered = objects(*documents, **options)
    if ("Job", "pi-launcher") in rendered:
        return rendered["Job", "pi-launcher"]["spec"]["template"]["spec"]
    return rendered["Pod", "pi-launcher"]["spec"]


def config(*documents: dict[str, Any], **options: Any) -> Any:
    return objects(*documents, **options)["ConfigMap", "pi-config"]["data"]


def stored(*documents: dict[str, Any]) -> Any:
    return read_stored(yaml.safe_load(config(*documents)["job.yaml"]))[0]


def environment(spec: Any) -> dict[str, str]:
    return {env["name"]: env.get("value", "") for env in spec["containers"][0]["env"]}


def gates(spec: Any) -> list[str]:
    return [one["name"] for one in spec.get("initContainers", ())]


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_mpi_operator_d1_who_has_set_these_keeps_them(version: str) -> None:
    job = mpi_job(version)
    main = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    main["env"] = [{"name": "PRTE_MCA_prte_default_hostfile", "value": "/my/hosts"}]
    assert environment(launcher(job))["PRTE_MCA_prte_default_hostfile"] == "/my/hosts"


@pytest.mark.parametrize("policy", ["AtStartup", "WaitForWorkersReady"])
def test_mpi_operator_d2_waiting_needs_no_controller_and_blocks_no_gang(policy: str) -> None:
    rendered = objects(mpi_job(launcherCreationPolicy=policy))
    assert ("Job", "pi-launcher") in rendered
    assert gates(launcher(mpi_job(launcherCreationPolicy=policy))) == ["wait-for-workers"]


def test_mpi_operator_d3_a_suspended_launcher_waits_for_its_workers_once_resumed() -> None:
    suspended = objects(mpi_job(runPolicy={"suspend": True}))
    resumed = objects(mpi_job(runPolicy={"suspend": False}))
    job = suspended["Job", "pi-launcher"]["spec"]
    assert job.pop("suspend") is True
    assert job == resumed["Job", "pi-launcher"]["spec"]
    assert gates(job["template"]["spec"]) == ["wait-for-workers"]
    assert not [key for key in suspended if key[0] == "Pod"]
    assert {key[0] for key in suspended} == {"Service", "ConfigMap", "Job"}


def test_mpi_operator_d4_a_ttl_removes_no_part_of_a_job_that_git_declares() -> None:
    job = mpi_job(runPolicy={"ttlSecondsAfterFinished": 60})
    assert "ttlSecondsAfterFinished" not in objects(job)["Job", "pi-launcher"]["spec"]
    assert stored(job).run.ttl == 60


def test_mpi_operator_d8_scaling_a_launcher_that_works_removes_the_right_worker() -> None:
    job = mpi_job(workers=3, runLauncherAsWorker=True)
    before = objects(job)
    after = objects(job, less(1))
    assert {key for key in before if key not in after} == {("Pod", "pi-worker-2")}
    unchanged = [key for key in after if key[0] in ("Pod", "Job", "Service")]
    assert all(after[key] == before[key] for key in unchanged)


def test_mpi_operator_d9_names_resolve_before_the_pods_are_ready() -> None:
    assert objects(mpi_job())["Service", "pi"]["spec"]["publishNotReadyAddresses"] is True
    assert config(mpi_job())["peers"] == "pi-worker-0.pi.ml.svc\npi-worker-1.pi.ml.svc\n"


def test_mpi_operator_d11_the_search_domain_is_the_clusters() -> None:
    settings = Settings(cluster_domain="example.org")
    rendered = objects(mpi_job(), settings=settings)
    searches = rendered["Pod", "pi-worker-0"]["spec"]["dnsConfig"]["searches"]
    assert searches == ["pi.ml.svc.example.org"]


def test_mpi_operator_d14_sshd_does_not_depend_on_the_images_configuration() -> None:
    script = config(mpi_job())["worker.sh"]
    assert "StrictModes=no" in script
    assert 'HostKey="$keys/host"' in script


@pytest.mark.parametrize(
    ("job", "code"),
    [
        (mpi_job(mpiImplementation="OpenMpi"), "ET2007"),
        (mpi_job(launcherCreationPolicy="Whenever"), "ET2007"),
        (mpi_job(workers=0), "ET2008"),
        (mpi_job(runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}), "ET2060"),
        (mpi_job(runPolicy={"managedBy": "kueue"}), "ET2007"),
        (mpi_job(runPolicy={"cleanPodPolicy": "Runing"}), "ET2007"),
    ],
    ids=["implementation", "creation", "workers", "managed", "misspelt", "clean"],
)
def test_mpi_operator_d15_refused_job_reports_its_error_code(
    job: dict[str, Any], code: str
) -> None:
    assert errors(job) == [code]


def test_training_operator_40_a_failed_worker_need_not_fail_the_job() -> None:
    # Success is the launcher's alone, and a drained resident worker ends as it was told to.
    job = mpi_job("v1")
    job["spec"]["mpiReplicaSpecs"]["Worker"]["restartPolicy"] = "ExitCode"
    read = stored(job)
    assert read.run.success.roles == ("launcher",)
    worker = read.role("worker")
    assert worker is not None
    assert worker.recovery.restart == "ExitCode"


def test_training_operator_41_workers_without_a_number_are_none() -> None:
    job = mpi_job("v1")
    del job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]
    assert pods(compiled(job)) == []
    assert config(job)["hostfile"] == ""


def test_training_operator_43_args_without_effect_are_reported() -> None:
    job = mpi_job("v1")
    main = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    main["args"] = ["--serve"]
    result = compiled(job)
    assert [d.code for d in result.diagnostics if "args" in d.message] == ["ET2041"]


@pytest.mark.parametrize(
    ("implementation", "variable"),
    [
        ("OpenMPI", "OMPI_MCA_plm_rsh_args"),
        ("OpenMPI", "PRTE_MCA_plm_ssh_args"),
        ("Intel", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"),
        ("MPICH", "HYDRA_LAUNCH_EXTRA_ARGS"),
    ],
)
def test_an_annotated_port_is_that_of_both_sides(implementation: str, variable: str) -> None:
    job = mpi_job(mpiImplementation=implementation)
    assert environment(launcher(job))[variable] == "-o ConnectionAttempts=10"
    job["metadata"]["annotations"] = {"etcompile.dev/ssh-port": "2222"}
    assert environment(launcher(job))[variable] == "-o ConnectionAttempts=10 -p 2222"
    assert "set -- -p 2222" in config(job)["worker.sh"]
