"""Values for the fields of Kubernetes objects: likely ones, those at limits, and wrong ones.

The schema says which type and which choices a field has; the pools below, by the name of the
field, hold what a user might write there.
"""

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

from controlplane.binaries import version

_SCHEMAS = Path(__file__).parent.parent.parent / "schemas" / "kubernetes"
VERSION = version().rpartition(".")[0]

TEXTS = (
    "", " ", "a", "A", "a b", "-a", "a-", "a.b", "a..b", "a_b", "a/b", "/a", "../a", "a/../b",
    "0", "1", "-1", "1e3", "true", "null", "~", "a:b", "a=b", "a,b", "$(A)", "${A}", "{{ a }}",
    "a" * 15, "a" * 16, "a" * 52, "a" * 53, "a" * 63, "a" * 64, "a" * 253, "a" * 254,
    "example.com/a", "example.com/", "/example.com", "Example.com/a", "a.example.com", "*.a.b",
    "kubernetes.io/a", "1.2.3.4", "1.2.3.4/8", "1.2.3.256", "::1", "fe80::/64", "10.0.0.0/33",
    "é", "日本", "a\nb", "\t", "\u200b", "\x00", "\x7f", "😀", "100%", "101%", "50%", "-5%", "0%",
    "500m", "1Gi", "64gb", "-1Gi", "0.5", "1.5Gi", "1E", "1Ki", "0", "1n", "http", "a--b", "None",
    "Always", "Never", "TCP", "In", "default", "metadata.name", "/dev/shm", "/", "..", ".",
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 3, 10, 22, 30, 80, 100, 101, 255, 256, 420, 511, 512, 1000, 1024, 3600,
           30000, 32767, 32768, 65535, 65536, 100001, 2**31 - 1, 2**31, -(2**31), 2**53,
           2**63 - 1)  # fmt: skip
QUANTITIES = ("0", "1", "2", 1, 0, "500m", "1Gi", "16Gi", "1Mi", "1.5", "0.1", "1e3", "1m", "1n",
              "-1", "64gb", "1 Gi", "", "10000000000Gi", 1.5, "100k", "1Ki", "1E")  # fmt: skip

_POOLS: dict[str, tuple[Any, ...]] = {
    "operator": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "in", ""),
    "topologyKey": ("kubernetes.io/hostname", "zone", "", "a b"),
    "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway", "x"),
    "effect": ("NoSchedule", "NoExecute", "PreferNoSchedule", "", "x"),
    "fieldPath": ("metadata.name", "metadata.labels", "metadata.labels['a']", "status.podIP",
                  "status.hostIPs", "spec.nodeName", "metadata.annotations['A b']", "spec.x",
                  "metadata.uid", "spec.serviceAccountName", "status.phase", "metadata.namespace"),
    "resource": ("limits.cpu", "requests.memory", "limits.hugepages-2Mi", "limits.nvidia.com/gpu",
                 "cpu", "limits.ephemeral-storage", "requests.x"),
    "divisor": ("1", "1m", "1Mi", "1Gi", "0", "2", "1Ki", "1k"),
    "path": ("/", "/a", "a", "a/b", "../a", "/..", "", "a/../b", "..a", "/a/../b", "a:b"),
    "mountPath": ("/a", "/data", "a", "", "/a:b", "/dev/shm", "../a", "/"),
    "subPath": ("a", "/a", "../a", "a/..", "", "a..b", "$(A)"),
    "subPathExpr": ("a", "$(A)", "/a", "../a"),
    "medium": ("", "Memory", "HugePages", "HugePages-2Mi", "HugePages-3Mi", "Disk"),
    "accessModes": ("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod", "RWO"),
    "volumeMode": ("Filesystem", "Block", "x", ""),
    "schedule": ("* * * * *", "@daily", "@every 1h", "60 * * * *", "a", "", "*/5 * * * *", "* * *",
                 "TZ=UTC 0 0 * * *", "0 0 31 2 *", "1-70 * * * *", "0 0 * JAN MON"),
    "timeZone": ("UTC", "Etc/UTC", "Local", "Europe/Paris", "Mars/A", "", " UTC", "utc"),
    "clusterIP": ("None", "", "10.0.0.99", "1.2.3.4.5", "::1", "none"),
    "ip": ("10.0.0.1", "::1", "a", "010.0.0.1", "127.0.0.1", "169.254.1.1"),
    "ips": ("10.0.0.1", "a"),
    "nameservers": ("8.8.8.8", "a", "::1"),
    "cidr": ("10.0.0.0/8", "10.0.0.1/8", "::/0", "a", "1.2.3.4"),
    "except": ("10.1.0.0/16", "11.0.0.0/8", "10.0.0.0/8", "x"),
    "dnsPolicy": ("ClusterFirst", "Default", "None", "ClusterFirstWithHostNet", "x"),
    "restartPolicy": ("Always", "OnFailure", "Never", "", "x"),
    "schedulerName": ("default-scheduler", "volcano", "a b", ""),
    "hostname": ("a", "a.b", "A", "a" * 64, ""),
    "subdomain": ("a", "a.b", "A", ""),
    "type": ("", "RuntimeDefault", "Unconfined", "Localhost", "Directory", "Socket", "x",
             "ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "RollingUpdate", "Recreate",
             "OnDelete", "Opaque", "kubernetes.io/tls", "Resource", "Pods", "Utilization",
             "Container", "Pod", "kubernetes.io/ssh-auth", "bootstrap.kubernetes.io/token"),
    "procMount": ("Default", "Unmasked", "x"),
    "protocol": ("TCP", "UDP", "SCTP", "tcp", ""),
    "scheme": ("HTTP", "HTTPS", "http", ""),
    "host": ("", "a.example.com", "*.a.b", "1.2.3.4", "A", "a b"),
    "name": ("a", "main", "A b", "a.b", "data", "cpu", "a" * 64, "A_B", "http",
             "net.core.somaxconn", "ndots", "x" * 254, ""),
    "namespace": ("ml", "default", "A b", "a.b", "", "kube-system"),
    "key": ("a", "a b", "example.com/a", "metadata.name", "", "A.b_c", "..", "../x", "a/b"),
    "values": ("a", "1", "", "a b", "-1"),
    "podManagementPolicy": ("OrderedReady", "Parallel", "x"),
    "completionMode": ("Indexed", "NonIndexed", "x"),
    "concurrencyPolicy": ("Allow", "Forbid", "Replace", "x"),
    "pathType": ("Exact", "Prefix", "ImplementationSpecific", "x"),
    "policyTypes": ("Ingress", "Egress", "x"),
    "verbs": ("get", "*", "", "A"),
    "apiGroups": ("", "batch", "*"),
    "resources": ("pods", "*", "pods/log", ""),
    "nonResourceURLs": ("/a", "*", "/a*", "a", "/a*b"),
    "preemptionPolicy": ("Never", "PreemptLowerPriority", "x"),
    "reclaimPolicy": ("Delete", "Retain", "Recycle", "x"),
    "volumeBindingMode": ("Immediate", "WaitForFirstConsumer", "x"),
    "sysctls": ("net.core.somaxconn",),
    "image": ("a", "a:b", "pytorch/pytorch:2.5.1", " a", "", "a b", "A/b", "a@sha256:0"),
    "imagePullPolicy": ("Always", "IfNotPresent", "Never", "", "always"),
    "storageClassName": ("", "fast", "A b", "a.b"),
    "action": ("FailJob", "Ignore", "Count", "FailIndex", "x"),
    "succeededIndexes": ("0", "0-1", "1-0", "a", "0,2-3", "0-100", "2,1", ""),
    "port": (80, "http", 0, 65536, "", "a b", "80", -1),
    "targetPort": (80, "http", 0, 65536, "A", "x" * 16),
    "maxUnavailable": (0, 1, "0%", "25%", "101%", -1, "a", "25"),
    "maxSurge": (0, 1, "0%", "25%", "101%", -1, "a", "200%"),
    "minAvailable": (0, 1, "0%", "25%", "101%", -1, "a"),
    "os": ("linux", "windows"),
    "finalizers": ("example.com/a", "kubernetes", "a", "A b", "orphan", ""),
    "scopes": ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "PriorityClass"),
    "scopeName": ("BestEffort", "Terminating", "PriorityClass", "CrossNamespacePodAffinity", "x"),
    "mode": (0, 256, 420, 511, 512, -1),
    "defaultMode": (0, 256, 420, 511, 512, -1),
    "appProtocol": ("http", "kubernetes.io/h2c", "A b", "example.com/x"),
    "externalName": ("a.example.com", "A", "1.2.3.4", "", "a b", "a."),
    "fsType": ("ext4", ""),
    "add": ("SYS_ADMIN", "CAP_SYS_ADMIN", "NET_ADMIN", ""),
    "drop": ("ALL", "x"),
    "expression": ("true", "device.driver == 'gpu.example.com'", "device.", "self"),
    "env": (),
}  # fmt: skip

_UNIONS: dict[str, tuple[str, ...]] = {
    "core.v1.Probe": ("exec", "httpGet", "tcpSocket", "grpc"),
    "core.v1.LifecycleHandler": ("exec", "httpGet", "tcpSocket", "sleep"),
    "core.v1.EnvVar": ("value", "valueFrom"),
    "core.v1.EnvVarSource": ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"),
    "core.v1.EnvFromSource": ("configMapRef", "secretRef"),
    "core.v1.VolumeProjection": ("secret", "configMap", "downwardAPI", "serviceAccountToken"),
    "core.v1.DownwardAPIVolumeFile": ("fieldRef", "resourceFieldRef"),
    "core.v1.PodResourceClaim": ("resourceClaimName", "resourceClaimTemplateName"),
}
"""Of these fields an object has exactly one."""


@cache
def schemas() -> tuple[dict[str, str], dict[str, Any]]:
    """The definition of each kind (`apps/v1/Deployment`), and all definitions."""
    order = [f"1.{minor}" for minor in range(25, 38)]
    here = order.index(VERSION)
    core = json.loads((_SCHEMAS / f"{VERSION}.json").read_text("utf-8"))
    rest = json.loads((_SCHEMAS / "rest.json").read_text("utf-8"))
    kinds, definitions = dict(core["kinds"]), dict(core["$defs"])
    for table, known in (("kinds", kinds), ("definitions", definitions)):
        for name, spans in rest[table].items():
            for first, last, value in spans:
                if order.index(first) <= here <= order.index(last):
                    known.setdefault(name, value)
    return kinds, definitions


def resolved(schema: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A schema and the name of its definition, if it has one."""
    name = ""
    while "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        schema = schemas()[1][name]
    return name, schema


def scalar(rng: random.Random, field: str, seen: list[Any]) -> Any:
    """A value for a field of which only the name is known."""
    dice = rng.random()
    if dice < 0.5 and field in _POOLS and _POOLS[field]:
        return rng.choice(_POOLS[field])
    if dice < 0.65 and seen:
        return rng.choice(seen)
    return rng.choice((rng.choice(TEXTS), rng.choice(NUMBERS), rng.choice(QUANTITIES)))


def value(
    rng: random.Random, schema: dict[str, Any], field: str, seen: list[Any], depth: int = 0
) -> Any:
    """A value for a field of this schema: of its type for the most part."""
    name, schema = resolved(schema)
    kind = schema.get("type")
    if kind == "object" and "properties" in schema:
        return _object(rng, name, schema, seen, depth)
    if kind == "object":
        return _mapping(rng, schema, field, seen, depth)
    if kind == "array":
        count = rng.choice((0, 1, 1, 1, 2, 2, 3))
        return [value(rng, schema["items"], field, seen, depth + 1) for _ in range(count)]
    if kind == "boolean":
        return rng.random() < 0.5
    return _leaf(rng, schema, field, seen)


def _object(
    rng: random.Random, name: str, schema: dict[str, Any], seen: list[Any], depth: int
) -> dict[str, Any]:
    properties: dict[str, Any] = schema["properties"]
    wanted = list(schema.get("required", ()))
    union = _UNIONS.get(name, ())
    if name == "core.v1.Volume":
        union = tuple(one for one in properties if one != "name")
    if union and rng.random() < 0.95:
        wanted.append(rng.choice(union))
    others = [one for one in properties if one not in wanted and one not in union]
    if others and depth < 6:
        most = min(len(others), 3 if depth < 3 else 1)
        wanted += rng.sample(others, rng.randint(0 if wanted else 1, most))
    return {one: value(rng, properties[one], one, seen, depth + 1) for one in wanted}


def _mapping(
    rng: random.Random, schema: dict[str, Any], field: str, seen: list[Any], depth: int
) -> dict[str, Any]:
    inner = schema.get("additionalProperties")
    mapping = {}
    for _ in range(rng.choice((0, 1, 1, 2))):
        if field in ("limits", "requests", "hard", "capacity", "max", "min", "default"):
            key = rng.choice(("cpu", "memory", "nvidia.com/gpu", "ephemeral-storage", "storage",
                              "hugepages-2Mi", "pods", "x", "A b", "example.com/x"))  # fmt: skip
        else:
            key = rng.choice(
                ("a", "app", "example.com/a", "a b", "", "a" * 64, "A.b", rng.choice(TEXTS))
            )
        item = value(rng, inner, field, seen, depth + 1) if isinstance(inner, dict) else "x"
        mapping[key] = item
    return mapping


def _leaf(rng: random.Random, schema: dict[str, Any], field: str, seen: list[Any]) -> Any:
    if "enum" in schema and rng.random() < 0.9:
        return rng.choice(schema["enum"])
    if schema.get("type") == "integer":
        pool = [one for one in _POOLS.get(field, ()) if isinstance(one, int)]
        return rng.choice(pool) if pool and rng.random() < 0.6 else rng.choice(NUMBERS)
    if schema.get("type") == "string" and "pattern" in schema:
        return rng.choice(("", "AAEC", "e30=", "a"))
    if schema.get("type") == "string":
        texts = [one for one in seen if isinstance(one, str)]
        pool = [one for one in _POOLS.get(field, ()) if isinstance(one, str)]
        dice = rng.random()
        if pool and dice < 0.7:
            return rng.choice(pool)
        if texts and dice < 0.85:
            return rng.choice(texts)
        return rng.choice(TEXTS)
    # A quantity, or a number or a text.
    pool = list(_POOLS.get(field, ()))
    return rng.choice(pool) if pool else rng.choice(QUANTITIES)
