"""Labels and annotations that a tool keeps on an object for its own bookkeeping.

They are about the one object that has them: copied to another object of the same job, they would
make Argo CD track what it does not declare, or kubectl compare it with what it never applied.
"""

PREFIXES = (
    "etcompile.dev/",
    "kubectl.kubernetes.io/",
    "applyset.kubernetes.io/",
    "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "reconcile.fluxcd.io/",
    "fluxcd.io/",
    "kapp.k14s.io/",
    "meta.helm.sh/",
    "helm.sh/",
    "config.k8s.io/",
    "config.kubernetes.io/",
    "internal.config.kubernetes.io/",
    "client.lifecycle.config.k8s.io/",
    "kustomize.config.k8s.io/",
    "internal.kpt.dev/",
)
"""What the keys of such labels and annotations begin with."""
# By this label Argo CD may track objects (reference/gitops.md 1.4).
_NAMES = (
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "kubernetes.io/change-cause",
)


def is_bookkeeping(key: str) -> bool:
    """Whether a label or annotation is about the object that has it, and about no other."""
    return key.startswith(PREFIXES) or key in _NAMES
