"""How long a rollout takes, beside kubectl doing the same to the same API server.

Times whole processes, wall clock and peak memory. Both apply the objects that one spec renders to,
each into a namespace of its own of a real kube-apiserver, which this starts as the tests do. The
API server is on the same machine and has no kubelet, so nothing waits for Pods.

    python benchmarks/apply.py [--date YYYY-MM-DD] [--workers N] [--many N] [--no-docs]

It prints its table and writes docs/benchmarks-apply.md. kubectl is the one that was built with the
API server, else that on PATH.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from controlplane.binaries import binaries  # noqa: E402
from controlplane.server import ControlPlane  # noqa: E402

SPEC = """\
apiVersion: kai.alibabacloud.com/v1alpha1
kind: TrainingJob
metadata: {{ name: bert }}
spec:
  etReplicaSpecs:
    launcher:
      template:
        spec:
          containers:
            - name: train
              image: horovod/horovod:0.28.1
              command: [horovodrun, -np, "8", --min-np, "8", --host-discovery-script,
                        /etc/edl/discover_hosts.sh, python, train.py]
    worker:
      replicas: {workers}
      template:
        spec:
          containers:
            - name: train
              image: horovod/horovod:0.28.1
              resources: {{ limits: {{ cpu: "4", memory: 16Gi, nvidia.com/gpu: "1" }} }}
"""


@dataclass(frozen=True)
class Timing:
    """What a process took: seconds of wall clock and megabytes at its peak."""

    seconds: float
    megabytes: float


def timed(command: Sequence[str], environment: dict[str, str], codes: Sequence[int]) -> Timing:
    """Runs a command; it must end with one of these codes."""
    with tempfile.TemporaryFile() as output:
        began = time.monotonic()
        process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=output, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in codes:
            output.seek(0)
            told = output.read().decode(errors="replace")[-2000:]
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{told}")
    return Timing(seconds, usage.ru_maxrss / 1024)


class Bench:
    """One API server and the two that talk to it."""

    def __init__(self, folder: Path, plane: ControlPlane, kubectl: str) -> None:
        self.folder = folder
        self.plane = plane
        self.kubectl = kubectl

    def job(self, workers: int) -> tuple[Path, Path]:
        """A spec, and what it renders to."""
        spec, rendered = self.folder / f"{workers}.yaml", self.folder / f"{workers}-rendered.yaml"
        spec.write_text(SPEC.format(workers=workers))
        with rendered.open("wb") as output:
            subprocess.run([*ETCOMPILE, "render", spec], stdout=output, check=True)
        return spec, rendered

    def ours(self, namespace: str, *arguments: str | Path, codes: Sequence[int] = (0,)) -> Timing:
        """etcompile, in a namespace."""
        return timed([*ETCOMPILE, *map(str, arguments)], self._in(namespace), codes)

    def theirs(self, namespace: str, *arguments: str | Path, codes: Sequence[int] = (0,)) -> Timing:
        """kubectl, in a namespace."""
        return timed([self.kubectl, *map(str, arguments)], self._in(namespace), codes)

    def _in(self, namespace: str) -> dict[str, str]:
        config = self.plane.kubeconfig(token="admin-token", namespace=namespace)
        return {"KUBECONFIG": str(config)}


ETCOMPILE = (sys.executable, "-m", "etcompile")


def figures(bench: Bench, workers: int, many: int) -> list[tuple[str, Timing, Timing, str]]:
    """Rows: what was done, how long we took, how long kubectl took, and the target."""
    spec, rendered = bench.job(workers)
    mine, other = bench.plane.namespace(), bench.plane.namespace()
    count = 2 * workers
    rows = []
    first = bench.ours(mine, "apply", spec, "--wait", "none")
    base = bench.theirs(other, "apply", "--server-side", "-f", rendered)
    rows.append((f"apply of {count:,} new objects", first, base, "≤ 0.25"))
    again = bench.ours(mine, "apply", spec, "--wait", "none")
    # The target is of the time that kubectl takes to apply them first.
    rows.append((f"apply of {count:,} objects again", again, base, "≤ 0.05"))
    repeated = bench.theirs(other, "apply", "--server-side", "-f", rendered)
    rows.append(("the same, beside kubectl applying again", again, repeated, "-"))
    spec, rendered = bench.job(many)
    mine = bench.plane.namespace()
    bench.ours(mine, "apply", spec, "--wait", "none", "--concurrency", "32", "--timeout", "0")
    ours = bench.ours(mine, "diff", spec)
    theirs = bench.theirs(
        mine, "diff", "--server-side", "--force-conflicts", "-f", rendered, codes=(0, 1)
    )
    rows.append((f"diff of {2 * many:,} unchanged objects", ours, theirs, "≤ 0.05, ≤ 300 MB"))
    return rows


def table(rows: list[tuple[str, Timing, Timing, str]]) -> str:
    """The figures as Markdown."""
    lines = [
        "| | etcompile | kubectl | ratio | target |",
        "|---|---:|---:|---:|---:|",
    ]
    for title, ours, theirs, target in rows:
        lines.append(
            f"| {title} | {ours.seconds:.2f} s, {ours.megabytes:.0f} MB"
            f" | {theirs.seconds:.2f} s, {theirs.megabytes:.0f} MB"
            f" | {ours.seconds / theirs.seconds:.3f} | {target} |"
        )
    return "\n".join(lines)


def page(found: str, date: str, kubectl: str) -> str:
    """The page of the documentation."""
    told = subprocess.run(
        [kubectl, "version", "--client"], capture_output=True, text=True, check=True
    ).stdout
    version = told.split("Client Version: ")[-1].split()[0]
    return f"""\
# Benchmarks of apply and diff

Made by `python benchmarks/apply.py`, {date}, on {os.cpu_count()} cores ({platform.machine()}),
Python {platform.python_version()}, kubectl {version}. Whole processes, against a real
kube-apiserver on the same two cores, so that a good part of each figure is the server's own work.

{found}

Half of the objects are Services, half Pods. kubectl limits itself to 50 requests a second; its
`diff --server-side` makes two requests an object. `etcompile apply` asks the API server with a
dry run first, about one Pod and one Service of each role, and writes 16 objects at once;
`etcompile diff` lists a kind and namespace at a time and compares by itself.
"""


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--date", default=time.strftime("%Y-%m-%d"))
    parser.add_argument("--workers", type=int, default=500)
    parser.add_argument("--many", type=int, default=5000)
    parser.add_argument("--no-docs", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plane = ControlPlane(folder, binaries(print))
        try:
            kubectl = str(plane.kubectl or shutil.which("kubectl") or "")
            if not kubectl:
                raise SystemExit("there is no kubectl to compare with")
            found = table(figures(Bench(folder, plane, kubectl), given.workers, given.many))
        finally:
            plane.stop()
        print(found)
        if not given.no_docs:
            text = page(found, given.date, kubectl)
            (ROOT / "docs" / "benchmarks-apply.md").write_text(text)


if __name__ == "__main__":
    main()
