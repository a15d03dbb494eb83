"""What runs fail of: what Pods say of it, what it means, and what is kept of it when they go."""

from etcompile.failures.causes import (
    OTHER_NODE_WANTED,
    PROBE_FAILED,
    Cause,
    cause_of,
    missing_object,
)
from etcompile.failures.log import (
    COMMAND_ENDED,
    MOST,
    Failure,
    FailureLog,
    avoided_nodes,
    failures_of,
    first_causes,
    log_text,
    read_log,
    tail_of,
    tied_with,
)
from etcompile.failures.stacks import Stack, elsewhere, stacks

__all__ = [
    "COMMAND_ENDED",
    "MOST",
    "OTHER_NODE_WANTED",
    "PROBE_FAILED",
    "Cause",
    "Failure",
    "FailureLog",
    "Stack",
    "avoided_nodes",
    "cause_of",
    "elsewhere",
    "failures_of",
    "first_causes",
    "log_text",
    "missing_object",
    "read_log",
    "stacks",
    "tail_of",
    "tied_with",
]
