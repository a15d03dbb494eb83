"""Turn a job into one run of it, whose Pods have names of their own.

Nearly nothing in a Pod may change, so a changed job needs new Pods, and new Pods need new names
if no tool is to delete the old ones by force (reference/gitops.md 1.3). Hosts keep their names:
they are Services, which select the Pods of the run by its label.
"""

import re
from collections.abc import Mapping

from msgspec import structs

from etcompile.model.job import Job
from etcompile.model.protocol import RUN_LABEL
from etcompile.model.settings import Settings

LONGEST_RUN = 16
"""Characters of a run's ID, which is part of the name of each Pod."""


_FIRST: Mapping[str, object] = {
    "services": "per-replica",
    "secret": None,
    "initImage": None,
    "kubectlImage": "alpine/kubectl:1.34.1",
    "clusterDomain": "cluster.local",
}
"""The defaults of the first version of the spec hash. They stay when a default changes, so that the
same job is the same run for every version of etcompile."""
_SAME_PODS = frozenset({"runtime", "external", "sealed", "sops"})
"""Sources of keys that result in the same Secret, and so in the same Pods."""


def with_settings(job: Job, settings: Settings) -> Job:
    """Add the settings to the job's identity that change what its Pods do.

    A job without ssh is the same run wherever keys come from. The version of Kubernetes and the
    profiles only change how the same Pods are written down. The gang scheduler does not count:
    a run that is done must not train again because its cluster has another scheduler.
    """
    used: dict[str, object] = {}
    if job.is_behind_one_service(settings.services):
        # Pods without a search domain are the same in any: `_shared_name` in backend/role_pods.py.
        if job.has_bare_names:
            used["clusterDomain"] = settings.cluster_domain
        if job.service is None:
            used["services"] = settings.services
    secret = settings.secret.stored
    if job.credentials and secret.kind not in _SAME_PODS:
        used["secret"] = str(secret)
    images = {init.image for role in job.roles for init in role.additions.setup}
    if "init" in images:
        used["initImage"] = settings.init_image
    if "kubectl" in images:
        used["kubectlImage"] = settings.kubectl_image
    changing = {key: value for key, value in used.items() if value != _FIRST[key]}
    if not changing:
        return job
    return structs.replace(job, identity={**job.identity, "settings": changing})


def in_run(job: Job, run: str | None) -> Job:
    """Return the job as this run of it.

    Its Pods are named `JOB-ID-worker-0`, have the run's label and are selected by it. The run has a
    different identity, so that the end of another run does not end this one.
    """
    if run is None:
        return job
    roles = []
    for role in job.roles:
        stem = f"{job.name}-{run}-{role.naming.stem.removeprefix(f'{job.name}-')}"
        naming = structs.replace(role.naming, pod_stem=stem)
        roles.append(structs.replace(role, naming=naming))
    return structs.replace(
        job,
        run_id=run,
        roles=tuple(roles),
        selector={**job.selector, RUN_LABEL: run},
        identity={**job.identity, "run": run},
    )


_RUN_OF_STORED = re.compile(r"^  run: .*\n", re.MULTILINE)
"""The line of a stored job's settings that names its run."""


def is_only_another_run(before: str, after: str) -> bool:
    """Report whether two stored jobs differ only in the run's ID, which no annotation requests."""
    without = (_RUN_OF_STORED.sub("", text) for text in (before, after))
    return before != after and len({*without}) == 1
