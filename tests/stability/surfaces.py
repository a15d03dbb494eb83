"""What users, scripts, dashboards and other programs hold on to, read from the code.

A surface is a mapping: the name of a thing as a user would say it, and facts about it. A fact is a
word, a number, a boolean, or a list, which is a set: something may be added to it without harm.
docs/stability.md says what is promised of each.
"""

import ast
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import click
import msgspec
import yaml

import etcompile
from etcompile import exitcodes, model, operations
from etcompile.check.kubernetes import versions as kubernetes_versions
from etcompile.cli.main import _etcompile
from etcompile.cli.publishing import published
from etcompile.diagnostics.catalogue import RULES
from etcompile.diagnostics.output import FORMATS
from etcompile.emit import LOCK, Record
from etcompile.emit.lock import with_lock
from etcompile.failures import Failure, FailureLog
from etcompile.goodput import Timeline
from etcompile.integrations.argocd.parameters import PARAMETERS
from etcompile.model import protocol, run_record
from etcompile.stages import stored
from etcompile.status.values import Epoch, Hosts, Replica, RoleStatus, Told
from metadata_keys import NO_KEYS, keys
from watcher_series import families

ROOT = Path(__file__).parents[2]

Facts = Mapping[str, Any]
Surface = Mapping[str, Facts]


def commands() -> Surface:
    """Commands, their arguments and their options."""
    return dict(_of_command(_etcompile, "etcompile"))


def _of_command(command: click.Command, name: str) -> Iterator[tuple[str, Facts]]:
    yield name, {"hidden": command.hidden, "deprecated": bool(command.deprecated)}
    for param in command.params:
        if not getattr(param, "hidden", False):
            yield _of_param(name, param)
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for inner in command.list_commands(ctx):
            found = command.get_command(ctx, inner)
            assert found is not None
            yield from _of_command(found, f"{name} {inner}")


def _of_param(command: str, param: click.Parameter) -> tuple[str, Facts]:
    choices = getattr(param.type, "choices", ())
    facts: dict[str, Any] = {
        "type": "flag" if getattr(param, "is_flag", False) else param.type.name,
        "required": param.required,
        "multiple": param.multiple or param.nargs == -1,
    }
    if choices:
        facts["choices"] = sorted(map(str, choices))
    if isinstance(param, click.Argument):
        return f"{command} {param.human_readable_name}", facts
    long = max(param.opts, key=len)
    if also := sorted({*param.opts, *param.secondary_opts} - {long}):
        facts["also"] = also
    # What a flag has without being given is said by its name, and click's word for it varies.
    if facts["type"] != "flag" and isinstance(param.default, str | int | float):
        facts["default"] = str(param.default).replace(etcompile.__version__, "VERSION")
    return f"{command} {long}", facts


def exit_codes() -> Surface:
    """What exit codes mean."""
    return {
        name: {"code": value}
        for name, value in sorted(vars(exitcodes).items())
        if name.isupper() and isinstance(value, int)
    }


def diagnostics() -> Surface:
    """Codes of errors and warnings, and the forms in which they are told."""
    codes: dict[str, Facts] = {
        code: {"name": rule.name, "severity": rule.severity.value, "opt_in": rule.opt_in}
        for code, rule in RULES.items()
    }
    return {**codes, "--output-format": {"forms": sorted(FORMATS)}}


_OURS = ("configuration.json", "diagnostics.json", "plan.json")
_WRITTEN = ("diagnostics.json", "plan.json")
"""The forms of files that etcompile writes: there a field that is always there is no burden."""


def files() -> Surface:
    """The fields of the files that have a form of etcompile's own."""
    found: dict[str, Facts] = {}
    for path, schema in published().items():
        if (path in _OURS or path.startswith("etcompile.dev/")) and not path.endswith(
            "catalog.json"
        ):
            name = path.rpartition("/")[2].removesuffix(".json")
            found |= _fields(name, schema, schema, written=path in _WRITTEN)
    return {**found, **_lock()}


def _fields(
    name: str, schema: Mapping[str, Any], root: Mapping[str, Any], *, written: bool, path: str = ""
) -> dict[str, Facts]:
    """The fields of a schema, in definitions and in items of lists too, by their paths."""
    schema = _resolved(schema, root)
    found: dict[str, Facts] = {}
    for key, unresolved in schema.get("properties", {}).items():
        field = f"{path}.{key}" if path else key
        if field.count(".") > 8 or key in ("podSpec", "template"):
            continue
        inner = _resolved(unresolved, root)
        facts: dict[str, Any] = {"type": _type(inner)}
        if not written:
            facts["required"] = key in schema.get("required", ())
        elif key in schema.get("required", ()):
            facts["always"] = True
        values = [str(value) for value in inner.get("enum", ())]
        if values:
            facts["values"] = sorted(values)
        if "const" in inner:
            facts["value"] = inner["const"]
        found[f"{name} {field}"] = facts
        found |= _fields(name, inner, root, written=written, path=field)
        items = _resolved(inner.get("items", {}), root)
        found |= _fields(name, items, root, written=written, path=f"{field}[]")
        of_any = inner.get("additionalProperties")
        if isinstance(of_any, dict):
            found |= _fields(name, of_any, root, written=written, path=f"{field}.*")
    for part in (*schema.get("allOf", ()), *schema.get("anyOf", ()), *schema.get("oneOf", ())):
        found |= _fields(name, part, root, written=written, path=path)
    return found


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with what it refers to, where that is in the same file."""
    reference = schema.get("$ref", "")
    if not reference.startswith("#/"):
        return schema
    found: Any = root
    for key in reference[2:].split("/"):
        found = found[key.replace("~1", "/").replace("~0", "~")]
    return {**_resolved(found, root), **{k: v for k, v in schema.items() if k != "$ref"}}


def _type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "any")
    return kind if isinstance(kind, str) else " or ".join(kind)


def _lock() -> dict[str, Facts]:
    text = with_lock({"a": "b"}, Record("1", {}, (), ("c", "d")))[LOCK]
    value = msgspec.json.decode(text)
    return {
        LOCK: {"format": value["format"], "marker": value["comment"]},
        **{f"{LOCK} {key}": {"type": type(value[key]).__name__} for key in sorted(value)},
    }


_JSON_FORMS = {
    "status": ("status/documents.py", ("job_value", "goodput_value")),
    "why": ("status/why/documents.py", ("explanation_value", "_timeline", "_attempt", "_failure")),
    "apply": ("cli/progress/events.py", ("begin", "tell", "repeat", "end", "_write", "_object")),
}
"""Where the documents of `--output json` are put together, as literals."""


def json_output() -> Surface:
    """The fields of what `--output json` writes, as far as it has no schema."""
    found: dict[str, Facts] = {}
    for command, (file, functions) in _JSON_FORMS.items():
        tree = ast.parse((ROOT / "etcompile" / file).read_text("utf-8"))
        made = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        for node in (node for node in made if node.name in functions):
            found |= {f"{command} {key}": {"is": "field"} for key in _keys_of_documents(node)}
    for struct in (Replica, RoleStatus, Hosts, Epoch, Told):
        for name in struct.__struct_fields__:
            found[f"status {struct.__name__.lower()}.{name}"] = {"is": "field"}
    return found


def _keys_of_documents(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Dict):
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
            yield from (key for key in keys if isinstance(key, str))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "self._write":
            yield from (keyword.arg for keyword in node.keywords if keyword.arg)


def output() -> Surface:
    """The names of rendered files and objects: those of all examples, with J for the job's name."""
    names: dict[str, Facts] = {}
    for file in (ROOT / "golden").glob("*/*/out/**/*"):
        if file.is_file():
            parts = file.relative_to(ROOT / "golden").parts[3:]
            names["/".join((*("J" for _ in parts[:-1]), parts[-1]))] = {"is": "file"}
    for file in (ROOT / "golden").glob("*/*/0-start.yaml"):
        objects = [value for value in yaml.load_all(file.read_text("utf-8"), _LOADER) if value]
        jobs = {
            str(value["metadata"]["labels"][protocol.JOB_LABEL])
            for value in objects
            if protocol.JOB_LABEL in value["metadata"].get("labels", {})
        }
        for value in objects:
            name, kind = value["metadata"]["name"], value["kind"]
            job = max((job for job in jobs if name.startswith(job)), key=len, default=None)
            if job is not None:
                end = re.sub(r"\d+", "N", name[len(job) :])
                names[f"{kind} J{end}"] = {"is": "object"}
    return names


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def labels_and_annotations() -> Surface:
    """The keys that etcompile writes or reads, of its own and of others."""
    return {
        key: {"of": "etcompile" if key.startswith("etcompile.dev/") else "others"}
        for key in sorted(keys() - NO_KEYS.keys())
    }


def run_time_protocol() -> Surface:
    """What a job in a cluster and the watcher agree on: ConfigMaps, files in Pods, the record."""
    found: dict[str, Facts] = {
        "J-etcompile job.yaml": {"apiVersion": stored.API_VERSION, "kind": stored.KIND},
        "J-etcompile-status": {"keys": sorted(run_record.KEYS)},
        "record version": {"newest": run_record.VERSION, "read": [1, 2, run_record.VERSION]},
    }
    for name, value in sorted(vars(protocol).items()):
        if isinstance(value, str) and value.startswith("/etc/"):
            found[f"file {value}"] = {"in": "Pods"}
        elif name in ("SCRIPTS", "HOSTS", "STATUS", "RUN_STATE", "SSH"):
            found[f"volume {value}"] = {"in": "Pods"}
        elif name in ("MANAGER", "WATCHER"):
            found[f"field manager {value}"] = {"in": "managedFields"}
    records = {
        "record": run_record.RunRecord,
        "record replicas": run_record.ReplicaRecord,
        "record replicas history": run_record.RestartHistory,
        "record leaving": run_record.Leaving,
        "failures": FailureLog,
        "failures failures": Failure,
        "timeline": Timeline,
    }
    for where, struct in records.items():
        for field in msgspec.structs.fields(struct):
            found[f"{where} {field.encode_name}"] = {"always": field.required}
    found["record phase"] = {"values": sorted(get_args(run_record.Phase)), "always": False}
    for document in _stored_jobs():
        for key, value in document.items():
            found[f"J-etcompile job.yaml {key}"] = {"type": type(value).__name__}
    for key in stored.settings_value(_EVERY_SETTING):
        found[f"J-etcompile job.yaml settings.{key}"] = {"is": "setting"}
    return found


_EVERY_SETTING = model.Settings(
    init_image="a", kubectl_image="b", profiles=("argocd",), run="c", gang="kai", gang_scheduler="d"
)


def _stored_jobs() -> Iterator[dict[str, Any]]:
    for file in (ROOT / "golden").glob("*/*/prod.yaml"):
        for value in yaml.load_all(file.read_text("utf-8"), _LOADER):
            if value and protocol.STORED_JOB in (value.get("data") or {}):
                yield yaml.load(value["data"][protocol.STORED_JOB], _LOADER)


def python_api() -> Surface:
    """What Python programs import: functions with their parameters, types with their fields."""
    found: dict[str, Facts] = {}
    for module in (etcompile, operations):
        for name in module.__all__:
            found |= _of_python(f"{module.__name__}.{name}", getattr(module, name))
    return found


def _of_python(name: str, value: Any) -> dict[str, Facts]:
    if not callable(value):
        return {name: {"is": "value"}}
    if not inspect.isclass(value):
        parameters = inspect.signature(value).parameters.values()
        return {name: {"is": "function"}, **dict(_parameter(name, one) for one in parameters)}
    found: dict[str, Facts] = {
        name: {"is": "exception" if issubclass(value, Exception) else "type"}
    }
    if issubclass(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            found[f"{name} {field.name}"] = {"required": field.required}
    elif hasattr(value, "__members__"):
        found[name] = {"is": "enumeration", "members": sorted(value.__members__)}
    for member, what in vars(value).items():
        if not member.startswith("_") and isinstance(what, property | functools.cached_property):
            found[f"{name} {member}"] = {"is": "property"}
        elif not member.startswith("_") and inspect.isfunction(what):
            found[f"{name} {member}"] = {"is": "method"}
    return found


def _parameter(function: str, one: inspect.Parameter) -> tuple[str, Facts]:
    variadic = one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    required = one.default is one.empty and not variadic
    by = "name" if one.kind is one.KEYWORD_ONLY else "position"
    return f"{function} {one.name}", {"given by": by, "required": required}


def watcher_metrics() -> Surface:
    """The series of the watcher, with their labels."""
    return {
        name: {"type": kind, "labels": sorted(labels)}
        for name, (kind, labels) in families().items()
        if name.startswith("etcompile_")
    }


def integrations() -> Surface:
    """Hooks, the GitHub action, Argo CD's plugin, the chart, the programs that are installed."""
    found: dict[str, Facts] = {}
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")):
        found[f"hook {hook['id']}"] = {"entry": hook["entry"]}
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    for name, given in action["inputs"].items():
        facts = {"default": given.get("default", ""), "required": given.get("required", False)}
        found[f"action {name}"] = facts
    for name in action["outputs"]:
        found[f"action output {name}"] = {"is": "output"}
    for one in PARAMETERS:
        default = one.default if isinstance(one.default, str) else " ".join(one.default)
        found[f"argocd {one.name}"] = {"form": one.form, "default": default}
    chart = ROOT / "templates" / "watcher" / "helm" / "etcompile-watch" / "values.schema.json"
    schema = msgspec.json.decode(chart.read_bytes())
    found |= _fields("chart", schema, schema, written=False)
    project = _project()
    for name in project["scripts"]:
        found[f"program {name}"] = {"is": "program"}
    for extra in project["optional-dependencies"]:
        if extra not in ("test", "lint"):  # for who works on etcompile
            found[f"extra {extra}"] = {"is": "extra"}
    return found


def supported() -> Surface:
    """The versions of Python and Kubernetes, kinds, gang schedulers, profiles, sources of keys."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text("utf-8"))
    return {
        "Python": {"versions": workflow["jobs"]["default"]["strategy"]["matrix"]["python"]},
        "Kubernetes": {"versions": [*kubernetes_versions()]},
        "kinds": {"kinds": _kinds()},
        "--gang": {"values": sorted(model.GANGS)},
        "--profile": {"values": sorted(model.PROFILES)},
        "--secret": {"values": sorted(model.settings.SECRET_KINDS)},
    }


def _kinds() -> list[str]:
    from etcompile import frontends

    return sorted(f"{kind.api_version} {kind.name}" for kind in frontends.kinds())


def _project() -> dict[str, Any]:
    import tomllib

    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return project


SURFACES: Mapping[str, Callable[[], Surface]] = {
    "commands": commands,
    "exit-codes": exit_codes,
    "diagnostics": diagnostics,
    "files": files,
    "json-output": json_output,
    "output": output,
    "labels-and-annotations": labels_and_annotations,
    "protocol": run_time_protocol,
    "python": python_api,
    "metrics": watcher_metrics,
    "integrations": integrations,
    "supported": supported,
}
"""By the name of the snapshot's file."""
