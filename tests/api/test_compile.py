"""The Python API: documents or paths in, objects and diagnostics out, never an exception."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import etcompile
from etcompile import Options, Settings
from kubernetes_schemas import faults
from randomness import examples
from specs import by_name, compiled, mpi_job, scale_in, scale_out, training_job, worker

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "trainingjob" / "elastic-mnist"


def test_a_path_a_string_and_a_mapping_are_inputs() -> None:
    by_path = etcompile.compile(EXAMPLE / "job.yaml")
    assert by_path.ok
    assert etcompile.compile(str(EXAMPLE / "job.yaml")).objects == by_path.objects
    document = training_job()
    assert etcompile.compile([EXAMPLE / "job.yaml", document]).ok


def test_inputs_are_not_changed() -> None:
    documents = [training_job(), scale_out("a", 1), mpi_job("v2beta1", "pi")]
    before = copy.deepcopy(documents)
    compiled(*documents, namespace="ml")
    assert documents == before


def test_groups_tell_jobs_apart_and_name_their_files() -> None:
    result = etcompile.compile([EXAMPLE])
    assert [(g.name, g.namespace) for g in result.groups] == [("elastic-mnist", "ml")]
    assert result.groups[0].sources == ("job.yaml",)


def test_an_error_leaves_no_objects() -> None:
    result = etcompile.compile([training_job(), training_job("x.y")])
    assert not result.ok
    assert (result.groups, result.objects) == ((), ())


def test_diagnostics_of_all_inputs_are_reported_in_input_order(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("a: [1\n")
    bad = training_job("Bad")
    worker(bad)["maxReplicas"] = 1
    second.write_text(json.dumps(bad))
    result = etcompile.compile([second, first, tmp_path / "none.yaml"])
    assert {d.code for d in result.diagnostics} == {"ET1005", "ET2020", "ET2003", "ET1002"}


def test_intent_for_an_invalid_job_adds_no_second_error() -> None:
    broken = training_job()
    del worker(broken)["replicas"]
    codes = [d.code for d in etcompile.compile([broken, scale_out("a", 1)]).diagnostics]
    assert codes == ["ET2002"]


# Properties -------------------------------------------------------------------------------------

label = st.from_regex(r"[a-z]([-a-z0-9]{0,15}[a-z0-9])?", fullmatch=True)
quantity = st.sampled_from(["1", "500m", "2Gi", "0.5"])
limits = st.fixed_dictionaries({"cpu": quantity})
containers = st.lists(
    st.fixed_dictionaries(
        {"name": label, "image": st.sampled_from(["a:1", "b/c:2", "d@sha256:" + "0" * 64])},
        optional={
            "command": st.lists(st.text(max_size=20), min_size=1, max_size=4),
            "args": st.lists(st.text(max_size=20), max_size=3),
            "env": st.lists(
                st.fixed_dictionaries({"name": label, "value": st.text(max_size=30)}),
                max_size=3,
                unique_by=lambda env: env["name"],
            ),
            "resources": st.fixed_dictionaries(
                {"limits": st.fixed_dictionaries({"cpu": quantity})}
            ),
        },
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda one: one["name"],
)
templates = st.fixed_dictionaries(
    {"spec": st.fixed_dictionaries({"containers": containers})},
    optional={
        "metadata": st.fixed_dictionaries(
            {}, optional={"labels": st.dictionaries(label, label, max_size=2)}
        )
    },
)


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    document = training_job(draw(label), replicas=draw(st.integers(1, 12)))
    for role in ("launcher", "worker"):
        document["spec"]["etReplicaSpecs"][role]["template"] = draw(templates)
    document["spec"]["launcherAttachMode"] = draw(st.sampled_from(["ssh", "kubexec", ""]))
    return document


@examples(60)
@given(
    job=jobs(),
    add=st.integers(1, 5),
    services=st.sampled_from(["per-replica", "shared"]),
    version=st.sampled_from(["1.25", "1.31", "1.37"]),
)
def test_any_accepted_job_renders_to_objects_that_kubernetes_accepts(
    job: dict[str, Any], add: int, services: Any, version: str
) -> None:
    options = Options(
        namespace="ml", settings=Settings(services=services, kubernetes_version=version)
    )
    intents = [scale_out("more", add, job=job["metadata"]["name"])]
    intents.append(scale_in("less", 1, job=job["metadata"]["name"]))
    result = etcompile.compile([job, *intents], options)
    # What may be refused for a job like this: a name that is taken or too long.
    assert {d.code for d in result.diagnostics if d.severity is etcompile.Severity.ERROR} <= {
        "ET2047"
    }
    assert etcompile.compile([*intents, job], options).objects == result.objects
    seen = set()
    for value in result.objects:
        role = value["metadata"]["labels"].get("etcompile.dev/role")
        if (value["kind"], role) not in seen:
            seen.add((value["kind"], role))
            assert faults(value, version) == []


@pytest.mark.parametrize("value", [None, 1, "text", [], {}, {"apiVersion": "v1"}, {"kind": 3}])
def test_list_item_that_is_no_document_is_reported(value: Any) -> None:
    result = etcompile.compile([{"apiVersion": "v1", "kind": "List", "items": [value]}])
    assert not result.ok


def test_names_tell_objects_apart() -> None:
    assert len(by_name(compiled(training_job(replicas=20)))) == 20 * 2 + 3


def test_the_newest_bundled_kubernetes_is_the_default() -> None:
    from etcompile.check.kubernetes import versions

    assert Settings().kubernetes_version == versions()[-1]
