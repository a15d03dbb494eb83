"""Add hints to diagnostics about template placeholders that nobody has filled in.

Whichever rule a text such as `${IMAGE}` breaks, the remedy is the same: a command that fills in
these placeholders. Variables in scripts have the same form, and `envsubst` without names would
empty them, so a placeholder is the subject of an error, or a value of one word. A form that no
shell reads, such as `{{ image }}`, is one in scripts as well.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import structs

from etcompile.diagnostics import Diagnostic, Severity, codes

_VARIABLE = r"\$\{[A-Za-z_]\w{0,99}\}|(?<![A-Za-z0-9$])\$[A-Za-z_]\w{0,99}"
"""Forms that envsubst fills in. It ignores a variable with a default."""
_MARKED = (
    r"\$\{[A-Za-z_][\w.]{0,99}(?::?[-=?+][^}\n]{0,99})?\}|\{\{[^{}\n]{1,199}\}\}|\{%[^%\n]{1,199}%\}"
    r"|@[A-Z][A-Z0-9_]{0,99}@|%[A-Z][A-Z0-9_]{2,99}%"
)
"""Forms that are invalid YAML at the start of a value, or inside brackets."""
_WORD = rf"{_VARIABLE}|{_MARKED}|__[A-Z][A-Z0-9_]{{0,99}}__|<[A-Za-z][\w .-]{{0,99}}>"
_ANY = rf"{_WORD}|\$\([\w.]{{1,99}}\)|\(\([\w.]{{1,99}}\)\)"
"""Also forms of Kubernetes, YAML or a shell: placeholders only if an error is about them."""
_LOGIC = r"\{%|\{\{-? *(?:if|else|end|range|with|define|template|include|block)\b"
_SYNTAX = frozenset({codes.YAML_SYNTAX, codes.UNSUPPORTED_YAML, codes.DUPLICATE_KEY})
_MOST = 20


def hints_for_text(problems: Sequence[Diagnostic], content: str) -> list[Diagnostic]:
    """Add hints to the diagnostics of a text, by the placeholders in the lines of syntax errors."""
    names: list[list[str]] = []
    for problem in problems:
        line = (problem.location and problem.location.text) or ""
        marked = re.finditer(_MARKED, line) if problem.code in _SYNTAX else ()
        before = ((match[0], line[: match.start()]) for match in marked)
        names.append([n for n, b in before if not (b.count("'") % 2 or b.count('"') % 2)])
    return _with_hints(problems, names, lambda _: [content])


def hints_for_documents(
    problems: Sequence[Diagnostic], texts: Callable[[str], Iterable[str]]
) -> list[Diagnostic]:
    """Add hints to the diagnostics of documents, given the texts of each input file."""
    names: list[list[str]] = []
    for problem in problems:
        place, is_error = problem.location, problem.severity is Severity.ERROR
        counts = is_error or problem.code == codes.IMAGE_NOT_PULLABLE
        value = ""
        if place and place.text and place.column and counts and problem.code not in _SYNTAX:
            value = place.text[place.column - 1 :][: place.width]
        names.append(re.findall(_ANY, value))
    return _with_hints(problems, names, texts)


def helm_template(file: str) -> str:
    """Return the command that renders the chart of a file; empty if it is in no chart."""
    parents = Path(file).absolute().parents
    chart = next((folder for folder in parents if (folder / "Chart.yaml").is_file()), None)
    return f"helm template {shlex.quote(os.path.relpath(str(chart)))}" if chart else ""


def _with_hints(
    problems: Sequence[Diagnostic],
    names_of: Sequence[list[str]],
    texts: Callable[[str], Iterable[str]],
) -> list[Diagnostic]:
    """Add hints to diagnostics, given the placeholders that each of them is about."""
    by_file: dict[str, list[str]] = {}
    for problem, names in zip(problems, names_of, strict=True):
        if problem.location and names:
            by_file.setdefault(problem.location.file, []).extend(names)
    read = {file: [*texts(file)] for file in by_file}
    remedies = {file: _remedy(by_file[file], read[file], file) for file in read if read[file]}
    result = []
    for problem, names in zip(problems, names_of, strict=True):
        file = problem.location.file if problem.location else ""
        if file in remedies and names:
            hint = f"{names[0]} is a placeholder of a template: {remedies[file]}"
            if problem.code == codes.YAML_SYNTAX and names[0].startswith("$"):
                otherwise = "if it is a variable of the shell, put it in quotes"
                hint = (
                    f"if {names[0]} is a placeholder of a template, {remedies[file]}; {otherwise}"
                )
            problem = structs.replace(problem, hint=hint)  # noqa: PLW2901
            remedies[file] = "fill it in with the others"
        result.append(problem)
    return result


def _remedy(names: Sequence[str], texts: Sequence[str], file: str) -> str:
    """Return what fills in all placeholders of a file; errors are about `names`."""
    words = [(re.findall(_WORD, text), re.sub(_WORD, "", text)) for text in texts]
    known = {*names, *(name for each, rest in words if not re.search(r"\s", rest) for name in each)}
    # No shell reads these forms, so they are placeholders in scripts, too.
    marks = {name[0] for name in known} & {"{", "_", "@"}
    in_order = [name for each, _ in words for name in each if name in known or name[0] in marks]
    every = [*dict.fromkeys([*in_order, *names])][:_MOST]
    is_file = file not in ("-", "") and not file.startswith("<")
    helm = helm_template(file) if is_file else ""
    of_chart = [name for name in every if helm and name.startswith("{{")]
    variables = [name for name in every if re.fullmatch(_VARIABLE, name)]
    others = [name for name in every if name not in (*of_chart, *variables)]
    if any(re.match(_LOGIC, name) for name in others):
        return (
            "render it first with the program that it is written for, such as gomplate or jinja2,"
            " and compile what that writes"
        )
    source = shlex.quote(file) if is_file else "FILE"
    steps = [helm] if of_chart else []
    if others:
        patterns = (re.sub(r"[][\\.*^$|]", r"\\\g<0>", name) for name in others)
        edits = " ".join("-e " + shlex.quote(f"s|{pattern}|VALUE|g") for pattern in patterns)
        steps.append(f"sed {edits}" if steps else f"sed {edits} {source}")
    if variables:
        listed = " ".join(dict.fromkeys(f"${name.strip('${}')}" for name in variables))
        steps.append(f"envsubst '{listed}'" if steps else f"envsubst '{listed}' < {source}")
    export = "export its value and " if variables else ""
    return f"{export}fill it in first, for example {' | '.join([*steps, 'etcompile render -'])}"
