"""Diagnostics about plans: 7xxx."""

from etcompile.diagnostics import codes
from etcompile.diagnostics.rule import Rule, Severity

_ERROR = Severity.ERROR

RULES = (
    Rule(
        codes.DEADLOCK,
        "deadlock",
        _ERROR,
        "{ring}",
        "move one of them to another wave: etcompile.dev/wave or argocd.argoproj.io/sync-wave",
        "A tool that applies in waves finishes a wave before it begins the next, and a Pod does not"
        " start without what its spec names. Objects that wait for each other wait for ever.",
        'a ConfigMap in wave "200" that a Pod of wave 100 mounts',
    ),
    Rule(
        codes.LEFT_SIDE,
        "left-side",
        _ERROR,
        "cannot compare with {side}: it does not compile",
        "compare with another revision, or with a folder of manifests: --against REV:DIR",
        "Two states are compared by what they compile to. The errors above this one are in the"
        " older state; nothing has to be corrected if that is an old commit.",
        "etcompile diff jobs/ --against v0.1   # whose jobs/ had a mistake",
    ),
)
