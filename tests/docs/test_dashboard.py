"""The Grafana dashboard: each panel asks for metrics that the watcher has, in valid PromQL.

There is no Grafana among what can be installed here. Its own types of a dashboard
(`grafana-foundation-sdk`) read the file and must lose nothing of it, and a parser of PromQL
(`promql-parser`) reads every query. Where there is a Prometheus, it answers them.
"""

import importlib.util
import json
import re
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

from etcompile.causes.goodput import Goodput
from etcompile.kubeapi.controller.endpoints import Endpoints
from etcompile.watch.core.controller import Choices
from etcompile.watch.watcher import watcher
from watcher_series import metrics

ROOT = Path(__file__).parents[2]
_FOLDER = ROOT / "templates" / "watcher" / "kustomize" / "components" / "dashboard"
BOARD = json.loads((_FOLDER / "etcompile.json").read_text("utf-8"))
TARGET = frozenset({"job", "instance"})
"""Labels that Prometheus adds to whatever it scrapes."""
VALUES = {
    "$__rate_interval": "5m",
    "$__range": "1d",
    "$job_namespace": "ml|nlp",
    "$job_name": ".*",
}
"""Of variables, as Grafana puts them into a query."""


@pytest.fixture
def installed(require: Callable[..., str]) -> Callable[[str], None]:
    """`installed(module)`: skips the test where that is not there."""

    def need(module: str) -> None:
        present = importlib.util.find_spec(module) is not None
        require("dashboard", present=present, why=f"there is no {module}: pip install '.[test]'")

    return need


def panels() -> Iterator[dict[str, Any]]:
    return (panel for panel in BOARD["panels"] if panel["type"] != "row")


def queries() -> list[tuple[str, str, str]]:
    """The title of its panel, the query, and the legend of each."""
    return [
        (panel["title"], _filled(target["expr"]), target["legendFormat"])
        for panel in panels()
        for target in panel["targets"]
    ]


def _filled(query: str) -> str:
    for variable, value in VALUES.items():
        query = query.replace(variable, value)
    assert "$" not in query, "a variable that nobody fills in"
    return query


@pytest.mark.parametrize(("title", "query", "legend"), queries())
def test_each_query_is_of_metrics_and_labels_that_there_are(
    title: str, query: str, legend: str, installed: Callable[[str], None]
) -> None:
    installed("promql_parser")
    import promql_parser as promql

    known = metrics()
    named: set[str] = set()
    queried: set[str] = set()
    grouped: set[str] = set()

    def visit(node: Any) -> bool:
        selector = getattr(node, "vector_selector", node)
        if isinstance(selector, promql.VectorSelector):
            assert selector.name in known, title
            named.add(selector.name)
            wanted = {matcher.name for matcher in selector.matchers.matchers}
            assert wanted <= known[selector.name], title
        if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
            queried.update(node.modifier.labels)
            grouped.update(node.modifier.labels)
        return True

    promql.walk(promql.parse(query), visit)
    assert named, title
    labels = frozenset[str]().union(*(known[name] for name in named))
    assert queried <= labels | TARGET, title
    in_legend = set(re.findall(r"\{\{(\w+)\}\}", legend))
    assert in_legend <= grouped | TARGET, title


def test_each_metric_of_the_watcher_has_a_panel() -> None:
    text = " ".join(query for _, query, _ in queries())
    watcher_metrics = {name for name in metrics() if name.startswith("etcompile_watch_")}
    ends = r"(_total|_created|_bucket|_sum|_count)$"
    missing = {name for name in watcher_metrics if re.sub(ends, "", name) not in text}
    assert missing == set()


def test_what_the_page_of_metrics_lists_is_what_there_is() -> None:
    page = (ROOT / "docs" / "watcher.md").read_text("utf-8")
    listed = {
        name: frozenset(filter(None, (labels or "").strip("{}").split(",")))
        for name, labels in re.findall(r"`(etcompile_watch_\w+)(\{[\w,]+\})?`", page)
    }
    known = metrics()
    assert {name: labels for name, labels in listed.items() if known.get(name) != labels} == {}


def test_no_label_is_one_that_prometheus_gives_by_itself() -> None:
    # It would call ours `exported_job`, and every query would be wrong.
    reserved = {"job", "instance", "namespace", "pod", "container", "endpoint", "service", "node"}
    assert [name for name, labels in metrics().items() if labels & reserved] == []


def test_each_panel_says_what_it_shows_and_takes_the_chosen_data_source() -> None:
    for panel in panels():
        assert len(panel["description"].split()) > 3, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        for target in (panel, *panel["targets"]):
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    numbers = [panel["id"] for panel in BOARD["panels"]]
    assert len({*numbers}) == len(numbers)
    names = [variable["name"] for variable in BOARD["templating"]["list"]]
    assert names == ["datasource", "job_namespace", "job_name"]


def test_no_panel_lies_over_another() -> None:
    cells: dict[tuple[int, int], str] = {}
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert cells.setdefault((x, y), panel["title"]) == panel["title"]


def _lost(ours: Any, read: Any, path: str = "") -> Iterator[str]:
    """What is not there any more of a value, by its path."""
    if isinstance(ours, dict) and isinstance(read, dict):
        for key, value in ours.items():
            if value is not None:
                yield from _lost(value, read.get(key), f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(read, list) and len(ours) == len(read):
        for number, (mine, other) in enumerate(zip(ours, read, strict=True)):
            yield from _lost(mine, other, f"{path}[{number}]")
    elif ours != read:
        yield path


def test_the_types_of_grafana_read_all_of_it(installed: Callable[[str], None]) -> None:
    installed("grafana_foundation_sdk")
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()

    def read(board: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(json.dumps(Dashboard.from_json(board), cls=JSONEncoder))
        return result

    assert [*_lost(BOARD, read(BOARD))] == []
    misspelt = json.loads(json.dumps(BOARD))
    misspelt["panels"][1]["gridPosition"] = misspelt["panels"][1].pop("gridPos")
    misspelt["panels"][1]["targets"][0]["exp"] = "up"
    lost = [*_lost(misspelt, read(misspelt))]
    assert lost == [".panels[1].targets[0].exp", ".panels[1].gridPosition"]


@pytest.mark.programs  # waits for Prometheus
def test_a_real_prometheus_answers_each_query(require: Callable[..., str], tmp_path: Path) -> None:
    program = require("prometheus", which="prometheus")
    watching = watcher(Mock(), Choices(None), identity="test")
    metrics = watching.metrics
    metrics.leads.set(1)

    def happens() -> None:
        metrics.count("replacements", "failed")
        metrics.seconds["replacement_seconds"].observe(0.1)
        metrics.count("epochs")
        metrics.count("failures", "OOMKilled")
        metrics.count("stream_restarts", "Pod", "expired")
        metrics.count("api_writes", "create", "Pod", "403")
        metrics.count("reconciles", "done")
        metrics.seconds["reconcile_seconds"].observe(0.02)

    jobs = [(("ml", "bert"), Goodput(90.0, 100.0)), (("nlp", "llama"), Goodput(10.0, 100.0))]
    with (
        patch("etcompile.watch.watcher.goodputs", lambda _watching: jobs),
        closing(Endpoints("127.0.0.1", 0, metrics.text, {})) as endpoints,
    ):
        # It gives the names of its own labels to whatever it scrapes, as an operator would.
        target = {"targets": [f"127.0.0.1:{endpoints.port}"], "labels": {"namespace": "etcompile"}}
        scrape = {"job_name": "watcher", "static_configs": [target]}
        config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]}
        (tmp_path / "prometheus.yml").write_text(json.dumps(config))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        line = [program, f"--config.file={tmp_path}/prometheus.yml", "--log.level=error"]
        line += [f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address=127.0.0.1:{port}"]
        with subprocess.Popen(line) as running:
            try:
                left = {query.replace("5m", "10s") for _, query, _ in queries()}
                end = time.monotonic() + 60
                while left and time.monotonic() < end:
                    time.sleep(1)
                    happens()
                    left = {query for query in left if not _answered(port, query)}
            finally:
                running.terminate()
    assert left == set()


def _answered(port: int, query: str) -> bool:
    """Whether there is at least one series; what is no query is refused."""
    parameters = urllib.parse.urlencode({"query": query})
    try:
        url = f"http://127.0.0.1:{port}/api/v1/query?{parameters}"
        with urllib.request.urlopen(url, timeout=5) as answer:
            data = json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.SERVICE_UNAVAILABLE:  # it is still starting
            raise
        return False
    except OSError:
        return False
    return bool(data["data"]["result"])
