"""Which settings make another run of a job: those that its Pods depend on, and no other."""

from typing import Any

import pytest

from etcompile import Settings
from etcompile.model import SecretMode
from fidelity.every_job import JOBS, compiled, pod_templates

HASH = "etcompile.dev/spec-hash"
CHANGES: dict[str, dict[str, Any]] = {
    "services": {"services": "shared"},
    "secret": {"secret": SecretMode("existing", "keys")},
    "secret of a driver": {"secret": SecretMode("csi", "vault")},
    "secret of a store": {"secret": SecretMode("external", "vault/path")},
    "profiles": {"profiles": ("argocd", "flux")},
    "Kubernetes": {"kubernetes_version": "1.34"},
    "init image": {"init_image": "busybox:1.37"},
    "kubectl image": {"kubectl_image": "registry.example.com/kubectl:1.34"},
    "cluster domain": {"cluster_domain": "example.internal"},
    "cluster domain of shared Services": {
        "services": "shared",
        "cluster_domain": "example.internal",
    },
}


def pods(job: dict[str, Any], **settings: Any) -> list[tuple[str, Any]]:
    result = compiled(job, settings=Settings(**settings))
    return [
        (pod["metadata"].get("annotations", {}).get(HASH), pod["spec"])
        for pod in pod_templates(result.objects)
    ]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("example", JOBS)
def test_a_setting_makes_another_run_of_a_job_whose_pods_it_changes(example, change):
    job = {**JOBS[example], "metadata": {"namespace": "ml", **JOBS[example]["metadata"]}}
    before, after = pods(job), pods(job, **CHANGES[change])
    differs = [spec for _, spec in before] != [spec for _, spec in after]
    assert ({run for run, _ in before} != {run for run, _ in after}) == differs
