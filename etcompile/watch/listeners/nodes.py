"""Keep recreated Pods away from nodes that break them.

A node that breaks what is started on it is empty, so the scheduler sends it the next Pod.
`etcompile.dev/avoid-nodes` counts, per node, the failures that were the node's.
"""

from msgspec import structs

from etcompile.causes.causes import OTHER_NODE_WANTED
from etcompile.causes.log import FailureLog, avoided_nodes, read_log
from etcompile.compiler.stored_run import away_from
from etcompile.watch.core.run import Action, CreatePod, EmitEvent, Listener, Run


def _after(run: Run) -> Run:
    policy, log = run.job.run, run.facts.get("failures")
    limit = policy.avoid_nodes_after
    watches = limit is not None or run.job.preflight is not None
    if not watches or not isinstance(log, FailureLog):
        return run
    nodes = avoided_nodes(log, limit)
    before = read_log(run.view.notes)
    known = avoided_nodes(before, limit) if before is not None and before.run == log.run else ()
    actions: list[Action] = [
        structs.replace(action, away_from=nodes) if isinstance(action, CreatePod) else action
        for action in run.actions
    ]
    for node in (node for node in nodes if node not in known):
        causes = ", ".join(
            f"{name} {count} times" if count > 1 else name
            for name, count in log.nodes[node].items()
        )
        why = f"it caused at least {limit} failures of Pods of this run ({causes})"
        if OTHER_NODE_WANTED in log.nodes[node]:
            why = "a preflight check rejected it for a Pod of this run"
        message = f"recreated Pods avoid the node {node}: {why}"
        actions.append(EmitEvent("NodeAvoided", message, warning=True))
    creations = [action for action in actions if nodes and isinstance(action, CreatePod)]
    for action in creations:
        role = run.job.role(action.role)
        template = {"spec": role.template.spec if role is not None else {}}
        if away_from(template, nodes, git_managed=run.view.git_managed) is None:
            message = (
                f"{action.name} may be scheduled to a node that failed before "
                f"({', '.join(nodes)}): its template sets a node affinity, and a tool that syncs "
                "Git would revert a change of it"
            )
            actions.append(EmitEvent("NodeNotAvoided", message, warning=True, once=True))
    return structs.replace(run, actions=tuple(actions))


LISTENER = Listener(after=_after)
