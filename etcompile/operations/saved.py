"""Read a plan that `etcompile diff --plan` wrote, and compare it with the cluster of now."""

from etcompile.diagnostics import Location, codes, diagnose
from etcompile.exitcodes import CONFLICT
from etcompile.k8s.objects import Object
from etcompile.kubeapi import Cluster
from etcompile.kubeapi.kubeconfig import ApiClient
from etcompile.load import access, parse
from etcompile.operations.cluster_plan import ImpossibleError, acyclic
from etcompile.plan.applysets import PART_OF
from etcompile.plan.matches import difference, unchanged
from etcompile.plan.plan_file import PlanError, read_plan
from etcompile.plan.planner import resolved
from etcompile.plan.scope import Rights
from etcompile.plan.step import REMOVES, ObjectKey, Plan, Step, reference
from etcompile.rollout.dryrun import DryRun
from etcompile.rollout.live import Live, cluster_identity, is_same_cluster
from etcompile.rollout.machine.messages import Proposal
from etcompile.rollout.machine.reasons import states

_ANYTHING = Rights(replace=True, adopt=True, prune=True, take_ownership=frozenset("*"))


def saved_plan(
    file: str, *, context: str | ApiClient | None = None, namespace: str | None = None
) -> Plan:
    """Read the plan of a file.

    Args:
        context: The context of the kubeconfig that the user names; any if None or a client.
        namespace: The default namespace that the user names; any if None.

    Raises:
        ImpossibleError: it holds no plan, or not one for there.
    """
    try:
        data = access.content(file)
        plan = read_plan(data)
    except OSError as error:
        raise _unusable(Location(file), error) from None
    except PlanError as error:
        documents = parse(data, file=file).documents
        place = documents[0].locate(error.path) if documents else Location(file, 1)
        raise _unusable(place, error) from None
    problem = advice = ""
    if plan.against != "cluster":
        problem = f"it was made against {plan.against}, not against a cluster"
    elif plan.context and isinstance(context, str) and context not in ("", plan.context):
        problem = f"it was made for the context {plan.context}, not for {context}"
        advice = f"leave out --context, or make a plan: etcompile diff --context {context}"
    elif namespace and plan.namespace and namespace != plan.namespace:
        problem = f"it was made for the namespace {plan.namespace}, not for {namespace}"
        advice = "leave out --namespace, or make the plan with it"
    if problem:
        raise _unusable(Location(file, 1), problem, advice)
    return plan


def saved_proposal(saved: Plan, cluster: Cluster, file: str, rights: Rights) -> Proposal:
    """Propose what an earlier plan still does.

    A plan does not say what completes a run: wait for readiness, or for nothing.

    Raises:
        ClusterError: the cluster cannot be read.
        ImpossibleError: an object has changed since, and the plan would do something else now; or
            objects of it wait for each other.
    """
    identity = cluster_identity(cluster)
    if saved.cluster and not is_same_cluster(saved.cluster, identity):
        where = cluster.context or cluster.server
        words = f"it was made for another cluster than the one of {where}"
        raise _unusable(Location(file, 1), words, "make a plan for this cluster")
    live: dict[ObjectKey, Object] = {}
    steps = [step for step in saved.steps if step.action not in ("wait", "unmanaged")]
    for value in Live(cluster).get([step.ref for step in steps]):
        live[reference(value).key_in(cluster.namespace)] = value
    # These were being deleted when the plan was made, and may be gone by now.
    gone = {step.ref for step in saved.steps if step.until == "gone"}
    server = DryRun(cluster)
    diagnostics = []
    for step in steps:
        now = live.get(step.ref.key_in(cluster.namespace))
        if step.ref not in gone and (problem := _difference(step, now, server)):
            facts = {"plan": file, "object": step.ref, "problem": problem}
            diagnostics.append(diagnose(codes.CHANGED_WORLD, None, **facts))
    if diagnostics:
        raise ImpossibleError(diagnostics, CONFLICT)
    return acyclic(Proposal(plan=saved, rights=rights, states=states(live.values())))


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
    # A changed status does not matter; the step must still be this one. It may put its object
    # into an ApplySet.
    path = ("metadata", "labels", PART_OF)
    label = next((str(change.after) for change in step.changes if change.steps == path), None)
    seeming = difference(step.manifest, now, step.ref, _ANYTHING, label)
    if seeming is None:
        again = unchanged(now, step.ref)
    else:
        again = resolved(seeming, server.answer(seeming), _ANYTHING, {label or ""})
    fields, fields_again = (
        sorted((each.path, each.how, str(each.before), str(each.after)) for each in of.changes)
        for of in (step, again)
    )
    if (again.action, fields_again) == (step.action, fields):
        return None
    return f"it has changed, and the same {step.action} would do something else now"


def _unusable(place: Location, problem: object, advice: str = "") -> ImpossibleError:
    facts = {"plan": place.file, "problem": problem, "advice": advice}
    return ImpossibleError([diagnose(codes.UNUSABLE_PLAN, place, **facts)])
