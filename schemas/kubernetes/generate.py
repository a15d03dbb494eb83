"""Makes the compact bundle of Kubernetes schemas that stands beside this script.

The package `kubernetes-validate` carries the strict JSON Schemas of every Kubernetes version as
100 MB of files. This turns them into one small file a version with the kinds that every run
checks, and `rest.json` with all others, where a definition that many versions share is written
once. It is apart from etcompile because only maintainers run it, once for each new Kubernetes:

    pip install kubernetes-validate && python schemas/kubernetes/generate.py
"""

import argparse
import importlib.resources
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema_rs

Schema = dict[str, Any]
Definitions = dict[str, Schema]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_COMMENT = "Made by generate.py from the OpenAPI of Kubernetes (Apache-2.0). Do not edit."

_EVERY_RUN = (
    "batch.v1.Job",
    "core.v1.ConfigMap",
    "core.v1.Pod",
    "core.v1.Secret",
    "core.v1.Service",
    "core.v1.ServiceAccount",
    "rbac.v1.Role",
    "rbac.v1.RoleBinding",
)
"""Kinds that etcompile writes or checks each time; what they refer to comes along."""

_DROPPED = {"description", "default"}
_KEPT = {"additionalProperties", "enum", "items", "oneOf", "properties", "required", "type"}
_FORMATS = {"int32", "int64", "byte", "double", "date-time"}

_DAY = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME = r"([01]?[0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_ZONE = r"(Z|[+-]([01][0-9]|2[0-4]):[0-5][0-9])"

_SHARED: Definitions = {
    "int32": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "byte": {
        "title": "base64",
        "type": "string",
        # Standard alphabet, padded, line breaks anywhere: what Go decodes into []byte.
        "pattern": r"^[\r\n]*(?:(?:[A-Za-z0-9+/][\r\n]*){4})*"
        r"(?:(?:[A-Za-z0-9+/][\r\n]*){2}=[\r\n]*=[\r\n]*"
        r"|(?:[A-Za-z0-9+/][\r\n]*){3}=[\r\n]*)?$",
    },
}
"""Definitions of ours, for formats that the API server enforces and JSON Schema does not."""

_TEXTS: Definitions = {
    "api.resource.Quantity": {
        "title": "a quantity such as 500m, 2 or 4Gi",
        "minLength": 1,
        "maxLength": 128,  # what etcompile reads; the server keeps 18 digits
        # resource.ParseQuantity: a text without a digit is zero; spaces around it are cut off.
        "pattern": (
            r"^(?! *$) *[+-]?[0-9]*(\.[0-9]*)?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,3})? *$"
        ),
    },
    "meta.v1.MicroTime": {
        "title": "a time with six decimals, such as 2026-01-31T12:00:00.000000Z",
        "pattern": rf"^{_DAY}T{_TIME}[.,][0-9]{{6}}{_ZONE}$",
    },
    "meta.v1.Time": {
        "title": "a time such as 2026-01-31T12:00:00Z",
        "pattern": rf"^{_DAY}T{_TIME}([.,][0-9]+)?{_ZONE}$",
    },
}
"""What a text must be that the API server reads as something else."""

_PULL = ("Always", "IfNotPresent", "Never", "")
_PROTOCOL = ("TCP", "UDP", "SCTP", "")
_SELECT = ("In", "NotIn", "Exists", "DoesNotExist")
_SECCOMP = ("RuntimeDefault", "Localhost", "Unconfined")
_TRAFFIC = ("Cluster", "Local")

_ENUMS: dict[tuple[str, str], Sequence[str]] = {
    ("apps.v1.DeploymentStrategy", "type"): ("RollingUpdate", "Recreate", ""),
    ("batch.v1.CronJobSpec", "concurrencyPolicy"): ("Allow", "Forbid", "Replace", ""),
    ("batch.v1.JobSpec", "completionMode"): ("NonIndexed", "Indexed"),
    ("core.v1.AppArmorProfile", "type"): _SECCOMP,
    ("core.v1.Container", "imagePullPolicy"): _PULL,
    ("core.v1.Container", "terminationMessagePolicy"): ("File", "FallbackToLogsOnError", ""),
    ("core.v1.ContainerPort", "protocol"): _PROTOCOL,
    ("core.v1.HTTPGetAction", "scheme"): ("HTTP", "HTTPS", ""),
    ("core.v1.HostPathVolumeSource", "type"): (
        *("DirectoryOrCreate", "Directory", "FileOrCreate", "File"),
        *("Socket", "CharDevice", "BlockDevice", ""),
    ),
    ("core.v1.NodeSelectorRequirement", "operator"): (*_SELECT, "Gt", "Lt"),
    ("core.v1.PodOS", "name"): ("linux", "windows"),
    ("core.v1.PodSecurityContext", "fsGroupChangePolicy"): ("Always", "OnRootMismatch"),
    ("core.v1.PodSpec", "dnsPolicy"): (
        *("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None", ""),
    ),
    ("core.v1.PodSpec", "preemptionPolicy"): ("PreemptLowerPriority", "Never"),
    ("core.v1.PodSpec", "restartPolicy"): ("Always", "OnFailure", "Never", ""),
    ("core.v1.SeccompProfile", "type"): _SECCOMP,
    ("core.v1.ServicePort", "protocol"): _PROTOCOL,
    ("core.v1.ServiceSpec", "externalTrafficPolicy"): (*_TRAFFIC, ""),
    ("core.v1.ServiceSpec", "internalTrafficPolicy"): _TRAFFIC,
    ("core.v1.ServiceSpec", "sessionAffinity"): ("None", "ClientIP", ""),
    ("core.v1.ServiceSpec", "type"): (
        *("ClusterIP", "NodePort", "LoadBalancer", "ExternalName", ""),
    ),
    ("core.v1.Toleration", "effect"): ("NoSchedule", "PreferNoSchedule", "NoExecute", ""),
    ("core.v1.TopologySpreadConstraint", "whenUnsatisfiable"): ("DoNotSchedule", "ScheduleAnyway"),
    ("core.v1.VolumeMount", "mountPropagation"): ("None", "HostToContainer", "Bidirectional"),
    ("meta.v1.LabelSelectorRequirement", "operator"): _SELECT,
    ("rbac.v1.RoleRef", "kind"): ("Role", "ClusterRole"),
    ("rbac.v1.Subject", "kind"): ("User", "Group", "ServiceAccount"),
}
"""Values that fields take; the OpenAPI document does not list them.

Only sets that are the same from 1.25 to 1.37. An empty text stands where the API server puts a
default in its place.
"""


_FILLED: dict[str, tuple[str, ...]] = {
    "core.v1.AWSElasticBlockStoreVolumeSource": ("volumeID",),
    "core.v1.AzureDiskVolumeSource": ("diskName", "diskURI"),
    "core.v1.AzureFileVolumeSource": ("secretName", "shareName"),
    "core.v1.CSIVolumeSource": ("driver",),
    "core.v1.CephFSVolumeSource": ("monitors",),
    "core.v1.CinderVolumeSource": ("volumeID",),
    "core.v1.DownwardAPIVolumeFile": ("path",),
    "core.v1.FlexVolumeSource": ("driver",),
    "core.v1.GCEPersistentDiskVolumeSource": ("pdName",),
    "core.v1.GitRepoVolumeSource": ("repository",),
    "core.v1.GlusterfsVolumeSource": ("endpoints", "path"),
    "core.v1.HostPathVolumeSource": ("path",),
    "core.v1.ISCSIVolumeSource": ("iqn", "targetPortal"),
    "core.v1.KeyToPath": ("key", "path"),
    "core.v1.NFSVolumeSource": ("path", "server"),
    "core.v1.PersistentVolumeClaimVolumeSource": ("claimName",),
    "core.v1.PhotonPersistentDiskVolumeSource": ("pdID",),
    "core.v1.PortworxVolumeSource": ("volumeID",),
    "core.v1.QuobyteVolumeSource": ("registry", "volume"),
    "core.v1.RBDVolumeSource": ("image", "monitors"),
    "core.v1.ScaleIOVolumeSource": ("gateway", "system"),
    "core.v1.ServiceAccountTokenProjection": ("path",),
    "core.v1.VsphereVirtualDiskVolumeSource": ("volumePath",),
}
"""Texts and lists that must not be empty, in all versions."""

_NEEDED: dict[str, tuple[str, ...]] = {
    "autoscaling.v1.HorizontalPodAutoscaler": ("spec",),
    "core.v1.Pod": ("spec",),
}
"""Fields that the API server demands and the OpenAPI document does not."""

_OPTIONAL: dict[str, tuple[str, ...]] = {
    "apiextensions.v1.CustomResourceDefinitionVersion": ("served",),
    "batch.v1.PodFailurePolicy": ("rules",),
    "batch.v1.PodFailurePolicyOnPodConditionsPattern": ("status",),
    "core.v1.LimitRangeSpec": ("limits",),
    "core.v1.PodCertificateProjection": ("keyType", "signerName"),
    "core.v1.HTTPHeader": ("value",),
    "core.v1.ISCSIVolumeSource": ("lun",),
    "core.v1.PreferredSchedulingTerm": ("preference",),
    "core.v1.ScaleIOVolumeSource": ("secretRef",),
    "core.v1.SleepAction": ("seconds",),
    "core.v1.Sysctl": ("value",),
    # In the dataSource of a claim the server leaves out a kind it does not know, name or not.
    "core.v1.TypedLocalObjectReference": ("kind", "name"),
    "core.v1.TypedObjectReference": ("kind", "name"),
    "rbac.v1.RoleRef": ("apiGroup",),
    "resource.v1.ResourceClaim": ("spec",),
    "discovery.v1.EndpointSlice": ("endpoints",),
    "resource.v1.ResourceClaimTemplate": ("spec",),
    "resource.v1.ResourceClaimTemplateSpec": ("spec",),
    "scheduling.v1.PriorityClass": ("value",),
    "storage.v1.CSIDriver": ("spec",),
}
"""Fields that the OpenAPI document requires and the API server does not: it takes the zero."""

_ID = (0, 2**31 - 1)
_MODE = (0, 0o777)
_WEIGHT = (1, 100)
_BOUNDS: dict[str, dict[str, tuple[int, int | None]]] = {
    "core.v1.AWSElasticBlockStoreVolumeSource": {"partition": (0, 255)},
    "core.v1.ConfigMapVolumeSource": {"defaultMode": _MODE},
    "core.v1.DownwardAPIVolumeFile": {"mode": _MODE},
    "core.v1.DownwardAPIVolumeSource": {"defaultMode": _MODE},
    "core.v1.GCEPersistentDiskVolumeSource": {"partition": (0, 255)},
    "core.v1.ISCSIVolumeSource": {"lun": (0, 255)},
    "core.v1.KeyToPath": {"mode": _MODE},
    "core.v1.PodSecurityContext": {"fsGroup": _ID, "runAsGroup": _ID, "runAsUser": _ID},
    "core.v1.PodSpec": {"activeDeadlineSeconds": (1, 2**31 - 1)},
    "core.v1.PreferredSchedulingTerm": {"weight": _WEIGHT},
    "core.v1.Probe": {
        **dict.fromkeys(("failureThreshold", "initialDelaySeconds", "periodSeconds"), (0, None)),
        **dict.fromkeys(("successThreshold", "timeoutSeconds"), (0, None)),
        "terminationGracePeriodSeconds": (1, None),
    },
    "core.v1.ProjectedVolumeSource": {"defaultMode": _MODE},
    "core.v1.SecretVolumeSource": {"defaultMode": _MODE},
    "core.v1.SecurityContext": {"runAsGroup": _ID, "runAsUser": _ID},
    "core.v1.TopologySpreadConstraint": {"maxSkew": (1, None), "minDomains": (1, None)},
    "core.v1.WeightedPodAffinityTerm": {"weight": _WEIGHT},
}
"""The least and the most of numbers, in all versions."""


class BundleError(Exception):
    """The source is not what this script understands, or the bundle is not what it should be."""


@dataclass(frozen=True, slots=True)
class Version:
    """One Kubernetes version, compacted.

    Args:
        name: `1.31`.
        definitions: All definitions by short name (`core.v1.Pod`).
        kinds: `apps/v1/Deployment` to the name of its definition.
    """

    name: str
    definitions: Definitions
    kinds: dict[str, str]


# From Kubernetes' schemas ---------------------------------------------------------------------


def read(name: str) -> Version:
    """Compact and verify a version of kubernetes-validate."""
    source = json.loads((_schemas() / f"v{name}.0-local-strict/_definitions.json").read_text())
    full: Definitions = source["$defs"]
    definitions = {_short(long): _compact(schema) for long, schema in full.items()}
    if len(definitions) != len(full):
        raise BundleError(f"{name}: two definitions have the same short name")
    for (definition, field), values in _ENUMS.items():
        # Some definitions came after 1.25.
        if definition in definitions:
            definitions[definition]["properties"][field]["enum"] = list(values)
    _bound(definitions)
    kinds: dict[str, str] = {}
    for long, schema in full.items():
        kinds |= {kind: _short(long) for kind in _kinds(schema)}
    version = Version(name, {**definitions, **_SHARED}, kinds)
    _verify(version, full)
    return version


def _bound(definitions: Definitions) -> None:
    """Add the API server's rules for texts, lists and numbers."""
    for definition, keywords in _TEXTS.items():
        definitions[definition] |= keywords
    definitions["util.intstr.IntOrString"] |= {"minimum": -(2**31), "maximum": 2**31 - 1}
    for definition, fields in _FILLED.items():
        for field in fields:
            schema = definitions[definition]["properties"][field]
            schema["minItems" if schema["type"] == "array" else "minLength"] = 1
    for definition, fields in _NEEDED.items():
        definitions[definition]["required"] = sorted(fields)
    for definition, fields in _OPTIONAL.items():
        if definition in definitions:  # some came after 1.25
            required = set(definitions[definition].get("required", ())) - set(fields)
            definitions[definition]["required"] = sorted(required)
    for definition, bounds in _BOUNDS.items():
        for field, (least, most) in bounds.items():
            schema = definitions[definition]["properties"].get(field)
            if schema is not None:
                schema["minimum"] = least
                schema |= {} if most is None else {"maximum": most}
    groups = definitions["core.v1.PodSecurityContext"]["properties"]["supplementalGroups"]
    groups["items"] |= {"minimum": _ID[0], "maximum": _ID[1]}


def _schemas() -> Any:
    return importlib.resources.files("kubernetes_validate") / "kubernetes-json-schema"


def versions() -> list[str]:
    """Return the versions of kubernetes-validate, oldest first."""
    names = (re.fullmatch(r"v1\.(\d+)\.0-local-strict", one.name) for one in _schemas().iterdir())
    return [f"1.{minor}" for minor in sorted(int(name[1]) for name in names if name)]


def _short(long: str) -> str:
    """`io.k8s.api.core.v1.Pod` to `core.v1.Pod`."""
    return ".".join(long.split(".")[-3:])


def _kinds(schema: Schema) -> Iterator[str]:
    """Return the kind of a definition; None for options that belong to every group."""
    match schema.get("x-kubernetes-group-version-kind"):
        case [{"group": group, "version": version, "kind": kind}]:
            yield "/".join(part for part in (group, version, kind) if part)


def _compact(schema: Schema) -> Schema:
    """Remove prose, and null, which the API server takes for absent, from a schema."""
    unknown = schema.keys() - _DROPPED - _KEPT - {"$ref", "format"}
    if unknown := {key for key in unknown if not key.startswith("x-kubernetes-")}:
        raise BundleError(f"keywords that nobody thought of: {sorted(unknown)}")
    if "$ref" in schema:
        return {"$ref": f"#/$defs/{_short(schema['$ref'].removeprefix('#/$defs/'))}"}
    if (form := schema.get("format")) not in (None, *_FORMATS):
        raise BundleError(f"a format that nobody thought of: {form}")
    if form in _SHARED:
        return {"$ref": f"#/$defs/{form}"}
    return dict(_keywords(schema))


def _keywords(schema: Schema) -> Iterator[tuple[str, Any]]:
    for key in sorted(schema.keys() & _KEPT):
        value = schema[key]
        match key:
            case "oneOf":  # IntOrString and Quantity: text or a number
                yield "type", [_type(choice["type"]) for choice in value]
            case "type":
                yield key, _type(value)
            case "properties":
                yield key, {name: _compact(inner) for name, inner in sorted(value.items())}
            case "items" | "additionalProperties" if isinstance(value, dict):
                yield key, _compact(value)
            case "required":
                yield key, sorted(value)
            case _:
                yield key, value


def _type(value: str | list[str]) -> str:
    names = {value} if isinstance(value, str) else set(value)
    (name,) = names - {"null"}
    return name


# To the bundle --------------------------------------------------------------------------------


def bundle(all_versions: Sequence[Version]) -> dict[str, str]:
    """Return the files of the bundle: name to content."""
    files = {}
    kinds: dict[str, dict[str, Any]] = {}
    definitions: dict[str, dict[str, Any]] = {}
    for version in all_versions:
        core = _reachable(version.definitions, _EVERY_RUN)
        core_kinds = {kind: name for kind, name in version.kinds.items() if name in core}
        kinds[version.name] = {k: n for k, n in version.kinds.items() if k not in core_kinds}
        definitions[version.name] = {
            name: schema for name, schema in version.definitions.items() if name not in core
        }
        files[f"{version.name}.json"] = _text(
            kinds=core_kinds, **{"$defs": {name: version.definitions[name] for name in core}}
        )
    files["rest.json"] = _text(kinds=_spans(kinds), definitions=_spans(definitions))
    for version in all_versions:
        _verify_files(version, files)
    return files


def _reachable(definitions: Definitions, roots: Iterable[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting += _references(definitions[name])
    return found


def _references(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        if isinstance(name := value.get("$ref"), str):
            yield name.removeprefix("#/$defs/")
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def _spans(by_version: Mapping[str, Mapping[str, Any]]) -> dict[str, list[list[Any]]]:
    """Each name's values with the first and last version that have it so: [first, last, value]."""
    spans: dict[str, list[list[Any]]] = {}
    before = None
    for version, table in by_version.items():
        for name, value in table.items():
            known = spans.setdefault(name, [])
            if known and known[-1][1] == before and known[-1][2] == value:
                known[-1][1] = version
            else:
                known.append([version, version, value])
        before = version
    return spans


def _text(**tables: Mapping[str, Any]) -> str:
    """Format a file with one entry a line, so that a new Kubernetes is a readable diff."""
    parts = [f'"$schema": {json.dumps(_DIALECT)}', f'"$comment": {json.dumps(_COMMENT)}']
    for title, table in tables.items():
        lines = [
            f"{json.dumps(name)}: {json.dumps(table[name], separators=(',', ':'))}"
            for name in sorted(table)
        ]
        parts.append(f"{json.dumps(title)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


# Verified -------------------------------------------------------------------------------------


def _verify(version: Version, full: Definitions) -> None:
    """Compare a compacted version with its source.

    Raises:
        BundleError: a field was lost, an object is open, or a reference leads nowhere.
    """
    for long, schema in full.items():
        small = version.definitions[_short(long)]
        optional = {"properties": (), "required": _OPTIONAL.get(_short(long), ())}
        added = {"required": _NEEDED.get(_short(long), ())}
        for part, left_out in optional.items():
            kept = [name for name in schema.get(part, ()) if name not in left_out]
            kept = sorted({*kept, *added.get(part, ())})
            if kept != sorted(small.get(part, ())):
                raise BundleError(f"{version.name}: {long} lost some of its {part}")
    for name, small in version.definitions.items():
        if "properties" in small and small.get("additionalProperties") is not False:
            raise BundleError(f"{version.name}: {name} takes unknown fields")
        if lost := set(_references(small)) - version.definitions.keys():
            raise BundleError(f"{version.name}: {name} refers to {sorted(lost)}")


def _verify_files(version: Version, files: Mapping[str, str]) -> None:
    """Rebuild a version from the written files, and compile all of its kinds.

    Raises:
        BundleError: it is not the version that was written.
    """
    core, rest = json.loads(files[f"{version.name}.json"]), json.loads(files["rest.json"])
    kinds, definitions = dict(core["kinds"]), dict(core["$defs"])
    if not set(_EVERY_RUN) <= definitions.keys():
        raise BundleError(f"{version.name}: a kind of every run is missing")
    for table, target in (("kinds", kinds), ("definitions", definitions)):
        for name, spans in rest[table].items():
            here = [value for first, last, value in spans if _within(first, version.name, last)]
            if len(here) > 1 or (here and name in target):
                raise BundleError(f"{version.name}: {name} is there twice")
            if here:
                target[name] = here[0]
    if kinds != version.kinds or definitions != version.definitions:
        raise BundleError(f"{version.name}: what was written is not what was read")
    every = [{"$ref": f"#/$defs/{name}"} for name in kinds.values()]
    jsonschema_rs.Draft202012Validator({"anyOf": every, "$defs": definitions})


def _within(first: str, version: str, last: str) -> bool:
    low, here, high = (int(one.partition(".")[2]) for one in (first, version, last))
    return low <= here <= high


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the bundle, or exit with 1 if the existing one differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args(arguments)
    every = [read(name) for name in versions()]
    known = {name for version in every for name in version.definitions}
    if unknown := {name for name, _ in _ENUMS} - known:
        raise BundleError(f"enums of definitions that are nowhere: {sorted(unknown)}")
    files = bundle(every)
    different = []
    for name, text in files.items():
        path = options.output / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            different.append(name)
            if not options.check:
                path.write_text(text, encoding="utf-8", newline="\n")
    print(
        f"{len(files)} files, {sum(map(len, files.values())) // 1024} KiB;"
        f" {'differ' if options.check else 'written'}: {', '.join(different) or 'none'}"
    )
    return 1 if options.check and different else 0


if __name__ == "__main__":
    sys.exit(main())
