"""Scale TrainJobs: decide whether their number of nodes may change, and where nodes meet.

Trainer does not scale: numNodes is immutable, and torchrun gets one number of nodes
(reference/trainer-v2.md 11, defect T12). So an annotation asks for it; without one, nodes get what
Trainer gives them. Nodes that do not get their number scale without an annotation.
"""

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct, structs

from etcompile.diagnostics import Diagnostic, ValuePath
from etcompile.frontends.annotations import NNODES, annotation_value, annotations_of
from etcompile.frontends.notes import not_compiled
from etcompile.frontends.rendezvous import arguments, node_range, options
from etcompile.frontends.trainer.policies import RENDEZVOUS
from etcompile.frontends.trainer.training_run import (
    JOB_SET,
    LAUNCHER,
    NODE,
    PORT,
    Training,
    main_of,
)
from etcompile.launch.launchers import least_workers
from etcompile.model import Bounds, Env, Origin, Role, Success

_ANNOTATION: ValuePath = ("metadata", "annotations", NNODES)
_LIMITS = (f"the minimum of {NNODES}", f"the maximum of {NNODES}")
_SETTINGS = "PET_RDZV_CONF"
_HOLDS = "is_host=1"
_TORCHRUN = ("torchrun", "torch.distributed.run")
_FIXED = "every node is told how many there are"
_TITLES = {"jax": "JAX", "xgboost": "XGBoost"}


class Described(Struct, frozen=True):
    """How a TrainJob scales.

    Args:
        fixed: Why its nodes cannot be scaled; None if they can.
    """

    roles: tuple[Role, ...]
    success: Success
    fixed: str | None = None
    diagnostics: tuple[Diagnostic, ...] = ()


def described(
    training: Training, roles: tuple[Role, ...], success: Success, awaited: Collection[str]
) -> Described:
    """Return a job's roles with their bounds; others wait for the success of `awaited` roles."""
    source, policy, limits = training.source, training.policy, training.limits
    name, others = next((training.jobs[place]["name"] for place in training.trainers), None), 0
    if policy == "mpi":
        name, others = NODE, int(training.launcher_is_node)
    role = next((role for role in roles if role.name == name), None)
    number = [*(job["name"] for job in training.jobs), name].index(name)
    path = (*JOB_SET, "replicatedJobs", number, "template", "spec", "parallelism")
    stated = "numNodes" in training.stated
    title = "spec.trainer.numNodes" if stated else "the numNodes of its runtime"
    count = title, training.runtime.at(*path)
    if NNODES not in annotations_of(source):
        fixed = None
        if policy == "mpi":
            fixed = f"the hostfile is written once, unless {NNODES} gives a range"
        elif policy == "torch" and not training.is_torchtune:
            fixed = f"{_FIXED}, unless {NNODES} gives a range"
        elif reason := _reason_not_to_scale(training, role, success, 1, 2):
            fixed = reason[0]
        if fixed is not None or role is None:
            return Described(roles, success, fixed)
        bounded = structs.replace(role, bounds=Bounds(quorum=len(role.members), count=count))
        changed = tuple(bounded if other is role else other for other in roles)
        return Described(changed, success)
    if limits is None:
        problem = annotation_value(source, NNODES, "like 2:4")
        return Described(roles, success, _FIXED, (problem,))
    low, high = limits[0] - others, limits[1] - others
    if (reason := _reason_not_to_scale(training, role, success, low, high)) or role is None:
        at, reason = source.locate(_ANNOTATION, key=True), reason or (_FIXED, "remove it")
        problem = not_compiled(at, f"annotation {NNODES}", *reason)
        return Described(roles, success, reason[0], (problem,))
    quorum = None
    if policy == "mpi":
        main = next((role.template.main_container for role in roles if role.name == LAUNCHER), {})
        slots = training.slots(main_of(training.replicated_job(LAUNCHER)))
        quorum = least_workers(main, len(role.members), slots, others=others, stated=low)
    place = Origin(source, _ANNOTATION)
    bounds = Bounds(low, high, place, _LIMITS, quorum=quorum, count=count, others=others)
    bounded = structs.replace(role, bounds=bounds)
    problems: tuple[Diagnostic, ...] = ()
    if policy == "torch":
        bounded = _with_rendezvous(bounded, training.subdomain)
        problems = tuple(_rendezvous_conflicts(bounded, limits))
        # A node that joins when the others have finished has no peers.
        if {*success.roles} - {*awaited} == {role.name}:
            success = Success((role.name,), "any")
    changed = tuple(bounded if other is role else other for other in roles)
    return Described(changed, success, None, problems)


def restarting_alone(training: Training, roles: Sequence[Role]) -> tuple[str, ...] | None:
    """Return the roles whose commands may restart independently, in their Pods.

    None if nodes go on only after all of them have restarted.
    """
    if training.policy == "mpi":  # nodes only serve it
        return tuple(role.name for role in roles if role.name == LAUNCHER)
    if scaled := tuple(role.name for role in roles if role.bounds):
        return scaled
    return tuple(role.name for role in roles) if training.policy is None else None


def _reason_not_to_scale(
    training: Training, role: Role | None, success: Success, low: int, high: int
) -> tuple[str, str] | None:
    policy = training.policy
    new_run = "remove it; another spec.trainer.numNodes is another run (etcompile.dev/run)"
    if policy == "mpi" and (role is None or low < 1):
        why = "the launcher is one of the nodes, and waits from the start for another one"
        return why, "have 2 nodes at least, in it and in spec.trainer.numNodes"
    if policy not in ("torch", "mpi", None):
        return f"{_TITLES.get(policy, policy)} tells every node how many there are", new_run
    if training.is_torchtune:
        return "Trainer completes tune run by the number of nodes", new_run
    if role is None:
        return "no Job of its runtime is labelled as the trainer", "remove it"
    if high > 1 and success.needs == "any" and role.name in success.roles:
        why = f"the first Pod of {role.name} that succeeds would end the run (successPolicy Any)"
        return why, "name one Job in targetReplicatedJobs"
    return None


def _with_rendezvous(role: Role, subdomain: str) -> Role:
    """Configure nodes of torchrun to meet at the first one, unless the template names another.

    torchrun compares names to decide whether it hosts the rendezvous. The first node's address ends
    with the Service's name, which it does not recognize, so a variable tells it.
    """
    main = role.template.main_container
    values = {entry["name"]: entry.get("value") for entry in main.get("env", ())}
    first = f"{role.naming.stem}-0.{subdomain}:{PORT}"
    if values.get(RENDEZVOUS[1]) != first:
        return role
    stated = values.get(_SETTINGS, "")
    env = role.additions.env
    if stated is not None and "is_host" not in stated:
        env = (*env, Env(_SETTINGS, ",".join(filter(None, (stated, _HOLDS))), of="first"))
    return structs.replace(
        role,
        additions=structs.replace(role.additions, env=env),
        anchored=(1, "it holds the rendezvous of all others"),
    )


def _rendezvous_conflicts(role: Role, limits: tuple[int, int]) -> Iterator[Diagnostic]:
    main, place = role.template.main_container, role.template.main_origin
    backend, endpoint = RENDEZVOUS
    env = {
        entry["name"]: (n, entry.get("value") or "") for n, entry in enumerate(main.get("env", ()))
    }
    number, named = env.get(backend, (0, ""))
    if named == "static" or (named.startswith("etcd") and role.anchored):
        why = "it takes no nodes that come later"
        if named != "static":
            why = f"node 0 does not serve {named}"
        advice = f"leave it out for c10d, or name another place in {endpoint}"
        at = place.locate("env", number, "value")
        yield not_compiled(at, f"variable {backend} {named}", why, advice)
    number, settings = env.get(_SETTINGS, (0, _HOLDS))
    if role.anchored and not settings:
        why = "its value is not known, and node 0 is told there that it holds the rendezvous"
        at = place.locate("env", number, key=True)
        yield not_compiled(at, f"variable {_SETTINGS}", why, "write the value")
    words = arguments(main, *_TORCHRUN)
    field = "command" if main.get("command") else "args"
    for flag, value in options(words or ()):  # flags take precedence over variables
        advice = "remove it"
        if flag == "nnodes" and "$" not in value and node_range(value) != limits:
            why = f"it counts before {NNODES}"
        elif flag == "standalone":
            why = "each node would train by itself"
        elif flag in ("rdzv_backend", "rdzv_endpoint", "rdzv_conf"):
            variable = f"PET_{flag.upper()}"
            why = f"it counts before {variable}, by which nodes that come and go find each other"
            advice = f"remove it, or write the variable {variable} with its value instead"
        else:
            continue
        where = f"--{flag.replace('_', '-')} of torchrun"
        yield not_compiled(place.locate(field), where, why, advice)
