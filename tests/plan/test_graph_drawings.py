"""The drawings of a graph: a tree, a Mermaid flowchart and an SVG picture."""

import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from etcompile import Compilation, emit
from etcompile.plan.bundles import bundled
from etcompile.plan.draw import FORMS, mermaid, svg, tree
from etcompile.plan.draw.layers import depths, layout
from etcompile.plan.graph import Edge, Graph, Group, Node, graph
from specs import compiled, training_job

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '"><script>alert(1)</script>&amp;]]> end\n%% `x` #quot; \x07\u202e'


def drawn(compilation: Compilation) -> Graph:
    groups = [Group(one.name, one.objects, one.waits) for one in compilation.groups]
    return bundled(graph(groups, emit.wave))


def job(replicas: int = 2) -> Graph:
    return drawn(compiled(training_job(replicas=replicas)))


def hostile() -> Graph:
    nodes = (
        Node("ConfigMap", (HOSTILE,), HOSTILE, "", HOSTILE, 0),
        Node(HOSTILE, ("b",), "", "", HOSTILE, 100),
        Node("Secret", (HOSTILE * 9,), "", "", HOSTILE, None),
    )
    edges = (Edge(1, 0, HOSTILE, binds=True), Edge(1, 2, "mounts", binds=True))
    return Graph(nodes, edges)


def test_a_tree_says_what_each_object_needs() -> None:
    assert (
        tree(job(100))
        == """\
job mnist (203 objects)
├─ wave -10
│  └─ ServiceAccount mnist-launcher
├─ wave 0
│  ├─ ConfigMap mnist-config
│  └─ Service mnist-worker-0 … 99 (100 Services)
└─ wave 100
   ├─ Pod mnist-launcher
   │  ├─ waits for Pod mnist-worker-0 … 99 (100 Pods)
   │  ├─ runs as ServiceAccount mnist-launcher
   │  ├─ mounts ConfigMap mnist-config
   │  └─ mounts Secret mnist (not in this output)
   └─ Pod mnist-worker-0 … 99 (100 Pods)
      ├─ mounts ConfigMap mnist-config
      ├─ mounts Secret mnist (not in this output)
      └─ is found by Service mnist-worker-0 … 99 (100 Services)
"""
    )


def test_several_jobs_are_several_trees() -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}
    text = tree(drawn(compiled(training_job("a"), training_job("b"), other)))
    heads = [line for line in text.splitlines() if line[0].isalpha()]
    assert heads == ["other objects (1 object)", "job a (7 objects)", "job b (7 objects)"]


@pytest.mark.parametrize("form", FORMS)
def test_a_drawing_is_the_same_each_time(form: str) -> None:
    assert FORMS[form](job(7)) == FORMS[form](job(7))


@pytest.mark.parametrize("form", FORMS)
def test_a_thousand_workers_are_drawn_as_small_as_ten(form: str) -> None:
    small, large = (FORMS[form](job(count)) for count in (10, 1000))
    assert len(large.splitlines()) == len(small.splitlines())
    assert "mnist-worker-0 … 999" in large


def test_names_cannot_break_out_of_a_tree() -> None:
    lines = tree(hostile()).split("\n")
    assert len(lines) == 1 + 2 + 2 + 2 + 1
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", "".join(lines))


# Mermaid ----------------------------------------------------------------------------------------

_TEXT = r'"[A-Za-z0-9 ,.…_/:()\-#;<>]*"'
_LINES = (
    r"flowchart RL",
    rf" +subgraph j\d+(w\d+)?\[{_TEXT}\]",
    r" +end",
    rf" +n\d+\[{_TEXT}\](:::outside)?",
    rf" +n\d+ (-->|==>|-\.->)\|{_TEXT}\| n\d+",
    r" +j\d+w\d+ -->\|after\| j\d+w\d+",
    r" +classDef outside stroke-dasharray:4",
)


@pytest.mark.parametrize("graph", [job(), job(9), hostile()], ids=["job", "bundle", "hostile"])
def test_a_flowchart_uses_only_the_plainest_grammar(graph: Graph) -> None:
    text = mermaid(graph)
    for line in text.splitlines():
        assert any(re.fullmatch(pattern, line) for pattern in _LINES), line
        assert "<" not in line.replace("<br/>", "")
    lines = text.splitlines()
    starts = [line for line in lines if line.lstrip().startswith("subgraph")]
    assert len(starts) == len([line for line in lines if line.strip() == "end"])


def test_a_flowchart_has_gates_as_thick_arrows_and_waves_one_after_the_other() -> None:
    text = mermaid(job())
    assert text.count("==>") == 2
    assert "j0w1 -->|after| j0w0" in text
    assert "j0w2 -->|after| j0w1" in text


# SVG --------------------------------------------------------------------------------------------


def boxes(root: ET.Element) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of the boxes of objects, in a picture of one job."""
    found = []
    for rect in root.iter(f"{SVG}rect"):
        if rect.get("class", "").split()[0] in ("box", "outside"):
            x, y, width, height = (
                float(rect.get(key, "0")) for key in ("x", "y", "width", "height")
            )
            found.append((x, y, x + width, y + height))
    return found


def titles(root: ET.Element) -> list[str]:
    return [one.text or "" for one in root.iter(f"{SVG}title")]


def test_a_picture_is_well_formed_and_shows_every_object_and_need() -> None:
    root = ET.fromstring(svg(job()))
    assert {"ServiceAccount mnist-launcher", "Pod mnist-worker-1"} <= set(titles(root))
    assert "Pod mnist-launcher waits for Pod mnist-worker-1" in titles(root)


def test_boxes_do_not_overlap_and_stay_on_the_page() -> None:
    extra: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"settings-{letter}"}}
        for letter in "abcdefgh"
    ]
    document = training_job(replicas=3)
    spec = document["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]
    spec["volumes"] = [
        {"name": f"v{number}", "configMap": {"name": one["metadata"]["name"]}}
        for number, one in enumerate(extra)
    ]
    groups = compiled(document, *extra).groups
    one = Group("all", [value for group in groups for value in group.objects], groups[-1].waits)
    root = ET.fromstring(svg(bundled(graph([one], emit.wave))))
    found = boxes(root)
    assert len(found) > 15
    for number, (left, top, right, bottom) in enumerate(found):
        assert left >= 0
        assert right <= float(root.get("width", "0"))
        assert bottom <= float(root.get("height", "0"))
        for other in found[:number]:
            apart = right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
            assert apart


def test_what_is_waited_for_is_to_the_left() -> None:
    root = ET.fromstring(svg(job()))
    lefts = {
        one.findtext(f"{SVG}title"): float(one.find(f"{SVG}rect").get("x"))  # type: ignore[union-attr]
        for one in root.iter(f"{SVG}g")
        if one.find(f"{SVG}title") is not None
    }
    order = ("ServiceAccount mnist-launcher", "ConfigMap mnist-config", "Pod mnist-worker-0")
    places = [lefts[name] for name in (*order, "Pod mnist-launcher")]
    assert places == sorted(places)
    assert len(set(places)) == 4


def test_names_cannot_break_out_of_a_picture() -> None:
    root = ET.fromstring(svg(hostile()))
    assert not list(root.iter(f"{SVG}script"))
    assert any("<script>alert(1)</script>" in title for title in titles(root))


def test_a_picture_follows_a_dark_page() -> None:
    assert "@media (prefers-color-scheme: dark)" in svg(job())


# Layers -----------------------------------------------------------------------------------------


def test_depth_is_the_longest_way() -> None:
    assert depths([1, 2, 3, 4], [(4, 3), (3, 2), (4, 2), (9, 1)]) == {1: 0, 2: 0, 3: 1, 4: 2}


def test_a_ring_is_drawn_where_it_can_be() -> None:
    assert depths([1, 2], [(1, 2), (2, 1)]) == {1: 0, 2: 0}


def test_a_long_arrow_has_a_lane_beside_the_boxes_that_it_passes() -> None:
    placed = layout({0: 0, 1: 1, 2: 2}, [(2, 0), (2, 1)], box=40, lane=8, gap=10)
    lane = placed.lanes[0, 1]
    assert abs(lane - placed.centres[1]) >= (40 + 8) / 2 + 10
