"""Serve `/metrics` and health checks over HTTP."""

import http.server
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus

Answer = tuple[bool, str]
"""Whether all is well, and a few words."""

_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"


class Endpoints:
    """A running HTTP server. Port 0 is any that is free: `port` says which.

    Raises:
        OSError: the port is taken.
    """

    def __init__(
        self,
        address: str,
        port: int,
        metrics: Callable[[], bytes],
        checks: Mapping[str, Callable[[], Answer]],
    ) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                status, body, content = HTTPStatus.NOT_FOUND, b"not found\n", _TEXT
                path = self.path.partition("?")[0]
                if path == "/metrics":
                    status, body, content = HTTPStatus.OK, metrics(), _METRICS
                elif path in checks:
                    well, words = checks[path]()
                    status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
                    body = f"{words}\n".encode()
                self.send_response(status)
                self.send_header("Content-Type", content)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815 - http.server's name

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Log nothing: probes come every few seconds."""

        self._server = http.server.ThreadingHTTPServer((address, port), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(0.5,), name="serving", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
