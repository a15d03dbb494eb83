"""Mutated inputs, compiled and held against the API server, in both directions.

Accepted by etcompile: the server must take every object. Refused by etcompile because of
Kubernetes' own rules: the server must refuse the Pod template or the object as well.
"""

import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

import etcompile
from etcompile import frontends
from etcompile.diagnostics import Severity
from etcompile.frontends import Kind
from etcompile.k8s.path import value_at
from mutations.cluster import Cluster
from mutations.corpus import Documents
from mutations.values import VERSION

_EDGE = 12
"""Of more objects than twice this, those in the middle are like their neighbours."""
KUBERNETES_CODES = frozenset({"ET4001", "ET4002"})
_OF_A_CONTROLLER = ".metric.selector."
"""The API server stores any selector of a metric; the autoscaler's controller cannot read it."""

_OF_A_RUNTIME = "runtime."
"""Where a TrainJob and its runtime make a Pod template together, the server sees none by hand."""


class Verdict(Struct, frozen=True):
    """What came of an input.

    Args:
        accepted: Whether etcompile compiled it.
        told: Its errors in full.
        refusals: What the API server refuses of it, in its words.
        comparable: Whether the API server knows all of its kinds, and each object has a name.
    """

    accepted: bool
    codes: frozenset[str] = frozenset()
    reported: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    comparable: bool = True


def compiled(documents: Documents) -> etcompile.Compilation:
    """The input compiled from text, as a user has it."""
    text = "\n---\n".join(json.dumps(one) for one in documents)
    options = etcompile.Options(
        settings=etcompile.Settings(kubernetes_version=VERSION), allow_plain_secrets=True
    )
    return etcompile.compile("-", options, stdin=io.BytesIO(text.encode("utf-8", "surrogatepass")))


def is_job(document: Any) -> Kind | None:
    """The kind of a document that etcompile compiles, and does not pass through."""
    named = document.get("apiVersion"), document.get("kind")
    return frontends.find(*named) if all(isinstance(one, str) for one in named) else None


def verdict(documents: Documents, cluster: Cluster) -> Verdict:
    """What etcompile and the API server say of an input."""
    compilation = compiled(documents)
    if compilation.ok:
        return Verdict(accepted=True, refusals=tuple(_refusals(compilation.objects, cluster)))
    errors = [one for one in compilation.diagnostics if one.severity is Severity.ERROR]
    by_hand = list(_by_hand(documents))
    refusals = [*_refusals(by_hand, cluster, lenient=False)]
    if not refusals:
        applied = (cluster.apply_refusal(one) for one in by_hand if cluster.serves(one))
        refusals = [refused for refused in applied if refused]
    return Verdict(
        accepted=False,
        codes=frozenset(one.code for one in errors),
        reported=tuple(f"{one.code} {one.message}" for one in errors),
        refusals=tuple(refusals),
        comparable=all(cluster.serves(one) and _is_named(one) for one in by_hand)
        and not all(_OF_A_CONTROLLER in one.message for one in errors)
        and not any(one.message.startswith(_OF_A_RUNTIME) for one in errors),
    )


def _is_named(value: Mapping[str, Any]) -> bool:
    """Without a name nothing can be applied, though the server would name a LimitRange itself."""
    metadata = value.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("name") or metadata.get("generateName"))


def _refusals(values: Any, cluster: Cluster, *, lenient: bool = True) -> Iterator[str]:
    values = [one for one in values if cluster.serves(one)]
    if len(values) > 2 * _EDGE:
        values = [*values[:_EDGE], *values[-_EDGE:]]
    for value in values:
        if refused := cluster.refusal(value, lenient=lenient):
            yield f"{value['kind']}: {refused}"


def _by_hand(documents: Documents) -> Iterator[Mapping[str, Any]]:
    """The Pods of the templates and the other objects of an input, made without etcompile."""
    for document in documents:
        if not isinstance(document, dict):
            continue
        kind = is_job(document)
        if kind is None:
            yield {key: value for key, value in document.items() if key != "status"}
            continue
        for path in kind.templates_of(document):
            template = value_at(document, path)
            if isinstance(template, dict):
                yield _pod(template)


def _pod(template: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = template.get("metadata") or {}
    spec = template.get("spec")
    if isinstance(metadata, dict):
        metadata = {**metadata, "name": "pod"}
        metadata.pop("namespace", None)
        metadata.pop("generateName", None)
    others = {key: value for key, value in template.items() if key not in ("metadata", "spec")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, **others}
