"""Send requests until they succeed, or until it is no use: credentials, waits, repeats.

A request that failed is sent again if it did not reach a server that could carry it out, or if a
second time changes nothing: a read, a server-side apply, a delete that names the UID, a create
whose name would be taken by then.
"""

import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from typing import Any, Literal
from urllib.parse import quote, urlencode

import msgspec
import urllib3
from msgspec import Struct

from etcompile._version import __version__
from etcompile.kubeapi.authentication import Credential, Credentials
from etcompile.kubeapi.errors import ClusterError, refusal
from etcompile.kubeapi.kubeconfig import Access
from etcompile.kubeapi.transport import NoAnswerError, Transport

Query = Mapping[str, str]
Repeatable = Literal["always", "unreached"]
"""May be repeated whatever happened, or only if no server carried it out."""

JSON = "application/json"
TEXT = "text/plain, */*"
_AGENT = f"etcompile/{__version__}"

_PASSING = frozenset({429, 500, 502, 503, 504})
"""Statuses that another attempt may not meet."""

_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
"""A warning of the API server (RFC 7234 5.5.7)."""
_MOST_WARNINGS = 100

OBJECTS = msgspec.json.Decoder(dict[str, Any])
# A thousand requests of a rollout have the same query, and few dates.
_encoded = lru_cache(64)(urlencode)
_parsed = lru_cache(4)(parsedate_to_datetime)


class Retries(Struct, frozen=True):
    """How often to repeat a request, and how long to wait.

    Args:
        attempts: How often a request is sent at most, the first time included.
        first: Seconds before the second attempt, on average; each wait is twice the one before.
        longest: The longest wait of our own choosing, in seconds.
        server: The longest wait that a server may set with Retry-After, in seconds.
    """

    attempts: int = 7
    first: float = 0.2
    longest: float = 10.0
    server: float = 60.0

    def wait_before(self, attempt: int, retry_after: float | None) -> float:
        """Return the seconds to wait after an attempt failed; the first is number 1.

        Jitter of plus or minus half keeps many workers that were refused together from coming back
        together. What the server says counts, with a little on top for the same reason.
        """
        spread = random.random()  # noqa: S311 (no secret hangs on it)
        if retry_after is not None:
            return min(retry_after, self.server) + spread * self.first
        return min(self.first * 2.0 ** (attempt - 1), self.longest) * (0.5 + spread)


class Session:
    """An access in use; safe to share between threads.

    Attributes:
        warnings: What the API server warned of, each text once, in the order in which it came.
    """

    def __init__(
        self,
        access: Access,
        *,
        connections: int,
        timeout: float,
        retries: Retries,
        notice: Callable[[str], None] | None,
    ) -> None:
        self.access = access
        self.clock = ServerClock()
        self.warnings: dict[str, None] = {}
        self._credentials = Credentials(access)
        self._connect = partial(Transport, access, connections=connections, timeout=timeout)
        self._retries = retries
        self._notice = notice
        self._of_context = f" (context {access.context})" if access.context else ""
        self._answered = False
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._transport: Transport | None = None
        self._pair = "", ""

    def value(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: Any = None,
        *,
        content: str = JSON,
        accept: str = JSON,
        repeats: Repeatable = "always",
        largest: int | None = None,
    ) -> Any:
        headers = {"Accept": accept}
        encoded = None
        if body is not None:
            headers["Content-Type"], encoded = content, msgspec.json.encode(body)
        answer, data = self._answer(method, path, query, encoded, headers, repeats, largest=largest)
        try:
            return OBJECTS.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            server = self.access.cluster.server
            raise ClusterError(
                "Unreachable",
                f"{server} does not answer as an API server does{self._of_context}",
                status=answer.status,
                hint="check the URL of the server, and the proxies in between",
                request=f"{method} {path}",
            ) from None

    def stream(
        self, path: str, query: Query, quiet: float, accept: str
    ) -> urllib3.BaseHTTPResponse:
        return self._answer("GET", path, query, None, {"Accept": accept}, "always", quiet=quiet)[0]

    def close(self) -> None:
        self._stopped.set()
        with self._lock:
            if self._transport is not None:
                self._transport.close()

    def _answer(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: bytes | None,
        headers: dict[str, str],
        repeats: Repeatable,
        *,
        largest: int | None = None,
        quiet: float | None = None,
    ) -> tuple[urllib3.BaseHTTPResponse, bytes]:
        url = quote(path, safe="/:~")
        if query:
            url = f"{url}?{_encoded(tuple(query.items()))}"
        headers["User-Agent"] = _AGENT
        request = f"{method} {path}"
        attempt, uncertain, renewed = 0, False, False
        while True:
            attempt += 1
            retry_after: float | None = None
            credential = self._credentials.current()
            transport = self._connected(credential)
            if transport.compression:
                headers["Accept-Encoding"] = "gzip"
            begun = steady()
            try:
                answer, data = transport.send(
                    method, url, body, headers | credential.headers, largest=largest, quiet=quiet
                )
            except NoAnswerError as failure:
                # A server that was there may be restarting; one that never answered is not there.
                passing = failure.passing and (self._answered or not failure.absent)
                unread = not failure.reached
                problem = f"{failure.problem}{self._of_context}"
                hint = "check that the cluster runs and can be reached from here"
                if failure.reached and repeats == "unreached":
                    hint = "the request may have been carried out: check before you repeat it"
                error = ClusterError("Unreachable", problem, hint=hint, request=request)
            else:
                self._answered = True
                for text in _WARNING.findall(answer.headers.get("Warning", "")):
                    if len(self.warnings) < _MOST_WARNINGS:
                        self.warnings[text.replace('\\"', '"')] = None
                self.clock.observe(answer.headers.get("Date", ""), begun)
                if answer.status < 400:
                    return answer, data
                error = refusal(answer.status, data, answer.headers, request)
                if answer.status == 401:
                    error.message += self._of_context
                    if not renewed:
                        # Once: credentials that are new and refused too will not be accepted.
                        renewed = True
                        if self._credentials.renewed(credential):
                            attempt -= 1
                            continue
                unread = answer.status == 429  # not 503: a proxy gives it for lost answers
                passing = answer.status in _PASSING and not error.invalid
                problem, retry_after = f"{answer.status} {error.reason}", error.retry_after
            error.attempts, error.uncertain = attempt, uncertain
            if self._stopped.is_set() or not passing or attempt >= self._retries.attempts:
                error.uncertain = uncertain or (passing and not unread)
                raise error
            if not unread and repeats == "unreached":
                error.uncertain = True
                raise error
            uncertain = uncertain or not unread
            wait = self._retries.wait_before(attempt, retry_after)
            if self._notice is not None:
                self._notice(f"{request}: {problem}, trying again in {wait:.1f} s")
            if self._stopped.wait(wait):
                raise ClusterError("Interrupted", "interrupted while waiting", request=request)

    def _connected(self, credential: Credential) -> Transport:
        """Return connections that show this credential, old ones if its certificate is the same."""
        pair = credential.certificate, credential.key
        with self._lock:
            if self._transport is None or self._pair != pair:
                try:
                    self._transport = self._connect(*pair)
                except ClusterError:
                    # A certificate and its key may be replaced one after the other.
                    if self._transport is None:
                        raise
                self._pair = pair
            return self._transport


# The API server's clock --------------------------------------------------------------------------

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady() -> float:
    """Return the seconds of a clock that nobody sets, and that runs on while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


class ServerClock:
    """The clock of an API server, from the dates of its answers; safe to share between threads.

    The times in objects are the API server's: when a Pod was created, by when it should have gone.
    To compare them with the clock of this machine is wrong by as much as the two clocks differ.
    Every answer carries a date, in whole seconds; between answers a clock runs that nobody sets.
    """

    def __init__(self) -> None:
        self._ahead = time.time() - steady()

    def now(self) -> float:
        """Return the time, in seconds since 1970; this machine's until the first answer."""
        return steady() + self._ahead

    def observe(self, date: str, sent: float) -> None:
        """Learn from the `Date` of an answer, and from when it was requested, by `steady`."""
        try:
            seconds = _parsed(date).timestamp()
        except (TypeError, ValueError):
            return
        # The date was written between request and answer, and lacks up to a second.
        least, most = seconds - steady(), seconds + 1.0 - sent
        self._ahead = min(max(self._ahead, least), most)
