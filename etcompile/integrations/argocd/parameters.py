"""The parameters of the plugin: a table, and its form in which Argo CD's interface reads it.

A parameter has the name of the option of `etcompile render` that it stands for, so that there is
one way to say a thing. Left out are options that would let a repository run code in the plugin's
container (`templates`) or let Secrets pass (`allow-plain-secrets`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from etcompile.model import DLROVER_NEWEST, GANGS, PROFILES

Form = Literal["string", "boolean", "array", "map"]


class Parameter(Struct, frozen=True):
    """A parameter.

    Args:
        name: Its name, as in an Application.
        title: Its name for people.
        tooltip: What it does.
        form: What its value is.
        option: The option of `etcompile render` that it becomes; None for what is no option.
        default: What counts if an Application does not set it.
        names_files: Whether its values are paths, which must not lead out of the repository.
    """

    name: str
    title: str
    tooltip: str
    form: Form = "string"
    option: str | None = None
    default: str | tuple[str, ...] = ""
    names_files: bool = False


PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "paths",
        "Job files",
        "Files, folders and globs of jobs, seen from the source's path.",
        form="array",
        default=(".",),
        names_files=True,
    ),
    Parameter(
        "overlay",
        "Overlays",
        "Overlays, in order: files or folders seen from the source's path, or dev, prod, resilient,"
        " spot.",
        form="array",
        option="--overlay",
        names_files=True,
    ),
    Parameter(
        "environment",
        "Environment",
        "Environment of the repository's configuration file whose settings count.",
        option="--environment",
    ),
    Parameter(
        "runtimes",
        "Runtimes",
        "Files and folders of TrainingRuntimes and ClusterTrainingRuntimes that TrainJobs may name,"
        " seen from the source's path.",
        form="array",
        option="--runtimes",
        names_files=True,
    ),
    Parameter(
        "profile",
        "Profiles",
        f"GitOps tools that the objects are annotated for: {', '.join(PROFILES)}.",
        form="array",
        option="--profile",
        default=("argocd",),
    ),
    Parameter(
        "secret",
        "ssh key pair",
        "runtime (made in the cluster by etcompile watch), existing:NAME, external[:STORE/PATH]"
        " or csi:NAME.",
        option="--secret",
        default="runtime",
    ),
    Parameter(
        "namespace",
        "Namespace",
        "Namespace of all jobs; one that names another is refused. Empty: the Application's"
        " destination, for those that name none.",
        option="--namespace",
    ),
    Parameter(
        "run",
        "Run",
        "Start a new run: name the Pods JOB-RUN-worker-0. auto derives the ID from the spec.",
        option="--run",
    ),
    Parameter(
        "gang",
        "Gang scheduler",
        f"Scheduler that starts all Pods of a job or none of them. One of {', '.join(GANGS)}.",
        option="--gang",
        default="none",
    ),
    Parameter(
        "gang-scheduler",
        "Gang scheduler's name",
        "schedulerName of the gang scheduler. Empty: the one of its installation guide.",
        option="--config=gang-scheduler",
    ),
    Parameter(
        "services",
        "Services",
        "One headless Service per worker (per-replica), or one per job (shared).",
        option="--config=services",
        default="per-replica",
    ),
    Parameter(
        "kubernetes-version",
        "Kubernetes version",
        "Version to compile for. Empty: an overlay's, else the cluster's own.",
        option="--config=kubernetes-version",
    ),
    Parameter(
        "images",
        "Images",
        "Images to replace: from a name in a job to a name, tag or digest.",
        form="map",
    ),
    Parameter("labels", "Labels", "Labels for everything that is rendered.", form="map"),
    Parameter(
        "init-image",
        "Init image",
        "Image of init containers. Empty: the job's own.",
        option="--config=init-image",
    ),
    Parameter(
        "kubectl-image",
        "kubectl image",
        "Image that provides kubectl to a launcher that starts its workers with kubectl exec.",
        option="--config=kubectl-image",
    ),
    Parameter(
        "cluster-domain",
        "Cluster domain",
        "DNS domain of the cluster.",
        option="--config=cluster-domain",
        default="cluster.local",
    ),
    Parameter(
        "dlrover-version",
        "DLRover version",
        "Version of DLRover in the images of ElasticJobs. Empty: the tag of the image, else"
        " {}.{}.".format(*DLROVER_NEWEST),
        option="--config=dlrover-version",
    ),
    Parameter(
        "ignore-managed-by",
        "Compile what another controller manages",
        "Also compile jobs whose managedBy names another controller.",
        form="boolean",
        option="--config=ignore-managed-by",
        default="false",
    ),
    Parameter(
        "skip-managed-by",
        "Skip what another controller manages",
        "Leave jobs out that managedBy gives to MultiKueue, each with a warning.",
        form="boolean",
        option="--config=skip-managed-by",
        default="false",
    ),
    Parameter(
        "allow-empty",
        "Allow no jobs",
        "Accept a folder without any object, once the last job has left it.",
        form="boolean",
        option="--allow-empty",
        default="false",
    ),
    Parameter(
        "ignore",
        "Ignored warnings",
        "Codes of warnings that are not reported, such as ET2040.",
        form="array",
        option="--ignore",
    ),
    Parameter(
        "strict",
        "Strict",
        "Treat warnings as errors.",
        form="boolean",
        option="--strict",
        default="false",
    ),
)


def announced(
    parameters: Iterable[Parameter], found: Mapping[str, Sequence[str]] | None = None
) -> list[dict[str, Any]]:
    """The announcement of parameters, as Argo CD's interface reads it.

    Args:
        parameters: Those to announce, in this order.
        found: What there is to choose from in this repository, by the parameter's name.

    Returns:
        A JSON value, of the form of `spec.parameters.static` in `plugin.yaml`.
    """
    return [
        _announcement(parameter, (found or {}).get(parameter.name, ())) for parameter in parameters
    ]


def _announcement(parameter: Parameter, choices: Sequence[str]) -> dict[str, Any]:
    there = f" There are: {', '.join(choices)}." if choices else ""
    value: dict[str, Any] = {
        "name": parameter.name,
        "title": parameter.title,
        "tooltip": parameter.tooltip + there,
    }
    if parameter.form == "array":
        return {**value, "collectionType": "array", "array": list(parameter.default)}
    if parameter.form == "map":
        return {**value, "collectionType": "map", "map": {}}
    typed = {"itemType": "boolean"} if parameter.form == "boolean" else {}
    return {**value, **typed, "string": parameter.default}
