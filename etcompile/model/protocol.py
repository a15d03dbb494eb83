"""Name what a compiled job and the watcher agree on at run time.

The backend writes these names into Pods, and the watcher writes the objects that they refer to.
docs/protocol.md says why there are three ConfigMaps, and who writes which.
"""

from collections.abc import Mapping
from typing import Any

SCRIPTS = "etcompile-scripts"
"""Volume of the compiled scripts and of the Pod's own spec hash."""
HOSTS = "etcompile-hosts"
"""Volume of the live host lists; empty until the watcher writes them."""
STATUS = "etcompile-status"
"""Volume of the run record; empty until the watcher writes it."""
RUN_STATE = "etcompile-run"
"""Volume in which a supervisor keeps its state while its container restarts."""
SSH = "etcompile-ssh"
"""Volume of copied ssh keys, and of keys whose Secret's name cannot name a volume."""
USERS = "etcompile-users"
"""Volume of a passwd file that names the user, and the init container that writes it."""

SCRIPTS_PATH = "/etc/etcompile/scripts"
HOSTS_PATH = "/etc/etcompile/hosts"
STATUS_PATH = "/etc/etcompile/status"
RUN_STATE_PATH = "/etc/etcompile/run"
SSH_PATH = "/etc/etcompile/ssh"
USERS_PATH = "/etc/etcompile/users"

SPEC_HASH_FILE = f"{SCRIPTS_PATH}/spec-hash"
"""Holds the spec hash of the Pod that reads it."""
DONE_FILE = f"{STATUS_PATH}/done"
"""Holds the spec hash of the run that is finished."""
COMPLETED = "completed"
"""The key of `J-etcompile-status` (and the file in Pods) that lists the roles that succeeded."""
COMPLETED_FILE = f"{STATUS_PATH}/{COMPLETED}"
"""Holds the spec hash of a run and, one a line, the awaited roles that have succeeded."""

SPEC_HASH = "etcompile.dev/spec-hash"
"""Annotation of every Pod: which run it belongs to."""
EPOCH = "etcompile.dev/epoch"
"""Annotation of Pods that the watcher creates when it restarts a whole run: `EPOCH RESTARTS`, the
last epoch of the previous Pods and the restarts counted until then."""
NOTICE = "etcompile.dev/notice"
"""Annotation that the watcher writes to a Pod that restarts in place: a signal for its commands,
or the request to restart them (`model.supervision`)."""
POD_ANNOTATIONS: Mapping[str, str] = {
    SPEC_HASH: "it says which run a Pod belongs to",
    EPOCH: "by it the watcher numbers the restarts of a run",
    NOTICE: "by it the watcher tells a Pod's command of a disturbance",
}
"""Annotations of Pods that no template may have, and why."""

PREFLIGHT = "preflight"
"""The init container that checks whether a Pod may train on its node."""
OTHER_NODE = 20
"""Its exit code if the Pod must go to another node."""

KEY_PAIR = "etcompile.dev/key-pair"
"""Annotation of a Secret with an ssh key pair that etcompile generates: the names of its keys."""
SEALED_FOR = "etcompile.dev/sealed-for"
"""Annotation of a SealedSecret: a digest of the public key that it is encrypted with."""

JOB_LABEL = "etcompile.dev/job"
ROLE_LABEL = "etcompile.dev/role"
INDEX_LABEL = "etcompile.dev/index"
RANK_LABEL = "etcompile.dev/rank"
"""The rank of a Pod, if ranks of its role differ from indexes; its successor has the same."""
RUN_LABEL = "etcompile.dev/run"
RESERVED_LABELS = (JOB_LABEL, ROLE_LABEL, INDEX_LABEL, RANK_LABEL, RUN_LABEL)
"""Labels that the watcher reads; no template may have any of them."""

MANAGER = "etcompile"
"""The field manager of apply. It must not begin with `kubectl` (reference/gitops.md 2.4)."""

WATCHER = "etcompile-watcher"

WATCH = "etcompile-watch"
"""The default name of a watcher, its Lease and its other objects."""

WATCHES = "etcompile.dev/watches"
"""Label of a watcher's Lease, without a value. Annotation: the namespaces whose jobs it watches,
separated by commas, or `*`."""

STORED_JOB = "job.yaml"
"""The key of the job's ConfigMap that holds the job itself."""


def config_name(job: str, *, of_operator: bool = False) -> str:
    """Return the name of the ConfigMap that declares a job.

    Kinds whose operator creates `J-config` use that name; elsewhere users may choose it.
    """
    return f"{job}-config" if of_operator else f"{job}-etcompile"


def is_config(metadata: Mapping[str, Any]) -> bool:
    """Report whether a ConfigMap declares the job that its label names, by its name alone."""
    job: str = (metadata.get("labels") or {}).get(JOB_LABEL) or ""
    return bool(job) and metadata["name"] in config_names(job)


def config_names(job: str) -> tuple[str, str]:
    return config_name(job), config_name(job, of_operator=True)


HOSTS_END, STATUS_END = "-etcompile-hosts", "-etcompile-status"
"""Suffixes of the watcher's two ConfigMaps: the live host lists and the run record of a job."""


def hosts_name(job: str) -> str:
    return job + HOSTS_END


def status_name(job: str) -> str:
    return job + STATUS_END
