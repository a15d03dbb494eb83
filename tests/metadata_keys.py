"""The keys of labels and annotations that the code names, for their page and their snapshot."""

import ast
import functools
import importlib
import re
from pathlib import Path

import etcompile

PACKAGE = Path(etcompile.__file__).parent
KEY = re.compile(r"(?:[a-z0-9-]+\.)+[a-z0-9-]+/(?!v\d\w*$)[A-Za-z0-9._-]+")
ELSEWHERE = ("k8s/validation/",)
"""Rules of Kubernetes, which are the API server's and hold keys of examples."""
NO_KEYS = {
    "client.authentication.k8s.io/exec": "a group of kubeconfig",
    "kubeflow.org/mpi-operator": "a value of managedBy",
    "kubeflow.org/training-operator": "a value of managedBy",
    "kubernetes.io/ssh-auth": "a type of Secrets",
    "limits.nvidia.com/gpu": "a place in a container, in a message",
    "kueue.x-k8s.io/admission": "a scheduling gate",
    "kueue.x-k8s.io/managed": "a finalizer",
    "node.kubernetes.io/unschedulable": "a taint of nodes",
    "nvidia.com/gpu": "a resource",
    "nvidia.com/mig-": "the beginning of a resource",
    "trainer.kubeflow.org/trainjob-controller": "a value of managedBy",
}


@functools.cache
def keys() -> frozenset[str]:
    """What looks like the key of an annotation or a label, wherever the code says one."""
    keys = set()
    for file in PACKAGE.rglob("*.py"):
        if file.name == "__main__.py" or str(file.relative_to(PACKAGE)).startswith(ELSEWHERE):
            continue
        names = constants(file)
        texts = [text(node, names) for node in ast.walk(ast.parse(file.read_text("utf-8")))]
        keys |= {one for one in (*texts, *names.values()) if one and KEY.fullmatch(one)}
    return frozenset(keys)


def constants(file: Path) -> dict[str, str]:
    """The texts that a module has names for, imported ones among them: prefixes of several keys."""
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    module = importlib.import_module(".".join(part for part in parts if part != "__init__"))
    return {name: value for name, value in vars(module).items() if isinstance(value, str)}


def text(node: ast.AST, names: dict[str, str]) -> str | None:
    """What an expression says, if that is a text made of constants."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.FormattedValue):
        return text(node.value, names)
    if isinstance(node, ast.JoinedStr):
        parts = [text(part, names) for part in node.values]
        return None if None in parts else "".join(parts)
    return None
