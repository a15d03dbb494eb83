"""The bounds of texts, lists and numbers in a Pod, against the API server whose bounds they are."""

import pytest

from etcompile.check import kubernetes
from etcompile.check.pod_rules import check_pod_template
from etcompile.load import from_values
from mutations.cluster import Cluster
from specs import manifest

SERVED = 34
"""The minor version of the API server that the tests run."""

_VOLUMES = {
    "awsElasticBlockStore": {"volumeID": "a", "partition": 1},
    "azureDisk": {"diskName": "a", "diskURI": "https://a"},
    "azureFile": {"secretName": "a", "shareName": "a"},
    "cephfs": {"monitors": ["a"]},
    "cinder": {"volumeID": "a"},
    "configMap": {"name": "a", "defaultMode": 0o644, "items": [{"key": "a", "path": "a"}]},
    "csi": {"driver": "a"},
    "flexVolume": {"driver": "a"},
    "gcePersistentDisk": {"pdName": "a", "partition": 1},
    "gitRepo": {"repository": "a"},
    "glusterfs": {"endpoints": "a", "path": "a"},
    "hostPath": {"path": "/a"},
    "iscsi": {"targetPortal": "a", "iqn": "iqn.2001-04.com.example:a", "lun": 1},
    "nfs": {"server": "a", "path": "/a"},
    "persistentVolumeClaim": {"claimName": "a"},
    "photonPersistentDisk": {"pdID": "a"},
    "portworxVolume": {"volumeID": "a"},
    "projected": {"defaultMode": 0o644, "sources": [{"serviceAccountToken": {"path": "a"}}]},
    "quobyte": {"registry": "a:1", "volume": "a"},
    "rbd": {"image": "a", "monitors": ["a"]},
    "secret": {"secretName": "a", "defaultMode": 0o644, "items": [{"key": "a", "path": "a"}]},
    "vsphereVolume": {"volumePath": "a"},
}
_PROBE = dict.fromkeys(
    (
        *("failureThreshold", "initialDelaySeconds", "periodSeconds", "successThreshold"),
        *("timeoutSeconds", "terminationGracePeriodSeconds"),
    ),
    1,
)
_IDS = {"runAsUser": 1, "runAsGroup": 1}
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SPREAD = {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 1}
_MAIN = {"name": "main", "image": "a:1"}

SPECS = {
    **{name: {"volumes": [{"name": "v", name: source}]} for name, source in _VOLUMES.items()},
    "probe": {"containers": [{**_MAIN, "livenessProbe": {"exec": {"command": ["a"]}, **_PROBE}}]},
    "context": {"containers": [{**_MAIN, "securityContext": _IDS}]},
    "pod context": {"securityContext": {**_IDS, "fsGroup": 1, "supplementalGroups": [1]}},
    "deadline": {"activeDeadlineSeconds": 1},
    "node weight": {"affinity": {"nodeAffinity": {_PREFERRED: [{"weight": 1}]}}},
    "pod weight": {
        "affinity": {
            "podAffinity": {_PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": "a"}}]}
        }
    },
    "spread": {"topologySpreadConstraints": [_SPREAD]},
    "sysctl": {"securityContext": {"sysctls": [{"name": "a"}]}},
}
"""Specs whose texts, lists and numbers the schema bounds."""


def leaves(value, at=()):
    """The texts, numbers and lists of texts in a value, and their paths."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*at, key))
    elif isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*at, index))
    else:
        yield at, value


def replaced(value, at, new):
    if not at:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[at[0]] = replaced(value[at[0]], at[1:], new)
    return copy


def extremes(value):
    """What is most likely to be refused in the place of a value."""
    if isinstance(value, str):
        return [""]
    if isinstance(value, list):
        return [[], [-1]] if isinstance(value[0], int) else [[]]
    return [-1, 0, 101, 256, 512, 2**31]


@pytest.fixture(scope="module")
def cluster(control_plane):
    connection = Cluster(control_plane)
    yield connection
    connection.close()


def problems(value, version):
    (document,) = from_values([value]).documents
    return [problem for _, problem in check_pod_template(document, (), version)]


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_schema_and_api_server_agree_on_bounds(cluster, spec):
    value = manifest("Pod", "pod", spec={"containers": [_MAIN], **spec})
    changed = [
        replaced(value, ("spec", *at), new) for at, leaf in leaves(spec) for new in extremes(leaf)
    ]
    for pod_ in (value, *changed):
        refusal = cluster.refusal(pod_, lenient=False)
        (document,) = from_values([pod_]).documents
        diagnostics = kubernetes.check_object(document, f"1.{SERVED}") + problems(
            pod_, f"1.{SERVED}"
        )
        assert bool(refusal) == bool(diagnostics), (pod_["spec"], refusal, diagnostics)
    assert not cluster.refusal(value)
