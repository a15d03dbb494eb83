"""What the exit code of a command says: each meaning has one name, and each name one number.

At the bottom, because a rollout comes to one of them and `etcompile --help`, which imports no
rollout, ends with one as well. What users are told of them stands in docs/apply.md and in the help
of each command.
"""

DIFFERENT = 1
"""`diff` and `render --check`: there are differences."""
FAILED = 1
"""`status --watch`: the job has failed, or was deleted."""
REFUSED = 2
"""Usage, or refused input. click ends with it as well."""
NOT_READY = 3
"""Not all objects became ready in time."""
CONFLICT = 4
"""Somebody else's object or field; or another world than the plan's."""
REPLACEMENT = 5
"""An object must be replaced, and nobody has allowed it."""
CLUSTER = 6
"""The API server, or the way to it."""
INPUT = 7
"""Refused input, of a command that changes a cluster."""
INTERNAL = 70
"""A mistake in etcompile: EX_SOFTWARE of sysexits.h."""
INTERRUPTED = 130
"""Somebody ended it, or did not consent: 128 and the number of SIGINT."""
