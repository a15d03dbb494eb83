"""The steps of a hand-over, a function each, with commands that can be copied.

Why a command is needed stands beside it. Apart from `handover`, which says what becomes of each
object and puts the steps that are needed in order.
"""

import itertools
from collections.abc import Iterator

from etcompile.integrations.migrate.adoption import seamless
from etcompile.integrations.migrate.state import State
from etcompile.integrations.migrate.subject import (
    Handover,
    begins_anew,
    code,
    files,
    indented,
    named,
    namespace,
    operator,
    render,
    resource,
    selector,
)
from etcompile.plan import claims

_KEEPING = {
    "Argo CD": "the annotation `argocd.argoproj.io/sync-options: Prune=false`",
    "Flux Kustomization": "the annotation `kustomize.toolkit.fluxcd.io/prune: disabled`",
    "Flux HelmRelease": "the annotation `helm.sh/resource-policy: keep`",
    "Helm": "the annotation `helm.sh/resource-policy: keep`",
    "kapp": "the annotation `kapp.k14s.io/delete-strategy: orphan`",
    "inventory": "the annotation `cli-utils.sigs.k8s.io/on-remove: keep`",
}
"""How a tool is told to leave an object alone that goes from Git."""


def look(handover: Handover, now: State, *, overlay: bool) -> str:
    """The step that renders and reads."""
    names = f"{files(handover)} overlay.yaml" if overlay else files(handover)
    commands = code(f"{render(handover, overlay=overlay)} -d out/", f"git add {names} out/")
    stays = "hosts and Pods keep the names that they have now"
    if begins_anew(handover):
        stays = "hosts keep the names that they have now, and Pods are called as their hosts"
    until = number_of_deploy(handover, now)
    return (
        "Read what will be rendered, and commit it\n\nIn this folder; nothing is applied yet."
        f" `--run` is not needed: {stays}.\n\n"
        f"{commands}\n\nKeep `out/` away from Argo CD and Flux until step {until}:"
        " in another branch, or in a folder that no Application or Kustomization names.\n"
    )


def number_of_deploy(handover: Handover, now: State) -> int:
    """The number of the step that deploys."""
    if begins_anew(handover):
        return 3
    if now != "running":
        return 4
    return 3 if seamless(handover.fates) else 5


def take(handover: Handover, now: State) -> str:
    """The step that takes the job from its operator."""
    lines = ["Take the job from its operator\n"]
    if now == "running" and not seamless(handover.fates):
        lines.append(
            "\nThe safe way is to wait until the run has ended, and do this then: the operator"
            " looks after the run until its end. Do it now if the operator has to go. From then"
            " on nobody looks after the run.\n"
        )
    if now == "running" and seamless(handover.fates):
        lost = "".join(f"- {line}.\n" for line in _lost(handover, scales=True))
        if lost:
            lines.append(f"\nThe run loses what the operator did for it:\n\n{lost}")
    number = itertools.count(1)
    if (tool := claims.tracker(handover.live.data)) is not None:
        keeping = next((v for k, v in _KEEPING.items() if tool.startswith(k)), "its own mark")
        lines.append(
            f"{next(number)}. {tool} must let go of it without deleting it. In Git, give the"
            f" custom resource {keeping}, and let that sync. Then remove it from Git, and let that"
            " sync. It is still in the cluster.\n"
        )
    if handover.kind.operator is None or not handover.kind.operator.skips_deleted:
        lines.append(
            f"{next(number)}. Stop the {operator(handover)} (`kubectl scale deployment NAME"
            " --replicas=0`): it may undo what comes next. Its other jobs go on, unattended,"
            " until it runs again.\n"
        )
    else:
        program = handover.kind.operator
        at = f"-n {program.namespace} scale deployment/{program.deployment}"
        lines.append(
            f"{next(number)}. If you can, stop the {operator(handover)} for the next command. It"
            " leaves a job alone that is being deleted, so this only keeps out a last glance at a"
            " stale cache. Its other jobs go on, unattended, for that moment.\n\n"
            + indented(code(f"kubectl {at} --replicas=0"))
        )
    lines.append(
        f"{next(number)}. Delete the custom resource, and **not** what it owns. Without"
        " `--cascade=orphan` everything goes, running Pods and keys included. The garbage"
        " collector takes the owner off each object; the command returns when it is done.\n\n"
        + indented(
            code(f"kubectl{namespace(handover)} delete {resource(handover)} --cascade=orphan")
        )
    )
    lines.append(
        f"{next(number)}. Look: the Pods are there, and have no owner"
        f"{' but their Job' if any(role.batch for role in handover.job.roles) else ''}.\n\n"
        + indented(
            code(
                f"kubectl{namespace(handover)} get pods -l {selector(handover)}"
                " -o custom-columns=NAME:.metadata.name,PHASE:.status.phase,"
                "OWNER:.metadata.ownerReferences[*].kind"
            )
        )
    )
    if leftovers := [*_useless(handover)]:
        lines.append(
            f"{next(number)}. Delete what acts on the custom resource and now has nothing to act"
            f" on.\n\n{indented(code(*leftovers))}"
        )
    if handover.kind.operator is not None and handover.kind.operator.skips_deleted:
        lines.append(
            f"{next(number)}. Start the operator again, if others need it, with as many replicas"
            f" as it had. It knows nothing of this job any more.\n\n"
            + indented(
                code(
                    f"kubectl -n {handover.kind.operator.namespace} scale"
                    f" deployment/{handover.kind.operator.deployment} --replicas=1"
                )
            )
        )
    return "\n".join(lines)


def _useless(handover: Handover) -> Iterator[str]:
    """Commands that delete what acts on the custom resource."""
    group = handover.job.api_version.partition("/")[0]
    kinds = handover.kind.operator.scalers if handover.kind.operator else ()
    if handover.scalers:
        yield f"kubectl{namespace(handover)} delete {' '.join(handover.scalers)}"
    elif kinds:
        listed = ",".join(f"{kind.lower()}.{group}" for kind in kinds)
        yield f"kubectl{namespace(handover)} get {listed}   # and delete this job's"
    if names := [named(fate) for fate in handover.fates if fate.outcome == "useless"]:
        yield f"kubectl{namespace(handover)} delete {' '.join(names)}"


def remove(handover: Handover, now: State) -> str:
    """The step that deletes the job with all that its operator made of it.

    Where no Pod can be taken over, nothing is gained by keeping the rest. In the background: under
    foreground deletion Trainer makes again what the garbage collector takes
    (reference/trainer-v2.md, T29).
    """
    lines = ["Remove the job, with what its operator made of it\n"]
    if now == "running":
        lines.append(
            "\nWait until the run has ended, or do it now: **this ends the run**. First save logs"
            " that you want to keep, and have the program write a checkpoint if it can.\n"
        )
    claims_lost = [fate.ref.name for fate in handover.fates if fate.why and fate.outcome == "again"]
    if claims_lost:
        lines.append(
            f"\nThe claims that the job owns go, too ({', '.join(claims_lost)}): copy what is on"
            " them and is not fetched again.\n"
        )
    if (keeping := claims.tracker(handover.live.data)) is not None:
        lines.append(
            f"\n{keeping} looks after the custom resource: remove it from Git, and let that sync,"
            " instead of the command.\n"
        )
    at = namespace(handover)
    made_anew = [named(fate) for fate in handover.fates if fate.outcome == "again"]
    lines.append(
        "\nIn the background, as kubectl does by itself. Under `--cascade=foreground` the"
        f" {operator(handover)} makes again what is being deleted.\n\n"
        + code(
            f"kubectl{at} delete {resource(handover)} --cascade=background",
            f"kubectl{at} wait --for=delete pods -l {selector(handover)} --timeout=5m",
            *(f"kubectl{at} wait --for=delete {name}" for name in made_anew),
        )
        + "\n"
    )
    return "".join(lines)


def meanwhile(handover: Handover) -> str:
    """What holds while the run goes on unattended."""
    lines = [
        *_lost(handover),
        (
            "do not apply or sync `out/`: the API server refuses the changed Pods (Argo CD shows a"
            " failed sync, Flux applies nothing of the Kustomization)"
        ),
        "never force or replace: that deletes the running Pods",
        (
            "do not apply what was rendered with `--run`: its Services follow the new run, and the"
            " Pods of this one would not find each other any more"
        ),
    ]
    if any(fate.outcome == "any time" for fate in handover.fates):
        lines.append("what can be taken over at any time need not be: step 5 does it")
    return (
        "While the run goes on without its operator\n\nIt ends as it would have. Until then:\n\n"
        + "".join(f"- {line}.\n" for line in lines)
    )


def _lost(handover: Handover, *, scales: bool = False) -> Iterator[str]:
    """What the operator did for a run, and nobody does now."""
    job = handover.job
    for role in job.roles:
        if role.batch is not None:
            yield f"the {role.name} stays a Job of Kubernetes, which starts its Pod again"
        elif role.recovery.pod_restart in ("Always", "OnFailure"):
            yield (
                f"a {role.name} whose container fails is restarted by its kubelet; one that is"
                " lost with its node is not replaced"
            )
        elif role.recovery.restart != "Never":
            policy = role.recovery.restart
            yield f"a {role.name} that fails is not replaced (restartPolicy {policy})"
    if job.run.restart != "Never":
        yield f"a failed run is not started again (restartPolicy {job.run.restart})"
    if job.run.deadline is not None and not any(role.batch for role in job.roles):
        yield f"nothing ends it after {job.run.deadline} s (activeDeadlineSeconds)"
    if job.run.clean_pods != "None":
        yield f"its Pods stay when it has ended (cleanPodPolicy {job.run.clean_pods})"
    if job.scaled_role is not None and not scales:
        yield "it cannot be scaled"
    if handover.kind.operator is not None:
        yield from handover.kind.operator.lost


def clear(handover: Handover, now: State) -> str:
    """The step that removes what is left of a run."""
    title = "Remove what is left of the last run"
    if now == "running":
        title = "When the run has ended, remove what is left of it"
    kubectl = f"kubectl{namespace(handover)} delete"
    commands = [f"{kubectl} pods -l {selector(handover)}"]
    batch = [
        role.pod_name(member)
        for role in handover.job.roles
        if role.batch
        for member in role.members
    ]
    if batch:
        commands.insert(0, f"{kubectl} {' '.join(f'job/{name}' for name in batch)}")
    pods = ("Pod", "Job")
    left = [f for f in handover.fates if f.outcome == "left over" and f.ref.kind not in pods]
    if left:
        commands.append(f"{kubectl} {' '.join(map(named, left))}")
    keys = ""
    if handover.job.credentials is not None:
        kept = [fate.ref.name for fate in handover.fates if fate.outcome == "kept"]
        secret = kept[0] if kept else handover.job.credentials.secret
        keys = f"\nLeave the Secret `{secret}`: the next run uses its keys.\n"
    return (
        f"{title}\n\nFirst save logs that you want to keep. The names must be free: a Pod that has"
        " ended cannot become another one. (Or leave the Pods and render with `--run ID`: the next"
        f" run's Pods then have names of their own.)\n\n{code(*commands)}\n{keys}"
    )


def deploy(handover: Handover, now: State, *, overlay: bool) -> str:
    """The step that applies what is rendered."""
    command = render(handover, overlay=overlay)
    commit = f'git commit -m "Run {handover.job.name} without its operator" && git push'
    again = "" if now in ("pending", "suspended") else "This starts the next run. "
    if now == "running" and seamless(handover.fates):
        again = "This takes over the run that goes on. "
    there = any(f.outcome in ("same", "any time", "at the end") for f in handover.fates)
    adopted = "What is still there is taken over by its name.\n" if there else "\n"
    apply = "kubectl apply --server-side --force-conflicts --field-manager=etcompile -k out/"
    own = f"{files(handover)}{' --overlay overlay.yaml' if overlay else ''}"
    own += " --adopt --take-ownership '*'" if there else ""
    parts = (
        f"Deploy what is rendered\n\n{again}{adopted}\n{_ETCOMPILE}\n",
        code(f"etcompile diff {own}", f"etcompile apply {own}"),
        f"\n{_KUBECTL}\n",
        code(f"{command} -d out/", apply),
        f"\n{_ARGO_CD}\n",
        code(
            f"{command} --profile argocd -d out/",
            f"git add out/ && {commit}",
            "argocd app sync APPLICATION   # where it does not sync by itself",
        ),
        f"\n{_FLUX}\n",
        code(
            f"{command} --profile flux -d out/",
            f"git add out/ && {commit}",
            "flux reconcile kustomization NAME --with-source",
        ),
        "",
    )
    return "\n".join(parts)


_ETCOMPILE = (
    "**With etcompile**, which shows what it would change, and then does it in the order that"
    " training needs, and waits:"
)
_KUBECTL = (
    "**With kubectl**, server-side, because the operator's objects carry no note of what was"
    " applied:"
)
_ARGO_CD = (
    "**With Argo CD**: add `out/` to the Application. Its `syncOptions` must hold neither"
    " `Replace=true` nor `Force=true`."
)
_FLUX = (
    "**With Flux**: add `out/` to the Kustomization, with `prune: true` and without `force: true`."
)


def later(handover: Handover, *, overlay: bool) -> str:
    """What is done from then on."""
    note = " Once you have put the numbers of `overlay.yaml` into the spec, you need it no longer."
    return (
        "Later runs\n\nChange the spec, render and commit. To run it again, or after a change that"
        " a Pod does not allow, give the run a name of its own: "
        f"`{render(handover, overlay=overlay)} --run ID -d out/`.{note if overlay else ''}\n"
    )
