"""The watcher beside Pods that really run, die and drain: what a launcher gets to see, and when."""

import json
import os
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from node.real_gang import Watcher
from specs import container, launcher, scale_in, scale_out, training_job, worker

pytestmark = pytest.mark.node

IMAGE = os.environ.get("ETCOMPILE_E2E_MPI_IMAGE", "")

# As an elastic launcher does: asks again and again, here noting each change and when it was seen.
POLL = """
while [ ! -e /tmp/trained ]; do
  now=$(/etc/edl/discover_hosts.sh | tr '\\n' ' ')
  [ "$now" = "$last" ] || echo "$(date +%s.%N) $now"
  last=$now
  sleep 0.2
done
"""

# No process can kill the first one of its own container: this one sees those of the whole node.
KILL = """
for status in /proc/[0-9]*/status; do
  process=${status%/status}
  [ "$(sed -n 's/^NSpid:.*\\t//p' "$status" 2>/dev/null)" = 1 ] || continue
  variables=$(tr '\\0' '\\n' < "$process/environ") || continue
  echo "$variables" | grep -qx 'HOSTNAME=VICTIM' || continue
  echo "$variables" | grep -qx 'TEST=NAMESPACE' || continue
  kill -9 "${process#/proc/}" && echo killed
done
"""


class Job:
    """A job of two workers under the watcher, and what its launcher has seen."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        document = training_job("mpi", replicas=2, cleanPodPolicy="None")
        document["metadata"]["namespace"] = cluster.namespace
        for role in (launcher(document), worker(document)):
            marked = [{"name": "TEST", "value": cluster.namespace}]
            role["template"]["spec"]["containers"] = [container(image=IMAGE, env=marked)]
            role["template"]["spec"]["terminationGracePeriodSeconds"] = 5
        worker(document)["restartPolicy"] = "OnFailure"
        launcher(document)["template"]["spec"]["containers"][0]["command"] = ["sh", "-c", POLL]
        self.write("job.yaml", document)

    def write(self, name: str, document: dict[str, Any]) -> None:
        document["metadata"]["namespace"] = self.cluster.namespace
        (self.folder / name).write_text(yaml.safe_dump(document))

    def apply(self, *more: str) -> list[dict[str, Any]]:
        command = [sys.executable, "-m", "etcompile", "apply", str(self.folder), *more]
        done = subprocess.run(
            [*command, "--output", "json", "--timeout", "120s"],
            env={**os.environ, "KUBECONFIG": os.environ["ETCOMPILE_E2E_KUBECONFIG"]},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def seen(self) -> list[tuple[float, list[str]]]:
        """The lists that the launcher saw, each with the time."""
        lines = self.cluster.log("mpi-launcher", "-c", "main").splitlines()
        return [(float(line.split()[0]), line.split()[1:]) for line in lines]

    def until_seen(self, *workers: int, after: float = 0, seconds: float = 60) -> float:
        """Waits until the launcher has seen this list after a moment; returns when it did."""
        hosts = [f"mpi-worker-{index}:1" for index in workers]
        end = time.monotonic() + seconds
        while True:
            for seen, listed in self.seen():
                if seen > after and listed == hosts:
                    return seen
            assert time.monotonic() < end, f"{hosts} never seen: {self.seen()}"
            time.sleep(0.2)

    def kill(self, name: str) -> None:
        """Kills the main process of a worker with -9, from outside its Pod."""
        script = KILL.replace("VICTIM", name).replace("NAMESPACE", self.cluster.namespace)
        spec = {
            "hostPID": True,
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "kill",
                    "image": IMAGE,
                    "command": ["sh", "-c", script],
                    "securityContext": {"privileged": True},
                }
            ],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "kill"}, "spec": spec}
        self.cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
        self.cluster.until(lambda phases: phases["kill"] in ("Succeeded", "Failed"))
        assert self.cluster.log("kill") == "killed\n"
        self.cluster.kubectl("delete", "pod", "kill")

    def ready_since(self, name: str) -> float:
        """When a Pod became Ready, in whole seconds: at or before it really did."""
        for condition in self.cluster.get("pod", name)["status"]["conditions"]:
            if condition["type"] == "Ready":
                return datetime.fromisoformat(condition["lastTransitionTime"]).timestamp()
        raise AssertionError(f"{name} has no such condition")


@pytest.fixture
def job(cluster: Any, mpi: str, tmp_path: Path) -> Job:
    return Job(cluster, tmp_path)


def test_a_worker_is_killed_replaced_and_listed_again_then_the_job_shrinks_and_ends(
    job: Job, watched: Watcher
) -> None:
    cluster = job.cluster
    job.apply()
    began = job.until_seen(0, 1)
    first = cluster.get("pod", "mpi-worker-1")["metadata"]["uid"]

    job.kill("mpi-worker-1")
    lost = job.until_seen(0, after=began)
    listed = job.until_seen(0, 1, after=lost)
    again = cluster.get("pod", "mpi-worker-1")
    assert again["metadata"]["uid"] != first
    ready = job.ready_since("mpi-worker-1")
    print(f"\nkilled with -9: listed again {listed - lost:.1f} s after it left the list,")
    print(f"and at most {listed - ready:.1f} s after the new Pod was Ready")
    # By itself a kubelet takes more than a minute to bring a changed ConfigMap into a Pod.
    assert listed - ready < 20

    job.write("scale-1-out.yaml", scale_out("more", 1, job="mpi"))
    job.apply()
    out = job.until_seen(0, 1, 2)
    ready = job.ready_since("mpi-worker-2")
    print(f"scaled out: listed at most {out - ready:.1f} s after it was Ready")
    assert out - ready < 20

    job.write("scale-2-in.yaml", scale_in("less", 1, job="mpi"))
    lines = job.apply("--prune", "--config", "drain=5s")
    drained = job.until_seen(0, 1, after=out)
    deleted = next(
        datetime.fromisoformat(one["ts"]).timestamp()
        for one in lines
        if one.get("status") == "deleting" and one["object"]["name"] == "mpi-worker-2"
    )
    print(f"scaled in: out of the list {deleted - drained:.1f} s before its Pod was deleted")
    assert drained < deleted
    assert "mpi-worker-2" not in cluster.phases()

    cluster.kubectl("exec", "mpi-launcher", "-c", "main", "--", "touch", "/tmp/trained")
    phases = cluster.until(lambda phases: {*phases.values()} == {"Succeeded"})
    print(f"trained: {phases}")
    events = cluster.get("events", "--field-selector", "reportingComponent=etcompile-watcher")
    print("events: " + "; ".join(f"{e['reason']}: {e['message']}" for e in events["items"]))
    print(f"lists seen: {[' '.join(hosts) for _, hosts in job.seen()]}\n{watched.log.read_text()}")
    assert phases.keys() == {"mpi-launcher", "mpi-worker-0", "mpi-worker-1"}
