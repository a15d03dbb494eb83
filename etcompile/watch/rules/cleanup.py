"""What is left when a run is over: the done marker, and Pods that are to go or to end.

The marker is in the run record, which ends resident workers and keeps a finished run from training
again (docs/protocol.md). Pods that Git declares are not deleted, they would come back
(reference/gitops.md 1.5); who does not end by itself is given a deadline. Elsewhere cleanPodPolicy
means what it says (reference/training-operator.md 5.6, reference/et-operator.md 4.6).
"""

from collections.abc import Iterator

from etcompile.backend import UNTIL_DONE, is_resident, wrapper
from etcompile.model import Role
from etcompile.watch.actions import Action, DeletePod, EndPod
from etcompile.watch.rules.run_state import RunState


def cleaned(run_state: RunState) -> Iterator[Action]:
    """What is to be done with the Pods of a run that is over.

    Args:
        run_state: Who is there.
    """
    run = run_state.job.run
    if run.clean_pods not in ("Running", "All"):
        return
    for pod in run_state.of_this_run:
        role = run_state.job.role(pod.role)
        if role is None or role.name in run.keeps or pod.deleting:
            continue
        if run_state.view.git_managed:
            if not pod.ended and not pod.ending and not _ends_itself(role):
                yield EndPod(pod.name, pod.uid, "RunIsOver")
        elif run.clean_pods == "All" or not pod.ended:
            yield DeletePod(pod.name, pod.uid, "RunIsOver")


def _ends_itself(role: Role) -> bool:
    """Whether its Pods look for the marker, or have a deadline that must not be changed.

    A deadline that Git declares would be set back, and Kubernetes refuses to prolong one.
    """
    declared = role.deadline is not None or "activeDeadlineSeconds" in role.template.spec
    return declared or bool(role.batch) or is_resident(role) or wrapper(role) == UNTIL_DONE
