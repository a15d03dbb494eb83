"""The watcher does what the walk in docs/architecture.md says, in that order."""

import re
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from watched import eventually

PAGE = Path(__file__).parents[3] / "docs/architecture.md"
WALK = PAGE.read_text("utf-8").partition("## From a failed Pod to its replacement")[2]
HOPS = re.findall(r"^\d+\. `(etcompile/\S+\.py)` `(?:\w+\.)?(\w+)`", WALK, flags=re.MULTILINE)


def test_walk_of_a_failed_pod_is_the_order_of_the_calls(place, watching):
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        hop = (
            f"etcompile/{frame.f_code.co_filename.rpartition('/etcompile/')[2]}",
            frame.f_code.co_name,
        )
        if event == "call" and hop in HOPS and hop not in calls:
            created = frame.f_locals.get("object")
            if created is None or created["kind"] == "Pod":  # Events are sent beside it
                calls.append(hop)

    threading.setprofile(note)
    try:
        running = watching()
    finally:
        threading.setprofile(None)
    place.begin()
    eventually(lambda: place.phase() == "Running")
    eventually(lambda: running.watcher.idle)
    calls.clear()
    place.replaces("bert-worker-1", seconds=60)
    assert len(HOPS) <= 12
    assert calls == HOPS
