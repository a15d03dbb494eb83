"""Mounts and block devices of containers (ValidateVolumeMounts, ValidateVolumeDevices)."""

from collections.abc import Iterator

from etcompile.k8s.validation import forms
from etcompile.k8s.validation.pod.places import CONTAINER, Value, spec_of
from etcompile.k8s.validation.rule import Broken, Rule, Subject

_MOUNT = f"{CONTAINER}.volumeMounts[*]"
_DEVICE = f"{CONTAINER}.volumeDevices[*]"
_ADVISED = 20
"""Mounts that get advice of their own: to find what was meant costs a look at every volume."""
_LISTED = 8
"""Volumes that advice names."""


def volumes_of(subject: Subject) -> list[str]:
    """The names of all volumes that the Pod will have, its own first."""
    own = (volume.get("name") for _, volume in forms.mappings(spec_of(subject), "volumes"))
    names = (*own, *subject.known_volumes)
    return [*dict.fromkeys(name for name in names if isinstance(name, str))]


def _no_volume(spec: Value, subject: Subject) -> Iterator[Broken]:
    volumes = volumes_of(subject)
    known = set(volumes)
    told = 0
    for field in ("initContainers", "containers"):
        for index, container in forms.mappings(spec, field):
            for use in ("volumeMounts", "volumeDevices"):
                for number, mount in forms.mappings(container, use):
                    name = mount.get("name")
                    if isinstance(name, str) and name not in known:
                        told += 1
                        advice = _near(name, volumes) if told <= _ADVISED else ""
                        yield Broken((field, index, use, number, "name"), {"advice": advice})


def _near(name: str, volumes: list[str]) -> str:
    import difflib  # noqa: PLC0415 - only a complaint needs it

    by_lower = {volume.lower(): volume for volume in volumes}
    if near := difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7):
        return f"did you mean '{by_lower[near[0]]}'?"
    if not volumes:
        return "the Pod has no volumes"
    more = len(volumes) - _LISTED
    listed = ", ".join(volumes[:_LISTED])
    return f"its volumes are: {listed}{f' and {more} more' if more > 0 else ''}"


def _one_device_and_mount(container: Value, _: Subject) -> Iterator[Broken]:
    names = {str(mount.get("name")) for _, mount in forms.mappings(container, "volumeMounts")}
    for index, device in forms.mappings(container, "volumeDevices"):
        if str(device.get("name")) in names:
            yield Broken(("volumeDevices", index, "name"))


def _one_path(container: Value, _: Subject) -> Iterator[Broken]:
    mounts = (mount.get("mountPath") for _, mount in forms.mappings(container, "volumeMounts"))
    paths = {path for path in mounts if isinstance(path, str)}
    for index, device in forms.mappings(container, "volumeDevices"):
        if str(device.get("devicePath")) in paths:
            yield Broken(("volumeDevices", index, "devicePath"))


def _bidirectional(container: Value, _: Subject) -> Iterator[Broken]:
    if forms.mapping(container, "securityContext").get("privileged") is True:
        return
    for index, mount in forms.mappings(container, "volumeMounts"):
        if mount.get("mountPropagation") == "Bidirectional":
            yield Broken(("volumeMounts", index, "mountPropagation"))


def _recursive(mount: Value) -> bool:
    return mount.get("recursiveReadOnly") in ("Enabled", "IfPossible")


def _recursive_without_read_only(mount: Value, _: Subject) -> bool:
    return _recursive(mount) and mount.get("readOnly") is not True


def _recursive_and_propagated(mount: Value, _: Subject) -> bool:
    return _recursive(mount) and mount.get("mountPropagation") not in (None, "None")


def _not_a_claim(spec: Value, subject: Subject) -> Iterator[Broken]:
    del subject
    sources = {str(volume.get("name")): volume for _, volume in forms.mappings(spec, "volumes")}
    for field in ("initContainers", "containers"):
        for index, container in forms.mappings(spec, field):
            for number, device in forms.mappings(container, "volumeDevices"):
                volume = sources.get(str(device.get("name")))
                if volume and not forms.given(volume, ("persistentVolumeClaim", "ephemeral")):
                    yield Broken((field, index, "volumeDevices", number, "name"))


def _mount(text: str) -> str:
    return f"volumeMounts: [{{name: data, {text}}}]"


def _device(text: str, *, volume: str = "persistentVolumeClaim: {claimName: a}") -> str:
    return (
        f"{{volumes: [{{name: disk, {volume}}}],"
        f" containers: [{{name: a, image: a:1, volumeDevices: [{text}]}}]}}"
    )


RULES = (
    Rule(
        "spec",
        _no_volume,
        "no volume is named '{value}'",
        "containers: [{name: a, image: a:1, volumeMounts: [{name: dta, mountPath: /a}]}]",
        "containers: [{name: a, image: a:1, volumeMounts: [{name: data, mountPath: /a}]}]",
        "{advice}",
    ),
    Rule(
        f"{_MOUNT}.mountPath",
        forms.empty,
        "must not be empty",
        _mount('mountPath: ""'),
        _mount("mountPath: /a"),
        on=str,
    ),
    Rule(
        f"{CONTAINER}.volumeMounts",
        forms.twice(name="mountPath"),
        "another mount of this container is at '{value}'",
        "volumeMounts: [{name: data, mountPath: /a}, {name: data, mountPath: /a}]",
        "volumeMounts: [{name: data, mountPath: /a}, {name: data, mountPath: /b}]",
        "mount one of the two elsewhere",
        on=list,
    ),
    Rule(
        _MOUNT,
        lambda mount, _: bool(mount.get("subPath") and mount.get("subPathExpr")),
        "has both subPath and subPathExpr",
        _mount("mountPath: /a, subPath: a, subPathExpr: a"),
        _mount("mountPath: /a, subPath: a"),
        "remove one of the two",
    ),
    Rule(
        f"{_MOUNT}.(subPath|subPathExpr)",
        forms.unless(forms.is_inside),
        "'{value}' is not a path inside the volume",
        _mount("mountPath: /a, subPath: a/../b"),
        _mount("mountPath: /a, subPath: a/..b"),
        forms.INSIDE_ADVICE,
        on=str,
    ),
    Rule(
        CONTAINER,
        _bidirectional,
        "Bidirectional needs a privileged container",
        _mount("mountPath: /a, mountPropagation: Bidirectional"),
        f"{{{_mount('mountPath: /a, mountPropagation: Bidirectional')},"
        " securityContext: {privileged: true}}",
        "use HostToContainer, or set securityContext.privileged: true",
    ),
    Rule(
        f"{_MOUNT}.recursiveReadOnly",
        forms.one_of("Disabled", "Enabled", "IfPossible"),
        "must be Disabled, Enabled or IfPossible, not '{value}'",
        _mount("mountPath: /a, readOnly: true, recursiveReadOnly: Always"),
        _mount("mountPath: /a, readOnly: true, recursiveReadOnly: Enabled"),
        on=str,
        since=31,
    ),
    Rule(
        _MOUNT,
        _recursive_without_read_only,
        "recursiveReadOnly needs readOnly: true",
        _mount("mountPath: /a, recursiveReadOnly: Enabled"),
        _mount("mountPath: /a, readOnly: true, recursiveReadOnly: Enabled"),
        since=31,
    ),
    Rule(
        _MOUNT,
        _recursive_and_propagated,
        "recursiveReadOnly cannot be combined with mountPropagation",
        _mount(
            "mountPath: /a, readOnly: true, recursiveReadOnly: Enabled,"
            " mountPropagation: HostToContainer"
        ),
        _mount("mountPath: /a, readOnly: true, recursiveReadOnly: Enabled"),
        "remove one of the two",
        since=31,
    ),
    Rule(
        f"{_DEVICE}.devicePath",
        forms.empty,
        "must not be empty",
        _device('{name: disk, devicePath: ""}'),
        _device("{name: disk, devicePath: /dev/a}"),
        on=str,
    ),
    Rule(
        f"{_DEVICE}.devicePath",
        lambda path, _: ".." in path.split("/"),
        "'{value}' contains '..'",
        _device("{name: disk, devicePath: /dev/../a}"),
        _device("{name: disk, devicePath: /dev/a}"),
        on=str,
    ),
    Rule(
        f"{CONTAINER}.volumeDevices",
        forms.twice(name="devicePath"),
        "another device of this container is at '{value}'",
        _device(
            "{name: disk, devicePath: /dev/a}, {name: two, devicePath: /dev/a}",
            volume="persistentVolumeClaim: {claimName: a}}, {name: two,"
            " persistentVolumeClaim: {claimName: b}",
        ),
        _device(
            "{name: disk, devicePath: /dev/a}, {name: two, devicePath: /dev/b}",
            volume="persistentVolumeClaim: {claimName: a}}, {name: two,"
            " persistentVolumeClaim: {claimName: b}",
        ),
        on=list,
    ),
    Rule(
        f"{CONTAINER}.volumeDevices",
        forms.twice(),
        "another device of this container is volume '{value}'",
        _device("{name: disk, devicePath: /dev/a}, {name: disk, devicePath: /dev/b}"),
        _device("{name: disk, devicePath: /dev/a}"),
        on=list,
    ),
    Rule(
        "spec",
        _not_a_claim,
        "volume '{value}' cannot be a block device",
        _device("{name: disk, devicePath: /dev/a}", volume="emptyDir: {}"),
        _device("{name: disk, devicePath: /dev/a}"),
        "only a persistentVolumeClaim or an ephemeral volume can",
    ),
    Rule(
        CONTAINER,
        _one_device_and_mount,
        "volume '{value}' is both mounted and a block device of this container",
        _device("{name: disk, devicePath: /dev/a}], volumeMounts: [{name: disk, mountPath: /a}"),
        _device("{name: disk, devicePath: /dev/a}"),
        "remove one of the two",
    ),
    Rule(
        CONTAINER,
        _one_path,
        "'{value}' is both a mount and a block device of this container",
        _device(
            "{name: disk, devicePath: /a}], volumeMounts: [{name: b, mountPath: /a}",
            volume="persistentVolumeClaim: {claimName: a}}, {name: b, emptyDir: {}",
        ),
        _device(
            "{name: disk, devicePath: /a}], volumeMounts: [{name: b, mountPath: /b}",
            volume="persistentVolumeClaim: {claimName: a}}, {name: b, emptyDir: {}",
        ),
        "use another path",
    ),
)
