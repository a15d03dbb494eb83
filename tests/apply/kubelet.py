"""The node of a control plane that has none: gives Pods, Jobs and claims a status, as told.

It also collects the garbage of Jobs, as the kube-controller-manager does: a Pod whose Job is gone
or being deleted is deleted, and a Job that is deleted in the foreground goes after its Pods.
"""

import contextlib
import fnmatch
import threading
import urllib.error
from typing import TYPE_CHECKING, Any

from controlplane.server import ControlPlane

if TYPE_CHECKING:
    from collections.abc import Callable

Status = dict[str, Any]


def ready(**more: Any) -> Status:
    """The status of a Pod that runs and is ready."""
    conditions = [{"type": kind, "status": "True"} for kind in ("Ready", "PodScheduled")]
    return {"phase": "Running", "conditions": conditions, **more}


def waiting(reason: str, message: str = "", container: str = "main") -> Status:
    state = {"waiting": {"reason": reason, "message": message}}
    one = {"name": container, "state": state, "ready": False, "restartCount": 0}
    status = {"image": "i", "imageID": "", **one}
    scheduled = [{"type": "PodScheduled", "status": "True"}]
    return {"phase": "Pending", "conditions": scheduled, "containerStatuses": [status]}


def unschedulable(message: str) -> Status:
    """The status of a Pod that no node takes."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"phase": "Pending", "conditions": [{**condition, "message": message}]}


def ended(*, code: int = 0) -> Status:
    state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
    one = {"name": "main", "state": state, "ready": False, "restartCount": 0}
    status = {"image": "i", "imageID": "", **one}
    return {"phase": "Failed" if code else "Succeeded", "containerStatuses": [status]}


class Kubelet:
    """Follows a namespace until it is stopped.

    Attributes:
        first: Called with the name of each Pod before it gets its status.
    """

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._namespace = namespace
        self._rules: list[tuple[str, Status | None]] = [("*", ready())]
        self._done: dict[str, tuple[str, int]] = {}
        self._stop = threading.Event()
        self.first: Callable[[str], None] = lambda _: None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def let(self, pattern: str, status: Status | None) -> None:
        """From now on, Pods of such names get this status; None leaves all of such names alone."""
        self._rules.append((pattern, status))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(5)

    def _rule(self, name: str) -> tuple[int, Status | None]:
        """The last rule for a name, with its number."""
        number = max(
            place for place, (one, _) in enumerate(self._rules) if fnmatch.fnmatch(name, one)
        )
        return number, self._rules[number][1]

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            with contextlib.suppress(urllib.error.URLError, OSError):
                self._poll()

    def _poll(self) -> None:
        root = f"/api/v1/namespaces/{self._namespace}"
        for pod in self._plane.ask("GET", f"{root}/pods")["items"]:
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            number, status = self._rule(name)
            if status is None or self._done.get(name) == (uid, number):
                continue
            self.first(name)
            self._plane.set_status(f"{root}/pods/{name}", status)
            self._done[name] = (uid, number)
        for claim in self._plane.ask("GET", f"{root}/persistentvolumeclaims")["items"]:
            if self._rule(claim["metadata"]["name"])[1] is None:
                continue
            if (claim.get("status") or {}).get("phase") != "Bound":
                path = f"{root}/persistentvolumeclaims/{claim['metadata']['name']}"
                self._plane.set_status(path, {"phase": "Bound"})
        batch = f"/apis/batch/v1/namespaces/{self._namespace}/jobs"
        jobs = self._plane.ask("GET", batch)["items"]
        self._collect(jobs, batch)
        for job in jobs:
            if self._rule(job["metadata"]["name"])[1] is None:
                continue
            if not (job.get("status") or {}).get("active"):
                path = f"{batch}/{job['metadata']['name']}"
                started = job["metadata"]["creationTimestamp"]
                self._plane.set_status(path, {"active": 1, "startTime": started})

    def _collect(self, jobs: list[dict[str, Any]], batch: str) -> None:
        """Deletes the Pods of Jobs that go, and lets these go when they have none left."""
        pods = f"/api/v1/namespaces/{self._namespace}/pods"
        stay = {
            job["metadata"]["uid"] for job in jobs if not job["metadata"].get("deletionTimestamp")
        }
        have_pods = set()
        for pod in self._plane.ask("GET", pods)["items"]:
            for owner in pod["metadata"].get("ownerReferences") or ():
                have_pods.add(owner["uid"])
                ends = owner["kind"] == "Job" and owner["uid"] not in stay
                if ends and not pod["metadata"].get("deletionTimestamp"):
                    self._plane.ask("DELETE", f"{pods}/{pod['metadata']['name']}")
        for job in jobs:
            metadata = job["metadata"]
            if metadata["uid"] not in stay and metadata["uid"] not in have_pods:
                path, change = f"{batch}/{metadata['name']}", {"metadata": {"finalizers": None}}
                with contextlib.suppress(urllib.error.HTTPError):
                    self._plane.ask("PATCH", path, change, "application/merge-patch+json")
