"""Translate the variables of Argo CD's plugin to settings, and back.

Argo CD passes parameters as JSON in ARGOCD_APP_PARAMETERS, variables of the Application as
ARGOCD_ENV_*, and the destination in ARGOCD_APP_NAMESPACE and KUBE_VERSION (reference/gitops.md
6.1). It passes the parameters again as PARAM_*, where `a.b` and `a-b` look the same; those are not
read.

Authors of Applications may not control the machine that runs the plugin, so a path that leads out
of the repository is refused. Two options are no parameters: `templates` would let a repository run
code in the plugin's container, and `allow-plain-secrets` would let Secrets pass.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from etcompile import data, frontends
from etcompile.diagnostics import Diagnostic, RefusedError, codes, diagnose
from etcompile.k8s.names import image_parts
from etcompile.load import Boundary, Document, access, from_values
from etcompile.load.sources import output_folder, sources
from etcompile.model.settings import secret_mode
from etcompile.overlays.overlay_files import shipped

MARK = ".etjob.yaml"
"""The end of the name of a file that etcompile shall compile."""
_VARIABLE = "ARGOCD_ENV_ETCOMPILE_"
_GLANCE = 1024 * 1024
"""Bytes of a file that are searched for a kind."""
_FILES = frozenset({"paths", "overlay", "runtimes"})
"""Parameters whose values are paths."""


class ParameterError(RefusedError):
    """A parameter cannot be used."""

    def __init__(self, parameter: str, problem: str, advice: str) -> None:
        facts = {"option": f"parameter {parameter}", "problem": problem, "advice": advice}
        super().__init__([diagnose(codes.OPTION, None, **facts)])


class Parameter(Struct, frozen=True):
    """A parameter; most are named after the setting that they set.

    Args:
        form: The type of its value: string, boolean, array or map.
        announcement: Its entry in plugin.yaml.
    """

    name: str
    form: str
    announcement: Mapping[str, Any]


def plugin_file() -> Path:
    return data.folder("templates") / "argocd/plugin.yaml"


PARAMETERS = tuple(
    Parameter(row["name"], row.get("collectionType") or row.get("itemType", "string"), row)
    for row in msgspec.yaml.decode(plugin_file().read_bytes())["spec"]["parameters"]["static"]
)
"""All parameters, in the order of plugin.yaml."""


class Request(Struct, frozen=True):
    """The request of an Application.

    Args:
        paths: What to compile; empty if the Application does not say.
        namespace: The namespace of objects without one.
        first: Overlays before all others: facts about the cluster.
        last: Overlays after all others: changes by parameters.
    """

    settings: Mapping[str, Any] = {}
    environment: str | None = None
    paths: tuple[str, ...] = ()
    namespace: str | None = None
    first: tuple[Document, ...] = ()
    last: tuple[Document, ...] = ()


def request(environment: Mapping[str, str], folder: Path, versions: Sequence[str]) -> Request:
    """Read the request of an Application.

    Args:
        versions: The versions of Kubernetes with schemas, in order; the one nearest to the
            cluster's is chosen, if there are any.

    Raises:
        ParameterError: a parameter is unknown, has the wrong form, or leads out of the repository.
    """
    values = {**_of_variables(environment), **_of_application(environment)}
    root = repository(folder, environment)
    settings = {
        parameter.name: _value(parameter, values[parameter.name], folder, root)
        for parameter in PARAMETERS
        if parameter.name in values
    }
    changes: dict[str, Any] = {}
    for name, new in sorted(settings.pop("images", {}).items()):
        # `registry/x:1` is a name and a tag, `:1` a tag, `@sha256:…` a digest.
        parts = zip(("newName", "newTag", "digest"), image_parts(new), strict=True)
        entry = {field: part for field, part in parts if part}
        changes.setdefault("images", []).append({"name": name, **entry})
    if labels := settings.pop("labels", {}):
        changes["labels"] = [{"pairs": labels}]
    facts: dict[str, Any] = {"profiles": ["argocd"]}
    cluster = re.match(r"v?(\d+)\.(\d+)", environment.get("KUBE_VERSION", ""))
    if cluster is not None and versions:
        # A cluster that is newer than this program must still be synced.
        known = [tuple(map(int, version.split("."))) for version in versions]
        nearest = min(max((int(cluster[1]), int(cluster[2])), known[0]), known[-1])
        facts["kubernetesVersion"] = ".".join(map(str, nearest))
    overlay = {"apiVersion": "etcompile.dev/v1alpha1", "kind": "Overlay"}
    return Request(
        environment=settings.pop("environment", None),
        paths=settings.pop("paths", ()),
        settings=settings,
        namespace=environment.get("ARGOCD_APP_NAMESPACE") or None,
        first=from_values([{**overlay, "settings": facts}], file="<Argo CD>").documents,
        last=from_values(
            [{**overlay, **changes}] if changes else [], file="<parameters>"
        ).documents,
    )


def repository(folder: Path, environment: Mapping[str, str]) -> Path:
    """Return the top of the repository that contains the source's folder, if Argo CD says where."""
    parts = Path(environment.get("ARGOCD_APP_SOURCE_PATH", "")).parts
    parts = tuple(part for part in parts if part not in ("/", "."))
    if parts and folder.parts[-len(parts) :] == parts:
        return folder.parents[len(parts) - 1]
    return folder


def _of_application(environment: Mapping[str, str]) -> dict[str, Any]:
    try:
        listed = json.loads(environment.get("ARGOCD_APP_PARAMETERS") or "null") or []
        values = {
            entry["name"]: next((entry[f] for f in ("string", "array", "map") if f in entry), None)
            for entry in listed
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        problem = "it is not a list of parameters as Argo CD writes it"
        advice = '[{"name": "secret", "string": "external"}]'
        raise ParameterError("ARGOCD_APP_PARAMETERS", problem, advice) from error
    known = [parameter.name for parameter in PARAMETERS]
    for name in values:
        if name not in known:
            raise _unknown(str(name), known)
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}


def _of_variables(environment: Mapping[str, str]) -> dict[str, Any]:
    known = {
        parameter.name.upper().replace("-", "_"): parameter
        for parameter in PARAMETERS
        if parameter.form != "map"
    }
    values: dict[str, Any] = {}
    for variable, text in environment.items():
        name = variable.removeprefix(_VARIABLE)
        if name == variable or not text:
            continue
        if name not in known:
            raise _unknown(f"ETCOMPILE_{name}", [f"ETCOMPILE_{other}" for other in known])
        parameter = known[name]
        parts = [part.strip() for part in text.split(",") if part.strip()]
        values[parameter.name] = parts if parameter.form == "array" else text
    return values


def _unknown(name: str, known: Sequence[str]) -> ParameterError:
    from etcompile.diagnostics.spelling import probably  # noqa: PLC0415 - only a complaint needs it

    close = probably(name, known)
    advice = f"did you mean '{close}'?" if close else f"there are {', '.join(known)}"
    return ParameterError(name, "there is no such parameter", advice)


def _value(parameter: Parameter, value: Any, folder: Path, root: Path) -> Any:
    """Return the value of a setting, as the configuration file has it."""
    name = parameter.name
    if parameter.form == "map":
        if not isinstance(value, Mapping):
            raise ParameterError(name, "it takes pairs", "write it as map: {name: value}")
        return {str(key): str(text) for key, text in value.items()}
    parts = value if isinstance(value, list) else [value]
    texts = [] if isinstance(value, Mapping) else [*map(str, parts)]
    if parameter.form != "array" and len(texts) != 1:
        advice = f"write it as string: {parameter.announcement['string']}"
        raise ParameterError(name, "it takes one value", advice)
    for text in texts:
        file = None
        if name == "secret":
            try:
                file = secret_mode(text).file or None
            except ValueError as error:
                raise ParameterError(name, str(error), "such as external:vault/ml") from error
        elif name in _FILES and not (name == "overlay" and text in shipped()):
            file = text
        if file is not None:
            _check_path(name, file, folder, root)
    if parameter.form == "boolean":
        if texts[0] not in ("true", "false"):
            raise ParameterError(name, f"'{texts[0]}' is no boolean", "write true or false")
        return texts[0] == "true"
    return tuple(texts) if parameter.form == "array" else texts[0]


def _check_path(parameter: str, path: str, folder: Path, root: Path) -> None:
    """Refuse a path that leads out of the repository, by its name or by a link."""
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


def job_files(paths: Iterable[str], boundary: Boundary, *, marked: bool) -> Iterator[str]:
    """Yield the files that contain a job, outside of output folders.

    Args:
        marked: Only those whose name says that etcompile compiles them. Argo CD asks every plugin
            about each Application that names none, and the operator of a TFJob in its source may
            be installed (reference/gitops.md 6.1).
    """
    names = "|".join(sorted({kind.name for kind in frontends.kinds()}))
    of_kind = re.compile(
        rf"""(^|[{{,]\s*)["']?kind["']?\s*:\s*["']?({names})["']?\s*([,}}#]|$)""", re.MULTILINE
    )
    files = (file for path in paths for file in sources(path, boundary).files)
    for file in files:
        if isinstance(file, Diagnostic) or (marked and not file.path.endswith(MARK)):
            continue  # reported when it is read
        if output_folder(str(Path(file.path).parent), boundary.root):
            continue
        try:
            text = access.content(file.path, boundary, _GLANCE).decode(errors="replace")
        except OSError:
            continue
        if of_kind.search(text):
            yield file.shown
