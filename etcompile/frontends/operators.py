"""The operators that run the kinds elsewhere, as far as a hand-over has to know them.

Facts and no code: how a job is taken from its operator follows from these, so that a new kind
brings its operator along and `etcompile migrate` needs no edit.
"""

from msgspec import Struct

from etcompile.diagnostics import ValuePath


class Operator(Struct, frozen=True):
    """The operator that runs jobs of a kind.

    Args:
        namespace: Where its own manifests install it.
        deployment: The Deployment of that installation.
        skips_deleted: It leaves a job alone once that is being deleted, so that it need not be
            stopped while its objects lose their owner.
        workers: Where the status lists the workers that run, by name; none if the spec says it.
        scalers: Kinds of its API group that scale a job and are left over when the job goes.
        makes: What it makes of a job besides Pods, Services, ConfigMaps, Jobs, rights and
            autoscalers: API versions and kinds.
        generates_names: Its Pods have names that end at random: none can become what is rendered,
            so that a run ends where it is, and another begins.
        lost: What nobody does any more for a run that goes on without it, besides its policies.
    """

    name: str
    namespace: str
    deployment: str
    skips_deleted: bool = False
    workers: ValuePath = ()
    scalers: tuple[str, ...] = ()
    makes: tuple[tuple[str, str], ...] = ()
    generates_names: bool = False
    lost: tuple[str, ...] = ()


ET_OPERATOR = Operator(
    name="et-operator",
    namespace="kube-ai",
    deployment="et-operator",
    skips_deleted=True,
    workers=("status", "targetWorkers"),
    scalers=("ScaleOut", "ScaleIn"),
    lost=("nobody rewrites the launcher's host file: a lost worker stays on it",),
)

TRAINING_OPERATOR = Operator(
    name="Training Operator",
    namespace="kubeflow",
    deployment="training-operator",
    skips_deleted=True,
)

MPI_OPERATOR = Operator(
    name="MPI Operator",
    namespace="mpi-operator",
    deployment="mpi-operator",
    skips_deleted=True,  # reference/mpi-operator-v2.md 5, step 1
    lost=("nobody repairs the host file in the job's ConfigMap",),
)

DLROVER = Operator(
    name="DLRover operator",
    namespace="dlrover",
    deployment="dlrover-controller-manager",
    scalers=("ScalePlan",),
    lost=(
        "nothing follows a worker that fails: its master makes no Pods without the custom resource",
    ),
)

TRAINER = Operator(
    name="Kubeflow Trainer",
    namespace="kubeflow-system",
    deployment="kubeflow-trainer-controller-manager",
    makes=(("jobset.x-k8s.io/v1alpha2", "JobSet"), ("v1", "PersistentVolumeClaim")),
    generates_names=True,  # reference/trainer-v2.md 7.4
)
