"""Wrong types in an overlay, or in what it writes into objects, are refused without a crash."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import etcompile
from etcompile import Options
from etcompile.diagnostics import codes
from etcompile.k8s.objects import is_custom
from etcompile.k8s.quantity import number
from etcompile.model import Settings
from etcompile.model.settings import secret_mode
from randomness import examples
from specs import compiled, dlrover_type, elastic_job, kubeflow_job, overlay, replicas, training_job

Path = tuple[str | int, ...]
SERVERS = elastic_job(
    {name: {**dlrover_type(1), "autoScale": False} for name in ("ps", "worker")},
    annotations={"etcompile.dev/parameter-servers": "master"},
    distributionStrategy="ParameterServerStrategy",
)
TORCH = kubeflow_job(
    "PyTorchJob", {"Worker": replicas("PyTorchJob", 2, resources={"requests": {"cpu": "4"}})}
)
HOROVOD = training_job(launcherAttachMode="kubexec")
SSH = training_job(launcherAttachMode="ssh")
JOBS = {
    **{
        gang: (TORCH, Settings(gang=gang, run="a"))
        for gang in ("volcano", "coscheduling", "kai", "koordinator", "native")
    },
    "external": (SSH, Settings(secret=secret_mode("external"))),
    "store": (SSH, Settings(secret=secret_mode("external:vault/ml"))),
    "DLRover": (SERVERS, Settings()),
    "kubexec": (HOROVOD, Settings(services="shared", init_image="example.com/init:1")),
}
WRONG = [5, 1.5, True, "text", "", {}, {"a": "b"}, {"a": {"b": 1}}, [], [5], [[]], [{"a": "b"}]]
FIELDS = st.sampled_from(["metadata", "spec", "name", "target", "patch", "kind", "labels", "image"])
VALUES = st.recursive(
    st.none() | st.integers(-1, 3) | st.sampled_from(["main", "Pod", "delete"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=12,
)


@cache
def objects(name: str) -> list[dict[str, Any]]:
    """One object of each kind of a job, as it is before the annotations of tools."""
    job, chosen = JOBS[name]
    rendered = compiled(job, settings=chosen, default_namespace="ml").objects
    return [*{value["kind"]: dict(value) for value in rendered}.values()]


def paths(value: Any, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The paths of all values inside a value, each with the value there."""
    steps = value if isinstance(value, dict) else range(len(value) if type(value) is list else 0)
    for step in steps:
        yield (*at, step), value[step]
        yield from paths(value[step], (*at, step))


def merge_patch(value: Any, at: Path, wrong: Any) -> Any:
    """A strategic merge patch that puts a value at a path; items keep their names."""
    if not at:
        return wrong
    inner = merge_patch(value[at[0]], at[1:], wrong)
    if not isinstance(at[0], int):
        return {at[0]: inner}
    item = value[at[0]]
    names = [key for key in ("name", "mountPath", "port") if isinstance(item, dict) and key in item]
    return [{names[0]: item[names[0]], **inner} if names and isinstance(inner, dict) else inner]


def operation(at: Path, wrong: Any) -> list[dict[str, Any]]:
    """A JSON patch that puts a value at a path."""
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in at)
    return [{"op": "replace", "path": "/" + "/".join(steps), "value": wrong}]


def patched(name: str, kind: str, *patches: Any) -> etcompile.Compilation:
    job, chosen = JOBS[name]
    entries = [{"target": {"kind": kind}, "patch": patch} for patch in patches]
    overlays = (overlay(patches=entries),)
    options = Options(settings=chosen, default_namespace="ml", overlays=overlays, lint=True)
    return etcompile.compile([job], options)


@examples(120)
@given(st.data())
def test_any_wrong_type_is_refused_or_renders(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*JOBS]))
    value = data.draw(st.sampled_from(objects(name)))
    at, _ = data.draw(st.sampled_from([*paths(value)]))
    wrong = data.draw(st.sampled_from(WRONG))
    for patch in (merge_patch(value, at, wrong), operation(at, wrong)):
        assert patched(name, value["kind"], patch, {"metadata": {"annotations": {"a": "b"}}})


@pytest.mark.parametrize("name", [name for name in JOBS if name not in ("native", "kubexec")])
def test_wrong_types_in_custom_resources_are_refused(name: str) -> None:
    custom = [value for value in objects(name) if is_custom(value)]
    assert custom
    for value in custom:
        for at, old in paths(value):
            if at == ("metadata",) or at[0] in ("apiVersion", "kind"):
                continue  # refused as another object
            wrong: Any = True if isinstance(old, str) and number(old) is not None else 5
            wrong = "text" if isinstance(old, int) else wrong
            compilation = patched(name, value["kind"], operation(at, wrong))
            assert not compilation.ok, (value["kind"], at)


def test_container_whose_name_is_a_mapping_is_one_error_at_its_place() -> None:
    container = {"name": {"a": "b"}, "image": "example.com/x:1"}
    [problem] = patched("volcano", "Pod", {"spec": {"initContainers": [container]}}).diagnostics
    assert problem.code == codes.KUBERNETES_INVALID
    assert problem.where == "spec.initContainers[0].name"


def test_quantity_of_custom_resource_may_be_a_number() -> None:
    compilation = patched("volcano", "PodGroup", {"spec": {"minResources": {"cpu": 9}}})
    [group] = [value for value in compilation.objects if value["kind"] == "PodGroup"]
    assert group["spec"]["minResources"]["cpu"] == 9


def test_external_secret_keeps_the_name_that_pods_mount() -> None:
    patch = {"spec": {"target": {"name": "another"}}}
    [problem] = patched("external", "ExternalSecret", patch).diagnostics
    assert "spec.target.name of ExternalSecrets" in problem.message


@examples(200)
@given(VALUES)
def test_any_document_is_an_overlay_or_refused(value: Any) -> None:
    for fields in (("patches", "images"), ("settings", "namespace", "resources")):
        of_value = overlay(**dict.fromkeys(fields, value))
        etcompile.compile([SSH], Options(overlays=(of_value,)))


@examples(50)
@example("a" * 300)
@example("a\0b")
@example("\ud800")
@given(st.text(min_size=1))
def test_any_overlay_name_is_resolved_or_refused_without_a_crash(name: str) -> None:
    etcompile.compile([SSH], Options(overlays=(name,)))
