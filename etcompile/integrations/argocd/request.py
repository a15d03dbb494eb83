"""What an Application asks of the plugin: environment variables to options of render.

Argo CD passes parameters as JSON in ARGOCD_APP_PARAMETERS, variables of the Application as
ARGOCD_ENV_*, and the destination in ARGOCD_APP_NAMESPACE and KUBE_VERSION (reference/gitops.md
6.1). It passes the parameters again as PARAM_*, where `a.b` and `a-b` look the same; those are not
read.
Authors of Applications need not own the machine that runs the plugin, so a path that leads out of
the repository is refused.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from etcompile.integrations.argocd.parameters import PARAMETERS, Parameter
from etcompile.load import Boundary, Document, access, from_values
from etcompile.model.settings import secret_mode
from etcompile.overlays.files import shipped

_VARIABLE = "ARGOCD_ENV_ETCOMPILE_"
_IMAGE = re.compile(r"(?P<name>.*?)(:(?P<tag>[^/:@]+))?(@(?P<digest>[^@]+))?")


class ParameterError(Exception):
    """A parameter cannot be used."""

    def __init__(self, parameter: str, problem: str, advice: str) -> None:
        super().__init__(f"{parameter}: {problem}")
        self.parameter = parameter
        self.problem = problem
        self.advice = advice


class Request(Struct, frozen=True):
    """What an Application asks for.

    Args:
        words: Options of `etcompile render`.
        paths: What to compile; empty if the Application does not say.
        namespace: The namespace of what names none.
        first: Overlays that count before all others: what is known of the cluster.
        last: Overlays that count after all others: what parameters change.
    """

    words: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    namespace: str | None = None
    first: tuple[Document, ...] = ()
    last: tuple[Document, ...] = ()


def request(environment: Mapping[str, str], folder: Path, versions: Sequence[str]) -> Request:
    """What an Application asks for.

    Raises:
        ParameterError: a parameter is unknown, has the wrong form, or leads out of the repository.
    """
    given = {**_variables(environment), **_parameters(environment)}
    root = repository(folder, environment)
    words: list[str] = []
    for parameter in PARAMETERS:
        if parameter.option is None or parameter.name not in given:
            continue
        words += _words(parameter, _form(parameter, given[parameter.name]), folder, root)
    paths = _texts(given.get("paths"))
    for path in paths:
        _check_path("paths", path, folder, root)
    changes: dict[str, Any] = {}
    if images := _pairs("images", given):
        changes["images"] = [_image(name, new) for name, new in sorted(images.items())]
    if labels := _pairs("labels", given):
        changes["labels"] = [{"pairs": labels}]
    settings: dict[str, Any] = {"profiles": ["argocd"]}
    if version := _nearest(environment.get("KUBE_VERSION", ""), versions):
        settings["kubernetesVersion"] = version
    return Request(
        words=tuple(words),
        paths=tuple(paths),
        namespace=environment.get("ARGOCD_APP_NAMESPACE") or None,
        first=_overlay("<Argo CD>", {"settings": settings}),
        last=_overlay("<parameters>", changes),
    )


def repository(folder: Path, environment: Mapping[str, str]) -> Path:
    """The top of the repository that a source's folder is in, as far as Argo CD says where."""
    parts = Path(environment.get("ARGOCD_APP_SOURCE_PATH", "")).parts
    parts = tuple(part for part in parts if part not in ("/", "."))
    if parts and folder.parts[-len(parts) :] == parts:
        return folder.parents[len(parts) - 1]
    return folder


def _parameters(environment: Mapping[str, str]) -> dict[str, Any]:
    """The parameters of the Application, by name."""
    try:
        listed = json.loads(environment.get("ARGOCD_APP_PARAMETERS") or "null") or []
        forms = ("string", "array", "map")
        found = {
            entry["name"]: next((entry[form] for form in forms if form in entry), None)
            for entry in listed
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        problem = "it is not a list of parameters as Argo CD writes it"
        advice = '[{"name": "secret", "string": "external"}]'
        raise ParameterError("ARGOCD_APP_PARAMETERS", problem, advice) from error
    known = [parameter.name for parameter in PARAMETERS]
    for name in found:
        if name not in known:
            raise _unknown(str(name), known)
    return {name: value for name, value in found.items() if value not in (None, "", [], {})}


def _variables(environment: Mapping[str, str]) -> dict[str, Any]:
    """The same from the Application's variables, which may hold others: $ARGOCD_APP_NAME."""
    known = {
        parameter.name.upper().replace("-", "_"): parameter
        for parameter in PARAMETERS
        if parameter.form != "map"
    }
    found: dict[str, Any] = {}
    for variable, text in environment.items():
        name = variable.removeprefix(_VARIABLE)
        if name == variable or not text:
            continue
        if name not in known:
            raise _unknown(
                f"ETCOMPILE_{name}", [f"ETCOMPILE_{variable_name}" for variable_name in known]
            )
        parameter = known[name]
        parts = [part.strip() for part in text.split(",") if part.strip()]
        found[parameter.name] = parts if parameter.form == "array" else text
    return found


def _unknown(name: str, known: Sequence[str]) -> ParameterError:
    from etcompile.diagnostics.spelling import probably  # noqa: PLC0415 - only a complaint needs it

    close = probably(name, known)
    advice = f"did you mean '{close}'?" if close else f"there are {', '.join(known)}"
    return ParameterError(name, "there is no such parameter", advice)


def _form(parameter: Parameter, value: Any) -> list[str]:
    """The values of a parameter, one or several."""
    texts = _texts(value)
    if parameter.form == "array":
        return texts
    if len(texts) != 1:
        advice = f"write it as string: {parameter.announcement['string']}"
        raise ParameterError(parameter.name, "it takes one value", advice)
    return texts


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [str(part) for part in value]
    return [] if value is None or isinstance(value, Mapping) else [str(value)]


def _words(parameter: Parameter, values: Sequence[str], folder: Path, root: Path) -> Iterator[str]:
    """A parameter as options of render."""
    option = str(parameter.option)
    for value in values:
        if parameter.form == "boolean":
            if value not in ("true", "false"):
                raise ParameterError(
                    parameter.name, f"'{value}' is no boolean", "write true or false"
                )
            if value == "true":
                yield f"{option}=true" if "=" in option else option
            continue
        for file in _files(parameter, value):
            _check_path(parameter.name, file, folder, root)
        # In one word: a value that begins with a dash is no option of its own.
        yield f"{option}={value}"


def _files(parameter: Parameter, value: str) -> Iterator[str]:
    """The files that a value names."""
    if parameter.names_files and not (parameter.name == "overlay" and value in shipped()):
        yield value
    if parameter.name == "secret":
        try:
            mode = secret_mode(value)
        except ValueError as error:
            raise ParameterError("secret", str(error), "such as external:vault/ml") from error
        if mode.file:
            yield mode.file


def _check_path(parameter: str, path: str, folder: Path, root: Path) -> None:
    """Refuses a path that leads out of the repository, by its name or by a link."""
    if not path or path == "-":
        raise ParameterError(parameter, f"'{path}' names no file", "name files and folders")
    try:
        if Path(os.path.normpath(folder / path)).is_relative_to(root):
            access.resolved(str(folder / path), Boundary(str(root)))
            return
    except (OSError, ValueError):  # a name with a NUL leads nowhere
        pass
    problem = f"'{path}' is not in the repository"
    raise ParameterError(parameter, problem, "name files of the repository, as seen from path")


def _nearest(text: str, versions: Sequence[str]) -> str | None:
    """The version there is a schema for that is nearest to the cluster's.

    A cluster that is newer than this program is no reason to stop syncing it.
    """
    found = re.match(r"v?(\d+)\.(\d+)", text)
    if found is None or not versions:
        return None
    wanted = int(found[1]), int(found[2])
    ordered = [tuple(int(part) for part in version.split(".")) for version in versions]
    nearest = min(max(wanted, ordered[0]), ordered[-1])
    return ".".join(str(part) for part in nearest)


def _pairs(parameter: str, given: Mapping[str, Any]) -> dict[str, str]:
    value = given.get(parameter) or {}
    if not isinstance(value, Mapping):
        raise ParameterError(parameter, "it takes pairs", "write it as map: {name: value}")
    return {str(name): str(text) for name, text in value.items()}


def _image(name: str, new: str) -> dict[str, Any]:
    """An overlay's entry: `registry/x:1` is a name and a tag, `:1` a tag, `@sha256:…` a digest."""
    found = re.fullmatch(_IMAGE, new)
    parts = found.groupdict() if found else {"name": new}
    fields = {"newName": "name", "newTag": "tag", "digest": "digest"}
    entry = {field: parts.get(part) for field, part in fields.items() if parts.get(part)}
    return {"name": name, **entry}


def _overlay(name: str, fields: Mapping[str, Any]) -> tuple[Document, ...]:
    if not fields:
        return ()
    value = {"apiVersion": "etcompile.dev/v1alpha1", "kind": "Overlay", **fields}
    return from_values([value], file=name).documents
