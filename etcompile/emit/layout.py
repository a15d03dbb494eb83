"""Objects to the files of an output folder, as names and texts.

One folder per job, numbered files, and kustomizations that list everything in the order in
which it is to be applied, so that kubectl, Argo CD and Flux all read the same thing
(reference/gitops.md 6.6). Nothing is written here: `etcompile.emit.directory` does.
"""

import collections
import json
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from etcompile.digest import sha256
from etcompile.emit import objects
from etcompile.emit.objects import Manifest
from etcompile.emit.order import WAVE_CONFIG, WAVE_PODS, ordered, wave
from etcompile.emit.stream import header, stream
from etcompile.emit.yaml import to_yaml
from etcompile.naming import natural

KUSTOMIZATION = "kustomization.yaml"
PREREQS, PODS = "prereqs", "pods"
"""The folders of a staged layout."""

_ROLE_LABEL = "etcompile.dev/role"

_LONGEST_STEM = 200
"""In characters: a file name has room for 255 bytes, and names of objects for 253."""

_UNSAFE = re.compile(r"[^a-z0-9.-]")


class Group(Struct, frozen=True):
    """Objects that are rendered together.

    Args:
        name: The job they belong to; None for neighbours, objects that belong to no job.
        namespace: The job's namespace, if it names one.
        objects: Kubernetes objects, in any order.
        sources: The files they come from, independent of the working directory.
    """

    name: str | None
    namespace: str | None
    objects: tuple[Manifest, ...]
    sources: tuple[str, ...]


def layout(groups: Sequence[Group], *, split: bool = False, staged: bool = False) -> dict[str, str]:
    """The files of an output folder.

    Neighbours stand at the root and are applied first, as Pods may mount or be bounded by them;
    then come the jobs, each in a folder of its own.

    Args:
        groups: What is rendered, in any order.
        split: One file per object instead of one per number.
        staged: Two such folders, of what Pods need and of the Pods, for tools that know no waves
            and wait for a whole folder (reference/gitops.md 2.3).

    Returns:
        Texts by path: relative, with `/`, in the order in which they are applied.
    """
    return _staged(groups, split=split) if staged else _flat(groups, split=split)


def _staged(groups: Sequence[Group], *, split: bool) -> dict[str, str]:
    files: dict[str, str] = {}
    for stage in (PREREQS, PODS):
        inside = _flat([_of_stage(group, stage) for group in groups], split=split)
        files |= {f"{stage}/{name}": text for name, text in inside.items()}
    return files | {KUSTOMIZATION: _kustomization((PREREQS, PODS), ())}


def _of_stage(group: Group, stage: str) -> Group:
    found = (value for value in group.objects if (wave(value) >= WAVE_PODS) is (stage == PODS))
    return structs.replace(group, objects=tuple(found))


def _flat(groups: Sequence[Group], *, split: bool) -> dict[str, str]:
    neighbours = _merged([group for group in groups if group.name is None])
    jobs = [group for group in groups if group.name is not None and group.objects]
    files = _numbered(neighbours, split=split)
    resources = list(files)
    for folder, group in _folders(jobs, taken={KUSTOMIZATION, *files}):
        inside = _numbered(group, split=split)
        inside[KUSTOMIZATION] = _kustomization(list(inside), group.sources)
        files |= {f"{folder}/{name}": text for name, text in inside.items()}
        resources.append(folder)
    # Without sources: a job more is a line more here, and not another header too. Without
    # resources too: a tool whose folder is gone prunes nothing.
    files[KUSTOMIZATION] = _kustomization(resources, ())
    return files


def _merged(groups: Sequence[Group]) -> Group:
    return Group(
        name=None,
        namespace=None,
        objects=tuple(manifest for group in groups for manifest in group.objects),
        sources=tuple(source for group in groups for source in group.sources),
    )


def _folders(jobs: Sequence[Group], taken: set[str]) -> Iterable[tuple[str, Group]]:
    """Each job with its folder: its name, and its namespace where the name alone is not it."""
    namespaces = collections.defaultdict(set)
    for job in jobs:
        namespaces[job.name].add(job.namespace)
    for job in sorted(
        jobs, key=lambda job: (natural(job.name or ""), natural(job.namespace or ""))
    ):
        several = len(namespaces[job.name]) > 1
        folder = f"{job.name}.{job.namespace}" if several and job.namespace else f"{job.name}"
        yield _free(_UNSAFE.sub("-", folder), taken), job


def _numbered(group: Group, *, split: bool) -> dict[str, str]:
    """The files of a group, without its kustomization, in the order of their names."""
    by_file: dict[str, list[Manifest]] = collections.defaultdict(list)
    for manifest in ordered(group.objects):
        by_file[_file(manifest, of_job=group.name is not None)].append(manifest)
    in_order = sorted(by_file.items())
    if not split:
        return {f"{file}.yaml": stream(found, group.sources) for file, found in in_order}
    apart = [(file[:2], manifest) for file, found in in_order for manifest in found]
    names = _object_files(apart)
    return {
        name: stream([manifest], group.sources)
        for name, (_, manifest) in zip(names, apart, strict=True)
    }


def _file(manifest: Manifest, *, of_job: bool) -> str:
    """The file an object goes to: numbers, so that any tool reads them in the right order."""
    number = wave(manifest)
    if number < WAVE_CONFIG:
        # What SOPS has encrypted it decrypts by file, one object in each.
        return f"10-{_safe(_stem(manifest))}" if "sops" in manifest else "10-prereqs"
    if number < WAVE_PODS:
        return "20-config"
    if not of_job:
        return "80-workload"
    return "91-workers" if objects.label(manifest, _ROLE_LABEL) == "worker" else "90-launcher"


def _object_files(manifests: Sequence[tuple[str, Manifest]]) -> list[str]:
    """A file name for each object, after its number, kind and name.

    A name that cannot be a file's, or that objects of several namespaces or API groups share,
    gets a digest of what the object is, so that it depends on no other object's place.
    """
    stems = [f"{number}-{_stem(manifest)}" for number, manifest in manifests]
    safe = [_safe(stem) for stem in stems]
    uses = collections.Counter(safe)
    taken = {KUSTOMIZATION}
    names = []
    for (_, manifest), stem, name in zip(manifests, stems, safe, strict=True):
        exact = name == stem and uses[name] == 1
        names.append(_free(name if exact else f"{name}-{_digest(manifest)}", taken, ".yaml"))
    return names


def _safe(stem: str) -> str:
    return _UNSAFE.sub("-", stem.lower())[:_LONGEST_STEM]


def _stem(manifest: Manifest) -> str:
    return f"{objects.kind(manifest).lower()}-{objects.name(manifest).removesuffix('-')}"


def _digest(manifest: Manifest) -> str:
    identity = (
        objects.api_version(manifest),
        objects.kind(manifest),
        objects.namespace(manifest),
        objects.name(manifest),
    )
    return sha256(json.dumps(identity).encode())[:8]


def _free(stem: str, taken: set[str], suffix: str = "") -> str:
    """The name, or the name and a number if it is taken; it is taken from now on."""
    name, number = stem + suffix, 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}{suffix}"
    taken.add(name)
    return name


def _kustomization(resources: Sequence[str], sources: Sequence[str]) -> str:
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(resources),
        # The default order of kubectl's kustomize is by kind (reference/gitops.md 6.6).
        "sortOptions": {"order": "fifo"},
    }
    return header(sources) + to_yaml(kustomization)
