"""What the real Kueue, and behind it the real scheduler, do with jobs in queues."""

import re
import time
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from random_clusters import Case, Object
from real_scheduler import RefusedError, Scheduling

from controlplane.server import ControlPlane
from queues.queueing import KueuePrograms, Queues

VERSION = "kueue.x-k8s.io/v1beta2"
_QUEUE, _GATE = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/admission"


class Kueue(Queues):
    """Kueue alone; nodes and a scheduler are there.

    It says of each Workload why it does not admit it, also if it has refused an equal one.
    """

    kueue_gates = ",SchedulingEquivalenceHashing=false"

    def _start(self) -> None:
        self._start_kueue()


class QueueScheduling(Scheduling):
    kinds = (
        *Scheduling.kinds,
        *((VERSION, kind) for kind in ("ClusterQueue", "LocalQueue", "ResourceFlavor", "Cohort")),
    )

    def __init__(self, plane: ControlPlane, programs: KueuePrograms, folder: Path) -> None:
        self.kueue = Kueue(plane, programs, folder)
        try:
            super().__init__(plane, folder)
        except BaseException:
            self.kueue.stop()
            raise

    def stop(self) -> None:
        super().stop()
        self.kueue.stop()

    def _populate(self, case: Case) -> None:
        super()._populate(case)
        for value in case.queues:
            self._create(value)

    def _create(self, value: Object) -> None:
        """Creates an object, or tries again while Kueue is not ready for it."""
        end = time.monotonic() + 60
        while True:
            try:
                return super()._create(value)
            except RefusedError as error:
                late = re.search(r"failed calling webhook|Namespace \S+ not found", str(error))
                if late is None or time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def _wait_until_known(self, cases: Sequence[Case], seconds: float = 60) -> None:
        super()._wait_until_known(cases, seconds)
        wanted: dict[str, int] = {}
        for case in cases:
            for value in case.queues:
                if value["kind"] == "ClusterQueue":
                    wanted[value["metadata"]["name"]] = 0
            for value in case.queues:
                if value["kind"] == "Workload":
                    owner = value["metadata"]["name"].partition("-")[0]
                    wanted[f"{owner}-{case.namespace}"] += 1
        end, path = time.monotonic() + seconds, f"/apis/{VERSION}/clusterqueues"
        while True:
            counts = {
                item["metadata"]["name"]: item.get("status", {}).get("reservingWorkloads", 0)
                for item in self.plane.ask("GET", path)["items"]
            }
            if all(counts.get(name) == count for name, count in wanted.items()):
                return
            late = {name: n for name, n in wanted.items() if counts.get(name) != n}
            if time.monotonic() > end:
                listed = self.plane.ask("GET", f"/apis/{VERSION}/workloads")["items"]
                conditions = [
                    (item["metadata"]["name"], condition["message"])
                    for item in listed
                    for condition in item.get("status", {}).get("conditions", ())
                    if condition["status"] == "False"
                ]
                raise AssertionError(f"Kueue does not admit workloads of {late}: {conditions}")
            time.sleep(0.1)

    def _is_decided(self, pods: list[Object], refused: AbstractSet[str]) -> bool:
        """Whether Kueue has said of the Workload of each job that it admits it, or why not."""
        queued: Counter[str] = Counter()
        gated = set()
        for pod in pods:
            if _QUEUE in pod["metadata"].get("labels", {}):
                namespace = pod["metadata"]["namespace"]
                queued[namespace] += 1
                if any(gate["name"] == _GATE for gate in pod["spec"].get("schedulingGates", ())):
                    gated.add(namespace)
        waiting = set()
        for item in self.plane.ask("GET", f"/apis/{VERSION}/workloads")["items"]:
            namespace = item["metadata"]["namespace"]
            if item["metadata"].get("ownerReferences") and namespace in gated:
                conditions = item.get("status", {}).get("conditions", ())
                reserved = {c["type"]: c["status"] for c in conditions}.get("QuotaReserved")
                if reserved is not None:
                    queued[namespace] -= sum(part["count"] for part in item["spec"]["podSets"])
                if reserved == "False":
                    waiting.add(namespace)
        return all(name in waiting and queued[name] == 0 for name in gated - refused)

    def _remove(self, case: Case) -> None:
        path = f"/api/v1/namespaces/{case.namespace}/pods"
        for pod in self.plane.ask("GET", path)["items"]:
            if pod["metadata"].get("finalizers"):
                change = {"metadata": {"finalizers": None}}
                where = f"{path}/{pod['metadata']['name']}"
                self.plane.ask("PATCH", where, change)
        super()._remove(case)
