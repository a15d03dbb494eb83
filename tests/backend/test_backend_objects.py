"""What single settings and fields do to the objects, beyond what the recordings show."""

from pathlib import Path
from typing import Any

import pytest

import etcompile
from etcompile import SecretMode, Settings
from specs import by_name, compiled, container, errors, launcher, training_job, warnings, worker


def of_kind(result: etcompile.Compilation, *kinds: str) -> list[Any]:
    return [one for one in result.objects if one["kind"] in kinds]


# Services ---------------------------------------------------------------------------------------


def test_shared_services_are_one_service_with_resolvable_bare_names() -> None:
    result = compiled(training_job(), namespace="ml", settings=Settings(services="shared"))
    [service] = of_kind(result, "Service")
    assert service["metadata"]["name"] == "mnist"
    assert service["spec"]["publishNotReadyAddresses"] is True
    for pod in of_kind(result, "Pod"):
        assert pod["spec"]["hostname"] == pod["metadata"]["name"]
        assert pod["spec"]["subdomain"] == "mnist"
        assert pod["spec"]["dnsConfig"]["searches"] == ["mnist.ml.svc.cluster.local"]
        labels = pod["metadata"]["labels"].items()
        assert service["spec"]["selector"].items() <= labels


def test_search_domain_of_the_template_is_preserved() -> None:
    job = training_job()
    worker(job)["template"]["spec"]["dnsConfig"] = {
        "searches": ["corp.example"],
        "options": [{"name": "ndots", "value": "2"}],
    }
    settings = Settings(services="shared", cluster_domain="k8s.corp")
    pod = by_name(compiled(job, namespace="ml", settings=settings))["Pod", "mnist-worker-0"]
    assert pod["spec"]["dnsConfig"] == {
        "searches": ["corp.example", "mnist.ml.svc.k8s.corp"],
        "options": [{"name": "ndots", "value": "2"}],
    }


@pytest.mark.parametrize(
    ("job", "settings"),
    [
        (training_job(launcherAttachMode="kubexec"), Settings()),
        (training_job(), Settings(services="shared")),
    ],
    ids=["kubexec", "shared"],
)
def test_where_the_namespace_must_be_written_default_is_assumed_aloud(
    job: Any, settings: Settings
) -> None:
    assert warnings(job, settings=settings) == ["ET2043"]
    objects = compiled(job, settings=settings).objects
    assert {one["metadata"].get("namespace") for one in objects} == {"default"}


def test_elsewhere_the_namespace_is_left_to_whoever_applies() -> None:
    objects = compiled(training_job()).objects
    assert {one["metadata"].get("namespace") for one in objects} == {None}


# Secrets ----------------------------------------------------------------------------------------


def test_an_existing_secret_is_mounted_under_its_name() -> None:
    settings = Settings(secret=SecretMode("existing", "team-key"))
    result = compiled(training_job(), settings=settings)
    for pod in of_kind(result, "Pod"):
        [volume] = [v for v in pod["spec"]["volumes"] if "secret" in v]
        assert (volume["name"], volume["secret"]["secretName"]) == ("team-key", "team-key")


def test_external_secrets_make_the_key_pair_once() -> None:
    result = compiled(training_job(), settings=Settings(secret=SecretMode("external")))
    [external], [generator] = of_kind(result, "ExternalSecret"), of_kind(result, "SSHKey")
    assert external["spec"]["refreshPolicy"] == "CreatedOnce"
    assert external["spec"]["target"]["name"] == "mnist"
    assert set(external["spec"]["target"]["template"]["data"]) == {"id_rsa", "id_rsa.pub", "config"}
    reference = external["spec"]["dataFrom"][0]["sourceRef"]["generatorRef"]
    assert reference["name"] == generator["metadata"]["name"]


KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"


def test_a_private_key_in_a_user_template_never_leaves(tmp_path: Path) -> None:
    (tmp_path / "worker.sh.j2").write_text(f"cat > key <<X\n{KEY}X\n")
    assert errors(training_job(), templates=tmp_path) == ["ET4006"]


# Names ------------------------------------------------------------------------------------------


def test_a_name_that_fits_now_but_not_at_its_largest_index_is_refused() -> None:
    job = training_job("n" * 54)
    assert errors(job) == []
    worker(job)["maxReplicas"] = 11
    assert errors(job) == ["ET2021"]


@pytest.mark.parametrize("name", ["1st", "bert.v2", "bert-", "n" * 60])
def test_a_name_that_no_service_can_have_is_refused(name: str) -> None:
    assert set(errors(training_job(name))) <= {"ET2020", "ET2021"}
    assert errors(training_job(name))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("volumes", [{"name": "training-job-config", "emptyDir": {}}]),
        ("volumes", [{"name": "etcompile-status", "emptyDir": {}}]),
        ("volumes", [{"name": "etcompile-ssh-home", "emptyDir": {}}]),
        ("initContainers", [container("wait-for-workers")]),
    ],
)
def test_what_the_compiled_pod_needs_for_itself_is_refused(field: str, value: Any) -> None:
    job = training_job()
    launcher(job)["template"]["spec"][field] = value
    assert errors(job) == ["ET2047"]


def test_a_volume_of_the_secrets_name_is_no_clash() -> None:
    job = training_job()
    worker(job)["template"]["spec"]["volumes"] = [{"name": "mnist", "emptyDir": {}}]
    names = [v["name"] for v in by_name(compiled(job))["Pod", "mnist-worker-0"]["spec"]["volumes"]]
    assert sorted(set(names)) == sorted(names)


def test_a_gpu_limit_without_slots_is_refused() -> None:
    job = training_job()
    limits = {"limits": {"nvidia.com/gpu": "0"}}
    worker(job)["template"]["spec"]["containers"][0]["resources"] = limits
    assert errors(job) == ["ET2014"]


@pytest.mark.parametrize("path", ["/etc/edl", "/job/", "/root/.ssh", "/etc/etcompile/hosts"])
def test_a_mount_over_ours_is_refused(path: str) -> None:
    job = training_job()
    spec = launcher(job)["template"]["spec"]
    spec["volumes"] = [{"name": "mine", "emptyDir": {}}]
    spec["containers"][0]["volumeMounts"] = [{"name": "mine", "mountPath": path}]
    assert errors(job) == ["ET2047"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("etcompile.dev/ssh-mount-path", "home/.ssh"),
        ("etcompile.dev/ssh-mount-path", "/home/x'; rm -rf '/"),
        ("etcompile.dev/gate-timeout", "soon"),
        ("etcompile.dev/gate-timeout", "0"),
        ("etcompile.dev/gate-timeout", "9" * 5000),
        ("etcompile.dev/ssh-mount-path", "/etc/edl"),
        ("etcompile.dev/ssh-mount-path", "/a/../b"),
        ("arena.kubeflow.org/ssh-secret", "Bad Name"),
    ],
)
def test_an_annotation_that_steers_the_compiler_is_checked(name: str, value: str) -> None:
    job = training_job()
    job["metadata"]["annotations"] = {name: value}
    assert errors(job) == ["ET2050"]


# Templates --------------------------------------------------------------------------------------


def test_a_template_of_the_users_replaces_ours(tmp_path: Path) -> None:
    (tmp_path / "run-once.sh.j2").write_text("#!/bin/sh\nexec nice {{ status_done }}\n")
    data = by_name(compiled(training_job(), templates=tmp_path))["ConfigMap", "mnist-config"][
        "data"
    ]
    assert data["run-once.sh"] == "#!/bin/sh\nexec nice /etc/etcompile/status/done\n"
    assert data["worker.sh"].startswith("#!/bin/sh")


@pytest.mark.parametrize(
    "text", ["{{ nobody }}", "{% if %}", "\udcff", "{{ 1 / 0 }}", "{{ [].pop() }}"]
)
def test_template_that_does_not_render_is_reported_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "run-once.sh.j2").write_bytes(text.encode(errors="surrogateescape"))
    result = etcompile.compile(training_job(), etcompile.Options(templates=tmp_path))
    [problem] = result.diagnostics
    assert problem.code == "ET5004"
    assert "run-once.sh.j2" in problem.message
