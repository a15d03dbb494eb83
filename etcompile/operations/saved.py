"""A plan that `etcompile diff --plan` wrote: read again, and held against the cluster of now."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from etcompile.diagnostics import Location, codes, diagnose
from etcompile.exitcodes import CONFLICT, INPUT
from etcompile.k8s.objects import Object
from etcompile.kubeapi import Cluster
from etcompile.load import access, parse
from etcompile.operations.planner import acyclic, note
from etcompile.operations.proposal import ImpossibleError, Proposal, Result
from etcompile.plan.classes import matched
from etcompile.plan.document import PlanError, read_plan
from etcompile.plan.scope import Rights
from etcompile.plan.step import REMOVES, Plan, Step, reference
from etcompile.rollout.live import Live, cluster_identity, is_same_cluster
from etcompile.rollout.preflight.dryrun import DryRun

if TYPE_CHECKING:
    from etcompile.rollout.machine.reasons import ObjectState
    from etcompile.rollout.machine.targets import Key


def saved_plan(file: str, *, context: str | None = None, namespace: str | None = None) -> Plan:
    """The plan of a file.

    Args:
        file: The path of the file, as the user named it.
        context: The context of the kubeconfig that is asked for; any if None.
        namespace: The default namespace that is asked for; any if None.

    Raises:
        ImpossibleError: it holds no plan, or not one for there.
    """
    try:
        data = access.content(file)
        found = read_plan(data)
    except OSError as error:
        raise _unusable(file, [(Location(file), error)]) from None
    except PlanError as error:
        problems = [wrong.text for wrong in error.problems]
        places = _places(file, data, error)
        raise _unusable(file, zip(places, problems, strict=True)) from None
    problem = advice = ""
    if found.against != "cluster":
        problem = f"it was made against {found.against}, and not against a cluster"
    elif context and found.context and context != found.context:
        problem = f"it was made for the context {found.context}, and not for {context}"
        advice = f"leave out --context, or make a plan: etcompile diff --context {context}"
    elif namespace and found.namespace and namespace != found.namespace:
        problem = f"it was made for the namespace {found.namespace}, not for {namespace}"
        advice = "leave out --namespace, or make the plan with it"
    if problem:
        raise _unusable(file, [(Location(file, 1), problem)], advice)
    return found


def saved_proposal(saved: Plan, cluster: Cluster, file: str, rights: Rights) -> Proposal:
    """What a plan that was made earlier still does. Nothing is written.

    A plan does not say what completes a run: wait for readiness, or for nothing.

    Raises:
        ClusterError: the cluster cannot be read.
        ImpossibleError: an object has changed since, and the plan would do something else now; or
            objects of it wait for each other.
    """
    identity = cluster_identity(cluster)
    if saved.cluster and not is_same_cluster(saved.cluster, identity):
        words = f"it was made for another cluster than the one of the context {cluster.context}"
        raise _unusable(file, [(Location(file, 1), words)], "make a plan for this cluster")
    live: dict[tuple[str, ...], Object] = {}
    seen: dict[Key, ObjectState] = {}
    steps = [step for step in saved.steps if step.action not in ("wait", "unmanaged")]
    for value in Live(cluster).get([step.ref for step in steps]):
        note(value, seen)
        live[reference(value).key_in(cluster.namespace)] = value
    gone = {step.ref for step in saved.steps if step.until == "gone"}
    found = []
    server = DryRun(cluster)
    for step in steps:
        now = live.get(step.ref.key_in(cluster.namespace))
        if step.ref in gone:
            continue  # one that was going when the plan was made, and may be gone by now
        if problem := _difference(step, now, server):
            found.append(
                diagnose(codes.CHANGED_WORLD, None, plan=file, object=step.ref, problem=problem)
            )
    if found:
        raise ImpossibleError(Result(CONFLICT, tuple(found)))
    ours = saved.job_set
    orphans = frozenset(ours.orphans if ours else ())
    return acyclic(Proposal(plan=saved, rights=rights, seen=seen, job_set=ours, orphans=orphans))


_ANYTHING = Rights(replace=True, adopt=True, prune=True, take_ownership=frozenset("*"))


def _difference(step: Step, now: Object | None, server: DryRun) -> str | None:
    if now is None:
        return None if step.uid is None else "it no longer exists"
    uid = now["metadata"].get("uid")
    if step.uid is None:
        return "it exists now"
    if uid != step.uid:
        return "another object has its name now"
    version = now["metadata"].get("resourceVersion")
    if step.action in ("unchanged", *REMOVES) or version == step.resource_version:
        return None
    if step.manifest is None:
        return "it has changed"
    # What a status or a node changed is no matter; the step must still be this one.
    label = _label(step)
    again = matched(
        step.manifest, now, step.ref, _ANYTHING, label, frozenset({label or ""}), server.ask
    )
    if (again.action, _fields(again)) == (step.action, _fields(step)):
        return None
    return f"it has changed, and the same {step.action} would do something else now"


def _label(step: Step) -> str | None:
    """The ApplySet that a step puts its object into."""
    for change in step.changes:
        if change.steps == ("metadata", "labels", "applyset.kubernetes.io/part-of"):
            return str(change.after)
    return None


def _fields(step: Step) -> list[tuple[Any, ...]]:
    return sorted(
        (change.path, change.how, str(change.before), str(change.after)) for change in step.changes
    )


def _unusable(
    file: str, found: Iterable[tuple[Location, object]], advice: str = ""
) -> ImpossibleError:
    told = (
        diagnose(codes.UNUSABLE_PLAN, place, plan=file, problem=problem, advice=advice)
        for place, problem in found
    )
    return ImpossibleError(Result(INPUT, tuple(told)))


def _places(file: str, data: bytes, error: PlanError) -> Iterator[Location]:
    """Where the problems of a plan's file stand in it."""
    documents = parse(data, file=file).documents
    for problem in error.problems:
        if problem.byte is not None:
            before = data.rstrip()[: problem.byte].decode(errors="replace")
            line = before.count("\n") + 1
            yield Location(file, line, len(before) - before.rfind("\n"))
        elif documents:
            yield documents[0].locate(problem.path)
        else:
            yield Location(file, 1)
