"""The drawings of a graph: a tree and a Mermaid flowchart."""

import re

import pytest

from etcompile import Compilation
from etcompile.plan.needs import FORMS, Edge, Graph, Node, bundled, graph, mermaid, tree
from etcompile.plan.step import Declared
from specs import compiled, training_job

HOSTILE = '"><script>alert(1)</script>&amp;]]> end\n%% `x` #quot; \x07\u202e'


def drawn(compilation: Compilation) -> Graph:
    groups = [Declared(one.name, one.objects, one.waits) for one in compilation.groups]
    return bundled(graph(groups))


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
