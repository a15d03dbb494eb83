"""The overlay `resilient` restarts all kinds in place that can."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import etcompile

ROOT = Path(__file__).parents[2]
OVERLAY = ROOT / "overlays" / "resilient" / "overlay.yaml"
NOT_BY_ITSELF = {"TrainJob"}
"""Its runtime may fetch data first."""
PATCH = "&in-place { metadata: { annotations: { etcompile.dev/restart: in-place } } }"
ROWS = re.compile(r"(  - { target: { kind: \w+ }, optional: true, patch: [&*]in-place.*\n)+")


def can_restart_in_place(job: Path) -> Iterator[str]:
    """Yield the kind of an example, if it compiles with the annotation."""
    documents = [*yaml.safe_load_all(job.read_text("utf-8"))]
    [document, *_] = documents
    document["metadata"].setdefault("annotations", {})["etcompile.dev/restart"] = "in-place"
    if etcompile.compile([document]).ok and document["kind"] not in NOT_BY_ITSELF:
        yield document["kind"]


def rows() -> Iterator[str]:
    jobs = sorted((ROOT / "examples").glob("*/*/job.yaml"))
    kinds = sorted({kind for job in jobs for kind in can_restart_in_place(job)})
    for number, kind in enumerate(kinds):
        patch = "*in-place" if number else PATCH
        yield f"  - {{ target: {{ kind: {kind} }}, optional: true, patch: {patch} }}\n"


def test_the_overlay_restarts_each_kind_in_place_that_can(request: pytest.FixtureRequest) -> None:
    text, expected = OVERLAY.read_text("utf-8"), "".join(rows())
    listed = ROWS.search(text)
    assert listed
    if request.config.getoption("--update-goldens"):
        OVERLAY.write_text(text.replace(listed[0], expected), "utf-8")
    same = listed[0] == expected or request.config.getoption("--update-goldens")
    assert same, "run `pytest tests/overlays/test_resilient.py --update-goldens`"
