"""Annotations that jobs of all kinds share, read in one place."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import etcompile
from etcompile import frontends
from etcompile.diagnostics import codes
from specs import compiled, kubeflow_job, scale_out, training_job, warnings

EXAMPLES = Path(__file__).parents[2] / "examples"
KINDS = [kind for kind in frontends.kinds() if kind.pod_templates]
WANTED = {"etcompile.dev/lost-node-after": "300", "etcompile.dev/avoid-nodes": "2"}


def example(kind: str, version: str) -> dict[str, Any]:
    """A job of a kind, out of the examples: one that needs no other document."""
    for path in sorted(EXAMPLES.glob("*/*/*.yaml")):
        documents = [one for one in yaml.safe_load_all(path.read_text()) if one]
        if any(one["kind"] == "TrainingRuntime" for one in documents):
            continue
        for document in documents:
            if (document.get("kind"), document.get("apiVersion")) == (kind, version):
                value: dict[str, Any] = document
                return value
    raise AssertionError(f"no example of {kind}")


def stored(objects: Any) -> dict[str, Any]:
    [text] = [one["data"]["job.yaml"] for one in objects if "job.yaml" in one.get("data", {})]
    value: dict[str, Any] = yaml.safe_load(text)
    return value


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.name}-{kind.api_version[-7:]}")
def test_jobs_of_all_kinds_have_them_and_pods_do_not_change_for_it(kind: Any) -> None:
    document = example(kind.name, kind.api_version)
    plain = compiled(document)
    document["metadata"].setdefault("annotations", {}).update(WANTED)
    compilation = compiled(document)
    assert [d.code for d in compilation.diagnostics] == [d.code for d in plain.diagnostics]
    annotations = stored(compilation.objects)["document"]["metadata"]["annotations"]
    assert WANTED.items() <= annotations.items()
    pods = [[one for one in each.objects if one["kind"] == "Pod"] for each in (plain, compilation)]
    for before, after in zip(*pods, strict=True):
        # DLRover's master has the job's annotations; nothing else knows of them.
        for one in (before, after):
            for name in WANTED:
                one["metadata"]["annotations"].pop(name, None)
        assert before == after


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lost-node-after", "5m"),
        ("lost-node-after", "29"),
        ("lost-node-after", "-1"),
        ("avoid-nodes", "0"),
        ("avoid-nodes", "twice"),
        ("avoid-nodes", "100"),
    ],
)
def test_a_value_that_says_nothing_is_an_error_at_its_place(name: str, value: str) -> None:
    document = kubeflow_job("PyTorchJob", {"Master": 1})
    document["metadata"]["annotations"] = {f"etcompile.dev/{name}": value}
    [problem] = etcompile.compile([document]).diagnostics
    assert problem.code == codes.ANNOTATION_VALUE
    assert name in problem.message
    assert value in problem.message


def test_on_what_is_no_job_it_has_no_effect() -> None:
    intent = scale_out("more", 1)
    intent["metadata"]["annotations"] = WANTED
    assert warnings(training_job(), intent).count(codes.NO_EFFECT) == 2


def test_misspelt_annotation_is_reported_with_the_likely_name() -> None:
    document = kubeflow_job("TFJob", {"Worker": 1})
    document["metadata"]["annotations"] = {"etcompile.dev/avoid-node": "2"}
    [problem] = [d for d in compiled(document).diagnostics if d.code == codes.NO_EFFECT]
    assert "'etcompile.dev/avoid-nodes'" in problem.hint
