"""Name the exit codes of commands.

This module imports nothing, so that `etcompile --help`, which imports no rollout, can use it.
docs/apply.md and the help of each command describe the codes to users.
"""

DIFFERENT = 1
"""`diff` and `render --check`: there are differences."""
FAILED = 1
"""`status --watch`: the job has failed, or was deleted."""
REFUSED = 2
"""Usage, or refused input; click's own exit code, too."""
NOT_READY = 3
"""Not all objects became ready in time."""
CONFLICT = 4
"""The object or field belongs to somebody else, or the cluster changed after the plan."""
REPLACEMENT = 5
"""An object must be replaced, which was not allowed."""
CLUSTER = 6
"""The API server failed or could not be reached."""
INPUT = 7
"""Refused input, of a command that changes a cluster."""
INTERNAL = 70
"""A bug in etcompile: EX_SOFTWARE of sysexits.h."""
INTERRUPTED = 130
"""The user interrupted it or did not confirm: 128 and the number of SIGINT."""
