"""What tests of the KRM function share: a kustomization folder and the real kustomize."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from etcompile import emit
from etcompile.load import parse

_FUNCTION = json.dumps({"exec": {"path": sys.executable, "args": ["-m", "etcompile", "krm"]}})


class Folder:
    function = _FUNCTION
    """Which program kustomize is to run: this Python's etcompile."""

    def __init__(self, path: Path, kustomize: Path) -> None:
        self.path = path
        self.kustomize = kustomize
        path.mkdir(parents=True, exist_ok=True)

    def write(self, name: str, value: Any) -> str:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        values = value if isinstance(value, list) else [value]
        file.write_text(yaml.safe_dump_all(values, sort_keys=False), "utf-8")
        return name

    def config(self, kind: str, name: str = "etcompile", **spec: Any) -> str:
        value = {
            "apiVersion": "etcompile.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "annotations": {"config.kubernetes.io/function": _FUNCTION}},
        }
        return self.write(f"{name}.yaml", {**value, "spec": spec} if spec else value)

    def kustomization(self, **fields: Any) -> None:
        self.write("kustomization.yaml", {"sortOptions": {"order": "fifo"}, **fields})

    def run(self) -> "subprocess.CompletedProcess[str]":
        return self.start("build", "--enable-alpha-plugins", "--enable-exec", self.path)

    def start(self, *arguments: object) -> "subprocess.CompletedProcess[str]":
        command = [str(one) for one in (self.kustomize, *arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def built(self) -> list[dict[str, Any]]:
        done = self.run()
        assert done.returncode == 0, done.stderr
        loaded = parse(done.stdout)
        assert not loaded.diagnostics
        return [document.data for document in loaded.documents]


@pytest.fixture
def folder(tmp_path: Path, consumer: Callable[[str], Path]) -> Folder:
    return Folder(tmp_path / "kustomized", consumer("kustomize"))


@pytest.fixture(scope="session")
def normal() -> Callable[[list[dict[str, Any]]], str]:
    """Objects in our order and our words: what `etcompile render` prints but for its first line."""
    return lambda objects: emit.stream(objects, [])
