"""docs/matrix.md, made of what the cells of the matrix came to.

Thousands of cells say few things: rows that say the same are one, and a diagnostic is told with
the part of the matrix that has it, which must be a block (`_blocks`).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from matrix_cells import KINDS, PROFILES, SECRETS, Cell, Outcome, is_error

from etcompile.diagnostics import RULES
from etcompile.diagnostics.rule_text import page_of
from etcompile.model import GANGS

_PAGE = """\
# The matrix

Any profile, with any kind, any gang scheduler and any source of ssh keys: {count} cells
({sizes}). A test compiles each of them, holds its objects against the
schemas below, and writes this page: `pytest -m programs tests/matrix --update-goldens`. What an
option is for: [argocd.md](argocd.md#annotations), [gang.md](gang.md), [secrets.md](secrets.md).

A kind is one of its [examples](../examples/README.md), without scale intents; a kind that compiles
to something else with another setting is there with it.

{kinds}
## What is reported

{quiet} cells compile without a diagnostic. The others compile too, those of
Kueue with `--run`, and report:

{codes}
## Kinds and gang schedulers

The kinds of objects that a scheduler gets besides labels and annotations of Pods. `--run`: refused
without the ID of a run (ET2085). Profiles and sources of keys change nothing here.

{gangs}
## Kinds and sources of keys

What is in Git for the ssh key pair. Profiles and gang schedulers change nothing here.

{secrets}
## Gang schedulers and versions of Kubernetes

What the Pods of a job become members of, by `kubernetes-version`.

{versions}
## Profiles and the objects of schedulers and keys

What a profile adds to the objects that the other options bring (full names: `argocd.argoproj.io/…`,
`kapp.k14s.io/…`). For Flux and kpt they get no annotations. The annotations of
the job's own objects are in [argocd.md](argocd.md). They are the same with any scheduler and any
source of keys, with one exception: with a gang scheduler, kpt's annotation that a launcher
depends on its workers is left out.

{annotated}
## A job that names no namespace

The client that applies the objects chooses the namespace. If an object contains the namespace,
it is `default`, with a warning (ET2043). This happens with:

{namespaces}
## Schemas that objects are checked with

Kubernetes' own: its strict schemas, of 1.25, 1.31 and 1.37. Those of others: the definitions of
these releases, with unknown fields refused; they are in `tests/data/crds`, without descriptions.
An ElasticJob that stays one, for DLRover's master to read: etcompile's own schema of the kind.
Kueue and YuniKorn read labels and annotations of Pods only.

With Kueue 0.19.2, the real controllers and the real scheduler of Kubernetes, jobs of the
kinds in `tests/queues/test_disturbed_queues.py` were admitted, preempted, brought back and
finished, and those of `test_ranks_in_racks.py` kept their ranks in order. With the schedulers of
scheduler-plugins 0.34.7 (`coscheduling`) and Volcano 1.15.0, jobs of four kinds waited until all of
their Pods fitted, ran, got replacements, and came back after a preemption. With those of Kubernetes
1.35.4, 1.36.3 and 1.37.2 (`native`), the jobs of `test_native_gangs.py` waited until their minimum
fitted, started together, got replacements, scaled, were preempted and came back, and left no
PodGroup. The objects of YuniKorn,
KAI and Koordinator are held against schemas only: their schedulers were not run.

{releases}"""


def page(
    outcomes: Mapping[Cell, Outcome],
    by_version: Mapping[tuple[str, str], Outcome],
    without_namespace: Mapping[str, Collection[str]],
    annotated: Mapping[str, Mapping[str, str]],
    releases: Mapping[str, str],
) -> str:
    """The text of the page.

    Args:
        outcomes: What each cell came to.
        by_version: What each gang scheduler came to for each version of Kubernetes.
        without_namespace: Of each dimension, what assumes a namespace for a job that names none.
        annotated: Of each kind of object, what each profile says to the tool about it.
        releases: Of each kind that is not Kubernetes' own, whose definition it is held against.
    """
    lines = (
        f"- {name}: {', '.join(f'`{one}`' for one in kinds) or 'none'}\n"
        for name, kinds in without_namespace.items()
    )
    return _PAGE.format(
        count=f"{len(outcomes):,}",
        sizes=" x ".join(map(str, map(len, (PROFILES, KINDS, GANGS, SECRETS)))),
        kinds=_kinds(outcomes),
        quiet=f"{sum(not outcome.codes for outcome in outcomes.values()):,}",
        codes=_codes_table(outcomes),
        gangs=_kinds_by_gang(outcomes),
        secrets=_kinds_by_secret(outcomes),
        versions=_gangs_by_version(by_version),
        annotated=_by_profile(annotated),
        namespaces="".join(lines),
        releases=_table(["kind", "definition of"], [[f"`{k}`", v] for k, v in releases.items()]),
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _kinds(outcomes: Mapping[Cell, Outcome]) -> str:
    """Each kind with its example, and how many of its Pods make a gang."""
    rows = []
    for kind, example in KINDS.items():
        outcome = outcomes[Cell("plain", kind, "volcano", "runtime")]
        gang = f"{outcome.minimum} of {outcome.pods} Pods"
        rows.append([kind, f"[{example}](../examples/{example}/job.yaml)", gang])
    return _table(["kind", "example", "gang"], rows)


# What is told -----------------------------------------------------------------------------------


def _codes_table(outcomes: Mapping[Cell, Outcome]) -> str:
    codes = sorted({code for outcome in outcomes.values() for code in outcome.codes})
    rows = []
    for code in codes:
        cells = {cell for cell, outcome in outcomes.items() if code in outcome.codes}
        for block in _blocks(cells):
            rule = RULES[code[:6]]
            what = "refused without `--run`" if code == "ET2085!" else rule.name.replace("-", " ")
            link = f"diagnostics/{page_of(rule.code)}#{rule.code.lower()}"
            rows.append([f"[{rule.code}]({link})", what, *block])
    head = ["code", "", "kinds", "profiles", "gang schedulers", "sources of keys"]
    return _table(head, rows)


def _blocks(cells: Collection[Cell]) -> Iterator[list[str]]:
    """Cells as blocks of the matrix, in words: kinds, and what of all else is in it."""
    by_kind = {
        kind: frozenset((one.profile, one.gang, one.secret) for one in cells if one.kind == kind)
        for kind in KINDS
    }
    for rest in dict.fromkeys(one for one in by_kind.values() if one):
        kinds = [kind for kind in KINDS if by_kind[kind] == rest]
        sides = [dict.fromkeys(one[place] for one in sorted(rest)) for place in range(3)]
        volume = len(sides[0]) * len(sides[1]) * len(sides[2])
        assert volume == len(rest), f"{kinds}: what they are told of is no block of the matrix"
        yield [
            _words(kinds, KINDS),
            _words(sides[0], PROFILES),
            _words(sides[1], GANGS),
            _words(sides[2], SECRETS),
        ]


def _words(some: Collection[str], all_of: Iterable[str]) -> str:
    missing = [one for one in all_of if one not in some]
    if not missing:
        return "all"
    if len(missing) < len(some):
        return f"all but {', '.join(missing)}"
    return ", ".join(one for one in all_of if one in some)


# What interacts ---------------------------------------------------------------------------------


def _only(values: Iterable[str], what: str) -> str:
    distinct = set(values)
    assert len(distinct) == 1, f"{what} depends on more than its two options: {distinct}"
    return distinct.pop()


def _kinds_by_gang(outcomes: Mapping[Cell, Outcome]) -> str:
    """Rows of kinds that are alike; a cell says what it adds, and what keeps it from compiling."""

    def said(cell: Cell, outcome: Outcome) -> str:
        base = outcomes[cell._replace(gang="none")]
        words = [
            *sorted(f"`{_short(one)}`" for one in outcome.kinds - base.kinds),
            *sorted(f"no `{_short(one)}`" for one in base.kinds - outcome.kinds),
            *(["`--run`"] if outcome.with_run is not None else []),
            *sorted(code for code in outcome.codes if not code.endswith("!")),
        ]
        return "<br>".join(["refused"] if outcome.refused else words) or "yes"

    rows = {
        kind: [
            _only(
                (said(c, o) for c, o in outcomes.items() if c.kind == kind and c.gang == gang),
                f"{kind} with {gang}",
            )
            for gang in GANGS
        ]
        for kind in KINDS
    }
    return _table(["kind", *GANGS], _merged_rows(rows))


def _kinds_by_secret(outcomes: Mapping[Cell, Outcome]) -> str:
    key_kinds = {"SSHKey", "ExternalSecret", "SealedSecret", "SecretProviderClass", "Secret"}

    def said(outcome: Outcome) -> str:
        return "<br>".join(
            sorted(f"`{_short(o)}`" for o in outcome.kinds if _short(o) in key_kinds)
        )

    rows = {}
    for kind in KINDS:
        cells = [
            _only(
                (said(o) for c, o in outcomes.items() if c.kind == kind and c.secret == secret),
                f"{kind} with {secret}",
            )
            for secret in SECRETS
        ]
        rows[kind] = [cell or "-" for cell in cells]
    return _table(["kind", *(f"`{secret}`" for secret in SECRETS)], _merged_rows(rows))


def _gangs_by_version(by_version: Mapping[tuple[str, str], Outcome]) -> str:
    versions = list(dict.fromkeys(version for _, version in by_version))

    def said(gang: str, version: str) -> str:
        outcome = by_version[gang, version]
        if is_error(outcome.codes):
            errors = sorted(code.strip("!") for code in outcome.codes if code.endswith("!"))
            return f"refused ({', '.join(errors)})"
        kinds = sorted(one for one in outcome.kinds if _short(one) in ("PodGroup", "Workload"))
        return "<br>".join(f"`{one}`" for one in kinds) or "-"

    columns = {version: tuple(said(gang, version) for gang in GANGS) for version in versions}
    spans: list[list[str]] = []
    for version in versions:
        if spans and columns[spans[-1][0]] == columns[version]:
            spans[-1].append(version)
        else:
            spans.append([version])
    head = [span[0] if len(span) == 1 else f"{span[0]} to {span[-1]}" for span in spans]
    rows = {}
    for place, gang in enumerate(GANGS):
        cells = [columns[span[0]][place] for span in spans]
        rows[gang] = [cells[0], *("the same" if b == a else b for a, b in pairwise(cells))]
    return _table(["gang scheduler", *head], _merged_rows(rows))


def _by_profile(annotated: Mapping[str, Mapping[str, str]]) -> str:
    silent = {name for name in PROFILES if all(row[name] == "-" for row in annotated.values())}
    assert silent == {"plain", "flux", "kpt"}, "the page says that they are told nothing"
    assert all(row["argocd"] == row["argocd+flux"] for row in annotated.values())
    tools = ("argocd", "kapp")
    rows = {kind: [row[name] for name in tools] for kind, row in annotated.items()}
    return _table(["object", *tools], _merged_rows(rows))


def _short(kind: str) -> str:
    return kind.partition(".")[0]


def _merged_rows(rows: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """The rows, those that say the same as one."""
    for row in dict.fromkeys(map(tuple, rows.values())):
        names = [name for name, one in rows.items() if tuple(one) == row]
        yield [", ".join(names) if len(names) < len(rows) else "all", *row]
