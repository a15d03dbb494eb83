"""Elect a leader by a Lease that one instance holds and keeps renewing.

A leader that cannot renew its Lease stops before another may start, by the clock of its own machine
alone, since clocks of two machines never agree. Its writes should name the UID or the version that
they were decided on, so that one that is under way then does no harm.
"""

import logging
import random
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError
from etcompile.kubeapi.session import steady

_log = logging.getLogger("etcompile.kubeapi")
_API_VERSION = "coordination.k8s.io/v1"
_RENEW, _RETRY = 2 / 3, 2 / 15  # of the duration of a lease, as usual: 15, 10 and 2 seconds


class Lease(Struct):
    """The part of one instance in the election; no other may have the same `identity`.

    Args:
        manager: The field manager of its writes.
        duration: Seconds until others may take the Lease, since they saw its holder renew it. The
            holder itself stops acting after two thirds of that.
        marks: Labels and annotations of the Lease.
        changed: Called, from the thread that runs `run`, when this instance leads and when it
            stops leading.
        holder: Who held the Lease when it was last read.
        problem: Why the last try failed, if not because another one holds the Lease.
    """

    cluster: Cluster
    namespace: str
    name: str
    identity: str
    manager: str
    duration: float = 15.0
    marks: Mapping[str, Any] = {}
    changed: Callable[[bool], None] = lambda _leads: None
    holder: str = ""
    problem: str = ""
    _until: float = float("-inf")
    _leads: bool = False
    _followed: str = ""  # the leader of which it was logged that it leads
    _seen: tuple[str, float] = ("", 0.0)  # a version of the Lease, and since when it is known
    _version: str | None = None

    @property
    def valid(self) -> bool:
        return steady() < self._until

    def run(self, stop: threading.Event) -> None:
        """Take part until told to stop, then give the Lease away."""
        while not stop.is_set():
            try:
                self.attempt()
            except Exception:
                # Whatever a Lease may hold: who stops trying would never lead again.
                _log.exception("the election: this is a bug")
            # With some spread: watchers that started together should not stay together.
            stop.wait(self.duration * _RETRY * random.uniform(0.8, 1.0))  # noqa: S311
        self.release()

    def attempt(self) -> bool:
        """Try once to take or renew the Lease; return whether this instance leads now."""
        begun = steady()
        try:
            held = self._try(begun)
            self.problem = ""
        except ClusterError as error:
            # Not renewed; somebody else's write, a refusal or a cluster that does not answer.
            self.problem = "" if error.conflict or error.already_exists else str(error)
            self._version = None
            held = False
        if not held and not self.problem and self.holder != self._followed:
            _log.info("standing by: %s leads", self.holder or "another instance")
        self._followed = "" if held else self.holder
        before = self._until
        if held:
            self._until = begun + self.duration * _RENEW
        if steady() >= before:
            # Renewed, but late: whoever asked in between was told not to act, and gave up.
            self._turn(leads=False)
        leads = self.valid
        self._turn(leads=leads)
        return leads

    def release(self) -> None:
        if not self.valid or self._version is None:
            return
        self._until = float("-inf")
        try:
            self._write({"holderIdentity": "", "leaseDurationSeconds": 1}, self._version)
        except ClusterError:
            return  # it ends by itself
        finally:
            self._turn(leads=False)

    def _turn(self, *, leads: bool) -> None:
        if leads != self._leads:
            self._leads = leads
            self.changed(leads)

    def _try(self, begun: float) -> bool:
        if self._leads and self._version is not None:
            # The common case is one request: if anybody else wrote, the version does not match.
            self._write({"renewTime": self._now()}, self._version)
            return True
        resource = self.cluster.resource(_API_VERSION, "Lease")
        live = self.cluster.get(resource, self.name, self.namespace)
        spec = (live or {}).get("spec") or {}
        version = live["metadata"]["resourceVersion"] if live else None
        self.holder = spec.get("holderIdentity") or ""
        if version is not None and self._seen[0] != version:
            self._seen = version, begun
        runs_out = self._seen[1] + float(spec.get("leaseDurationSeconds") or 0)
        if self.holder not in ("", self.identity) and begun < runs_out:
            self._until = float("-inf")
            return False
        changes = int(spec.get("leaseTransitions") or 0) + (self.holder != self.identity)
        now = self._now()
        acquired = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": round(self.duration) or 1,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": changes if live else 0,
        }
        self._write(acquired, version)
        return True

    def _write(self, spec: dict[str, Any], version: str | None) -> None:
        """Change the Lease of that version; create it if there is none."""
        if version is None:
            metadata = {**self.marks, "name": self.name, "namespace": self.namespace}
            lease = {"apiVersion": _API_VERSION, "kind": "Lease", "metadata": metadata}
            written = self.cluster.create({**lease, "spec": spec})
        else:
            change = {"metadata": {**self.marks, "resourceVersion": version}, "spec": spec}
            resource, place = self.cluster.resource(_API_VERSION, "Lease"), self.namespace
            written = self.cluster.patch(
                resource, self.name, change, place, field_manager=self.manager
            )
        self._version = written["metadata"]["resourceVersion"]
        self.holder = written["spec"].get("holderIdentity") or ""

    def _now(self) -> str:
        moment = datetime.fromtimestamp(self.cluster.now(), UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
