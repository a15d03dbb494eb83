"""All objects of a job.

The one place that knows which modules make up a job; each of them can be read alone.
"""

from typing import Any

from etcompile.backend import access, config, custom, gang, pods, secrets, services
from etcompile.backend.texts import Texts
from etcompile.model import Job, Settings


def lower(job: Job, settings: Settings, texts: Texts, stored: str) -> tuple[dict[str, Any], ...]:
    """The Kubernetes objects of a job.

    Args:
        job: The job, after its intents.
        settings: How to compile it.
        texts: The templates of scripts.
        stored: The job as the watcher will read it: the text of `job.yaml`.

    Returns:
        The objects, in no particular order (`etcompile.emit` gives them one).

    Raises:
        TemplateError: a template that the user gave does not render.
    """
    job, sources = secrets.resolve(gang.suited(job, settings), settings.secret)
    objects = [
        *sources,
        *access.objects(job),
        config.config_map(job, settings, texts, stored),
    ]
    if not job.run.suspended:
        objects += custom.objects(job)
    if not job.run.suspended or job.service:
        objects += services.objects(job, settings)
    for role in job.roles:
        if not job.run.suspended or role.batch:
            objects += pods.objects(job, role, settings)
    return tuple(gang.ganged(job, settings, objects))


def namespace_reason(job: Job, settings: Settings) -> str | None:
    """Why the job's namespace must be known to compile it; None if it need not be."""
    if job.access is not None and job.access.rules:
        return "the subject of its RoleBinding must name one"
    if job.names_namespace:
        return job.names_namespace
    if job.is_behind_one_service(settings.services):
        return "the DNS search domain of shared Services must name one"
    if "kpt" in settings.profiles and any(role.gate for role in job.roles):
        return "kpt's depends-on must name one"
    return secrets.namespace_reason(job, settings.secret)
