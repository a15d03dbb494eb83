"""More threads than the processors that a container may use."""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.facts import limit, passed, processes, variables
from etcompile.lint.subject import LintedJob
from etcompile.model.quantity import whole_number

CODE = codes.FEWER_PROCESSORS_THAN_THREADS
_THREADS = "OMP_NUM_THREADS"


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for each role whose CPU limit is below its processes times their threads."""
    for pods in job.pods:
        most = limit(pods.main, "cpu")
        if most is None:
            continue
        running = processes(job, pods)
        by_option, _ = passed(pods).get(_THREADS, (None, None))
        given = by_option or variables(pods.main).get(_THREADS)
        threads = whole_number(given) if given else None
        # Without the variable torchrun gives each of several processes one thread.
        count = (running.count if running else 1) * (threads or 1)
        # A single thread that gets a part of a processor was given no more on purpose.
        if count > 1 and count > most:
            said = [running.said] if running and running.count > 1 else []
            said += [f"{_THREADS} {threads}"] if threads else []
            yield diagnose(
                CODE,
                pods.place_in(pods.main, "resources", "limits", "cpu"),
                container=pods.main["name"],
                limit=pods.main["resources"]["limits"]["cpu"],
                threads=count,
                said=" and ".join(said),
            )
