"""Requests that are made until they succeed, or until it is no use: credentials, waits, repeats.

`retrying` decides, `transport` sends, `credentials` says who asks; here they meet.
"""

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import urllib3

from etcompile._version import __version__
from etcompile.kubeapi.access import Access
from etcompile.kubeapi.clock import ServerClock, steady
from etcompile.kubeapi.credentials import Credential, Credentials
from etcompile.kubeapi.errors import ClusterError, refusal
from etcompile.kubeapi.retrying import (
    PASSING,
    REFUSED_UNREAD,
    Repeat,
    Repeatable,
    Retries,
    wait_before,
)
from etcompile.kubeapi.transport import Answer, NoAnswerError, Transport

Query = Mapping[str, str]

_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
"""A warning of the API server (RFC 7234 5.5.7, as Kubernetes writes it)."""
_MOST_WARNINGS = 100

JSON = "application/json"


class Session:
    """An access in use; safe to share between threads.

    Args:
        access: The cluster and who asks.
        connections: How many requests may be under way without opening connections anew.
        timeout: Seconds to wait for an answer.
        retries: How patient to be.
        notice: Is told of each request that is sent again, from the thread that waits.
    """

    def __init__(
        self,
        access: Access,
        *,
        connections: int,
        timeout: float,
        retries: Retries,
        notice: Callable[[Repeat], None] | None,
    ) -> None:
        self.access = access
        self.clock = ServerClock()
        self._credentials = Credentials(access)
        self._connections = connections
        self._timeout = timeout
        self._retries = retries
        self._notice = notice
        self.warnings: dict[str, None] = {}
        """What the API server warned of, each text once, in the order in which it came."""
        self._answered = False
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._transport: Transport | None = None
        self._shown: Credential | None = None

    def value(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: bytes | None = None,
        *,
        content: str = JSON,
        accept: str = JSON,
        repeats: Repeatable = "always",
        largest: int | None = None,
    ) -> Any:
        """The JSON value that a request is answered with.

        Args:
            method: The HTTP method.
            path: Its path, unquoted.
            query: What stands behind the `?`, by name.
            body: What to send.
            content: The body's type.
            accept: The answer's.
            repeats: When it may be sent again.
            largest: Bytes of the answer that are read; None for all of them.

        Raises:
            ClusterError: the request was refused, or not answered.
            LargeAnswerError: the answer is larger.
        """
        answer = self._answer(method, path, query or {}, body, content, accept, repeats, largest)
        try:
            return msgspec.json.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ClusterError(
                "Unreachable",
                f"{self.access.server} does not answer as an API server does"
                f"{_of_context(self.access)}",
                status=answer.status,
                hint="check the URL of the server, and the proxies in between",
                request=f"{method} {path}",
            ) from None

    def text(self, path: str, query: Query) -> str:
        """The text that a GET is answered with.

        Raises:
            ClusterError: the request was refused, or not answered.
        """
        answer = self._answer("GET", path, query, None, JSON, "text/plain, */*", "always")
        return answer.body.decode(errors="replace")

    def stream(
        self, path: str, query: Query, quiet: float, accept: str
    ) -> urllib3.BaseHTTPResponse:
        """The answer to a GET, while it is coming.

        Raises:
            ClusterError: the request was refused, or not answered.
        """
        url = _url(path, query)

        def sent(transport: Transport, headers: Mapping[str, str]) -> Answer:
            return transport.stream(url, headers, quiet)

        answer = self._until_done(f"GET {path}", sent, {"Accept": accept}, "always")
        assert answer.stream is not None  # noqa: S101 (it is no refusal)
        return answer.stream

    def close(self) -> None:
        """Ends waits, and closes connections; whoever waits gets a ClusterError."""
        self._stopped.set()
        with self._lock:
            if self._transport is not None:
                self._transport.close()

    @property
    def stopped(self) -> bool:
        """Whether it was closed."""
        return self._stopped.is_set()

    def wait(self, request: str, seconds: float) -> None:
        """Waits, unless the session is closed meanwhile.

        Raises:
            ClusterError: with reason `Interrupted`.
        """
        if self._stopped.wait(seconds):
            raise ClusterError("Interrupted", "interrupted while waiting", request=request)

    def _answer(
        self,
        method: str,
        path: str,
        query: Query,
        body: bytes | None,
        content: str,
        accept: str,
        repeats: Repeatable,
        largest: int | None = None,
    ) -> Answer:
        url = _url(path, query)
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content

        def sent(transport: Transport, headers: Mapping[str, str]) -> Answer:
            return transport.send(method, url, body, headers, largest)

        return self._until_done(f"{method} {path}", sent, headers, repeats)

    def _until_done(
        self,
        request: str,
        sent: Callable[[Transport, Mapping[str, str]], Answer],
        headers: Mapping[str, str],
        repeats: Repeatable,
    ) -> Answer:
        """The answer, below 400."""
        attempt, uncertain, refreshed = 0, False, False
        while True:
            attempt += 1
            credential = self._credentials.current()
            transport = self._connected(credential)
            asked: float | None = None
            begun = steady()
            try:
                answer = sent(transport, self._headers(transport, credential, headers))
            except NoAnswerError as failure:
                # A server that was there may be restarting; one that never answered is not there.
                passing = failure.passing and (self._answered or not failure.absent)
                unread = not failure.reached
                problem = f"{failure.problem}{_of_context(self.access)}"
                error = _unreachable(failure, self.access, request, repeats)
            else:
                self._answered = True
                for text in _WARNING.findall(answer.headers.get("Warning", "")):
                    if len(self.warnings) < _MOST_WARNINGS:
                        self.warnings[text.replace('\\"', '"')] = None
                self.clock.heard(answer.headers.get("Date", ""), begun)
                if answer.status < 400:
                    return answer
                error = refusal(answer.status, answer.body, answer.headers, request)
                if answer.status == 401:
                    error.message += _of_context(self.access)
                if answer.status == 401 and not refreshed:
                    # Once: credentials that are new and refused too are not going to be liked.
                    refreshed = True
                    if self._credentials.renewed(credential) is not None:
                        attempt -= 1
                        continue
                unread = answer.status in REFUSED_UNREAD
                passing = answer.status in PASSING and not error.invalid
                problem, asked = f"{answer.status} {error.reason}", error.retry_after
            error.attempts, error.uncertain = attempt, uncertain
            if self._stopped.is_set() or not passing or attempt >= self._retries.attempts:
                error.uncertain = uncertain or (passing and not unread)
                raise error
            if not unread and repeats == "unreached":
                error.uncertain = True
                raise error
            uncertain = uncertain or not unread
            wait = wait_before(attempt, self._retries, asked)
            if self._notice is not None:
                self._notice(Repeat(request, problem, attempt, wait))
            self.wait(request, wait)

    def _connected(self, credential: Credential) -> Transport:
        """Connections that show this credential; new ones only if the certificate is new."""
        with self._lock:
            shown = self._shown
            if (
                self._transport is None
                or shown is None
                or (shown.certificate, shown.key) != (credential.certificate, credential.key)
            ):
                try:
                    self._transport = Transport(
                        self.access,
                        credential.certificate,
                        credential.key,
                        connections=self._connections,
                        timeout=self._timeout,
                    )
                except ClusterError:
                    # A certificate and its key may be replaced one after the other.
                    if self._transport is None:
                        raise
                self._shown = credential
            return self._transport

    @staticmethod
    def _headers(
        transport: Transport, credential: Credential, more: Mapping[str, str]
    ) -> Mapping[str, str]:
        headers = urllib3.HTTPHeaderDict({"User-Agent": f"etcompile/{__version__}", **more})
        if transport.compression:
            headers["Accept-Encoding"] = "gzip"
        for name, value in credential.headers:
            headers.add(name, value)
        return headers


def _of_context(access: Access) -> str:
    return f" (context {access.context})" if access.context else ""


def _unreachable(
    failure: NoAnswerError, access: Access, request: str, repeats: Repeatable
) -> ClusterError:
    hint = "check that the cluster runs and can be reached from here"
    if failure.reached and repeats == "unreached":
        hint = "the request may have been carried out: check before you repeat it"
    problem = f"{failure.problem}{_of_context(access)}"
    return ClusterError("Unreachable", problem, hint=hint, request=request)


def _url(path: str, query: Query) -> str:
    quoted = quote(path, safe="/:~")
    return f"{quoted}?{urlencode(query)}" if query else quoted
