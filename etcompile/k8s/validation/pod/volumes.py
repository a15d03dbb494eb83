"""Volumes: their names and that each has one source (ValidateVolumes)."""

from collections.abc import Iterator

from etcompile.k8s.names import is_label
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.pod.places import VOLUME, Value
from etcompile.k8s.validation.quantities import negative
from etcompile.k8s.validation.rule import Broken, Rule, Subject

_IMAGES_SINCE = 35
"""Before, the API server leaves volumes out that are images."""
SOURCES = (
    *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "configMap", "csi"),
    *("downwardAPI", "emptyDir", "ephemeral", "fc", "flexVolume", "flocker", "gitRepo"),
    *("gcePersistentDisk", "glusterfs", "hostPath", "iscsi", "nfs"),
    *("persistentVolumeClaim", "photonPersistentDisk", "portworxVolume", "projected", "quobyte"),
    *("rbd", "scaleIO", "secret", "storageos", "vsphereVolume"),
)


def _bad_name(volume: Value, subject: Subject) -> Iterator[Broken]:
    name, left_out = volume.get("name"), volume.get("image") is not None
    if left_out and subject.minor is not None and subject.minor < _IMAGES_SINCE:
        return
    if isinstance(name, str) and not is_label(name):
        yield Broken(("name",))


def _image_and(volume: Value, _: Subject) -> Iterator[Broken]:
    if volume.get("image") is not None and (found := forms.given(volume, SOURCES)):
        yield Broken((), {"found": " and ".join((*found, "image"))})


RULES = (
    Rule(
        VOLUME,
        _bad_name,
        "'{value}' is not a DNS label",
        "name: my_data",
        "name: my-data",
        forms.LABEL_ADVICE,
    ),
    Rule(
        "spec.volumes",
        forms.twice(),
        "another volume has the name '{value}'",
        "volumes: [{name: data, emptyDir: {}}, {name: data, emptyDir: {}}]",
        "volumes: [{name: data, emptyDir: {}}, {name: other, emptyDir: {}}]",
        "rename one of the two",
        on=list,
    ),
    Rule(
        VOLUME,
        forms.several(*SOURCES),
        "a volume has one source, this one has {found}",
        "emptyDir: {}, hostPath: {path: /a}",
        "emptyDir: {}",
        "make two volumes of it",
    ),
    Rule(
        VOLUME,
        _image_and,
        "a volume has one source, this one has {found}",
        "emptyDir: {}, image: {reference: a:1}",
        "emptyDir: {}",
        "make two volumes of it",
        since=_IMAGES_SINCE,
    ),
    Rule(
        f"{VOLUME}.emptyDir.sizeLimit",
        negative,
        "must not be negative: {value}",
        "emptyDir: {sizeLimit: -1Gi}",
        "emptyDir: {sizeLimit: 1Gi}",
        on=(str, int, float),
    ),
)
