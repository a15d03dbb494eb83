"""Write instructions for people that hand a job over, in Markdown.

The template is `templates/migrate/handover.md`. It writes out each command so that it can be
copied, says why it is needed, and warns of restarts before anything is done.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, structs

from etcompile.frontends import Kind
from etcompile.integrations.migrate.adoption import Fate, Outcome, seamless
from etcompile.k8s.path import mapping_at, mappings_of
from etcompile.load import Document
from etcompile.model import Job
from etcompile.pages import text
from etcompile.plan import owners

State = Literal["running", "ended", "suspended", "pending"]
_ENDED = frozenset({"Succeeded", "Failed", "Complete"})
_MEANING: dict[Outcome, str] = {
    "same": "is taken over as it is",
    "any time": "can be taken over at any time: no Pod notices",
    "at the end": "is taken over when the run has ended, because its Pods would notice",
    "runs on": "stays as the operator made it until the run ends, then it is replaced",
    "new": "does not exist yet: the first apply creates it",
    "kept": "stays: it is not rendered, but the next run needs it",
    "left over": "is not rendered: delete it when the run has ended",
    "useless": "is not rendered: delete it with the custom resource",
    "again": "is deleted with the custom resource, and created again",
    "gone": "is deleted with the custom resource",
}
_AFTERWARDS: dict[Outcome, str] = {
    **_MEANING,
    "any time": "is taken over",
    "at the end": "is taken over",
    "runs on": "cannot become that of the next run: delete it",
    "left over": "is not rendered: delete it",
}
"""The same if no run goes on."""
_ORDER: tuple[Outcome, ...] = tuple(_MEANING)
_KEEPING = {
    "Argo CD": "the annotation `argocd.argoproj.io/sync-options: Prune=false`",
    "Flux Kustomization": "the annotation `kustomize.toolkit.fluxcd.io/prune: disabled`",
    "Flux HelmRelease": "the annotation `helm.sh/resource-policy: keep`",
    "Helm": "the annotation `helm.sh/resource-policy: keep`",
    "kapp": "the annotation `kapp.k14s.io/delete-strategy: orphan`",
    "inventory": "the annotation `cli-utils.sigs.k8s.io/on-remove: keep`",
}
"""How to make each tool leave an object alone that was deleted in Git."""
_MARK = "its own mark"


class Handover(Struct, frozen=True):
    """A job that leaves its operator.

    Args:
        live: Its document in the cluster.
        spec: Its document, cleaned.
        patch: The overlay's patch of its document.
        scalers: Its scale intents in the cluster, as kubectl names them.
        files: The files of its spec, and of its runtime.
        fates: What becomes of its objects.
    """

    live: Document
    kind: Kind
    job: Job
    spec: Document
    patch: Mapping[str, Any] | None
    notes: tuple[str, ...]
    scalers: tuple[str, ...]
    runtime: Document | None = None
    files: tuple[str, ...] = ()
    fates: tuple[Fate, ...] = ()

    @property
    def state(self) -> State:
        """Return the state of the job's run according to its custom resource.

        All operators write a condition whose type names the state, and some a phase as well. It is
        `pending` if it never started, and `running` in doubt: that mistake does the least harm.
        """
        status = mapping_at(self.live.data, ("status",))
        # Not `objects.condition`, which relies on the types of an API server: this may be a file.
        true = {
            str(condition.get("type"))
            for _, condition in mappings_of(status, "conditions")
            if condition.get("status") == "True"
        }
        phase = str(status.get("phase") or "")
        if phase in _ENDED or (not phase and true & _ENDED):
            return "ended"
        if phase == "Suspended" or self.job.run.suspended or (not phase and "Suspended" in true):
            return "suspended"
        return "running" if status else "pending"


def instructions(handovers: Sequence[Handover], *, overlay: bool) -> str:
    texts = (text("migrate/handover.md", **_values(each, overlay=overlay)) for each in handovers)
    # Steps that do not apply leave blank lines.
    return re.sub(r"\n{3,}", "\n\n", "\n".join(texts)).rstrip("\n") + "\n"


def _values(handover: Handover, *, overlay: bool) -> dict[str, Any]:
    job, operator, fates = handover.job, handover.kind.operator, handover.fates
    now = handover.state
    goes_on = now == "running" and seamless(fates)
    is_replaced = operator is not None and operator.generates_names
    api_group, _, version = (handover.live.api_version or job.api_version).partition("/")
    files = " ".join(handover.files)
    arguments = f"{files} --overlay overlay.yaml" if overlay else files
    adopts = any(fate.outcome in ("same", "any time", "at the end") for fate in fates)
    tracker = owners.tracker(handover.live.data)
    batch = [role for role in job.roles if role.batch]
    left_over = [fate for fate in fates if fate.outcome == "left over"]
    secret = None
    if job.credentials is not None:
        preserved = (fate.ref.name for fate in fates if fate.outcome == "kept")
        secret = next(preserved, job.credentials.secret)
    meanings = _MEANING if now == "running" else _AFTERWARDS
    in_order = sorted(fates, key=lambda f: (_ORDER.index(f.outcome), f.ref.kind, f.why))
    table = []
    for (kind, outcome, why), group in itertools.groupby(
        in_order, key=lambda f: (f.ref.kind, f.outcome, f.why)
    ):
        names = [fate.ref.name for fate in group]
        shown = ", ".join(names)
        if len(names) > 4:
            shown = f"{names[0]} ... {names[-1]} ({len(names)})"
        table.append({"kind": kind, "names": shown, "meaning": meanings[outcome], "why": why})
    step_of_deploy = 3 if is_replaced or goes_on else 5 if now == "running" else 4
    return {
        **structs.asdict(handover),
        "operator": operator.name if operator else f"operator of {job.kind}",
        "now": now,
        "seamless": goes_on,
        "is_replaced": is_replaced,
        "deploy": step_of_deploy,
        "number": itertools.count(1).__next__,
        "tracker": tracker,
        "keeping": next((v for k, v in _KEEPING.items() if (tracker or "").startswith(k)), _MARK),
        "table": table,
        "nothing_compared": all(fate.outcome in ("new", "kept", "left over") for fate in fates),
        "files": files,
        "overlay": overlay,
        "render": f"etcompile render {arguments}",
        "apply_arguments": f"{arguments} --adopt --config take-ownership='*'"
        if adopts
        else arguments,
        "adopts": adopts,
        "kubectl": f"kubectl -n {job.namespace}" if job.namespace else "kubectl",
        "resource": f"{job.kind.lower()}.{version}.{api_group}/{job.name}",
        "selector": ",".join(f"{key}={value}" for key, value in job.selector.items()),
        "skips_deleted": operator and operator.skips_deleted,
        "scale_operator": operator
        and f"kubectl -n {operator.namespace} scale deployment/{operator.deployment}",
        "stays_scalable": job.scaled_role is None or goes_on,
        "lost": operator.lost if operator else (),
        "claims_lost": [f.ref.name for f in fates if f.outcome == "again" and f.why],
        "made_again": [fate.ref.resource for fate in fates if fate.outcome == "again"],
        "scaler_kinds": [
            f"{kind.lower()}.{job.api_version.partition('/')[0]}"
            for kind in (operator.scalers if operator else ())
        ],
        "useless": [fate.ref.resource for fate in fates if fate.outcome == "useless"],
        "batch_jobs": [f"job/{role.pod_name(m)}" for role in batch for m in role.members],
        "left_over": [f.ref.resource for f in left_over if f.ref.kind not in ("Pod", "Job")],
        "secret": secret,
    }
