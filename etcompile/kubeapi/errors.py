"""Turn what went wrong between etcompile and a cluster into one exception.

Callers decide on `status` and `reason`; people read the message.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct

from etcompile.diagnostics import Diagnostic, RefusedError, codes, diagnose
from etcompile.exitcodes import CLUSTER

_CONFLICT = re.compile(r'conflict with (?P<manager>"(?:[^"\\]|\\.)*")')

# What a wrong object looks like to the API server is no news to whoever wrote it; these are the
# reasons that the cluster's side of the matter is to blame for.
_CODES = {
    "Kubeconfig": codes.KUBECONFIG,
    "Credentials": codes.CLUSTER_CREDENTIALS,
    "Unauthorized": codes.CLUSTER_CREDENTIALS,
    "Unreachable": codes.CLUSTER_UNREACHABLE,
    "Interrupted": codes.CLUSTER_UNREACHABLE,
}


class Cause(Struct, frozen=True):
    """One of the details of a refusal, as the API server writes it; the field may be empty."""

    reason: str
    message: str
    field: str


class FieldConflict(Struct, frozen=True):
    """A field (`.spec.containers[name="main"].image`) that an apply would take from a manager."""

    field: str
    manager: str


class ClusterError(RefusedError):
    """A request that failed for good, or a connection that could not be made.

    Attributes:
        status: The HTTP status; None when no answer came.
        reason: The API server's reason (`NotFound`, `Conflict`, `Invalid`, `Expired` ...), or
            ours: `Kubeconfig`, `Credentials`, `Unreachable`, `Interrupted`.
        request: Method and path, without query or body; empty when none was made.
        conflicts: The causes that are conflicts of field managers, parsed.
        retry_after: Seconds the server asked to wait; None when it did not say.
        attempts: How often the request was sent.
        uncertain: Whether an earlier attempt of it may have been carried out: the answer to a
            repeated create is then AlreadyExists for an object that may be ours.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        status: int | None = None,
        hint: str = "",
        request: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__((), CLUSTER)
        self.status = status
        self.reason = reason
        self.message = message
        self.hint = hint
        self.request = request
        self.causes = causes
        conflicts = []
        for cause in causes:
            if cause.reason != "FieldManagerConflict":
                continue
            manager = cause.message
            if words := _CONFLICT.search(cause.message):
                try:
                    manager = str(msgspec.json.decode(words["manager"]))
                except msgspec.DecodeError:  # Go quotes a few characters as JSON does not
                    manager = words["manager"][1:-1]
            conflicts.append(FieldConflict(cause.field, manager))
        self.conflicts = tuple(conflicts)
        self.retry_after = retry_after
        self.attempts = 1
        self.uncertain = False

    def __str__(self) -> str:
        answer = f" ({self.status} {self.reason})" if self.status else ""
        return f"{self.request}: {self.message}{answer}" if self.request else self.message

    @property
    def not_found(self) -> bool:
        return self.status == 404

    @property
    def already_exists(self) -> bool:
        return self.reason == "AlreadyExists"

    @property
    def conflict(self) -> bool:
        """Whether another write is in the way: a field's owner, a precondition."""
        return self.status == 409 and not self.already_exists

    @property
    def expired(self) -> bool:
        """Whether a resource version is too old to go on from: list again."""
        return self.status == 410 or self.reason in ("Expired", "Gone")

    @property
    def invalid(self) -> bool:
        """Whether the API server refuses the object as it is: sending it again is no use."""
        return self.status in (400, 422) or self.reason == "Invalid"

    @property
    def terminating(self) -> bool:
        """Whether the object's namespace is being deleted: nothing can be created in it."""
        return any(cause.reason == "NamespaceTerminating" for cause in self.causes)

    @property
    def over_quota(self) -> bool:
        return self.status == 403 and "exceeded quota" in self.message

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        code = _CODES.get(self.reason, codes.CLUSTER_REFUSES)
        return (diagnose(code, None, problem=str(self), advice=self.hint),)


class KubeconfigError(ClusterError):
    """The kubeconfig, or what it names, does not lead to a cluster."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__("Kubeconfig", message, hint=hint)


@contextmanager
def if_allowed() -> Iterator[None]:
    """Leave the block if the user may not read there, or the cluster does not know the kind."""
    try:
        yield
    except ClusterError as error:
        if error.status not in (403, 404):
            raise


def refusal(
    status: int, body: bytes, headers: Mapping[str, str], request: str = ""
) -> ClusterError:
    """Return the error that an answer of 400 or above means, perhaps from a proxy."""
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        answer = None
    if not isinstance(answer, dict) or answer.get("kind") != "Status":
        text = " ".join(body[:500].decode(errors="replace").split())[:200]
        message = text or "the server gave no reason"
        error = ClusterError(_reason(status), message, status=status, request=request)
    else:
        error = status_error(answer, request, status=status)
    seconds = headers.get("Retry-After", "")  # API servers never send the form with a date
    if seconds.isdecimal():
        error.retry_after = float(seconds)
    return error


def status_error(
    answer: Mapping[str, Any], request: str = "", *, status: int | None = None
) -> ClusterError:
    details = answer.get("details") or {}
    code = status or answer.get("code")
    seconds = details.get("retryAfterSeconds")
    message = answer.get("message") or "the server gave no reason"
    values = _VALUES if "Kind=Secret" in message else _VALUE
    message = " ".join(values.sub("", message).split())
    reason = answer.get("reason") or _reason(code)
    if message.startswith(_MALFORMED):
        reason = "Invalid"
    return ClusterError(
        reason,
        message,
        status=code,
        hint=_HINTS.get(code or 0, ""),
        request=request,
        causes=tuple(
            Cause(cause.get("reason", ""), cause.get("message", ""), cause.get("field", ""))
            for cause in details.get("causes") or ()
        ),
        retry_after=float(seconds) if seconds else None,
    )


# A server-side apply of a field that the kind does not have, of a value of another type, or of two
# list entries with one key is answered with status 500 and no reason (seen with 1.34): it will
# never pass.
_MALFORMED = ("failed to create typed patch object", "failed to convert new object")

# Those answers quote the value, a Secret's too, as Go prints it: over several lines if it has them.
_VALUE = re.compile(r", got &.*?(?=\n[ \t]+\.|\Z)", re.DOTALL)
_VALUES = re.compile(r", got &.*", re.DOTALL)

_HINTS = {
    401: "log in again: the cluster does not accept these credentials",
    403: "ask for these rights; `kubectl auth can-i --list` shows yours",
}


def _reason(status: int | None) -> str:
    try:
        return HTTPStatus(status or 0).phrase.replace(" ", "")
    except ValueError:
        return "Unknown"
