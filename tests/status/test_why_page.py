"""The page of `etcompile why`: in a real browser, light and dark, of few ranks and of many."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browsers.pages import check_page
from etcompile.status.explanation_text import MOST_ATTEMPTS, explanation_page, replica_grid
from etcompile.status.explanations import Explanation, explanations
from specs import training_job
from status.explained import NOW, give, objects, of_all_pods_gone, of_many_ranks, unschedulable

HOSTILE = "</pre><script>document.title = 1</script><img src=x onerror=alert(1)>\u202eevil\x1b["
CONTRASTS = Path(__file__).with_name("contrasts.js").read_text("utf-8")


def page(why: Explanation, **options: Any) -> str:
    return explanation_page(why, NOW, **options)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("ranks", [8, 256])
def test_it_can_be_read(open_page: Callable[..., Any], ranks: int, scheme: str) -> None:
    text = page(of_many_ranks(ranks))
    for width in (400, 1400):
        size = {"width": width, "height": 900}
        there = open_page(text, color_scheme=scheme, viewport=size)
        assert there.title() == "ml/mnist (PyTorchJob) has failed"
        assert there.evaluate("document.documentElement.scrollWidth") <= width
        assert there.locator("h1").inner_text() == "ml/mnist (PyTorchJob) has failed"
        lead = there.locator(".lead").first.inner_text()
        assert lead.startswith("mnist-worker-3 on node gpu-3, ")
        assert ": it ran out of memory (OOMKilled" in lead
        assert "step 811\nevaluating" in there.locator("pre").inner_text()
        assert there.locator(".strip .training").count() == 4
        assert there.locator(".grid .o-first").count() == 4
        assert there.evaluate(CONTRASTS) == []
        ground = there.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(13, 17, 23)")


@pytest.mark.parametrize("ranks", [8, 256])
def test_replicas_with_the_same_history_share_a_row(
    open_page: Callable[..., Any], ranks: int
) -> None:
    there = open_page(page(of_many_ranks(ranks)))
    names = there.locator(".grid tbody th").all_inner_texts()
    rest = f"worker 7-{ranks - 1} ({ranks - 7})" if ranks > 8 else "worker 7"
    assert (names[0], names[-1]) == ("master 0", rest)
    assert "worker 0-2,4 (4)" in names
    label = there.locator(".strip").get_attribute("aria-label")
    assert label == "in training for 4 h 33 min of 4 h 43 min (97 %)"
    row = there.locator(".grid tbody tr", has_text="worker 3")
    assert row.locator(".unseen").all_inner_texts() == ["failed first"] * 4


def test_words_of_others_stay_words(open_page: Callable[..., Any]) -> None:
    odd = {"node": HOSTILE, "reason": HOSTILE, "container": HOSTILE}
    text = page(of_many_ranks(8, 1, tail=HOSTILE, **odd))
    check_page(text.replace("src=x", ""))
    there = open_page(text)
    assert there.title() == "ml/mnist (PyTorchJob) has failed"
    assert there.locator("script, img").count() == 0
    shown = there.locator("pre").inner_text()
    assert shown == HOSTILE.replace("\u202e", "\ufffd").replace("\x1b", "\ufffd")


def test_long_names_and_many_attempts_fit_a_phone(open_page: Callable[..., Any]) -> None:
    name = "ip-10-0-133-27." + "very-long-name." * 5 + "example.com"
    why = of_many_ranks(256, 20, tail="x" * 2000, node=name, container="c" * 63)
    there = open_page(page(why), viewport={"width": 400, "height": 900})
    assert there.evaluate("document.documentElement.scrollWidth") <= 400


def test_it_prints_without_what_scrolls(open_page: Callable[..., Any]) -> None:
    there = open_page(page(of_many_ranks(8, tail="x" * 3000)))
    there.emulate_media(media="print")
    pre = there.locator("pre")
    assert pre.evaluate("node => node.scrollWidth <= node.clientWidth")
    assert pre.evaluate("node => getComputedStyle(node).maxHeight") == "none"


def test_page_shows_at_most_the_requested_log_lines() -> None:
    why = of_many_ranks(8, tail="\n".join(f"step {number}" for number in range(30)))
    assert page(why, lines=3).count("step ") == 3
    assert "<pre" not in page(why, lines=0)


def test_page_of_a_pending_job_shows_the_reason_without_a_picture() -> None:
    values = objects(training_job(replicas=2))
    words = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    give(values, lambda _: unschedulable(words))
    [explanation] = explanations(values)
    text = page(explanation)
    check_page(text)
    assert "<h1>ml/mnist (TrainingJob) is pending</h1>" in text
    assert words in text
    assert text.count("make room, ask for less") == 1
    assert "<svg" not in text


def test_it_is_well_formed_and_names_no_address() -> None:
    for why in (of_all_pods_gone(), of_many_ranks(8), of_many_ranks(256, 12)):
        check_page(page(why))


def test_of_many_attempts_the_last_have_a_column() -> None:
    columns, _ = replica_grid(of_many_ranks(8, 20))
    assert columns == [*range(20 - MOST_ATTEMPTS + 1, 21)]
    text = page(of_many_ranks(8, 20))
    assert f"The first {20 - MOST_ATTEMPTS} attempts are not drawn." in text
