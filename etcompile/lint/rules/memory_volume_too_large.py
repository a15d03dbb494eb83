"""A volume in memory that may grow beyond the memory of the container that fills it."""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.facts import limit
from etcompile.lint.subject import LintedJob
from etcompile.model.quantity import number

CODE = codes.MEMORY_VOLUME_TOO_LARGE


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for each volume in memory whose sizeLimit is no less than the memory limit."""
    for pods in job.pods:
        most = limit(pods.main, "memory")
        mounts = {mount["name"] for mount in pods.main.get("volumeMounts", ())}
        for index, volume in enumerate(pods.role.template.spec.get("volumes", ())):
            given = volume.get("emptyDir") or {}
            size = number(given["sizeLimit"]) if given.get("sizeLimit") is not None else None
            if given.get("medium") != "Memory" or size is None or most is None:
                continue
            if volume["name"] in mounts and size >= most:
                yield diagnose(
                    CODE,
                    pods.place("volumes", index, "emptyDir", "sizeLimit"),
                    volume=volume["name"],
                    size=given["sizeLimit"],
                    container=pods.main["name"],
                    limit=pods.main["resources"]["limits"]["memory"],
                )
