"""Argo CD's config management plugin: its variables to options, and what it announces.

Argo CD speaks of parameters, announcements and discovery. This package translates them to options
of `etcompile render`.
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
