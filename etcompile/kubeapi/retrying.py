"""Whether a request that failed may be sent again, and after how long: decisions, no I/O.

Two questions decide. Did the request reach a server that could carry it out? And would a second
time change anything? A read and a server-side apply may always be repeated; a delete may when it
names the UID, so that it cannot hit a successor; a create may because its name is taken by then.
What is neither is sent again only if it surely was not carried out.
"""

import random
from typing import Literal

from msgspec import Struct

Repeatable = Literal["always", "unreached"]
"""May be repeated whatever happened, or only if no server carried it out."""

REFUSED_UNREAD = frozenset({429})
"""Statuses that say: not carried out. 503 is not among them: a proxy gives it for lost answers."""

PASSING = frozenset({429, 500, 502, 503, 504})
"""Statuses that another attempt may not meet."""


class Retries(Struct, frozen=True):
    """How patient to be.

    Args:
        attempts: How often a request is sent at most, the first time included.
        first: Seconds before the second attempt, on average; each wait is twice the one before.
        longest: The longest wait of our own choosing, in seconds.
        asked: The longest wait a server may ask for with Retry-After, in seconds.
    """

    attempts: int = 7
    first: float = 0.2
    longest: float = 10.0
    asked: float = 60.0


class Repeat(Struct, frozen=True):
    """A request is about to be sent again: what to tell a person who waits.

    Args:
        request: Method and path; never a body or a query.
        problem: Why: `429 TooManyRequests`, `connection reset` ...
        attempt: The number of the attempt that failed, from 1.
        wait: Seconds until the next.
    """

    request: str
    problem: str
    attempt: int
    wait: float

    def __str__(self) -> str:
        return f"{self.request}: {self.problem}, trying again in {self.wait:.1f} s"


def is_review(path: str) -> bool:
    """Whether what is created there is a question that the API server answers and does not keep.

    Args:
        path: The path of a request: `/apis/authorization.k8s.io/v1/selfsubjectaccessreviews`.
    """
    group = path.removeprefix("/apis/").partition("/")[0]
    return group in ("authentication.k8s.io", "authorization.k8s.io")


def repeatable(
    method: str, *, named: bool = False, pinned: bool = False, dry_run: bool = False
) -> Repeatable:
    """What may be repeated.

    Args:
        method: The HTTP method.
        named: For a create: the object has a name of its own, no `generateName`.
        pinned: For a delete: a precondition names the UID.
        dry_run: Whether nothing is to happen anyway.
    """
    match method:
        case "GET" | "HEAD" | "PATCH":
            # Apply and merge patch say what shall be, not what to add.
            return "always"
        case "POST" if named:
            return "always"
        case "DELETE" if pinned:
            return "always"
    return "always" if dry_run else "unreached"


def wait_before(attempt: int, retries: Retries, asked: float | None = None) -> float:
    """Seconds to wait after attempt number `attempt` failed.

    Jitter of plus or minus half keeps many workers that were refused together from coming back
    together. A server's own wish counts, up to `retries.asked`, with a little on top for the
    same reason.
    """
    spread = random.random()  # noqa: S311 (no secret hangs on it)
    if asked is not None:
        return min(asked, retries.asked) + spread * retries.first
    base = min(retries.first * 2.0 ** (attempt - 1), retries.longest)
    return base * (0.5 + spread)
