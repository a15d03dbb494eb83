"""Files that people start from: a repository, and what Argo CD and Flux need to know about it.

Nothing here ends up in a job.
"""

from etcompile.integrations.scaffolding.repository import (
    JOBS,
    OUTPUT,
    OVERLAY,
    Plan,
    repository_files,
)
from etcompile.integrations.scaffolding.writer import Existing, existing, write
from etcompile.pages import text

__all__ = [
    "JOBS",
    "OUTPUT",
    "OVERLAY",
    "Existing",
    "Plan",
    "existing",
    "repository_files",
    "text",
    "write",
]
