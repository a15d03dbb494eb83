"""What runs fail of: how Pods tell it, what it means, and what is kept of it when they go."""

from etcompile.failures.causes import OTHER_NODE_WANTED, PROBE_FAILED, Blame, Cause
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
)
from etcompile.failures.stacks import Frame, Stack, elsewhere, stacks

__all__ = [
    "COMMAND_ENDED",
    "MOST",
    "OTHER_NODE_WANTED",
    "PROBE_FAILED",
    "Blame",
    "Cause",
    "Failure",
    "FailureLog",
    "Frame",
    "Stack",
    "avoided_nodes",
    "elsewhere",
    "failures_of",
    "first_causes",
    "log_text",
    "read_log",
    "stacks",
    "tail_of",
]
