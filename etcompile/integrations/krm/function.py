"""A ResourceList to the answer of a run: jobs replaced by what they compile to, or no change.

If the compiler refuses anything, the list stays as it was, with the reasons as results: a pipeline
that went on with half of a job would apply half of it.
"""

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct, structs

from etcompile import emit, frontends
from etcompile.compiler import Compilation, compile  # noqa: A004
from etcompile.compiler.options import Options
from etcompile.compiler.runtimes import is_runtime, named_runtimes
from etcompile.diagnostics import Diagnostic, codes, has_errors
from etcompile.diagnostics.redaction import without_private_keys
from etcompile.integrations.krm.config import work
from etcompile.integrations.krm.places import PATHS, annotations, document, metadata
from etcompile.integrations.krm.resource_list import Item, ResourceList, resource_list, written
from etcompile.integrations.krm.results import results
from etcompile.k8s.objects import Object
from etcompile.load import Document

_LOCAL = "config.kubernetes.io/local-config"
_FILES = (*PATHS, "internal.config.kubernetes.io/package-path")


class Answer(Struct, frozen=True):
    """What a run of the function says.

    Args:
        texts: Makes the ResourceList, in pieces; none if the input was no ResourceList.
        diagnostics: Everything that is wrong or worth knowing.
        refused: Whether the run failed: the list is as it was.
    """

    texts: Callable[[], Iterator[str]]
    diagnostics: tuple[Diagnostic, ...]
    refused: bool


def answer(data: bytes, options: Options, *, strict: bool = False) -> Answer:
    """What the function answers.

    Args:
        data: A ResourceList, YAML or JSON.
        options: How to compile; what the functionConfig says comes after it.
        strict: Refuse warnings too.
    """
    given = resource_list(data, options.limits)
    if not isinstance(given, ResourceList):
        return Answer(lambda: iter(()), given, refused=True)
    todo = work(given.config, options)
    sources = {
        number: structs.replace(document(item.value), relative=f"items[{number}]")
        for number, item in enumerate(given.items)
        if _is_ours(item)
    }
    runtimes = {
        number: read
        for number, item in enumerate(given.items)
        if is_runtime(read := structs.replace(document(item.value), relative=f"items[{number}]"))
    }
    told: tuple[Diagnostic, ...] = todo.diagnostics
    compilation = Compilation((), ())
    if not has_errors(told) and (todo.inputs or sources):
        known = (*runtimes.values(), *todo.options.runtimes)
        how = structs.replace(todo.options, runtimes=known)
        compilation = compile((*sources.values(), *todo.inputs), how)
        # A list of nothing but skipped jobs goes on as it came.
        skips = bool(compilation.skipped)
        told += tuple(
            d for d in compilation.diagnostics if not (skips and d.code == codes.NOTHING_RENDERED)
        )
    refused = has_errors(told) or ((strict or todo.strict) and bool(told))

    def texts() -> Iterator[str]:
        items = given.items if refused else _items(given, sources, runtimes, compilation)
        pieces = written(given.version, items, given.config, results(told))
        # The pipeline stops here, so what is refused need not be complete.
        return map(without_private_keys, pieces) if refused else pieces

    return Answer(texts, told, refused=refused)


def _is_ours(item: Item) -> bool:
    value = item.value
    return not _is_local(item) and frontends.find(value["apiVersion"], value["kind"]) is not None


def _is_local(item: Item) -> bool:
    return annotations(item.value).get(_LOCAL) == "true"


def _items(
    given: ResourceList,
    sources: Mapping[int, Document],
    runtimes: Mapping[int, Document],
    compilation: Compilation,
) -> Iterator[Item | Object]:
    """The items of the answer: each job's objects in its place, those of no item at the end.

    A runtime has become part of the jobs that name it, and is no object of its own any more. One
    that nobody names, or a job that stays as it is, is somebody else's and stays, too.
    """
    places = {source.relative: number for number, source in sources.items()}
    made: dict[int | None, list[emit.Packed]] = {}
    for group in compilation.groups:
        own = next((places[name] for name in group.sources if name in places), None)
        made.setdefault(own, []).append(group.objects)
    left = {
        places[skipped.relative] for skipped in compilation.skipped if skipped.relative in places
    }
    merged = {name for group in compilation.groups for name in group.sources}
    needed = named_runtimes(compilation.skipped)
    taken = {
        number
        for number, runtime in runtimes.items()
        if runtime.relative in merged
        and runtime.name not in needed
        and not _is_local(given.items[number])
    }
    for number, item in enumerate(given.items):
        if number in taken:
            continue
        if number in sources and number not in left:
            for objects in made.get(number, ()):
                yield from (_noted(value, item.value) for value in objects)
        elif not _is_echo(item, given):
            yield item
    yield from emit.merged(made.get(None, ()))


def _is_echo(item: Item, given: ResourceList) -> bool:
    """Whether an item is the configuration, which kustomize gives to generators as one, too.

    A generator has no other items. Elsewhere, an item of that name is a file of somebody's.
    """
    config = given.config
    if config is None or len(given.items) > 1 or not _is_local(item):
        return False
    return all(
        item.value.get(field) == config.get(field) for field in ("apiVersion", "kind")
    ) and metadata(item.value).get("name") == metadata(config).get("name")


def _noted(value: Object, item: Object) -> Object:
    """An object with the pipeline's notes on which file it goes to: that of its job."""
    notes = {name: note for name in _FILES if (note := annotations(item).get(name))}
    if not notes:
        return value
    about = value["metadata"]
    own = about.get("annotations") or {}
    return {**value, "metadata": {**about, "annotations": {**own, **notes}}}
