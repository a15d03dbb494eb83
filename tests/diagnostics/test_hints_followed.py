"""Every hint is followed: the input that shows a diagnostic is mended by what the hint says.

A hint is read clause by clause, by `hint_interpreter` where it can, otherwise by a recipe in
`hints.yaml`, which also says why a hint cannot be followed by a program. Afterwards the diagnostic
must be gone, and no other error may have come.
"""

import functools
import re
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from hint_interpreter import Place, apply_change, clauses, places, reading

import etcompile
from commandline import etcompile as command
from etcompile import Options, Severity
from etcompile.diagnostics import RULES, Diagnostic
from etcompile.load import parse

HERE = Path(__file__).parent
INPUTS = {path.stem: path for path in sorted((HERE / "inputs").glob("ET*.yaml"))}
DATA: dict[str, Any] = yaml.safe_load((HERE / "hints.yaml").read_text("utf-8"))
RECIPES: dict[str, dict[str, Any]] = DATA["recipes"]
COMMANDS: dict[str, dict[str, Any]] = DATA["commands"]
LEFT: dict[str, str] = DATA["not_followed"]


class Input(NamedTuple):
    """A text, that of its overlay, and the options of Python."""

    text: str
    overlay: str = ""
    options: tuple[tuple[str, Any], ...] = ()


@functools.cache
def diagnostics(case: Input) -> tuple[Diagnostic, ...]:
    overlays = parse(case.overlay, file="overlay.yaml").documents if case.overlay else ()
    options = Options(overlays=overlays, **dict(case.options))
    return etcompile.compile("-", options, stdin=BytesIO(case.text.encode())).diagnostics


def input_of(name: str) -> Input:
    text, _, overlay = INPUTS[name].read_text().partition("--- # overlay\n")
    return Input(text, overlay, (("lint", True),) if name.startswith("ET9") else ())


def hinted(name: str) -> list[Diagnostic]:
    """The diagnostics in an input of the code that it is about, if they have a hint."""
    return [one for one in diagnostics(input_of(name)) if one.code == name[:6] and one.hint]


def mended(name: str, clause: str, problem: Diagnostic) -> Input | str | None:
    """The input as a clause of a hint would have it; a reason; None if nobody can read it."""
    before = input_of(name)
    for words, recipe in RECIPES.get(name, {}).items():
        if clause.startswith(words):
            if isinstance(recipe, str):
                return recipe
            return functools.reduce(_changed, recipe, before)
    assert problem.location is not None
    in_overlay = problem.location.file == "overlay.yaml"
    text = before.overlay if in_overlay else before.text
    try:
        candidates = places(text, problem.location.line or 1, problem.location.column or 1)
    except yaml.YAMLError:
        candidates = [Place(0, (), "")]
    for place in candidates:
        if (after := reading(clause, text, place)) is not None:
            return before._replace(**{"overlay" if in_overlay else "text": after})
    return None


def _changed(before: Input, change: dict[str, Any]) -> Input:
    if change == {"drop": "overlay"}:
        return before._replace(overlay="")
    if "options" in change:
        return before._replace(options=(*before.options, *change["options"].items()))
    if "settings" in change:
        head = "apiVersion: etcompile.dev/v1alpha1\nkind: Overlay\n"
        overlay = yaml.safe_load(before.overlay or head)
        overlay["settings"] = {**overlay.get("settings", {}), **change["settings"]}
        return before._replace(overlay=yaml.safe_dump(overlay))
    if change.get("in") == "overlay":
        return before._replace(overlay=apply_change(before.overlay, change))
    return before._replace(text=apply_change(before.text, change))


@pytest.mark.parametrize("code", RULES)
def test_hint_is_followed_or_has_a_reason_why_not(code: str) -> None:
    has_input, rule = any(name.startswith(code) for name in INPUTS), RULES[code]
    if has_input and rule.hint not in ("", "{advice}"):
        assert hinted(code)
    elif rule.hint and not has_input:
        assert (code in COMMANDS) + (code in LEFT) == 1, "add it to hints.yaml"


@pytest.mark.parametrize("name", INPUTS)
def test_following_the_hint_mends_the_input(name: str) -> None:
    before, code = diagnostics(input_of(name)), name[:6]
    for problem in hinted(name):
        for clause in clauses(problem.hint or ""):
            after = mended(name, clause, problem)
            assert after is not None, f"nobody can read: {clause}"
            if isinstance(after, str):
                continue
            remaining = diagnostics(after)
            same = [one for one in remaining if one.code == code]
            assert len(same) < sum(one.code == code for one in before), clause
            known = {one.code for one in before}
            new = [
                one for one in remaining if one.severity is Severity.ERROR and one.code not in known
            ]
            assert new == [], clause


@pytest.mark.parametrize("name", COMMANDS)
def test_following_the_hint_of_a_command_mends_it(name: str, tmp_path: Path) -> None:
    case, code, hint = COMMANDS[name], name[:6], ""
    for number, (clause, step) in enumerate([("", {}), *case["follow"].items()]):
        now, folder = {**case, **step}, tmp_path / str(number)
        folder.mkdir()
        _write(folder, {**case.get("files", {}), **step.get("files", {})}, now.get("encoding"))
        for words in now.get("before", ()):
            command(*words.split(), cwd=folder)
        _write(folder, {**case.get("changes", {}), **step.get("changes", {})})
        done = command(*now["run"].split(), cwd=folder, stdin=now.get("stdin"))
        said = done.stdout + done.stderr
        if clause:
            assert clause in hint, hint
            assert f"[{code}]" not in said, f"{clause}: {said}"
            assert "error[" not in said, f"{clause}: {said}"
        else:
            assert case.get("shows", f"[{code}]") in said, said
            hint = said if "shows" in case else "\n".join(re.findall("= hint: (.*)", said))


def _write(folder: Path, files: dict[str, str | None], encoding: str | None = None) -> None:
    for name, text in files.items():
        if text is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding or "utf-8")


def test_every_entry_of_the_data_is_used() -> None:
    assert not RECIPES.keys() - INPUTS.keys()
    assert not {name[:6] for name in (*COMMANDS, *LEFT)} - set(RULES)
    assert not COMMANDS.keys() & LEFT.keys()
    assert not LEFT.keys() & {name[:6] for name in INPUTS}
    for name, recipes in RECIPES.items():
        used = [clause for one in hinted(name) for clause in clauses(one.hint or "")]
        unused = [words for words in recipes if not any(each.startswith(words) for each in used)]
        assert unused == [], name
