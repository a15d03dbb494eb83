"""A pool of connections to one API server: TLS, proxies, bytes out and bytes in.

It sends a request once and says how far it came when it failed; whether to send it again is
decided elsewhere. Redirects are not followed: they would carry the credentials along.
"""

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies_environment

import urllib3
from msgspec import Struct

from etcompile.kubeapi.access import Access, Pem
from etcompile.kubeapi.errors import ClusterError

_GARBLED = ("BAD_RECORD_MAC", "DECODE_ERROR", "INTERNAL_ERROR", "UNEXPECTED_MESSAGE")
"""Alerts (RFC 8446 6.2) that blame the bytes or the server, not who asks: they may pass."""


class Answer(Struct, frozen=True):
    """What came back.

    Args:
        status: The HTTP status, any.
        headers: The answer's.
        body: All of it; empty where it is a stream.
        stream: The answer while it is coming, if that was asked for and it is no refusal.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    stream: urllib3.BaseHTTPResponse | None = None


class LargeAnswerError(Exception):
    """An answer is larger than its reader has memory for."""


class NoAnswerError(Exception):
    """No answer came.

    Attributes:
        problem: What happened, in a few words.
        reached: Whether the server may have read the request.
        passing: Whether another attempt may fare better.
        absent: Nobody listens at that address, or no host has that name.
    """

    def __init__(
        self, problem: str, *, reached: bool, passing: bool = True, absent: bool = False
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.reached = reached
        self.passing = passing
        self.absent = absent


class Transport:
    """Connections to one server with one client certificate; safe to share between threads.

    Args:
        access: The cluster.
        certificate: The client certificate, if the server asks for one.
        connections: How many stay open between requests.
        timeout: Seconds to wait for an answer; a connection is given ten at most.
    """

    def __init__(
        self, access: Access, certificate: Pem, key: Pem, *, connections: int, timeout: float
    ) -> None:
        parts = urlsplit(access.server)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ClusterError("Kubeconfig", f"{access.server!r} is not the URL of a server")
        self._prefix = parts.path.rstrip("/")
        self._timeout = timeout
        self._host = _host(parts)
        self._proxy = ""
        self.compression = access.compression and not _loopback(parts.hostname)
        options: dict[str, object] = {
            "maxsize": connections,
            "retries": False,
            "timeout": self._limits(timeout),
        }
        if parts.scheme == "https":
            options["ssl_context"] = _tls(access, certificate, key)
            if access.server_name:
                options["server_hostname"] = access.server_name
        proxy = _proxy(access, parts.scheme, parts.hostname)
        if proxy:
            self._proxy = _host(urlsplit(proxy))
        self._manager = (
            _proxied(proxy, options) if proxy else urllib3.PoolManager(**options)  # type: ignore[arg-type]
        )
        self._root = f"{parts.scheme}://{parts.netloc}{self._prefix}"
        # A request that looks for its connections costs a fifth more. A proxy is asked with the
        # whole URL, which its manager knows to write.
        self._pool = None if proxy else self._manager.connection_from_url(self._root)

    def send(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        largest: int | None = None,
    ) -> Answer:
        """Sends a request and reads the whole answer.

        Args:
            method: The HTTP method.
            url: The path with its query.
            body: What to send.
            headers: Names and values.
            largest: Bytes of the answer that are read; None for all of them.

        Raises:
            NoAnswerError: the connection failed before the answer was complete.
            LargeAnswerError: the answer is larger.
        """
        preload = largest is None
        response = self._request(method, url, body, headers, preload=preload, quiet=self._timeout)
        if largest is None:
            return Answer(response.status, response.headers, response.data)
        try:
            data = response.read(largest + 1)
            if len(data) > largest:
                response.close()
                raise LargeAnswerError
        except urllib3.exceptions.HTTPError as error:
            raise self._unanswered(error) from None
        finally:
            response.release_conn()
        return Answer(response.status, response.headers, data)

    def stream(self, url: str, headers: Mapping[str, str], quiet: float) -> Answer:
        """Sends a GET and returns the answer while it is still coming.

        Args:
            url: The path with its query.
            headers: Names and values.
            quiet: Seconds without a byte after which the connection counts as lost.

        Raises:
            NoAnswerError: no answer began, or that of a refusal broke off.
        """
        response = self._request("GET", url, None, headers, preload=False, quiet=quiet)
        if response.status < 400:
            return Answer(response.status, response.headers, b"", response)
        try:
            return Answer(response.status, response.headers, response.data)
        except urllib3.exceptions.HTTPError as error:
            raise self._unanswered(error) from None

    def close(self) -> None:
        """Closes the connections that are idle."""
        self._manager.clear()
        if self._pool is not None:
            self._pool = self._manager.connection_from_url(self._root)

    def _request(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        *,
        preload: bool,
        quiet: float,
    ) -> urllib3.BaseHTTPResponse:
        try:
            if self._pool is not None:
                return self._pool.urlopen(
                    method,
                    self._prefix + url,
                    body,
                    headers,
                    redirect=False,
                    preload_content=preload,
                    timeout=self._limits(quiet),
                )
            return self._manager.request(
                method,
                self._root + url,
                body=body,
                headers=headers,
                redirect=False,
                preload_content=preload,
                timeout=self._limits(quiet),
            )
        except urllib3.exceptions.HTTPError as error:
            raise self._unanswered(error) from None

    def _unanswered(self, error: Exception) -> NoAnswerError:
        """How far a request came."""
        inner = error
        if isinstance(error, urllib3.exceptions.ProxyError):
            inner = error.original_error
        # Through a proxy it is the proxy that is connected to.
        peer = f"the proxy {self._proxy} of {self._host}" if self._proxy else self._host
        match inner:
            case urllib3.exceptions.NameResolutionError():
                return NoAnswerError(f"cannot find the host of {peer}", reached=False, absent=True)
            case urllib3.exceptions.NewConnectionError():
                problem = f"cannot connect to {peer}: {_words(inner)}"
                return NoAnswerError(problem, reached=False, absent=True)
            case urllib3.exceptions.ConnectTimeoutError():
                return NoAnswerError(f"{peer} does not answer", reached=False)
            case urllib3.exceptions.SSLError():
                return self._tls_failed(inner)
            case urllib3.exceptions.ReadTimeoutError():
                return NoAnswerError(f"no answer from {self._host} in time", reached=True)
        return NoAnswerError(f"the connection to {self._host} broke: {_words(inner)}", reached=True)

    def _tls_failed(self, error: Exception) -> NoAnswerError:
        """A certificate that is not believed stays so; what else broke may have been the line."""
        cause = error.args[0] if error.args else error
        if isinstance(cause, ssl.SSLCertVerificationError):
            problem = f"the certificate of {self._host} is not trusted: {cause.verify_message}"
            return NoAnswerError(problem, reached=False, passing=False)
        reason = (isinstance(cause, ssl.SSLError) and cause.reason) or ""
        if "ALERT" in reason and not reason.endswith(_GARBLED):
            # TLS 1.3 tells of a refused client certificate only after the request was sent.
            problem = f"{self._host} refuses the TLS connection: {reason}"
            return NoAnswerError(problem, reached=False, passing=False)
        return NoAnswerError(
            f"the TLS connection to {self._host} broke: {_words(error)}", reached=True
        )

    @staticmethod
    def _limits(quiet: float) -> urllib3.Timeout:
        return urllib3.Timeout(connect=min(10.0, quiet), read=quiet)


def _host(parts: SplitResult) -> str:
    """Host and port of a URL; with the port also where the URL leaves it out."""
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    try:
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        raise ClusterError("Kubeconfig", f"{parts.netloc!r} has no port that can be") from None
    return f"{host}:{port}" if port else host


def _tls(access: Access, certificate: Pem, key: Pem) -> ssl.SSLContext:
    """The TLS settings; certificates given as text never stay on the disk."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if not access.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            # The user's kubeconfig asks for it; a warning at every request tells nobody anything.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        elif access.authority:
            context.load_verify_locations(
                cafile=access.authority.file or None, cadata=access.authority.text or None
            )
        else:
            context.load_default_certs()
        if certificate:
            _load_client(context, certificate, key)
    except FileNotFoundError as error:
        name = error.filename or access.authority.file or certificate.file
        raise ClusterError("Kubeconfig", f"there is no certificate file {name}") from None
    except (ssl.SSLError, OSError) as error:
        raise ClusterError("Kubeconfig", f"a certificate cannot be used: {error}") from None
    return context


def _load_client(context: ssl.SSLContext, certificate: Pem, key: Pem) -> None:
    if not key:
        raise ClusterError("Kubeconfig", "the user has a client-certificate and no client-key")
    # OpenSSL reads these from files only: they live in a folder of ours for that moment.
    with tempfile.TemporaryDirectory(prefix="etcompile-") as folder:
        context.load_cert_chain(
            certificate.file or _written(Path(folder, "certificate"), certificate.text),
            key.file or _written(Path(folder, "key"), key.text),
            password=lambda: "",  # never ask on the terminal
        )


def _written(path: Path, text: str) -> str:
    path.touch(mode=0o600)
    path.write_text(text)
    return str(path)


def _proxied(proxy: str, options: Mapping[str, object]) -> urllib3.PoolManager:
    parts = urlsplit(proxy)
    if parts.scheme in ("socks5", "socks5h"):
        try:
            from urllib3.contrib.socks import SOCKSProxyManager  # noqa: PLC0415 (needs PySocks)
        except ImportError:
            raise ClusterError(
                "Kubeconfig",
                f"the proxy {parts.hostname} needs PySocks",
                hint="pip install PySocks",
            ) from None
        return SOCKSProxyManager(proxy, **options)  # type: ignore[arg-type]
    if parts.scheme not in ("http", "https"):
        raise ClusterError("Kubeconfig", f"{parts.scheme!r} is no kind of proxy that is known")
    login = f"{parts.username}:{parts.password or ''}" if parts.username else ""
    headers = urllib3.make_headers(proxy_basic_auth=login) if login else None
    return urllib3.ProxyManager(proxy, proxy_headers=headers, **options)  # type: ignore[arg-type]


def _proxy(access: Access, scheme: str, host: str) -> str:
    """The proxy to use: the kubeconfig's, else the environment's; empty for none."""
    if access.proxy is not None:
        return access.proxy
    known = getproxies_environment()
    proxy = known.get(scheme, "")
    if not proxy or _loopback(host) or _exempt(host, known.get("no", "")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _exempt(host: str, exceptions: str) -> bool:
    """Whether NO_PROXY names the host: itself, a domain above it, or a network it is in."""
    for entry in filter(None, (part.strip().lower() for part in exceptions.split(","))):
        name = entry.rsplit(":", 1)[0] if entry.count(":") == 1 else entry
        if entry == "*" or host == name or host.endswith("." + name.removeprefix("*").lstrip(".")):
            return True
        try:
            if ipaddress.ip_address(host) in ipaddress.ip_network(name, strict=False):
                return True
        except ValueError:
            continue
    return False


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _words(error: BaseException) -> str:
    """What the operating system said, without the names of the library's objects."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno:
            return os.strerror(seen.errno).lower()
        inner = next((arg for arg in seen.args if isinstance(arg, BaseException)), None)
        seen = inner or seen.__cause__ or seen.__context__
    return type(error).__name__
