"""The table of list keys is what the OpenAPI documents of Kubernetes say."""

import json
from importlib.resources import files

import pytest

from etcompile.check import kubernetes
from etcompile.k8s.listkeys import POD_LISTS, patch_key

_TYPES = ("PodSpec", "Container", "EphemeralContainer", "ResourceRequirements")


def lists(version):
    """Each list with keys of some types: type, field, the keys of an apply, the key of a patch."""
    folder = files("kubernetes_validate") / "kubernetes-json-schema"
    text = (folder / f"v{version}.0-local-strict" / "_definitions.json").read_text("utf-8")
    for name, schema in json.loads(text)["$defs"].items():
        for field, part in schema.get("properties", {}).items():
            keys = part.get("x-kubernetes-list-map-keys")
            patch = part.get("x-kubernetes-patch-merge-key")
            if keys or patch:
                yield name.rpartition(".")[2], field, tuple(keys or (patch,)), patch


@pytest.mark.parametrize("version", kubernetes.versions())
def test_lists_of_a_pod_have_the_keys_that_the_api_has(version):
    for kind, field, keys, patch in lists(version):
        if kind in _TYPES:
            assert POD_LISTS[field] == keys, (kind, field)
        if kind == "PodSpec":
            assert patch_key("Pod", ("spec", field)) == patch
        if kind == "Container":
            assert patch_key("Pod", ("spec", "containers", 0, field)) == patch


def test_no_list_of_a_pod_has_keys_that_the_api_does_not_have():
    newest = {field for kind, field, _, _ in lists(kubernetes.versions()[-1]) if kind in _TYPES}
    assert newest == POD_LISTS.keys()
