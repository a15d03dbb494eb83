"""Create the files of a new repository: jobs, an environment, CI, and what syncs it.

It is a table from templates to paths, without the rendered manifests, which `etcompile render`
writes. Nothing here ends up in a job.
"""

from typing import Literal

from etcompile._version import IS_RELEASE, __version__
from etcompile.pages import text

GitOps = Literal["argocd", "flux", "none"]

_UNRELEASED = "etcompile @ git+https://github.com/etcompile/etcompile@main"
"""What pip installs if this version is not released, and so on no index."""

JOBS, OVERLAY, OUTPUT, ENVIRONMENT = "jobs", "overlays/prod", "out/prod", "prod"
"""Folders that the files name, and the environment."""

_FILES = {
    "README.md": "repository/README.md",
    "etcompile.toml": "repository/configuration.toml",
    "jobs/hello.yaml": "repository/hello.yaml",
    "overlays/prod/overlay.yaml": "repository/overlay.yaml",
    ".github/workflows/etcompile.yaml": "repository/workflow.yaml",
    ".github/CODEOWNERS": "repository/CODEOWNERS",
    ".pre-commit-config.yaml": "repository/pre-commit.yaml",
}
_OF_TOOL: dict[GitOps, dict[str, tuple[str, ...]]] = {
    "argocd": {"argocd/application.yaml": ("argocd/application.yaml",)},
    "flux": {
        "flux/training.yaml": (
            "repository/namespace.yaml",
            "flux/source.yaml",
            "flux/kustomization.yaml",
        )
    },
    "none": {},
}


def repository_files(gitops: GitOps, name: str, **more: str) -> dict[str, str]:
    """Return the files of a new repository: texts by path.

    Args:
        name: The name of the repository, and of its Application or Kustomization.
        more: `namespace` and `repository`, the URL; `known_as`, the name of its jobs in clusters
            (`operations.declarations`); `owner`, the reviewer of changes to production, as in
            CODEOWNERS; and `kubernetes_version`.
    """
    values = {
        "gitops": gitops,
        "released": IS_RELEASE,
        "package": f"etcompile=={__version__}" if IS_RELEASE else _UNRELEASED,
        "render": f"etcompile render {JOBS}/ --environment {ENVIRONMENT} -d {OUTPUT}",
        "check": f"etcompile check {JOBS}/ --environment {ENVIRONMENT}",
        "diff": f"etcompile diff {JOBS}/ --environment {ENVIRONMENT}",
        "overlay": OVERLAY,
        "environment": ENVIRONMENT,
        "name": name,
        "revision": "main",
        "path": OUTPUT,
        "plugin": False,
        "source": f"GitRepository/{name}",
        "staged": False,
        "decryption": None,
        **more,
    }
    files = {path: text(template, **values) for path, template in _FILES.items()}
    for path, templates in _OF_TOOL[gitops].items():
        files[path] = "---\n".join(text(template, **values) for template in templates)
    return files
