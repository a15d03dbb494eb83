"""Argo CD's config management plugin: its variables to options, and what it announces.

Apart from the command line because Argo CD's words (parameters, announcements, discovery) are
its own; what they mean is said here in options of `etcompile render`.
"""

from etcompile.integrations.argocd.discovery import choices, job_files
from etcompile.integrations.argocd.parameters import PARAMETERS, announced, plugin_file
from etcompile.integrations.argocd.request import ParameterError, Request, repository, request

__all__ = [
    "PARAMETERS",
    "ParameterError",
    "Request",
    "announced",
    "choices",
    "job_files",
    "plugin_file",
    "repository",
    "request",
]
