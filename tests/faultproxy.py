"""A proxy in front of an API server that breaks requests in the ways networks and servers do.

It ends TLS itself, with a certificate the kubeconfig trusts, so that it can read what passes: a
fault is chosen by method and path, happens a number of times, and the proxy notes what it did.
"""

import contextlib
import http.client
import json
import queue
import re
import socket
import socketserver
import ssl
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Self
from urllib.parse import urlsplit

WRITE = r"^(?!.*dryRun)(?!/apis/authorization\.k8s\.io/)"
"""A path, of PATCH, POST or DELETE, with which something changes: no dry run, and no question."""

HOP_BY_HOP = frozenset({"connection", "transfer-encoding", "keep-alive", "host", "content-length"})


@dataclass
class Fault:
    """What goes wrong, and where.

    Args:
        kind: `status` (answered by us; the server sees nothing), `lost` (the server does it, the
            answer is replaced by a status), `reset-before`, `reset-after` (the connection breaks
            before or after the server has done it), `delay` (the server does it, late),
            `cut` (a stream ends after some bytes), `lag` (all that a stream tells comes late).
        method: The HTTP method; empty for any.
        path: A regular expression that the path with its query must contain.
        authorization: The header that the request must have; empty for any.
        times: How often it happens; then requests pass.
        every: It happens to each so many-th of the requests that it could happen to.
        status: For `status` and `lost`.
        body: Of that answer, if it is not to be a Status.
        headers: Of that answer.
        seconds: For `delay` and `lag`.
        after: For `cut`: how many lines still pass.
    """

    kind: str
    method: str = ""
    path: str = ""
    authorization: str = ""
    times: int = 1
    every: int = 1
    status: int = 500
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    after: int = 1
    met: int = 0


@dataclass(frozen=True)
class Seen:
    """A request that came, and the fault it met; empty if it passed."""

    method: str
    path: str
    fault: str
    authorization: str


class FaultProxy:
    """A running proxy; a context manager.

    Attributes:
        seen: The requests, in the order they came.
    """

    def __init__(self, server: str, trusted: Path, certificate: Path, key: Path) -> None:
        self.seen: list[Seen] = []
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._streams: dict[ssl.SSLSocket, str] = {}
        target = urlsplit(server)
        self._target = (target.hostname or "", target.port or 443)
        self._upstream = ssl.create_default_context(cafile=str(trusted))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with (
                    contextlib.suppress(OSError, http.client.HTTPException),
                    context.wrap_socket(self.request, server_side=True) as client,
                ):
                    proxy._serve(client)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            block_on_close = False
            request_queue_size = 64

            def handle_error(self, request, client_address) -> None:
                """A client that went away is what these tests are about."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, kind: str, *, before_others: bool = False, **fields) -> None:
        """Lets something go wrong from now on; see Fault. The first that fits is the one."""
        with self._lock:
            self._faults.insert(0 if before_others else len(self._faults), Fault(kind, **fields))

    def hang_up(self, path: str) -> int:
        """Breaks the connections over which answers to such requests are coming now; how many."""
        with self._lock:
            streams = [
                one for one, requested in self._streams.items() if re.search(path, requested)
            ]
        for client in streams:
            with contextlib.suppress(OSError):
                # Below TLS, which would say goodbye.
                socket.socket.shutdown(client, socket.SHUT_RDWR)
        return len(streams)

    def heal(self) -> None:
        with self._lock:
            self._faults.clear()

    def count(self, method: str, path: str = "") -> int:
        return sum(
            seen.method == method and re.search(path, seen.path) is not None for seen in self.seen
        )

    def _serve(self, client: ssl.SSLSocket) -> None:
        with client.makefile("rb") as reader:
            self._serve_from(client, reader)

    def _serve_from(self, client: ssl.SSLSocket, reader: BinaryIO) -> None:
        while line := reader.readline():
            method, path, _ = line.decode().split(" ", 2)
            headers = http.client.parse_headers(reader)
            length = int(headers.get("Content-Length") or 0)
            body = reader.read(length)
            if len(body) < length:
                return None  # whoever asked was killed in the middle of it
            fault = self._next(method, path, headers.get("Authorization") or "")
            if fault and fault.kind == "status":
                self._answer(client, fault)
                continue
            if fault and fault.kind == "reset-before":
                return _reset(client)
            if fault and fault.kind == "delay":
                time.sleep(fault.seconds)
            upstream = http.client.HTTPSConnection(*self._target, context=self._upstream)
            try:
                passed = {k: v for k, v in headers.items() if k.lower() not in HOP_BY_HOP}
                upstream.request(method, path, body or None, passed)
                answer = upstream.getresponse()
                if fault and fault.kind == "lost":
                    answer.read()
                    self._answer(client, fault)
                    continue
                if fault and fault.kind == "reset-after":
                    answer.read()
                    return _reset(client)
                with self._lock:
                    self._streams[client] = path
                cut = fault.after if fault and fault.kind == "cut" else None
                late = fault.seconds if fault and fault.kind == "lag" else 0.0
                _pass_on(client, answer, cut, late)
                if fault and fault.kind == "cut":
                    return _reset(client)
            finally:
                with self._lock:
                    self._streams.pop(client, None)
                upstream.close()
        return None

    def _next(self, method: str, path: str, authorization: str) -> Fault | None:
        with self._lock:
            chosen = None
            for fault in self._faults:
                if (
                    fault.times
                    and fault.method in ("", method)
                    and fault.authorization in ("", authorization)
                    and re.search(fault.path, path)
                ):
                    fault.met += 1
                    if fault.met % fault.every == 0:
                        fault.times -= 1
                        chosen = fault
                        break
            self.seen.append(Seen(method, path, chosen.kind if chosen else "", authorization))
            return chosen

    @staticmethod
    def _answer(client: ssl.SSLSocket, fault: Fault) -> None:
        reason = http.client.responses.get(fault.status, "")
        status = {
            "kind": "Status",
            "status": "Failure",
            "message": f"injected {fault.status}",
            "code": fault.status,
        }
        body = (fault.body or json.dumps(status)).encode()
        lines = [f"HTTP/1.1 {fault.status} {reason}", "Content-Type: application/json"]
        lines += [f"{name}: {value}" for name, value in fault.headers.items()]
        head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])
        client.sendall(head.encode() + body)


def _pass_on(
    client: ssl.SSLSocket, answer: http.client.HTTPResponse, lines: int | None, late: float
) -> None:
    """Sends an answer on as it comes, or later; only so many lines of it, if a number is given."""
    head = [f"HTTP/1.1 {answer.status} {answer.reason}"]
    head += [f"{k}: {v}" for k, v in answer.getheaders() if k.lower() not in HOP_BY_HOP]
    client.sendall("\r\n".join([*head, "Transfer-Encoding: chunked", "", ""]).encode())
    for data in _late(answer, late) if late else _chunks(answer, lines):
        client.sendall(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        if lines is not None:
            lines -= 1
            if lines <= 0:
                return
    client.sendall(b"0\r\n\r\n")


def _chunks(answer: http.client.HTTPResponse, lines: int | None) -> Iterator[bytes]:
    while data := (answer.read1(65536) if lines is None else answer.readline()):
        yield data


def _late(answer: http.client.HTTPResponse, seconds: float) -> Iterator[bytes]:
    """All of an answer, each part of it so many seconds after it came."""
    come: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

    def read() -> None:
        # Whoever reads this ends it under our hands, at the end.
        with contextlib.suppress(OSError, ValueError, AttributeError, http.client.HTTPException):
            for data in _chunks(answer, None):
                come.put((time.monotonic() + seconds, data))
        come.put((0.0, b""))

    threading.Thread(target=read, daemon=True).start()
    while (part := come.get())[1]:
        time.sleep(max(0.0, part[0] - time.monotonic()))
        yield part[1]


def _reset(client: ssl.SSLSocket) -> None:
    """Makes the close that follows a broken connection (RST), and no orderly end."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
