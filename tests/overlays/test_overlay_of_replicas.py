"""The Pods of a role are patched together, each as it would be by itself."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import etcompile
import specs
from etcompile import Options
from etcompile.check import kubernetes
from etcompile.load import Document
from etcompile.overlays import PatchedObjects, object_patches, overlay_of
from etcompile.overlays.object_patches import patched_objects
from etcompile.overlays.overlay import Edit
from randomness import examples

OUR_LABELS = frozenset({"etcompile.dev/job", "training.kubeflow.org/replica-index"})
VARIABLES = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(RANK)"}]
JOBS = {
    "PyTorchJob": specs.kubeflow_job(
        "PyTorchJob", {"Master": 1, "Worker": specs.replicas("PyTorchJob", 4, env=VARIABLES)}
    ),
    "TFJob": specs.kubeflow_job("TFJob", {"PS": 2, "Worker": 3}),
    "TrainingJob": specs.training_job(replicas=3),
}
RENDERED = {kind: list(specs.compiled(job).in_order()) for kind, job in JOBS.items()}

LABELS = ["etcompile.dev/job", "etcompile.dev/role", "training.kubeflow.org/replica-index"]
STEPS = [
    *("metadata", "name", "labels", "annotations", "spec", "containers", "env", "hostname"),
    *("value", "ports", "volumes", "selector", "data", "0", "1", "2", "3", "4", "-"),
    *(label.replace("/", "~1") for label in LABELS),
]
TEXTS = ["0", "1", "mnist-worker-1", "mnist-worker-0", "RANK", "A", "pytorch", "main", "x"]
texts = st.sampled_from(TEXTS)
pointers = st.one_of(
    st.lists(st.sampled_from(STEPS), max_size=5).map(lambda steps: "".join(f"/{s}" for s in steps)),
    st.builds(
        "/spec/containers/0/env/{}{}".format,
        st.sampled_from(["-", *range(12)]),
        st.sampled_from(["", "/value", "/name"]),
    ),
    st.sampled_from(
        ["/metadata/name", "/spec/hostname", *(f"/metadata/labels/{s}" for s in STEPS)]
    ),
)
values = st.one_of(
    texts,
    st.none() | st.integers(0, 2),
    st.fixed_dictionaries({"name": texts, "value": texts}),
    st.dictionaries(texts, texts, max_size=2),
)
operations = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"op": st.sampled_from(["add", "replace", "test"]), "path": pointers, "value": values}
        ),
        st.fixed_dictionaries({"op": st.just("remove"), "path": pointers}),
        st.fixed_dictionaries(
            {"op": st.sampled_from(["move", "copy"]), "path": pointers, "from": pointers}
        ),
    ),
    min_size=1,
    max_size=3,
)
variables = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["RANK", "A", "B", "NEW", "WORLD_SIZE"])},
        optional={"value": texts, "$patch": st.sampled_from(["delete", "replace", "merge"])},
    ),
    max_size=3,
)
containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["pytorch", "tensorflow", "main", "more"])},
        optional={"env": variables, "command": st.lists(texts, max_size=2), "image": texts},
    ),
    max_size=2,
)
merges = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "name": texts,
                "labels": st.dictionaries(st.sampled_from(LABELS), st.none() | texts, max_size=2),
                "annotations": st.dictionaries(texts, st.none() | texts, max_size=2),
            },
        ),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "hostname": st.none() | texts,
                "containers": containers,
                "volumes": st.lists(st.fixed_dictionaries({"name": texts}), max_size=2),
                "$patch": st.sampled_from(["replace", "merge"]),
            },
        ),
    },
)
targets = st.fixed_dictionaries(
    {"kind": st.sampled_from(["Pod", "Pod", "Service", "ConfigMap"])},
    optional={
        "role": st.sampled_from(["worker", "ps", "launcher"]),
        "name": st.sampled_from(["*", "*-worker-1", "*-worker-*", "mnist-worker-[02]"]),
        "labels": st.dictionaries(
            st.sampled_from(LABELS), st.sampled_from(["*", "1", "[02]", "worker"]), max_size=1
        ),
    },
)
entries = st.fixed_dictionaries({"target": targets, "patch": operations | merges})


def edits_of(patches: Sequence[Mapping[str, Any]]) -> Sequence[Edit]:
    return overlay_of(Document("overlay.yaml", "overlay.yaml", 0, {"patches": patches})).edits


def patched_each(
    objects: Sequence[Mapping[str, Any]], edits: Sequence[Edit]
) -> list[PatchedObjects]:
    return [patched_objects([value], edits, protected_labels=OUR_LABELS) for value in objects]


TESTED = {"op": "test", "path": "/metadata/name", "value": "mnist-worker-1"}
ADDED = {"op": "add", "path": "/spec/priority", "value": 1}
COPIED = {"op": "copy", "from": "/metadata/name", "path": "/spec/nodeName"}
ONE_POD = {"kind": "Pod", "name": "*-worker-1"}


@example("PyTorchJob", [{"target": {"kind": "Pod"}, "patch": [TESTED, ADDED]}])
@example("PyTorchJob", [{"target": {"kind": "Pod"}, "patch": [COPIED, ADDED]}])
@example(
    "TFJob",
    [
        {"target": ONE_POD, "patch": [ADDED]},
        {"target": {"kind": "Pod"}, "patch": {"metadata": {"annotations": {"a": "b"}}}},
    ],
)
@examples(400)
@given(st.sampled_from(sorted(JOBS)), st.lists(entries, min_size=1, max_size=4))
def test_patched_together_is_patched_each(kind: str, patches: list[dict[str, Any]]) -> None:
    objects, edits = RENDERED[kind], edits_of(patches)
    together, apart = (
        patched_objects(objects, edits, protected_labels=OUR_LABELS),
        patched_each(objects, edits),
    )
    each = tuple(one for result in apart for one in result.objects)
    assert together.objects == each
    assert [list(one) for one in together.objects] == [list(one) for one in each]
    assert list(together.diagnostics) == [one for result in apart for one in result.diagnostics]
    kinds: dict[Edit, set[str]] = {}
    for result in apart:
        for edit, touched in result.edits.items():
            kinds.setdefault(edit, set()).update(touched)
    assert {edit: set(touched) for edit, touched in together.edits.items()} == kinds
    by_label = {label(one.data): one for result in apart for one in result.changed}
    for one in together.changed:
        alone = by_label[label(one.data)]
        assert (one.data, one.relative) == (alone.data, alone.relative)
        for path in (("spec",), ("metadata", "labels"), ("spec", "containers", 0, "env", 1)):
            assert one.locate(path) == alone.locate(path)


def label(value: Mapping[str, Any]) -> tuple[str, str]:
    return value["kind"], value["metadata"]["name"]


def calls(module: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """A list that gets an entry for each call of a function of a module."""
    calls: list[None] = []
    really = getattr(module, name)

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(None)
        return really(*args, **options)

    monkeypatch.setattr(module, name, counted)
    return calls


@pytest.mark.parametrize("target", [{}, {"role": "worker"}, {"name": "*-worker-*"}])
def test_a_spec_that_replicas_share_is_patched_once(
    target: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = {"spec": {"priorityClassName": "high"}}
    edits = edits_of([{"target": {"kind": "Pod", **target}, "patch": patch}] * 5)
    counts = []
    merges = calls(object_patches, "merged", monkeypatch)
    for replicas in (10, 100):
        objects = list(specs.compiled(specs.training_job(replicas=replicas)).in_order())
        merges.clear()
        result = patched_objects(objects, edits, protected_labels=OUR_LABELS)
        counts.append(len(merges))
        [worker] = [each for each in result.objects if label(each) == ("Pod", "mnist-worker-1")]
        assert worker["spec"]["priorityClassName"] == "high"
    assert counts[0] == counts[1] > 0


def test_as_many_patched_replicas_are_checked_of_a_thousand_as_of_ten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patch = {"spec": {"containers": [{"name": "pytorch", "env": [{"name": "C", "value": "2"}]}]}}
    overlay = specs.patch(patch, kind="Pod")
    counts = []
    checks = calls(kubernetes, "check_object", monkeypatch)
    for replicas in (10, 1000):
        job = specs.kubeflow_job("PyTorchJob", {"Master": 1, "Worker": replicas})
        checks.clear()
        assert etcompile.compile([job], Options(overlays=(overlay,))).ok
        counts.append(len(checks))
    assert counts[0] == counts[1] > 0
