"""Whatever an overlay says, the answer is objects or diagnostics, and never a traceback."""

from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

import etcompile
import specs
from etcompile import Options, backend, emit
from etcompile.compiler.stored import read_patches, read_stored
from etcompile.overlays.object_patches import patched_objects
from randomness import examples

WORDS = [
    *("metadata", "spec", "name", "labels", "annotations", "template", "containers", "volumes"),
    *("initContainers", "env", "ports", "image", "etReplicaSpecs", "worker", "launcher", "data"),
    *("replicas", "selector", "restartPolicy", "tolerations", "$patch", "resources", "command"),
]
NAMES = ["main", "wait-for-workers", "training-job-config", "a", "job.yaml", "delete", "replace"]
KINDS = ["TrainingJob", "ScaleOut", "Pod", "Service", "ConfigMap", "PersistentVolumeClaim"]

scalars = st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(NAMES)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=12,
)
pointers = st.lists(st.sampled_from([*WORDS, "0", "1", "-", "~0"]), max_size=4).map(
    lambda words: "".join(f"/{word}" for word in words)
)
operations = st.one_of(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "replace", "test"]), "path": pointers, "value": values}
    ),
    st.fixed_dictionaries({"op": st.just("remove"), "path": pointers}),
    st.fixed_dictionaries(
        {"op": st.sampled_from(["move", "copy"]), "path": pointers, "from": pointers}
    ),
)
patches = st.dictionaries(st.sampled_from(WORDS), values, min_size=1, max_size=4) | st.lists(
    operations, min_size=1, max_size=3
)
targets = st.fixed_dictionaries(
    {}, optional={"kind": st.sampled_from(KINDS), "role": st.sampled_from(["worker", "launcher"])}
).filter(bool)
entries = st.fixed_dictionaries({"target": targets, "patch": patches, "optional": st.just(True)})
overlay = st.fixed_dictionaries(
    {
        "apiVersion": st.just("etcompile.dev/v1alpha1"),
        "kind": st.just("Overlay"),
        "patches": st.lists(entries, max_size=3),
    }
)
NO_TEXT = {
    "apiVersion": "etcompile.dev/v1alpha1",
    "kind": "Overlay",
    "patches": [{"target": {"kind": "ConfigMap"}, "patch": {"data": {"metadata": False}}}],
}
CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}}


def compilation(overlay: Any) -> Any:
    documents = [specs.training_job(replicas=2), specs.scale_out("more", 1), CLAIM]
    return etcompile.compile(documents, Options(overlays=(overlay,)))


@example(NO_TEXT)
@examples(300)
@given(overlay)
def test_any_patch_is_applied_or_refused(overlay: Any) -> None:
    result = compilation(overlay)
    if not result.ok:
        return
    objects = specs.by_name(result)
    config = objects["ConfigMap", "mnist-config"]
    value = yaml.safe_load(config["data"]["job.yaml"])
    job, chosen = read_stored(value)
    lowered = backend.lower(job, chosen, backend.Texts(None), emit.to_yaml(value))
    labels = backend.protected_labels(job)
    again = patched_objects(lowered, read_patches(value), protected_labels=labels)
    for one in again.objects:
        if one["kind"] in ("Pod", "Service"):
            assert one == objects[one["kind"], one["metadata"]["name"]]


@examples(200)
@given(values)
def test_any_document_is_an_overlay_or_refused(value: Any) -> None:
    header = {"apiVersion": "etcompile.dev/v1alpha1", "kind": "Overlay"}
    compilation({**header, "patches": value, "images": value})
    compilation({**header, "settings": value, "namespace": value, "resources": value})


@examples(50)
@example("a" * 300)
@example("a\0b")
@example("\ud800")
@given(st.text(min_size=1))
def test_any_overlay_name_is_resolved_or_refused_without_a_crash(name: str) -> None:
    etcompile.compile([specs.training_job()], Options(overlays=(name,)))
