"""Who chooses the gang scheduler, and what another one takes."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import etcompile
from commandline import etcompile as etcompile_command
from etcompile import Options, Settings
from etcompile.backend.gang.scheduler import Membership, Scheduler
from etcompile.compiler.stored import read_stored
from etcompile.model import schedulers as known
from specs import by_name, compiled, kubeflow_job

JOB = kubeflow_job("JAXJob", {"Worker": 2})


def overlay(**settings: Any) -> dict[str, Any]:
    return {"apiVersion": "etcompile.dev/v1alpha1", "kind": "Overlay", "settings": settings}


def schedulers(**options: Any) -> set[str | None]:
    compilation = etcompile.compile([JOB], Options(namespace="ml", **options))
    assert compilation.ok, compilation.diagnostics
    return {o["spec"].get("schedulerName") for o in compilation.objects if o["kind"] == "Pod"}


VOLCANO = {"overlays": (overlay(gang="volcano"),)}
NAMED = {"overlays": (overlay(gang="coscheduling", gangScheduler="mine"),)}
EXPLICIT = {**VOLCANO, "explicit": frozenset({"gang"})}


@pytest.mark.parametrize(
    ("options", "scheduler"),
    [
        ({}, None),
        (VOLCANO, "volcano"),
        (NAMED, "mine"),
        ({**EXPLICIT, "settings": Settings(gang="kai")}, "kai-scheduler"),
        ({**EXPLICIT, "settings": Settings()}, None),
    ],
)
def test_explicit_setting_overrides_an_overlay_which_overrides_the_default(
    options: dict[str, Any], scheduler: str | None
) -> None:
    assert schedulers(**options) == {scheduler}


def test_an_overlay_with_an_unknown_scheduler_is_refused() -> None:
    compilation = etcompile.compile([JOB], Options(overlays=(overlay(gang="vulcano"),)))
    assert [one.code for one in compilation.diagnostics] == ["ET6008"]
    assert "volcano" in (compilation.diagnostics[0].hint or "")


def test_the_command_line_chooses(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(JOB))
    command = ("render", tmp_path, "-n", "ml", "--config")
    done = etcompile_command(*command, "gang=coscheduling", "--config", "gang-scheduler=mine")
    objects = list(yaml.safe_load_all(done.stdout))
    assert {o["spec"]["schedulerName"] for o in objects if o["kind"] == "Pod"} == {"mine"}
    assert etcompile_command(*command, "gang=x").returncode == 2


def test_the_stored_job_makes_the_same_pods_again() -> None:
    chosen = Settings(gang="coscheduling", gang_scheduler="mine")
    data = by_name(compiled(JOB, settings=chosen, namespace="ml"))["ConfigMap", "mnist-etcompile"]
    read, settings = read_stored(yaml.safe_load(data["data"]["job.yaml"]))
    assert settings == chosen
    assert read.gang == compiled_gang(JOB)
    none = by_name(compiled(JOB, namespace="ml"))["ConfigMap", "mnist-etcompile"]
    assert "gang" not in none["data"]["job.yaml"]


def compiled_gang(job: dict[str, Any]) -> Any:
    data = by_name(compiled(job, namespace="ml"))["ConfigMap", "mnist-etcompile"]["data"]
    return read_stored(yaml.safe_load(data["job.yaml"]))[0].gang


def test_what_a_job_asks_survives_in_the_stored_job() -> None:
    job = kubeflow_job("JAXJob", {"Worker": 2}, runPolicy={"schedulingPolicy": {"queue": "q"}})
    job["metadata"]["annotations"] = {"etcompile.dev/gang-on-timeout": "fail"}
    gang = compiled_gang(job)
    assert (gang.queue, gang.on_timeout) == ("q", "fail")


def test_the_choice_is_no_part_of_a_runs_identity() -> None:
    # A run that is done does not train again because its cluster has another scheduler.
    hashes = {
        o["metadata"]["annotations"]["etcompile.dev/spec-hash"]
        for gang in ("none", "volcano", "kai")
        for o in compiled(JOB, settings=Settings(gang=gang), namespace="ml").objects
        if o["kind"] == "Pod"
    }
    assert len(hashes) == 1


def test_another_scheduler_is_a_module_and_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("etcompile.backend.gang.mine")
    mine = Scheduler(
        title="Mine",
        membership=lambda group, place: Membership(
            labels={"mine/gang": group.name, "mine/size": str(group.minimum)}
        ),
        scheduler_name="mine",
        unused={"queue": "it has none"},
    )
    module.SCHEDULERS = {"mine": mine}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(known, "GANGS", (*known.GANGS, "mine"))
    compilation = compiled(JOB, settings=Settings(gang="mine"), namespace="ml")
    pods = [o for o in compilation.objects if o["kind"] == "Pod"]
    assert {o["spec"]["schedulerName"] for o in pods} == {"mine"}
    labels = pods[0]["metadata"]["labels"]
    assert (labels["mine/gang"], labels["mine/size"]) == ("mnist", "2")
