"""Events leave the API server to more urgent work, for a while."""

from types import SimpleNamespace
from typing import Any

import pytest

from etcompile.kubeapi.controller import events
from etcompile.kubeapi.controller.events import About, EventRecorder


@pytest.mark.parametrize(
    ("longest", "calls"), [(60.0, 3), (0.0, 1)], ids=["until idle", "at most so long"]
)
def test_event_waits_for_other_work_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, longest: float, calls: int
) -> None:
    monkeypatch.setattr(events, "_LONGEST_WAIT", longest)
    answers, sent = [False, True, True], list[str]()

    def create(event: dict[str, Any], **_: Any) -> None:
        sent.append(event["reason"])
        recorder.close()

    cluster: Any = SimpleNamespace(now=lambda: 0.0, create=create)
    recorder = EventRecorder(
        cluster,
        "test",
        "one",
        may_act=lambda: True,
        counted=lambda _status: None,
        busy=answers.pop,
    )
    recorder.emit(About("Pod", "ml", "bert"), "PodReplaced", "it failed", warning=False)
    recorder.run()
    assert sent == ["PodReplaced"]
    assert len(answers) == 3 - calls
