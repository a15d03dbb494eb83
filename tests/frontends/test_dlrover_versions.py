"""Which DLRover a job runs decides what its Pods are called and told."""

from typing import Any

import pytest
import yaml

from etcompile.compiler.stored import read_stored
from specs import by_name, compiled, dlrover_type, elastic_job, errors, warnings

VERSION = "etcompile.dev/dlrover-version"


def job(image: str = "example.com/trainer:1", **annotations: str) -> dict[str, Any]:
    return elastic_job({"worker": dlrover_type(1, image=image)}, annotations=annotations)


def env(value: dict[str, Any], **options: Any) -> dict[str, Any]:
    pod = by_name(compiled(value, **options))["Pod", "mnist-edljob-worker-0"]
    entries = pod["spec"]["containers"][0]["env"]
    return {one["name"]: one.get("value") for one in entries}


def masters(value: dict[str, Any], **options: Any) -> list[str]:
    objects = by_name(compiled(value, **options))
    return [name for kind, name in objects if kind == "Pod" and "master" in name]


@pytest.mark.parametrize(
    ("image", "named"),
    [
        ("example.com/dlrover:v0.6.1", True),
        ("example.com/dlrover-mnist:torch2.1-v0.6.1", True),
        ("example.com/dlrover:0.5", True),
        ("example.com:5000/dlrover@sha256:" + "0" * 64, False),
        ("example.com/dlrover:pytorch-example", False),
        ("example.com/trainer:0.6.1", False),
        ("example.com/dlrover:2.1.0-cuda12", False),
    ],
)
def test_a_tag_says_it_where_the_image_is_dlrovers(image: str, named: bool) -> None:
    assert ("ET2070" in warnings(job(image))) is not named


def test_the_option_says_it_where_the_job_does_not() -> None:
    assert warnings(job(), dlrover_version="v0.4.0") == []
    assert "DLROVER_MASTER_SERVICE_TYPE" not in env(job(), dlrover_version="0.4.0")


def test_what_the_job_says_itself_counts() -> None:
    value = job(**{VERSION: "0.7"})
    assert env(value, dlrover_version="0.4.0")["DLROVER_TRAINING_ELASTIC_MODE"] == "base"
    assert errors(job(**{VERSION: "new"})) == ["ET2050"]


def test_up_to_0_4_the_master_has_no_number() -> None:
    assert masters(job(), dlrover_version="0.4") == ["elasticjob-mnist-dlrover-master"]
    assert masters(job(), dlrover_version="0.5") == ["elasticjob-mnist-dlrover-master-0"]


def test_the_elastic_mode_reaches_workers_from_0_7_on() -> None:
    value = job(training_elastic_mode="ucp")
    assert env(value, dlrover_version="0.7")["DLROVER_TRAINING_ELASTIC_MODE"] == "ucp"
    assert warnings(value, dlrover_version="0.6") == ["ET2041"]
    assert "DLROVER_TRAINING_ELASTIC_MODE" not in env(value, dlrover_version="0.6")


def test_both_ends_speak_the_same_protocol() -> None:
    value = job("example.com/dlrover:v0.6.1", service_type="http")
    assert env(value)["DLROVER_MASTER_SERVICE_TYPE"] == "http"
    master = by_name(compiled(value))["Pod", "elasticjob-mnist-dlrover-master-0"]
    main = master["spec"]["containers"][0]
    assert main["command"][-2:] == ["--service_type", "http"]
    assert {"name": "DLROVER_MASTER_SERVICE_TYPE", "value": "http"} in main["env"]


@pytest.mark.parametrize("options", [{}, {"dlrover_version": "0.4"}])
def test_the_stored_job_keeps_the_version(options: dict[str, Any]) -> None:
    compilation = compiled(job(), **options)
    [text] = [one["data"]["job.yaml"] for one in compilation.objects if one["kind"] == "ConfigMap"]
    stored, _ = read_stored(yaml.safe_load(text))
    said = "0.6" if not options else "0.4"
    assert stored.document["metadata"]["annotations"][VERSION] == said
    again, _ = read_stored({**yaml.safe_load(text), "document": stored.document})
    assert again.identity == stored.identity


@pytest.mark.parametrize(
    ("duration", "codes"),
    [("60", []), ("1800", []), ("59", ["ET2050"]), ("half an hour", ["ET2050"])],
)
def test_how_long_a_pod_may_be_silent_is_whole_seconds(duration: str, codes: list[str]) -> None:
    annotations = {"etcompile.dev/stuck-after": duration}
    assert errors(elastic_job(annotations=annotations)) == codes
