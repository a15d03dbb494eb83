"""Both kinds of MPIJob as a user meets them: annotations, scaling, runs, Services, namespaces."""

from typing import Any

import pytest

import specs
from etcompile import SecretMode, Settings
from specs import by_name, compiled, container, errors, pods, warnings

V1, V2 = "kubeflow.org/v1", "kubeflow.org/v2beta1"


def mpi_job(version: str = V2, workers: int = 2, **spec: Any) -> dict[str, Any]:
    value = specs.mpi_job(version.partition("/")[2], "pi", workers, **spec)
    value["metadata"]["namespace"] = "ml"
    return value


def role(job: dict[str, Any], name: str) -> Any:
    return job["spec"]["mpiReplicaSpecs"][name]


def main(job: dict[str, Any], name: str) -> Any:
    return role(job, name)["template"]["spec"]["containers"][0]


def annotated(job: dict[str, Any], **annotations: str) -> dict[str, Any]:
    ours = {f"etcompile.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return {**job, "metadata": {**job["metadata"], "annotations": ours}}


def scale(kind: str, name: str, version: str | None = None, **spec: Any) -> dict[str, Any]:
    selector = {"kind": "MPIJob", "name": "pi", **({"apiVersion": version} if version else {})}
    whole = {"metadata": {"namespace": "ml"}, "spec": {"selector": selector, **spec}}
    return specs.manifest(kind, name, api_version="etcompile.dev/v1alpha1", **whole)


def objects(*documents: dict[str, Any], **options: Any) -> dict[tuple[str, str], Any]:
    return by_name(compiled(*documents, **options))


def data(objects: dict[tuple[str, str], Any]) -> Any:
    return objects["ConfigMap", "pi-config"]["data"]


@pytest.mark.parametrize(("amount", "is_host"), [("1", True), ("0", False)])
def test_a_launcher_with_gpus_is_a_host(amount: str, is_host: bool) -> None:
    value = mpi_job(V1)
    main(value, "Launcher")["resources"] = {"limits": {"nvidia.com/gpu": amount}}
    hosts = data(objects(value))["hostfile"]
    assert hosts.startswith("pi-launcher") == is_host


# Annotations ------------------------------------------------------------------------------------


def test_the_launcher_may_be_a_plain_pod() -> None:
    policy = {"activeDeadlineSeconds": 60, "backoffLimit": 3}
    job = mpi_job(runPolicy=policy)
    plain, batch = objects(annotated(job, launcher="pod")), objects(job)
    assert ("Job", "pi-launcher") not in plain
    spec = plain["Pod", "pi-launcher"]["spec"]
    template = batch["Job", "pi-launcher"]["spec"]["template"]["spec"]
    assert spec == {**template, "activeDeadlineSeconds": 60}
    assert errors(annotated(job, launcher="deployment")) == ["ET2050"]


def test_a_suspended_plain_launcher_is_not_there() -> None:
    rendered = objects(annotated(mpi_job(runPolicy={"suspend": True}), launcher="pod"))
    assert {kind for kind, _ in rendered} == {"Service", "ConfigMap"}


def test_ssh_port_annotation_sets_the_port_everywhere() -> None:
    rendered = objects(annotated(mpi_job(), ssh_port="2222"))
    assert "set -- -p 2222" in data(rendered)["worker.sh"]
    assert "\nport=2222\n" in data(rendered)["wait-for-workers.sh"]
    probe = rendered["Pod", "pi-worker-0"]["spec"]["containers"][0]["readinessProbe"]
    assert probe["tcpSocket"] == {"port": 2222}
    assert "ssh -G" in data(objects(mpi_job()))["wait-for-workers.sh"]


@pytest.mark.parametrize("port", ["0", "65536", "ssh", "", "-1", "\u0662\u0662"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    assert errors(annotated(mpi_job(), ssh_port=port)) == ["ET2050"]


# Scaling ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("edited", [False, True], ids=["intent", "edit of replicas"])
def test_scaling_out_adds_workers_and_changes_no_other_pod(version: str, *, edited: bool) -> None:
    job = mpi_job(version, slotsPerWorker=2)
    before, after = objects(job), objects(job, scale("ScaleOut", "more", toAdd={"count": 1}))
    if edited:
        after = objects(mpi_job(version, workers=3, slotsPerWorker=2))
    assert {*after} - {*before} == {("Pod", "pi-worker-2")}
    changed = {key for key in before if before[key] != after[key]}
    roles = {("Role", "pi-launcher")} if version == V1 else set()
    assert changed == {("ConfigMap", "pi-config"), *roles}
    for key in ("hostfile", "hosts", "peers"):
        added = data(after)[key].removeprefix(data(before)[key])
        assert added.startswith("pi-worker-2")
        assert added.count("\n") == 1
    if version == V1:
        rule = after["Role", "pi-launcher"]["rules"][1]
        assert rule["resourceNames"] == ["pi-worker-0", "pi-worker-1", "pi-worker-2"]


@pytest.mark.parametrize("version", [V1, V2])
def test_mpi_operator_d13_scaling_in_by_name_leaves_the_others_as_they_are(version: str) -> None:
    job = mpi_job(version, workers=3)
    wish = scale("ScaleIn", "less", version, toDelete={"podNames": ["pi-worker-1"]})
    before, after = objects(job), objects(job, wish)
    assert {*before} - {*after} == {("Pod", "pi-worker-1")}
    assert all(before[key] == after[key] for key in after if key[0] in ("Pod", "Job", "Service"))
    for key in ("hostfile", "hosts", "peers"):
        assert "worker-1" not in data(after)[key]


def test_a_scale_intent_tells_the_two_kinds_apart() -> None:
    other = scale("ScaleOut", "more", V2, toAdd={"count": 1})
    assert errors(mpi_job(V1), other) == errors(mpi_job(V2), {**other, "spec": {
        **other["spec"], "selector": {"kind": "MPIJob", "name": "pi", "apiVersion": V1}
    }})  # fmt: skip
    assert len(pods(compiled(mpi_job(V2), other))) == 3


# Runs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [V1, V2])
def test_a_run_renames_pods_and_hosts_keep_their_names(version: str) -> None:
    job = mpi_job(version)
    plain, run = objects(job), objects(job, settings=Settings(run="lr2"))
    names = [name for kind, name in run if kind == "Pod" and "worker" in name]
    assert names == ["pi-lr2-worker-0", "pi-lr2-worker-1"]
    kind = "Job" if version == V2 else "Pod"
    assert (kind, "pi-lr2-launcher") in run
    for key in ("hostfile", "hosts", "peers"):
        assert data(run)[key] == data(plain)[key]
    assert run["Pod", "pi-lr2-worker-0"]["spec"]["hostname"] == "pi-worker-0"
    if version == V1:
        rule = run["Role", "pi-launcher"]["rules"][1]
        assert rule["resourceNames"] == ["pi-lr2-worker-0", "pi-lr2-worker-1"]
        assert "pi-worker-*) host=pi-lr2-worker" in data(run)["kubexec.sh"]
    else:
        template = run["Job", "pi-lr2-launcher"]["spec"]["template"]
        assert template["spec"]["hostname"] == "pi-launcher"
        selector = run["Service", "pi"]["spec"]["selector"]
        assert selector.items() <= template["metadata"]["labels"].items()


# Services and namespaces --------------------------------------------------------------------------


@pytest.mark.parametrize("version", [V1, V2])
def test_service_layout_depends_on_the_version_and_not_on_the_setting(version: str) -> None:
    rendered = objects(mpi_job(version))
    shared = objects(mpi_job(version), settings=Settings(services="shared"))
    for key in rendered.keys() | shared.keys():
        if key[0] != "ConfigMap":
            assert rendered[key] == shared[key]
    names = [name for kind, name in rendered if kind == "Service"]
    assert names == (["pi"] if version == V2 else [])


@pytest.mark.parametrize("version", [V1, V2])
def test_two_jobs_of_one_name_in_two_namespaces_share_nothing(version: str) -> None:
    jobs = [mpi_job(version), mpi_job(version)]
    jobs[1]["metadata"]["namespace"] = "nlp"
    objects = compiled(*jobs).objects
    keys = [(o["kind"], o["metadata"]["namespace"], o["metadata"]["name"]) for o in objects]
    assert len({*keys}) == len(keys)
    for one in objects:
        other = {"ml": "nlp", "nlp": "ml"}[one["metadata"]["namespace"]]
        assert f".{other}." not in str(one)
        if one["kind"] == "RoleBinding":
            assert one["subjects"][0]["namespace"] == one["metadata"]["namespace"]


@pytest.mark.parametrize("version", [V1, V2])
def test_missing_namespace_is_assumed_with_a_warning(version: str) -> None:
    job = mpi_job(version)
    del job["metadata"]["namespace"]
    assert warnings(job) == ["ET2043"]
    assert warnings(job, namespace="ml") == []


# Keys ---------------------------------------------------------------------------------------------


def test_external_secrets_makes_the_keys_that_the_pods_mount() -> None:
    rendered = objects(mpi_job(), settings=Settings(secret=SecretMode("external")))
    [secret] = [value for key, value in rendered.items() if key[0] == "ExternalSecret"]
    target = secret["spec"]["target"]
    assert target["name"] == "pi-ssh"
    assert target["template"]["type"] == "kubernetes.io/ssh-auth"
    volumes = rendered["Pod", "pi-worker-0"]["spec"]["volumes"]
    [keys] = [volume["secret"] for volume in volumes if volume["name"] == "ssh-auth"]
    assert {item["key"] for item in keys["items"]} == {*target["template"]["data"]}


def test_a_secret_that_is_there_already_is_mounted_instead() -> None:
    rendered = objects(mpi_job(), settings=Settings(secret=SecretMode("existing", "team")))
    volumes = rendered["Job", "pi-launcher"]["spec"]["template"]["spec"]["volumes"]
    assert volumes[0]["name"] == "ssh-auth"
    assert volumes[0]["secret"]["secretName"] == "team"


def test_a_volume_of_the_same_name_is_refused() -> None:
    job = mpi_job()
    role(job, "Worker")["template"]["spec"]["volumes"] = [{"name": "ssh-auth", "emptyDir": {}}]
    assert errors(job) == ["ET2047"]


# Slots --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slots", "command", "suffix"),
    [
        (None, ["horovodrun"], ":1"),
        (4, ["horovodrun"], ":4"),
        (0, ["horovodrun"], ""),
        (4, ["horovodrun", "--slots-per-host", "2"], ""),
        (4, ["sh", "-c", "horovodrun --slots-per-host=2 train"], ""),
    ],
)
def test_slots_per_host_of_the_command_wins(
    slots: int | None, command: list[str], suffix: str
) -> None:
    # The operator's script never tells slots, so the option decides there.
    job = mpi_job(workers=1, **({} if slots is None else {"slotsPerWorker": slots}))
    main(job, "Launcher")["command"] = command
    assert data(objects(job))["hosts"] == f"pi-worker-0.pi.ml.svc{suffix}\n"


# Templates ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [V1, V2])
def test_finalizers_are_omitted_with_a_warning_like_in_the_operators(version: str) -> None:
    job = mpi_job(version)
    role(job, "Worker")["template"]["metadata"] = {"finalizers": ["example.com/keep"]}
    assert warnings(job) == ["ET2041"]
    assert "finalizers" not in objects(job)["Pod", "pi-worker-0"]["metadata"]


def test_a_host_name_of_the_template_stays_where_the_operator_leaves_it() -> None:
    job = mpi_job(V1)
    role(job, "Worker")["template"]["spec"] |= {"hostname": "mine", "subdomain": "net"}
    spec = objects(job)["Pod", "pi-worker-0"]["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("mine", "net")


@pytest.mark.parametrize(("policy", "noted"), [("OnFailure", []), ("Never", ["ET2042"])])
def test_restart_policy_of_the_launcher_warns_only_if_it_is_overridden(
    policy: str, noted: list[str]
) -> None:
    job = mpi_job()
    role(job, "Launcher")["template"]["spec"]["restartPolicy"] = policy
    assert warnings(job) == noted


def test_a_worker_that_is_to_run_always_ends_with_the_run() -> None:
    job = mpi_job(V1)
    role(job, "Worker")["restartPolicy"] = "Always"
    assert objects(job)["Pod", "pi-worker-0"]["spec"]["restartPolicy"] == "OnFailure"


def test_a_deadline_of_no_seconds_is_one_that_a_pod_can_have() -> None:
    job = mpi_job(V1, runPolicy={"activeDeadlineSeconds": 0})
    assert objects(job)["Pod", "pi-launcher"]["spec"]["activeDeadlineSeconds"] == 1


def test_a_main_container_that_no_worker_has_is_refused() -> None:
    assert errors(mpi_job(V1, mainContainer="trainer")) == ["ET2062"]
    job = mpi_job(V1, mainContainer="trainer")
    role(job, "Worker")["template"]["spec"]["containers"].append(container("trainer"))
    assert "--container 'trainer'" in data(objects(job))["kubexec.sh"]


@pytest.mark.parametrize("path", ["/etc/etcompile/scripts", "/etc/mpi", "a/.ssh", "/a:b", "/a'b"])
def test_a_mount_path_for_keys_that_no_pod_could_have_is_refused(path: str) -> None:
    assert errors(mpi_job(sshAuthMountPath=path)) == ["ET2009"]
