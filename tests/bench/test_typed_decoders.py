"""Typed decoders of msgspec are created at import, because creating one in a thread may crash.

`msgspec.json.decode(text, type=T)` builds what it knows of `T` the first time that it sees it. Two
threads that do so at once can read it half built, and the process ends with a segmentation fault
(docs/dependencies.md). `msgspec.json.Decoder(T)` at module level builds all of it at import.
"""

import ast
from pathlib import Path

import etcompile

ROOT = Path(etcompile.__file__).parent
SINGLE_THREADED = {"plan/ignore_differences.py", "plan/plan_file.py", "capacity/snapshot.py"}
"""Read files, from the command line only; convert has no form that is built at import."""


def typed_calls(path: Path) -> list[str]:
    """Calls inside functions that name a type to decode to, or build a decoder there."""
    calls = []
    text = path.read_text("utf-8")
    if not any(word in text for word in ("decode", "convert", "Decoder")):
        return calls
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        for call in ast.walk(function):
            if not isinstance(call, ast.Call):
                continue
            name = ast.unparse(call.func)
            typed = any(keyword.arg == "type" for keyword in call.keywords)
            if (
                (name.endswith("decode") and typed)
                or name in {"convert", "msgspec.convert"}
                or name.split(".")[-1] == "Decoder"
            ):
                calls.append(f"{path.relative_to(ROOT)}:{call.lineno}: {name}")
    return calls


def test_no_function_decodes_to_a_type_for_the_first_time():
    calls = [
        call
        for path in sorted(ROOT.rglob("*.py"))
        if str(path.relative_to(ROOT)) not in SINGLE_THREADED
        for call in typed_calls(path)
    ]
    assert calls == [], "create the decoder at module level"
