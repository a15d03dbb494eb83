"""Connect to one API server: TLS, proxies, bytes out and bytes in.

It sends a request once and says how far it came when it failed; whether to send it again is
decided elsewhere. Redirects are not followed: they would carry the credentials along.
"""

import os
import ssl
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment

import urllib3

from etcompile.kubeapi.authentication import basic
from etcompile.kubeapi.errors import KubeconfigError
from etcompile.kubeapi.kubeconfig import Access, KubeCluster, pem

_ONCE = urllib3.Retry(total=False, redirect=False)

_GARBLED = ("BAD_RECORD_MAC", "DECODE_ERROR", "INTERNAL_ERROR", "UNEXPECTED_MESSAGE")
"""Alerts (RFC 8446 6.2) that blame the bytes or the server, not who asks: they may pass."""


class LargeAnswerError(Exception):
    """An answer is larger than its reader has memory for."""


class NoAnswerError(Exception):
    """No answer came.

    Attributes:
        reached: Whether the server may have read the request.
        passing: Whether another attempt may fare better.
        absent: No server listens at that address, or no host has that name.
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
    """Connections to one server with one client certificate; safe to share between threads."""

    def __init__(
        self, access: Access, certificate: str, key: str, *, connections: int, timeout: float
    ) -> None:
        cluster = access.cluster
        parts = _url(cluster.server)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise KubeconfigError(f"{cluster.server!r} is not the URL of a server")
        self._timeout = _limits(timeout)
        self._host = _host(parts)
        self._proxy = ""
        self.compression = not _loopback(parts.hostname)
        path = parts.path.rstrip("/")
        self._root = f"{parts.scheme}://{parts.netloc}{path}"
        self._pool: urllib3.HTTPConnectionPool | None = None
        self._is_shared = access.client is not None
        if access.client is not None:
            self._base, self._manager = self._root, access.client.rest_client.pool_manager
            if self._manager.proxy:
                self._proxy = self._manager.proxy.netloc or ""
            return
        options: dict[str, object] = {"maxsize": connections}
        if parts.scheme == "https":
            options["ssl_context"] = _tls(cluster, certificate, key)
            if cluster.tls_server_name:
                options["server_hostname"] = cluster.tls_server_name
        if proxy := _proxy(access, parts):
            # The manager knows whether a proxy gets the whole URL.
            self._proxy, self._base = _host(_url(proxy)), self._root
            self._manager = _proxied(proxy, options)
        else:
            # Without a proxy, a manager that looks for its connections costs a fifth more.
            self._base = path
            self._manager = urllib3.PoolManager(**options)  # type: ignore[arg-type]
            try:
                self._pool = self._manager.connection_from_url(self._root)
            except urllib3.exceptions.HTTPError:
                problem = f"{self._host!r} is not the name of a host"
                raise KubeconfigError(problem) from None

    def send(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        *,
        largest: int | None = None,
        quiet: float | None = None,
    ) -> tuple[urllib3.BaseHTTPResponse, bytes]:
        """Send a request; return the answer and its body.

        Args:
            url: The path with its query.
            largest: Bytes of the answer that are read; None for all of them.
            quiet: Return the answer while it is coming, without its body; its connection counts as
                lost after so many seconds without a byte. A refusal is read as a whole.
        """
        try:
            response = (self._pool or self._manager).urlopen(
                method,
                self._base + url,
                body=body,
                headers=headers,
                redirect=False,
                retries=_ONCE,
                preload_content=largest is None and quiet is None,
                timeout=self._timeout if quiet is None else _limits(quiet),
            )
            if quiet is not None and response.status < 400:
                return response, b""
            if largest is None:
                return response, response.data
            try:
                data = response.read(largest + 1)
                if len(data) > largest:
                    response.close()
                    raise LargeAnswerError
            finally:
                response.release_conn()
        except urllib3.exceptions.HTTPError as error:
            raise self._unanswered(error) from None
        return response, data

    def close(self) -> None:
        if not self._is_shared:
            self._manager.clear()
        if self._pool is not None:
            self._pool = self._manager.connection_from_url(self._root)

    def _unanswered(self, error: Exception) -> NoAnswerError:
        inner = error
        if isinstance(error, urllib3.exceptions.ProxyError):
            inner = error.original_error
        words = str(inner)
        if words.startswith("Tunnel connection failed: "):
            answer = words.removeprefix("Tunnel connection failed: ")
            return NoAnswerError(
                f"the proxy {self._proxy} does not connect to {self._host}: {answer}",
                reached=False,
                passing=answer.startswith("5"),
            )
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
                cause = inner.args[0] if inner.args else inner
                if isinstance(cause, ssl.SSLCertVerificationError):
                    # It stays so; what else breaks TLS may have been the line.
                    why = f"the certificate of {self._host} is not trusted: {cause.verify_message}"
                    return NoAnswerError(why, reached=False, passing=False)
                reason = (isinstance(cause, ssl.SSLError) and cause.reason) or ""
                if "ALERT" in reason and not reason.endswith(_GARBLED):
                    # TLS 1.3 tells of a refused client certificate only after the request was sent.
                    why = f"{self._host} refuses the TLS connection: {reason}"
                    return NoAnswerError(why, reached=False, passing=False)
                why = f"the TLS connection to {self._host} broke: {_words(inner)}"
                return NoAnswerError(why, reached=True)
            case urllib3.exceptions.ReadTimeoutError():
                return NoAnswerError(f"no answer from {self._host} in time", reached=True)
        return NoAnswerError(f"the connection to {self._host} broke: {_words(inner)}", reached=True)


def _limits(quiet: float) -> urllib3.Timeout:
    return urllib3.Timeout(connect=min(10.0, quiet), read=quiet)


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    try:
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        raise KubeconfigError(f"{parts.netloc!r} has no port that can be") from None
    return f"{host}:{port}" if port else host


def _url(text: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError:
        raise KubeconfigError(f"{text!r} is not a URL") from None


def _tls(cluster: KubeCluster, certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    field = "certificate-authority"
    try:
        if cluster.insecure_skip_tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            # The user's kubeconfig asks for it; a warning at every request tells nobody anything.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        elif cluster.certificate_authority or cluster.certificate_authority_data:
            # Only comments of a bundle are not ASCII.
            bundle = pem(cluster.certificate_authority, cluster.certificate_authority_data)
            context.load_verify_locations(cadata=bundle.encode("ascii", "ignore").decode())
        else:
            context.load_default_certs()
        if certificate:
            field = "client-certificate"
            if not key:
                raise KubeconfigError("the user has a client-certificate and no client-key")
            # OpenSSL reads these from files only: they live in a folder of ours for that moment.
            with tempfile.TemporaryDirectory(prefix="etcompile-") as folder:
                files = Path(folder, "certificate"), Path(folder, "key")
                for file, text in zip(files, (certificate, key), strict=True):
                    file.touch(mode=0o600)
                    file.write_text(text)
                # Never ask for a password on the terminal.
                context.load_cert_chain(*files, password=lambda: "")
    except (OSError, ValueError) as error:
        raise KubeconfigError(f"the {field} cannot be used: {error}") from None
    return context


def _proxied(proxy: str, options: Mapping[str, object]) -> urllib3.PoolManager:
    parts = _url(proxy)
    username, password = unquote(parts.username or ""), unquote(parts.password or "")
    if parts.scheme in ("socks5", "socks5h"):
        # As with kubectl, the proxy looks up the host's name.
        proxy = f"socks5h://{_host(parts)}"
        login = {"username": username, "password": password} if username else {}
        if find_spec("socks") is None:
            raise KubeconfigError(
                f"the SOCKS proxy {parts.hostname} needs PySocks",
                hint="install the extra etcompile[socks], as docs/install.md shows",
            )
        from urllib3.contrib.socks import SOCKSProxyManager  # noqa: PLC0415 (needs PySocks)

        return SOCKSProxyManager(proxy, **login, **options)  # type: ignore[arg-type]
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise KubeconfigError(f"{parts.scheme!r} is no kind of proxy that is known")
    headers = {"Proxy-Authorization": basic(username, password)} if username else None
    return urllib3.ProxyManager(proxy, proxy_headers=headers, **options)  # type: ignore[arg-type]


def _proxy(access: Access, server: SplitResult) -> str:
    if access.cluster.proxy_url or not access.context:
        return access.cluster.proxy_url  # a Pod reaches the API server's Service without one
    proxies, host = getproxies_environment(), server.hostname or ""
    proxy = proxies.get(server.scheme, "")
    port = str(server.port or {"https": 443, "http": 80}[server.scheme])
    if not proxy or _loopback(host):
        return ""
    # NO_PROXY names a host, its domain or its network, as Go reads it.
    address = None
    with suppress(ValueError):
        address = ip_address(host)
    for entry in filter(None, (part.strip().lower() for part in proxies.get("no", "").split(","))):
        if entry == "*":
            return ""
        name, separator, wanted = entry.rpartition(":")
        if not separator or (":" in name and not name.endswith("]")):
            name, wanted = entry, port  # without a port
        if not name or wanted != port:
            continue
        if address is None:
            name = name.removeprefix("*")
            if host == name or host.endswith(name if name.startswith(".") else f".{name}"):
                return ""
            continue
        with suppress(ValueError):
            if address in ip_network(name.strip("[]"), strict=False):
                return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _words(error: BaseException) -> str:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno:
            return os.strerror(seen.errno).lower()
        inner = next((arg for arg in seen.args if isinstance(arg, BaseException)), None)
        seen = inner or seen.__cause__ or seen.__context__
    return type(error).__name__
