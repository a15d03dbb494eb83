"""The worker that all others meet at: what an intent that takes it is told, and that it works."""

import pytest

import etcompile
from etcompile.load import parse
from specs import kubeflow_job, scale_in

JOB = kubeflow_job("PyTorchJob", {"Worker": 4}, elasticPolicy={"minReplicas": 1, "maxReplicas": 6})


def problems(wanted: int | list[str]) -> list[etcompile.Diagnostic]:
    diagnostics = etcompile.compile([JOB, scale_in("less", wanted, of="PyTorchJob")]).diagnostics
    return [one for one in diagnostics if one.severity is etcompile.Severity.ERROR]


def test_hint_names_the_workers_that_scale_in_can_remove() -> None:
    (problem,) = problems(["mnist-worker-0"])
    names = ["mnist-worker-1", "mnist-worker-2", "mnist-worker-3"]
    assert (problem.code, problem.hint) == (
        "ET3012",
        f"name at most 3 of the others: {', '.join(names)}",
    )
    assert problems(names) == []


def test_hint_names_the_count_that_scale_in_can_remove() -> None:
    (problem,) = problems(4)
    assert (problem.code, problem.hint) == ("ET3012", "remove at most 3")
    assert problems(3) == []


@pytest.mark.parametrize(
    ("field", "code", "place"),
    [
        ("count: 4", "ET3012", (7, 21)),
        ("podNames: [mnist-worker-0]", "ET3012", (7, 25)),
        ("podNames: [mnist-worker-9]", "ET3002", (7, 25)),
    ],
)
def test_the_field_that_takes_it_is_shown(field: str, code: str, place: tuple[int, int]) -> None:
    text = (
        "apiVersion: etcompile.dev/v1alpha1\n"
        "kind: ScaleIn\n"
        "metadata:\n"
        "  name: less\n"
        "spec:\n"
        "  selector: {kind: PyTorchJob, name: mnist}\n"
        f"  toDelete: {{{field}}}\n"
    )
    (document,) = parse(text, file="in.yaml").documents
    diagnostics = etcompile.compile([JOB, document]).diagnostics
    (where,) = [one.location for one in diagnostics if one.code == code]
    assert where is not None
    assert (where.line, where.column) == place
