"""What the person who compiles may choose, apart from what the job's author wrote.

The command line, overlays and the Python API all end here, so that every stage after loading
sees one value.
"""

from typing import Literal, get_args

from msgspec import Struct

SECRET_NAME = r"[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?"  # noqa: S105 - a form, no secret
"""The form of a Secret's name: a DNS subdomain."""

Services = Literal["per-replica", "shared"]
Profile = Literal["plain", "argocd", "flux", "kapp", "kpt"]
"""A tool that syncs the output; `plain` is none in particular."""
PROFILES: tuple[Profile, ...] = get_args(Profile)


class SecretMode(Struct, frozen=True):
    """Where a job's ssh key pair comes from.

    Args:
        kind: `runtime` (created in the cluster when the job is applied), `existing` (a Secret
            somebody looks after) or `external` (made in the cluster by External Secrets).
        name: The existing Secret's name; None for the other kinds.
    """

    kind: Literal["runtime", "existing", "external"]
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind


class Settings(Struct, frozen=True):
    """How to compile.

    Args:
        services: One headless Service per worker, as et-operator makes, or one for the job.
        secret: Where the ssh key pair comes from.
        kubernetes_version: The cluster's version, `1.34`.
        init_image: Image of init containers; None takes the job's own.
        kubectl_image: Image that brings kubectl to a kubexec launcher; None expects it in the
            launcher's image.
        cluster_domain: The cluster's DNS domain.
        profiles: The tools for which objects are annotated.
        run: The ID of the run, a part of its Pods' names; `auto` makes one from what the job is,
            None gives the Pods the names of their hosts.
    """

    services: Services = "per-replica"
    secret: SecretMode = SecretMode("runtime")
    kubernetes_version: str = "1.37"
    init_image: str | None = None
    kubectl_image: str | None = "alpine/kubectl:1.34.1"
    cluster_domain: str = "cluster.local"
    profiles: tuple[Profile, ...] = ()
    run: str | None = None
