"""Define the settings that the person who compiles may choose, as opposed to the job's author.

The command line, overlays and the Python API all end here, so every stage after loading sees one
value.
"""

import contextlib
import os
import re
from typing import Any, Literal, get_args

from msgspec import Struct, structs

from etcompile.diagnostics.spelling import probably
from etcompile.several import gather

SECRET_NAME = r"[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?"  # noqa: S105 - a form, no secret
"""The form of a Secret's name: a DNS subdomain."""
_STORE = rf"(?:cluster:)?{SECRET_NAME}(?:/.+)?"

Services = Literal["per-replica", "shared"]
Profile = Literal["plain", "argocd", "flux", "kapp", "kpt"]
PROFILES: tuple[Profile, ...] = get_args(Profile)

SecretKind = Literal["runtime", "existing", "external", "sealed", "sops", "csi"]
SECRET_KINDS: tuple[SecretKind, ...] = get_args(SecretKind)
_FORMS = "runtime, existing:NAME, external[:STORE/PATH], sealed:CERT.pem, sops:age1..., csi:NAME"
"""The syntax of the modes, for messages."""
_NAMED = frozenset({"existing", "sealed", "sops", "csi"})

Scope = Literal["strict", "namespace-wide", "cluster-wide"]
"""What a SealedSecret is bound to: name and namespace, namespace, or nothing."""
_SCOPES: tuple[Scope, ...] = get_args(Scope)


class SecretMode(Struct, frozen=True):
    """The source of a job's ssh key pair.

    Args:
        kind: `runtime` (created in the cluster when the job is applied), `existing` (a Secret that
            somebody else manages), `external` (from External Secrets), `sealed` or `sops`
            (encrypted in the output), or `csi` (mounted by the Secrets Store CSI driver).
        name: The name of the existing Secret; for `external` `STORE/PATH`, None for a pair that is
            generated in the cluster; for `sealed` the file of the certificate, after its scope and
            a colon if that is not strict; for `sops` the age recipients, separated by commas; for
            `csi` a SecretProviderClass, or the file of a template for one.
    """

    kind: SecretKind
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind

    @property
    def encrypts(self) -> bool:
        return self.kind in ("sealed", "sops")

    @property
    def scope(self) -> Scope:
        first = (self.name or "").partition(":")[0]
        return next((scope for scope in _SCOPES if scope == first), "strict")

    @property
    def file(self) -> str | None:
        name = self.name or ""
        if self.kind == "sealed":
            return name.removeprefix(f"{self.scope}:") or None
        is_file = "/" in name or name.endswith((".yaml", ".yml"))
        return name if self.kind == "csi" and is_file else None

    @property
    def stored(self) -> "SecretMode":
        """Return the mode as far as a job's objects depend on it: the same on every machine."""
        return SecretMode(self.kind) if self.encrypts or self.file else self

    def relative_to(self, folder: str) -> "SecretMode":
        if (file := self.file) is None or self.name is None:
            return self
        before = self.name.removesuffix(file)
        return SecretMode(self.kind, f"{before}{os.path.join(folder, file)}")  # noqa: PTH118


def secret_mode(text: str) -> SecretMode:
    """Parse a mode in the syntax of `_FORMS`; `generate-in-cluster` is `external`."""
    kind, colon, name = text.partition(":")
    kind = "external" if text == "generate-in-cluster" else kind
    known_kind = next((k for k in SECRET_KINDS if k == kind), None)
    named = (
        bool(name)
        if known_kind in _NAMED
        else not colon or (known_kind == "external" and bool(name))
    )
    if known_kind is None or not named:
        near = None if known_kind else probably(kind, SECRET_KINDS)
        meant = f"; did you mean {near}?" if near else ""
        raise ValueError(f"'{text}' is not one of {_FORMS}{meant}")
    mode = SecretMode(known_kind, name or None)
    is_name = known_kind == "existing" or (known_kind == "csi" and not mode.file)
    if is_name and not re.fullmatch(SECRET_NAME, name):
        what = "Secret" if known_kind == "existing" else "SecretProviderClass"
        raise ValueError(f"'{name}' is no name of a {what}")
    if known_kind == "external" and name and not re.fullmatch(_STORE, name):
        raise ValueError(f"'{name}' is no STORE/PATH or cluster:STORE/PATH")
    return mode


def duration(value: str) -> float:
    """Return the seconds of `90s`, `10m`, `1h30m` or `90`; 0 is no limit."""
    if not re.fullmatch(r"\d+|(\d+[smhd])+", value):
        raise ValueError(f"'{value}' is not a duration; write 90s, 10m or 1h30m")
    units = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
    parts = re.findall(r"(\d+)(\D?)", value)
    return float(sum(int(number) * units[unit] for number, unit in parts))


class Settings(Struct, frozen=True, rename="camel"):
    """How to compile. Overlays and stored jobs use the names in camel case.

    Args:
        kubectl_image: Brings kubectl to a kubexec launcher; None expects it in the job's image.
        profiles: The tools for which objects are annotated.
        run: The ID of the run, a part of its Pods' names; `auto` derives one from the job's
            content, None gives the Pods the names of their hosts.
        gang: The gang scheduler of the cluster, one of `GANGS`.
        gang_scheduler: The `schedulerName` of that gang scheduler, if not its default one.
    """

    services: Services = "per-replica"
    secret: SecretMode = SecretMode("runtime")
    kubernetes_version: str = "1.37"
    init_image: str | None = None
    kubectl_image: str | None = "alpine/kubectl:1.34.1"
    cluster_domain: str = "cluster.local"
    profiles: tuple[Profile, ...] = ()
    run: str | None = None
    gang: str = "none"
    gang_scheduler: str | None = None

    def __post_init__(self) -> None:
        gather(self, "profiles")
        if isinstance(self.secret, str):  # a program may use the syntax of the command line
            with contextlib.suppress(ValueError):  # `compile` reports a mode that is invalid
                structs.force_setattr(self, "secret", secret_mode(self.secret))


SETTINGS = dict(zip(Settings.__struct_encode_fields__, Settings.__struct_fields__, strict=True))
"""The fields of settings by their names in overlays and stored jobs."""


def setting_value(field: str, value: Any) -> Any:
    """Convert a value as users write it to that of a field of `Settings`."""
    match field:
        case "secret":
            return secret_mode(value)
        case "kubernetes_version":
            return value.removeprefix("v")
        case "init_image" | "kubectl_image" | "gang_scheduler" | "run":
            return value or None
        case "cluster_domain":
            return value.strip(".")
        case "profiles":
            # In a fixed order: that of the user must not change the stored job.
            return tuple(profile for profile in PROFILES if profile in value and profile != "plain")
    return value
