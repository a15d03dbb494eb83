"""The API server's rules for CustomResourceDefinitions.

Of what stands inside a schema only its structure is asked for here: that each value has a type, and
each list says what is in it. Rules in CEL are left to the API server.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.k8s.names import is_service_name, is_subdomain
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.objects.checks import choice
from etcompile.k8s.validation.objects.kind import Kind
from etcompile.k8s.validation.rule import Broken, Check, Path, Rule, Subject

_MOST_OF_A_WARNING = 256
_LETTER = "use lower-case letters, digits and '-', at most 63, and begin with a letter"
_NAMES = "names: {kind: Widget, plural: widgets}"
_SCHEMA = "schema: {openAPIV3Schema: {type: object}}"
_VERSION = f"name: v1, served: true, storage: true, {_SCHEMA}"


def _is_named_in_any_case(text: str) -> bool:
    return is_service_name(text.lower())


def _other_name(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    spec = forms.mapping(value, "spec")
    plural, group = forms.mapping(spec, "names").get("plural"), spec.get("group")
    name = forms.mapping(value, "metadata").get("name")
    if isinstance(name, str) and name != f"{plural}.{group}":
        yield Broken(("metadata", "name"), {"wanted": f"{plural}.{group}"})


def _same_kinds(names: Mapping[str, Any], _: Subject) -> bool:
    return names.get("kind") is not None and names.get("kind") == names.get("listKind")


def _storages(versions: list[Any], _: Subject) -> bool:
    marked = [
        version
        for version in versions
        if isinstance(version, dict) and version.get("storage") is True
    ]
    return len(marked) != 1


def _no_schema(version: Mapping[str, Any], _: Subject) -> bool:
    return not isinstance(forms.mapping(version, "schema").get("openAPIV3Schema"), dict)


def _other_root(version: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    schema = forms.mapping(version, "schema", "openAPIV3Schema")
    if schema and schema.get("type") != "object":
        yield Broken(("schema", "openAPIV3Schema"))


_MANY = ("properties", "patternProperties")
_ONE = ("items", "additionalProperties")
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_ANYTHING = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")


def _unstructured(version: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    """Places of a schema that are not structural."""
    root: Path = ("schema", "openAPIV3Schema")
    rest = [(root, forms.mapping(version, "schema", "openAPIV3Schema"))]
    while rest:
        path, schema = rest.pop()
        if schema.get("type") == "array" and not isinstance(schema.get("items"), dict):
            yield Broken(path, {"problem": "needs 'items', because it is an array"})
        given = schema.get("type")
        if path != root and not given and not any(map(schema.get, _ANYTHING)):
            yield Broken(path, {"problem": "needs a 'type'"})
        if isinstance(given, str) and given and given not in _TYPES:
            problem = f"must be one of {', '.join(_TYPES)}, not '{given}'"
            yield Broken((*path, "type"), {"problem": problem})
        if schema.get("additionalProperties") is not None and schema.get("properties"):
            problem = "cannot have both properties and additionalProperties"
            yield Broken(path, {"problem": problem})
        for name in _MANY:
            found = forms.mapping(schema, name).items()
            rest += [((*path, name, key), inner) for key, inner in found if isinstance(inner, dict)]
        rest += [
            ((*path, name), schema[name]) for name in _ONE if isinstance(schema.get(name), dict)
        ]


def _needless_warning(version: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    if version.get("deprecationWarning") is not None and version.get("deprecated") is not True:
        yield Broken(("deprecationWarning",), at_key=True)


def _outside(*roots: str) -> Check:
    return lambda value, _: not value.startswith(tuple(f".{root}." for root in roots))


def _hook(conversion: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    asked = conversion.get("strategy") == "Webhook"
    if asked and not isinstance(conversion.get("webhook"), dict):
        yield Broken((), {"problem": "needs 'webhook', because its strategy is Webhook"})
    if not asked and conversion.get("webhook") is not None:
        yield Broken(("webhook",), {"problem": "only the strategy Webhook has it"}, at_key=True)


def _named(path: str, breaks: str, takes: str) -> Rule:
    mixed = path.lower().endswith("kind")
    return Rule(
        path,
        forms.unless(_is_named_in_any_case if mixed else is_service_name),
        "'{value}' is not a DNS label that begins with a letter",
        breaks=breaks,
        takes=takes,
        advice=_LETTER,
        on=str,
    )


_SCALE = "spec.versions[*].subresources.scale"
_WITH_SCALE = (
    f"{{{_VERSION}, subresources: {{scale: {{specReplicasPath: .spec.a,"
    " statusReplicasPath: .status.a}}}"
)
_COLUMN = "spec.versions[*].additionalPrinterColumns[*]"
_RULES = (
    Rule(
        "spec.group",
        lambda value, _: not is_subdomain(value) or "." not in value,
        "'{value}' is not a domain with a dot",
        breaks="widgets",
        takes="example.com",
        advice=forms.SUBDOMAIN_ADVICE,
        on=str,
    ),
    choice("spec.scope", "Namespaced", "Cluster"),
    _named("spec.names.singular", "A b", "widget"),
    _named("spec.names.kind", "A_b", "Widget"),
    _named("spec.names.listKind", "A_b", "WidgetList"),
    _named("spec.names.shortNames[*]", "A", "a"),
    _named("spec.names.categories[*]", "A", "a"),
    _named("spec.versions[*].name", "V1", "v1"),
    Rule(
        "",
        _other_name,
        "must be {wanted}, the plural and the group of what it defines, not '{value}'",
        breaks="{metadata: {name: gadgets.example.com}}",
        takes="{metadata: {name: widgets.example.com}}",
    ),
    Rule(
        "spec.names",
        _same_kinds,
        "kind and listKind must differ",
        breaks="{kind: Widget, plural: widgets, listKind: Widget}",
        takes="{kind: Widget, plural: widgets, listKind: WidgetList}",
        advice="leave listKind out",
    ),
    Rule(
        "spec.versions",
        _storages,
        "exactly one version must have storage: true",
        breaks=f"[{{{_VERSION.replace('storage: true', 'storage: false')}}}]",
        takes=f"[{{{_VERSION}}}]",
        on=list,
    ),
    Rule(
        "spec.versions",
        forms.twice(),
        "another version has the name '{value}'",
        breaks=f"[{{{_VERSION}}}, {{{_VERSION.replace('storage: true', 'storage: false')}}}]",
        takes=f"[{{{_VERSION}}}]",
        on=list,
    ),
    Rule(
        "spec.versions[*]",
        _no_schema,
        "needs schema.openAPIV3Schema",
        breaks="{name: v1, served: true, storage: true}",
        takes=f"{{{_VERSION}}}",
        advice="the smallest is {{type: object, x-kubernetes-preserve-unknown-fields: true}}",
    ),
    Rule(
        "spec.versions[*]",
        _other_root,
        "must have the type object",
        breaks="{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: array}}}",
        takes=f"{{{_VERSION}}}",
    ),
    Rule(
        "spec.versions[*]",
        _unstructured,
        "{problem}",
        breaks="{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object,"
        " properties: {spec: {type: array}}}}}",
        takes="{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object,"
        " properties: {spec: {type: array, items: {type: string}}}}}}",
    ),
    Rule(
        "spec.versions[*]",
        _needless_warning,
        "only a deprecated version has a warning",
        breaks=f"{{{_VERSION}, deprecationWarning: a}}",
        takes=f"{{{_VERSION}, deprecated: true, deprecationWarning: a}}",
        advice="set deprecated: true, or remove it",
    ),
    Rule(
        "spec.versions[*]",
        lambda value, _: (
            isinstance(warning := value.get("deprecationWarning"), str)
            and not (0 < len(warning) <= _MOST_OF_A_WARNING and warning.isprintable())
        ),
        "deprecationWarning must have 1 to 256 printable characters",
        breaks=f"{{{_VERSION}, deprecated: true, deprecationWarning: ''}}",
        takes=f"{{{_VERSION}, deprecated: true, deprecationWarning: a}}",
    ),
    Rule(
        f"{_SCALE}.specReplicasPath",
        _outside("spec"),
        "must be a path below .spec, not '{value}'",
        breaks="replicas",
        takes=".spec.replicas",
        on=str,
    ),
    Rule(
        f"{_SCALE}.statusReplicasPath",
        _outside("status"),
        "must be a path below .status, not '{value}'",
        breaks="replicas",
        takes=".status.replicas",
        on=str,
    ),
    Rule(
        f"{_SCALE}.labelSelectorPath",
        lambda value, subject: value != "" and _outside("spec", "status")(value, subject),
        "must be a path below .spec or .status, not '{value}'",
        breaks="selector",
        takes=".status.selector",
        on=str,
    ),
    choice(f"{_COLUMN}.type", "string", "integer", "number", "boolean", "date"),
    choice(
        f"{_COLUMN}.format",
        *("int32", "int64", "float", "double", "byte", "date", "date-time", "password"),
        empty=True,
    ),
    Rule(
        f"{_COLUMN}.name",
        forms.empty,
        "must not be empty",
        breaks="''",
        takes="Age",
        on=str,
    ),
    Rule(
        f"{_COLUMN}.jsonPath",
        lambda value, _: not value.startswith("."),
        "must be a path that begins with '.', not '{value}'",
        breaks="spec",
        takes=".spec",
        on=str,
    ),
    choice("spec.conversion.strategy", "None", "Webhook"),
    Rule(
        "spec.conversion",
        _hook,
        "{problem}",
        breaks="{strategy: Webhook}",
        takes="{strategy: None}",
    ),
    Rule(
        "spec.preserveUnknownFields",
        lambda value, _: value is True,
        "must be false",
        breaks="true",
        takes="false",
        advice="set x-kubernetes-preserve-unknown-fields in the schema",
        on=bool,
    ),
)


def _example(version: str) -> str:
    return (
        "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name:"
        f" widgets.example.com}}, spec: {{group: example.com, scope: Namespaced, {_NAMES},"
        f" versions: [{version}]}}}}"
    )


KINDS = (
    Kind(
        ("apiextensions.k8s.io/v1/CustomResourceDefinition",),
        _example(f"{{{_VERSION}}}"),
        _RULES,
        examples={
            _SCALE: _example(_WITH_SCALE),
            _COLUMN: _example(
                f"{{{_VERSION}, additionalPrinterColumns: [{{name: A, type: string,"
                " jsonPath: .spec.a}]}"
            ),
        },
    ),
)
