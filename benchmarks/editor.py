"""How long an editor waits for what `etcompile lsp` says of a keystroke, and what the server holds.

    python benchmarks/editor.py [--lines 300] [--keystrokes 40]

A real client of the protocol opens a job of so many lines, types into it, and measures the time
from each keystroke to the diagnostics of that version of the text; the server waits 30 ms for
another keystroke first. Printed are the first answer, the median and the slowest of the others,
and the server's memory.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

ROOT = Path(__file__).parents[1]


def job(lines: int) -> str:
    """A PyTorchJob of at least so many lines, with a mistake."""
    text = (ROOT / "tests" / "fixes" / "after.yaml").read_text("utf-8").rstrip("\n")
    head, _, tail = text.partition("              resources:")
    number = 0
    while (head + tail).count("\n") < lines:
        head += (
            f"                - name: VARIABLE_{number}\n                  value: text {number}\n"
        )
        number += 1
    return f"{head}              resources:{tail}\n".replace("OnFailure", "onFailure")


def _put_into(queue: asyncio.Queue[Any]) -> Callable[[Any], None]:
    """A function that keeps what it is given; the library writes on it what it answers."""

    def keep(params: Any) -> None:
        queue.put_nowait(params)

    return keep


async def measured(lines: int, keystrokes: int) -> None:
    """Types, and prints what that took."""
    client = LanguageClient("benchmark", "1")
    published: asyncio.Queue[lsp.PublishDiagnosticsParams] = asyncio.Queue()
    client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(_put_into(published))
    with tempfile.TemporaryDirectory() as folder:
        file, text = Path(folder) / "job.yaml", job(lines)
        file.write_text(text, "utf-8")
        await client.start_io(sys.executable, "-m", "etcompile", "lsp")
        await client.initialize_async(lsp.InitializeParams(lsp.ClientCapabilities()))
        client.initialized(lsp.InitializedParams())
        began = time.perf_counter()
        item = lsp.TextDocumentItem(file.as_uri(), "yaml", 0, text)
        client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        assert (await published.get()).diagnostics
        first = time.perf_counter() - began
        delays = []
        for version in range(1, keystrokes + 1):
            text = text.replace("text 7", "text 7x", 1)
            about = lsp.VersionedTextDocumentIdentifier(version=version, uri=file.as_uri())
            change = lsp.TextDocumentContentChangeWholeDocument(text)
            began = time.perf_counter()
            client.text_document_did_change(lsp.DidChangeTextDocumentParams(about, [change]))
            while (await published.get()).version != version:
                pass
            delays.append(time.perf_counter() - began)
        server = client._server  # noqa: SLF001 - its process is what is measured
        status = Path(f"/proc/{server.pid}/status").read_text("utf-8")
        [memory] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
        await client.shutdown_async(None)
        client.exit(None)
    print(f"{text.count(chr(10))} lines; ms from a keystroke to its diagnostics, of which 30 wait:")
    print(
        f"opened {first * 1000:.0f}, median {statistics.median(delays) * 1000:.0f},"
        f" slowest {max(delays) * 1000:.0f}; {int(memory) / 1024:.0f} MB at most"
    )


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description="Times the language server.")
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--keystrokes", type=int, default=40)
    arguments = parser.parse_args()
    asyncio.run(measured(arguments.lines, arguments.keystrokes))


if __name__ == "__main__":
    main()
