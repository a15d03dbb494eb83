"""What other packages ask of a kind is a field of its row or of its jobs, not its name."""

import ast
from pathlib import Path

import etcompile
from etcompile import frontends

ROOT = Path(etcompile.__file__).parent
NAMES = {kind.name for kind in frontends.kinds()} | {"TrainingRuntime", "ClusterTrainingRuntime"}
ELSEWHERE = (
    "diagnostics/",  # examples of messages
    "scaling/scaled_files.py",  # writes intents
)


def test_kinds_are_named_in_frontends_only() -> None:
    by_file = {}
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text("utf-8")
        if not any(name in text for name in NAMES):
            continue
        nodes = ast.walk(ast.parse(text))
        texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
        if names := texts & NAMES:
            by_file[str(path.relative_to(ROOT))] = names
    allowed = ("frontends/", "model/__init__.py", *ELSEWHERE)
    assert {file: names for file, names in by_file.items() if not file.startswith(allowed)} == {}
