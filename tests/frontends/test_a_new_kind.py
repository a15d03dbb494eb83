"""A new kind is one module and one schema: here is one that nobody has, added from outside."""

import json
from pathlib import Path

import pytest

import etcompile
from etcompile import frontends

MODULE = '''
"""RingJob: members of a ring, each of which knows the next."""

from msgspec import structs

from etcompile.frontends.kubeflow import framework
from etcompile.frontends.kubeflow.framework import Described, Framework
from etcompile.model import Env, IndexedEnv, Port, Success

FRAMEWORK = Framework(
    kind="RingJob",
    types="ringReplicaSpecs",
    roles=("Member",),
    operator="ringjob-controller",
    schema={schema!r},
    summary="rings",
    container="ring",
    port=Port("ring-port", 7777),
    restart="OnFailure",
)


def describe(spec):
    (members,) = spec.replicas
    env = (Env("RING_SIZE", str(members.replicas)), IndexedEnv("RING_NEXT", ("", ""), 1))
    return Described((framework.role(spec, members, env),), Success(("member",)))


KINDS = (framework.kind(FRAMEWORK, describe),)
'''
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "RingJob",
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "kubeflow.org/v1"},
        "kind": {"const": "RingJob"},
        "metadata": {"type": "object", "required": ["name"]},
        "spec": {
            "type": "object",
            "required": ["ringReplicaSpecs"],
            "properties": {
                "ringReplicaSpecs": {"type": "object", "required": ["Member"]},
                "runPolicy": {"type": "object"},
            },
            "additionalProperties": False,
        },
    },
}
TEMPLATE = {"spec": {"containers": [{"name": "ring", "image": "ring:1", "command": ["run"]}]}}
JOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "RingJob",
    "metadata": {"name": "ring", "namespace": "ml"},
    "spec": {"ringReplicaSpecs": {"Member": {"replicas": 3, "template": TEMPLATE}}},
}


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = tmp_path / "RingJob.json"
    schema.write_text(json.dumps(SCHEMA))
    package = tmp_path / "rings"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "ringjob.py").write_text(MODULE.format(schema=str(schema)))
    monkeypatch.setattr(frontends, "__path__", [*frontends.__path__, str(tmp_path)])
    caches = (frontends.kinds, frontends._modules)  # noqa: SLF001
    for cache in caches:
        cache.cache_clear()
    yield
    monkeypatch.undo()
    for cache in caches:
        cache.cache_clear()


@pytest.mark.usefixtures("ring")
def test_a_kind_from_one_module_and_one_schema_compiles() -> None:
    compilation = etcompile.compile([JOB])
    assert not compilation.diagnostics
    pods = [one for one in compilation.objects if one["kind"] == "Pod"]
    assert [pod["metadata"]["name"] for pod in pods] == [f"ring-member-{i}" for i in range(3)]
    env = [{e["name"]: e["value"] for e in pod["spec"]["containers"][0]["env"]} for pod in pods]
    assert [one["RING_NEXT"] for one in env] == ["1", "2", "3"]
    services = [one for one in compilation.objects if one["kind"] == "Service"]
    assert {port["port"] for one in services for port in one["spec"]["ports"]} == {7777}


@pytest.mark.usefixtures("ring")
def test_it_is_listed_checked_and_its_fields_are_known() -> None:
    assert "RingJob" in [kind.name for kind in frontends.kinds()]
    broken = {**JOB, "spec": {**JOB["spec"], "ringRepliaSpecs": {}}}
    (problem,) = etcompile.compile([broken]).diagnostics
    assert problem.code == "ET2001"
    assert "ringRepliaSpecs" in problem.message


def test_without_it_the_kind_is_unknown() -> None:
    compilation = etcompile.compile([JOB])
    assert "ET4003" in {problem.code for problem in compilation.diagnostics}
    assert JOB in [*compilation.objects]
