"""Gang schedulers beside the one of Kubernetes: their Pods name them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import yaml
from queueing import HERE, Queues, patiently

from controlplane.server import free_ports
from gobuilds import built, run_go

MODULES = {"coscheduling": "sigs.k8s.io/scheduler-plugins", "volcano": "volcano.sh/volcano"}
"""Of Go, by what the setting `gang` calls the scheduler."""
_DEFINITIONS = {"coscheduling": "config/crd/bases", "volcano": "config/crd/volcano/bases"}


def start(queues: Queues, name: str, tell: Callable[[str], None]) -> None:
    """Starts a scheduler.

    Args:
        tell: Is told, once, that a build begins.

    Raises:
        NoProgramError: it cannot be built.
    """
    module = MODULES[name]
    prepare = {"volcano": _write_volcano_apis}.get(name, lambda folder: None)
    program = built(HERE / name, name, f"{module}/cmd/scheduler", tell, prepare)
    source = _downloaded(program.parent, module)  # in the cache, because Go writes a go.sum
    for file in sorted((source / _DEFINITIONS[name]).glob("*.yaml")):
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        queues.plane.ask("POST", path, yaml.safe_load(file.read_text()))
    if name == "volcano":
        _start_volcano(queues, program, source)
    else:
        enabled = [{"name": "Coscheduling"}]
        sorting = {"enabled": enabled, "disabled": [{"name": "*"}]}
        profile = {
            "schedulerName": "scheduler-plugins-scheduler",
            "plugins": {"multiPoint": {"enabled": enabled}, "queueSort": sorting},
        }
        # It looks again when a Pod comes, not when a node does: else after five minutes.
        again = "--pod-max-in-unschedulable-pods-duration=5s"
        queues.run(name, program, *queues.scheduler_flags(name, profile), again)


def _downloaded(folder: Path, module: str) -> Path:
    """Where a Go module is, once it is downloaded by the `go.mod` of a folder, if there is one."""
    return Path(json.loads(run_go(folder, "mod", "download", "-json", module))["Dir"])


def _write_volcano_apis(folder: Path) -> None:
    """Writes the API types that Volcano's `go.mod` replaces.

    Its repository has them in a folder that the module leaves out. The last release of them as a
    module lacks a single constant of Volcano 1.15.
    """
    apis = folder / "apis"
    shutil.copytree(_downloaded(folder.parent, "volcano.sh/apis@v1.14.0"), apis, dirs_exist_ok=True)
    package = apis / "pkg/apis/scheduling/v1beta1"
    package.chmod(0o755)  # Go's cache is read-only
    constant = 'QueueAllocationGateKey = GroupName + "/queue-allocation-gate"'
    (package / "gate.go").write_text(f"package v1beta1\n\nconst {constant}\n")


def _start_volcano(queues: Queues, program: Path, source: Path) -> None:
    ports = free_ports(2)
    queues.run(
        "volcano",
        program,
        f"--kubeconfig={queues.kubeconfig}",
        f"--scheduler-conf={source / 'installer/helm/chart/volcano/config/volcano-scheduler.conf'}",
        "--leader-elect=false",
        f"--listen-address=127.0.0.1:{ports[0]}",
        f"--healthz-address=127.0.0.1:{ports[1]}",
        "--cache-dumper=false",
    )
    # The scheduler makes the queue, and Volcano's controllers open it.
    path = "/apis/scheduling.volcano.sh/v1beta1/queues/default/status"
    opened = {"status": {"state": "Open"}}
    patiently(lambda: queues.plane.ask("PATCH", path, opened))
