"""Changes of objects, and what an API server says about each: a table for two readers.

`test_immutable.py` holds etcompile's rules against `immutable_cases.yaml`. Run as a program this
holds the table itself against a cluster: `KUBECONFIG=… python tests/plan/immutable_cases.py
NAMESPACE` applies both states of every object, server-side, and prints where the API server
disagrees.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ACCEPTED, RESTARTS, REFUSED = "accepted", "restarts", "refused"

_TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())


@dataclass(frozen=True)
class Case:
    title: str
    old: dict[str, Any]
    new: dict[str, Any]
    verdict: str
    field: str
    """The one field that is reported."""
    silent: bool
    untried: bool


def changed(kind: str, patch: Any = None) -> Any:
    """An object of the table, with a patch merged into it."""
    return _merged(_TABLE["objects"][kind], patch or {})


def _merged(base: Any, patch: Any) -> Any:
    if isinstance(base, dict) and isinstance(patch, dict):
        both = base | {key: _merged(base.get(key), value) for key, value in patch.items()}
        return {key: value for key, value in both.items() if value is not None}
    if isinstance(base, list) and isinstance(patch, list) and len(base) == len(patch):
        return [_merged(item, change) for item, change in zip(base, patch, strict=True)]
    return patch


def _case(row: dict[str, Any]) -> Case:
    verdict = next((name for name in (RESTARTS, REFUSED) if name in row), ACCEPTED)
    old, new = (changed(row["of"], row.get(side)) for side in ("old", "new"))
    field, silent = row.get(verdict, ""), row.get("silent", False)
    return Case(row["title"], old, new, verdict, field, silent, row.get("untried", False))


CASES = [_case(row) for row in _TABLE["cases"]]

_VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "etcompile-lab"},
    "spec": {
        "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
        "capacity": {"storage": "5Gi"},
        "hostPath": {"path": "/tmp"},
        "storageClassName": "etcompile-lab",
    },
}
_EXPANDABLE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "etcompile-lab"},
    "provisioner": "a/b",
    "allowVolumeExpansion": True,
}


def main(namespace: str) -> None:
    """Prints the cases about which a cluster disagrees."""

    def kubectl(*words: str, value: Any = None) -> subprocess.CompletedProcess[str]:
        text = None if value is None else json.dumps(value)
        command = ["kubectl", "-n", namespace, *words]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    def apply(value: Any) -> subprocess.CompletedProcess[str]:
        return kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", value=value)

    wrong = 0
    tried = [case for case in CASES if not case.untried]
    for case in tried:
        claim = case.old["kind"] == "PersistentVolumeClaim"
        needed = [_EXPANDABLE, _VOLUME] if claim else []
        for value in (*needed, case.old):
            done = apply(value)
            assert done.returncode == 0, f"{case.title}: {done.stderr}"
        if claim:
            bound = "jsonpath={.status.phase}=Bound"
            done = kubectl("wait", "pvc/x", f"--for={bound}", "--timeout=60s")
            assert done.returncode == 0, done.stderr
        done = apply(case.new)
        refused = done.returncode != 0
        wanted = case.verdict == REFUSED and not case.silent
        if refused != wanted:
            wrong += 1
            print(f"DIFFERS {case.title}: {'refused' if refused else 'accepted'}: {done.stderr}")
        for value in (case.old, *reversed(needed)):
            kubectl("delete", "--wait", "--grace-period=0", "--force", "-f", "-", value=value)
    print(f"{len(tried)} cases, {wrong} differ")


if __name__ == "__main__":
    main(sys.argv[1])
