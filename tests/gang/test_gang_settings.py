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


def stored(job: dict[str, Any], settings: Settings) -> Any:
    """The job and the settings that the watcher reads."""
    objects = by_name(compiled(job, settings=settings, namespace="ml"))
    return read_stored(yaml.safe_load(objects["ConfigMap", "mnist-etcompile"]["data"]["job.yaml"]))


def test_stored_job_has_the_scheduler_and_what_the_job_says_of_its_gang() -> None:
    chosen = Settings(gang="coscheduling", gang_scheduler="mine")
    job = kubeflow_job("JAXJob", {"Worker": 2}, runPolicy={"schedulingPolicy": {"queue": "q"}})
    job["metadata"]["annotations"] = {"etcompile.dev/gang-on-timeout": "fail"}
    read, settings = stored(job, chosen)
    assert settings == chosen
    assert (read.gang.queue, read.gang.on_timeout) == ("q", "fail")
    assert stored(JOB, chosen)[0].gang == stored(JOB, Settings())[0].gang


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
