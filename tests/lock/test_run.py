"""`--run`: new names for the Pods of a job, and the old ones for all else."""

from pathlib import Path
from typing import Any

import pytest
from rendering import done, render, write

import etcompile
from etcompile import Compilation, Options, Settings
from etcompile.model import SecretMode
from etcompile.model import Settings as ModelSettings
from specs import by_name, compiled, errors, patch, pods, scale_in, scale_out, training_job, worker


def _run(*documents: Any, run: str | None = "r2", **settings: Any) -> Compilation:
    return compiled(*documents, settings=Settings(run=run, **settings))


def _kubexec(**spec: Any) -> dict[str, Any]:
    job = training_job(launcherAttachMode="kubexec", **spec)
    job["metadata"]["namespace"] = "ml"
    return job


def test_only_pods_get_new_names() -> None:
    before, after = by_name(compiled(training_job())), by_name(_run(training_job()))
    assert {name for name in before if name[0] != "Pod"} == {
        name for name in after if name[0] != "Pod"
    }
    assert {name for kind, name in after if kind == "Pod"} == {
        "mnist-r2-launcher",
        "mnist-r2-worker-0",
        "mnist-r2-worker-1",
    }


def test_hosts_keep_their_names_and_pods_know_theirs() -> None:
    before, after = by_name(compiled(training_job())), by_name(_run(training_job()))
    config = ("ConfigMap", "mnist-config")
    assert after[config]["data"]["hostfile"] == before[config]["data"]["hostfile"]
    names = {n: o["spec"].get("hostname") for (kind, n), o in after.items() if kind == "Pod"}
    assert names == {
        "mnist-r2-launcher": "mnist-launcher",
        "mnist-r2-worker-0": "mnist-worker-0",
        "mnist-r2-worker-1": "mnist-worker-1",
    }
    assert not any("hostname" in o["spec"] for (k, _), o in before.items() if k == "Pod")


def test_hostname_set_in_the_template_is_preserved_in_a_named_run() -> None:
    job = training_job()
    worker(job)["template"]["spec"]["hostname"] = "mine"
    assert by_name(_run(job))["Pod", "mnist-r2-worker-0"]["spec"]["hostname"] == "mine"


def test_shared_services_name_the_host_too() -> None:
    job = training_job()
    job["metadata"]["namespace"] = "ml"
    objects = by_name(_run(job, services="shared"))
    spec = objects["Pod", "mnist-r2-worker-1"]["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("mnist-worker-1", "mnist")


@pytest.mark.parametrize("services", ["per-replica", "shared"])
def test_services_follow_the_run(services: Any) -> None:
    """Or else a name would mean the workers of two runs while the old one ends."""
    job = training_job()
    job["metadata"]["namespace"] = "ml"
    compilation = _run(job, services=services)
    rendered = [o for o in compilation.objects if o["kind"] == "Service"]
    assert rendered
    workers = [o for o in compilation.objects if "worker" in o["metadata"]["name"]]
    for service in rendered:
        selector = service["spec"]["selector"]
        assert selector["etcompile.dev/run"] == "r2"
        chosen = [o for o in workers if selector.items() <= o["metadata"]["labels"].items()]
        wanted = 1 if services == "per-replica" else 2
        assert len([o for o in chosen if o["kind"] == "Pod"]) == wanted


def test_another_run_is_not_ended_by_the_marker_of_the_first() -> None:
    def hashes(run: str | None) -> set[str]:
        return {
            o["metadata"]["annotations"]["etcompile.dev/spec-hash"]
            for o in _run(training_job(), run=run).objects
            if o["kind"] == "Pod"
        }

    by_run = [hashes(run) for run in (None, "one", "two")]
    assert [len(one) for one in by_run] == [1, 1, 1]
    assert len(set.union(*by_run)) == 3


def test_auto_is_five_characters_of_the_spec_hash() -> None:
    [launcher] = [o for o in compiled(training_job()).objects if o["kind"] == "Pod"][:1]
    whole = launcher["metadata"]["annotations"]["etcompile.dev/spec-hash"]
    assert f"mnist-{whole[:5]}-worker-0" in pods(_run(training_job(), run="auto"))


def test_auto_does_not_change_when_a_job_scales() -> None:
    before = pods(_run(training_job(), run="auto"))
    assert pods(_run(training_job(), scale_out("a", 1), run="auto"))[:2] == before


def test_auto_is_another_run_under_an_overlay_that_changes_pods() -> None:
    overlay = patch({"spec": {"priorityClassName": "high"}}, kind="Pod")
    auto = Settings(run="auto")
    plain = pods(compiled(training_job(), settings=auto))
    assert not set(plain) & set(pods(compiled(training_job(), settings=auto, overlays=(overlay,))))


def test_kubexec_goes_to_the_pod_of_the_host() -> None:
    script = by_name(_run(_kubexec()))["ConfigMap", "mnist-config"]["data"]["kubexec.sh"]
    assert "mnist-worker-*) host=mnist-r2-worker${host#mnist-worker} ;;" in script
    plain = by_name(compiled(_kubexec()))["ConfigMap", "mnist-config"]["data"]["kubexec.sh"]
    assert "case $host" not in plain


def test_tools_that_order_pods_know_their_names() -> None:
    objects = by_name(_run(_kubexec(), profiles=("kpt",)))
    annotations = objects["Pod", "mnist-r2-launcher"]["metadata"]["annotations"]
    assert "mnist-r2-worker-0" in annotations["config.kubernetes.io/depends-on"]
    [group] = _run(training_job()).groups
    assert group.waits == {"mnist-r2-launcher": ("mnist-r2-worker-0", "mnist-r2-worker-1")}


@pytest.mark.parametrize("name", ["mnist-worker-1", "mnist-r2-worker-1", "mnist-old-worker-1"])
def test_a_scale_in_names_hosts_or_pods_of_any_run(name: str) -> None:
    assert pods(_run(training_job(replicas=3), scale_in("a", [name]))) == [
        "mnist-r2-worker-0",
        "mnist-r2-worker-2",
    ]


def test_a_worker_that_is_named_twice_is_one_worker() -> None:
    intent = scale_in("a", ["mnist-worker-1", "mnist-r2-worker-1"])
    assert len(pods(_run(training_job(replicas=3), intent))) == 2


def test_a_name_of_no_worker_is_refused_with_and_without_a_run() -> None:
    unknown = scale_in("a", ["mnist-r2-worker-7"])
    assert errors(training_job(), unknown, settings=Settings(run="r2")) == ["ET3002"]
    known = scale_in("a", ["mnist-r2-worker-1"])
    assert errors(training_job(), known) == ["ET3002"]


@pytest.mark.parametrize("run", ["a", "0", "lr-2", "x" * 16, "auto"])
def test_an_id_is_part_of_a_name(run: str) -> None:
    assert errors(training_job(), settings=Settings(run=run)) == []


@pytest.mark.parametrize("run", ["A", "-a", "a-", "a.b", "a_b", "x" * 17, "", "ä", "a\n"])
def test_what_cannot_be_part_of_a_name_is_refused(run: str) -> None:
    assert errors(training_job(), settings=Settings(run=run)) == ["ET5005"]


def test_a_name_with_its_run_must_fit() -> None:
    name = "n" * 50
    assert errors(training_job(name)) == []
    result = etcompile.compile([training_job(name)], Options(settings=Settings(run="r" * 10)))
    [problem] = result.diagnostics
    assert problem.code == "ET2021"
    assert "the ID of its run" in str(problem.hint)


def test_the_command_line_has_it_too(tmp_path: Path) -> None:
    job = write(tmp_path / "job.yaml", training_job())
    assert "name: mnist-r2-worker-0" in done(job, "--run", "r2").stdout
    assert render(job, "--run", "R2").exit_code == 2


def _hashes(**settings: Any) -> set[str]:
    job = training_job()
    job["metadata"]["namespace"] = "ml"
    compilation = compiled(job, settings=ModelSettings(**settings))
    pods = [value for value in compilation.objects if value["kind"] == "Pod"]
    return {one["metadata"]["annotations"]["etcompile.dev/spec-hash"] for one in pods}


def test_gang_scheduler_makes_no_other_run() -> None:
    assert _hashes(gang="volcano", gang_scheduler="mine") == _hashes()


def test_the_spec_hash_of_a_job_with_default_settings_stays_what_it_always_was() -> None:
    # Were a default changed with its part of the hash, all jobs that run would be other runs.
    assert _hashes() == {"b6d16fa9b8f0"}
    everything = ModelSettings(
        services="per-replica",
        secret=SecretMode("runtime"),
        init_image=None,
        kubectl_image="alpine/kubectl:1.34.1",
        cluster_domain="cluster.local",
    )
    fields = {field: getattr(everything, field) for field in everything.__struct_fields__}
    assert _hashes(**fields) == {"b6d16fa9b8f0"}
