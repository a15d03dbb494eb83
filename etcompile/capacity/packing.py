"""Nodes and Pods to where the Pods go, by the filters of kube-scheduler 1.34; pure.

Nodes that are equal in all that matters are one `_Cell` with a number, so the time depends on how
many different nodes there are.

The scheduler never moves a Pod that it has placed, and how it scores nodes is configurable. So
there are two questions. `is_certain` proves that no order of placing Pods leaves one of them
pending: it takes the worst that Pods of other roles can do to the nodes. `simulate` places Pods one
after another as a policy prefers; where it places all of them, there is a placement. Which one the
scheduler finds is open if nothing is proved.
"""

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from etcompile.capacity.pod_needs import HOSTNAME, Needs, Port, Role, Spread, matches, tolerates

Taint = tuple[str, str, str]
"""Key, value and effect."""
_EFFECTS = ("NoSchedule", "NoExecute")
_LEFT = 10**9


class Kind(Struct, frozen=True):
    """What nodes of a group have in common."""

    allocatable: Mapping[str, int]
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()


class Node(Struct, frozen=True):
    """Nodes of a kind on which the same is used.

    Args:
        used: The requests of what runs on each of them, with `pods`.
        ports: The ports of the host that are taken.
        count: How many there are.
    """

    kind: Kind
    used: Mapping[str, int] = {}
    ports: frozenset[Port] = frozenset()
    count: int = 1


class _Place(NamedTuple):
    """What does not change on a node: what keeps the Pods of each role away, and its domains."""

    affine: tuple[bool, ...]
    tolerated: tuple[bool, ...]
    refusals: tuple[str | None, ...]
    domains: Mapping[str, str | None]
    allocatable: tuple[int, ...]


class _Cell(NamedTuple):
    """The state of nodes: what is free, the ports taken, and how many Pods of each role it has."""

    place: int
    free: tuple[int, ...]
    ports: frozenset[Port]
    placed: tuple[int, ...]


_Cells = dict[_Cell, int]


class _Rule(NamedTuple):
    """A rule about the Pods in the domain of a node.

    Args:
        kind: `affinity`, `anti` or `spread`.
        key: The label whose value is the domain.
        counted: The roles whose Pods count.
    """

    kind: str
    key: str
    counted: frozenset[int]
    spread: Spread | None = None


Policy = Callable[["Packing", int, _Cell], float]
"""How much a node is preferred for a Pod of a role."""


class Packing:
    """Pods of some roles, and the nodes on which they may go.

    Args:
        roles: The Pods; roles that are created first come first.
    """

    def __init__(self, nodes: Iterable[Node], roles: Sequence[Role]) -> None:
        needs = [role.needs for role in roles]
        self.roles = roles
        self.counts = [len(role.pods) for role in roles]
        requested = {name for need in needs for name, amount in need.requests.items() if amount}
        self.resources = sorted(requested | {"cpu", "memory", "pods"})
        index = {name: at for at, name in enumerate(self.resources)}
        self._requests = [
            tuple((index[name], amount) for name, amount in need.requests.items() if amount)
            for need in needs
        ]
        self._ports = [need.ports for need in needs]
        self._rules = [_rules(needs, role) for role in range(len(needs))]
        self._apart = [
            frozenset(o for o in range(len(needs)) if _kept_apart(needs[role], needs[o]))
            for role in range(len(needs))
        ]
        self.cells: _Cells = Counter()
        self.places: list[_Place] = []
        seen: dict[int, int] = {}
        equal: dict[str, int] = {}
        for node in nodes:
            at = seen.get(id(node.kind))
            if at is None:
                place = self._place(node.kind)
                at = seen[id(node.kind)] = equal.setdefault(repr(place), len(self.places))
                if at == len(self.places):
                    self.places.append(place)
            has, used = self.places[at].allocatable, node.used
            free = tuple(
                [amount - used.get(name, 0) for name, amount in zip(self.resources, has)]  # noqa: B905
            )
            self.cells[_Cell(at, free, node.ports, (0,) * len(needs))] += node.count

    def _place(self, kind: Kind) -> _Place:
        needs, labels = [role.needs for role in self.roles], kind.labels
        affine = tuple(_is_affine(need, labels) for need in needs)
        taints = [_untolerated(need, kind.taints) for need in needs]
        refusals: list[str | None] = []
        for need, matched, taint in zip(needs, affine, taints, strict=True):
            keys = [*(spread.term.key for spread in need.spreads), *(t.key for t in need.affinity)]
            lacking = next((key for key in keys if key not in labels), None)
            if not matched:
                refusals.append("do not match its node selector or affinity")
            elif taint:
                refusals.append(f"have the taint {taint[0]}={taint[1]}:{taint[2]}")
            else:
                refusals.append(lacking and f"have no label {lacking}")
        return _Place(
            affine,
            tuple(taint is None for taint in taints),
            tuple(refusals),
            {term.key: labels.get(term.key) for need in needs for term in need.terms},
            tuple(kind.allocatable.get(name, 0) for name in self.resources),
        )

    # One node ----------------------------------------------------------------------------------

    def refusal(self, role: int, cell: _Cell) -> str | None:
        """Why a Pod of a role cannot go on a node, apart from rules about domains."""
        if reason := self.places[cell.place].refusals[role]:
            return reason
        for at, amount in self._requests[role]:
            if cell.free[at] < amount:
                return f"have too little {self.resources[at]} left"
        if any(cell.placed[other] for other in self._apart[role]):
            return "have a Pod that it must be apart from"
        return "have its port taken" if _collide(self._ports[role], cell.ports) else None

    def capacity(self, role: int, cell: _Cell) -> int:
        """How many Pods of a role a node takes, apart from rules about domains."""
        if self.refusal(role, cell):
            return 0
        if self._ports[role] or role in self._apart[role]:
            return 1
        return min([cell.free[at] // amount for at, amount in self._requests[role]])

    def _domain(self, cell: _Cell, key: str) -> str | None:
        return self.places[cell.place].domains[key]

    def after(self, role: int, cell: _Cell) -> _Cell:
        """The node with another Pod of a role."""
        free, placed = list(cell.free), list(cell.placed)
        for at, amount in self._requests[role]:
            free[at] -= amount
        placed[role] += 1
        return _Cell(cell.place, tuple(free), cell.ports | self._ports[role], tuple(placed))

    # One placement -----------------------------------------------------------------------------

    def simulate(self, prefer: Policy) -> list[int]:
        """How many Pods of each role are placed, one after another, where a policy prefers."""
        cells = dict(self.cells)
        left = list(self.counts)
        while any(left):
            before = sum(left)
            for role in range(len(left)):
                if left[role]:
                    left[role] -= self._fill(cells, role, left[role], prefer)
            if sum(left) == before:
                break
        return [count - rest for count, rest in zip(self.counts, left, strict=True)]

    def _fill(
        self,
        cells: _Cells,
        role: int,
        count: int,
        prefer: Policy,
    ) -> int:
        """Places Pods of a role until there are enough, or none can be placed; how many it does."""
        rules = self._rules[role]
        tallies = [_Tally(self, cells, role, rule) for rule in rules]
        buckets: dict[tuple[object, ...], list[tuple[float, int, _Cell]]] = defaultdict(list)
        serial = itertools.count()

        def push(cell: _Cell) -> None:
            if self.capacity(role, cell):
                domains = tuple(tally.domain(cell) for tally in tallies)
                entry = (-prefer(self, role, cell), next(serial), cell)
                heapq.heappush(buckets[domains], entry)

        for cell in cells:
            push(cell)
        for done in range(count):
            best = None
            for domains, heap in buckets.items():
                while heap and not cells.get(heap[0][2]):
                    heapq.heappop(heap)
                if (
                    heap
                    and (best is None or heap[0] < best)
                    and all(map(_Tally.allows, tallies, domains))
                ):
                    best = heap[0]
            if best is None:
                return done
            cell = best[2]
            after = self.after(role, cell)
            cells[cell] -= 1
            if not cells[cell]:
                del cells[cell]
            for tally in tallies:
                tally.add(cell)
            cells[after] = cells.get(after, 0) + 1
            if cells[after] == 1:
                push(after)
        return count

    # All placements ----------------------------------------------------------------------------

    @property
    def is_certain(self) -> bool:
        """Whether it is proved that no order of placing them leaves a Pod pending."""
        return all(self.bound(role, rivals=True) >= self.counts[role] for role in self._present)

    @property
    def is_possible(self) -> bool:
        """Whether nothing proves that no placement of all Pods exists."""
        if any(self.bound(role, rivals=False) < self.counts[role] for role in self._present):
            return False
        return not any(self.lacking())

    @property
    def _present(self) -> list[int]:
        return [role for role, count in enumerate(self.counts) if count]

    def lacking(self) -> Iterator[tuple[str, int, int]]:
        """Resources of which the Pods need more in all than all nodes have that they may go on."""
        for at, name in enumerate(self.resources):
            users = {
                role: dict(self._requests[role])[at]
                for role in self._present
                if at in dict(self._requests[role])
            }
            needed = sum(self.counts[role] * amount for role, amount in users.items())
            has = sum(
                count * max(cell.free[at], 0)
                for cell, count in self.cells.items()
                if any(not self.places[cell.place].refusals[role] for role in users)
            )
            if needed > has:
                yield name, needed, has

    def largest(self, role: int) -> dict[str, int]:
        """The most that one node has of each resource, among those that a role may go on."""
        cells = [cell for cell in self.cells if not self.places[cell.place].refusals[role]]
        frees = zip(*(cell.free for cell in cells), strict=True)
        return dict(zip(self.resources, map(max, frees), strict=False))

    def bound(self, role: int, *, rivals: bool) -> int:
        """How many Pods of a role there is a place for.

        Args:
                rivals: However the Pods of other roles are placed: never more than can be placed.
                Else as if there were no others: never less.
        """
        rules, worst = self._rules[role], 0 if rivals else _LEFT
        if len(rules) > 1:
            return worst if rivals else self._room(role, self.cells, rivals=False)
        if not rules:
            return self._room(role, self.cells, rivals=rivals)
        (rule,) = rules
        if rule.kind != "affinity" and not rule.counted <= {role}:
            return worst if rivals else self._room(role, self.cells, rivals=False)
        domains = [
            (self._room(role, cells, rivals=rivals), times, cells)
            for cells, times in self._domains(role, rule)
        ]
        if rule.kind == "anti":
            rest = {cell: n for cell, n in self.cells.items() if not self._domain(cell, rule.key)}
            free_of_it = self._room(role, rest, rivals=rivals)
            return free_of_it + sum(min(room, 1) * times for room, times, _ in domains)
        if rule.spread:
            number = sum(times for _, times, _ in domains)
            least = min((room for room, _, _ in domains), default=0)
            if number < rule.spread.least_domains:
                least = 0
            return sum(min(room, least + rule.spread.most) * times for room, times, _ in domains)
        if not rivals:
            alone = rule.counted == {role}
            most = max((room for room, _, _ in domains), default=0)
            return most if alone else self._room(role, self.cells, rivals=False)
        free = [o for o in rule.counted if o == role or not self._rules[o]]
        if not any(self.counts[o] for o in free):
            return worst
        # The first Pod may go to any domain, and the others must follow it.
        return min(
            (
                room
                for room, _, cells in domains
                if any(self.capacity(o, cell) for o in rule.counted for cell in cells)
            ),
            default=0,
        )

    def _domains(self, role: int, rule: _Rule) -> Iterator[tuple[_Cells, int]]:
        """The domains of a rule in which Pods count, and how many there are like each of them."""
        if rule.key == HOSTNAME:
            for cell, count in self.cells.items():
                if self._counts_in(role, rule, cell):
                    yield {cell: 1}, count
            return
        by_value: dict[str | None, _Cells] = defaultdict(dict)
        for cell, count in self.cells.items():
            if self._counts_in(role, rule, cell):
                by_value[self._domain(cell, rule.key)][cell] = count
        for cells in by_value.values():
            yield cells, 1

    def _counts_in(self, role: int, rule: _Rule, cell: _Cell) -> bool:
        """Whether Pods on a node count for a rule."""
        place, spread = self.places[cell.place], rule.spread
        if spread is None:
            return place.domains[rule.key] is not None
        spreads = self.roles[role].needs.spreads
        return (
            all(place.domains[other.term.key] is not None for other in spreads)
            and (place.affine[role] or not spread.by_affinity)
            and (place.tolerated[role] or not spread.by_taints)
        )

    def _room(self, role: int, cells: _Cells, *, rivals: bool) -> int:
        """How many Pods of a role some nodes take.

        Args:
                    rivals: However the Pods of other roles are placed there before: a lower bound.
        """
        whole = sum(self.capacity(role, cell) * count for cell, count in cells.items())
        others = [other for other in self._present if other != role]
        many = sum(self.counts[other] for other in others)
        if not rivals or not others:
            return whole
        own = dict(self._requests[role])
        if not any(self._excludes(other, role) for other in others):
            each = max(
                -(-amount // own[at])
                for other in others
                for at, amount in self._requests[other]
                if at in own
            )
            if whole - many * each >= self.counts[role]:
                return whole - many * each
        # How many Pods of others take how many places of a node; the best trade comes first.
        trades: list[tuple[float, int, int, int]] = []
        for cell, count in cells.items():
            if (room := self.capacity(role, cell)) == 0:
                continue
            here = [other for other in others if self.capacity(other, cell)]
            if any(self._excludes(other, role) for other in here):
                trades.append((-float(room), 1, room, count))
            elif here:
                most = min(many, sum(self.capacity(other, cell) for other in here))
                trades += [
                    (-lost / pods, pods, lost, count)
                    for pods, lost in _hull(self._losses(role, here, cell, room, most))
                ]
        for _, pods, lost, count in sorted(trades):
            times = min(count, many // pods)
            whole -= times * lost
            many -= times * pods
            if times < count:  # part of a trade: as if it could be divided
                whole -= -(-lost * many // pods)
                break
        return whole

    def _losses(
        self, role: int, others: Sequence[int], cell: _Cell, room: int, most: int
    ) -> Iterator[tuple[int, int]]:
        """How many places of a node are lost at most by how many Pods of other roles."""
        each: dict[int, int] = {}
        for other in others:
            for at, amount in self._requests[other]:
                each[at] = max(amount, each.get(at, 0))
        own = [(cell.free[at], each.get(at, 0), amount) for at, amount in self._requests[role]]
        before = 0
        for pods in range(1, most + 1):
            rest = min((free - pods * taken) // amount for free, taken, amount in own)
            lost = room - max(min(rest, room), 0)
            if lost > before:
                yield pods, lost
            if lost == room:
                return
            before = lost

    def _excludes(self, other: int, role: int) -> bool:
        """Whether Pods of two roles are never on one node."""
        return other in self._apart[role] or _collide(self._ports[other], self._ports[role])


class _Tally:
    """How many Pods that count for a rule are in each domain, while Pods are placed."""

    def __init__(self, packing: Packing, cells: _Cells, role: int, rule: _Rule) -> None:
        self._packing, self._role, self._rule = packing, role, rule
        self._own = role in rule.counted
        self._is_host = rule.key == HOSTNAME
        # By domain how many Pods; of nodes: by how many Pods they have, how many nodes.
        self._pods: dict[Any, int] = defaultdict(int)
        self._total = 0
        for cell, count in cells.items():
            if packing._counts_in(role, rule, cell):  # noqa: SLF001 - one of its parts
                number = self._on(cell)
                self._total += number * count
                if self._is_host:
                    self._pods[number] += count
                else:
                    self._pods[self.domain(cell)] += number * count

    def _on(self, cell: _Cell) -> int:
        return sum(cell.placed[role] for role in self._rule.counted)

    def domain(self, cell: _Cell) -> object:
        """The domain of a node; of single nodes the number of Pods is all that matters."""
        if self._is_host:
            return self._on(cell)
        return self._packing._domain(cell, self._rule.key)  # noqa: SLF001

    def allows(self, domain: object) -> bool:
        """Whether another Pod may go to a domain."""
        number = domain if self._is_host else self._pods.get(domain, 0)
        assert isinstance(number, int)  # noqa: S101 - for the type checker
        if self._rule.kind == "anti":
            return number == 0 or domain is None
        if self._rule.spread is None:
            return number > 0 or (self._total == 0 and self._own)
        domains = sum(self._pods.values()) if self._is_host else len(self._pods)
        levels = self._pods if self._is_host else self._pods.values()
        enough = domains >= self._rule.spread.least_domains
        least: int = min(levels, default=0) if enough else 0
        return number + self._own - least <= self._rule.spread.most

    def add(self, cell: _Cell) -> None:
        """Counts a Pod that goes on a node."""
        if not self._own or not self._packing._counts_in(self._role, self._rule, cell):  # noqa: SLF001
            return
        self._total += 1
        if not self._is_host:
            self._pods[self.domain(cell)] += 1
            return
        number = self._on(cell)
        self._pods[number + 1] += 1
        self._pods[number] -= 1
        if not self._pods[number]:
            del self._pods[number]


# Policies --------------------------------------------------------------------------------------


def _least_allocated(packing: Packing, role: int, cell: _Cell) -> float:
    """The default score of the scheduler: nodes that are little and evenly used."""
    after, fractions = packing.after(role, cell), []
    for name in ("cpu", "memory"):
        at = packing.resources.index(name)
        if has := packing.places[cell.place].allocatable[at]:
            fractions.append(min(1 - after.free[at] / has, 1.0))
    if not fractions:
        return 0
    least = sum(int(100 * (1 - used)) for used in fractions) // len(fractions)
    return least + int(100 * (1 - (max(fractions) - min(fractions)) / 2))


def _considerate(packing: Packing, role: int, cell: _Cell) -> float:
    """Nodes on which a Pod takes the fewest places from Pods of other roles."""
    after = packing.after(role, cell)
    others = [other for other in range(len(packing.roles)) if other != role]
    lost = sum(packing.capacity(o, cell) - packing.capacity(o, after) for o in others)
    return -lost - packing.capacity(role, cell) / 1e6


def _shuffled(salt: int) -> Policy:
    """Nodes in an order that looks random, and is the same in each run."""
    return lambda _, role, cell: hash((salt, role, cell.place, cell.free, cell.placed))


POLICIES: tuple[Policy, ...] = (
    _least_allocated,
    lambda packing, role, cell: -_least_allocated(packing, role, cell),
    _considerate,
    *map(_shuffled, range(8)),
)
"""The default of the scheduler, its reverse, the one that does the least harm, and others."""


# Parts -----------------------------------------------------------------------------------------


def _rules(needs: Sequence[Needs], role: int) -> list[_Rule]:
    """The rules about domains that a Pod of a role meets among the Pods that are placed."""
    own = needs[role]
    rules = []
    for spread in own.spreads:
        # An empty selector counts no Pods: countPodsMatchSelector in the plugin's common.go.
        counted = _matched(needs, spread.term.selector) if spread.term.selector else frozenset()
        if counted:
            rules.append(_Rule("spread", spread.term.key, counted, spread))
    if own.affinity:
        counted = frozenset.intersection(*(_matched(needs, t.selector) for t in own.affinity))
        rules += [_Rule("affinity", term.key, counted) for term in own.affinity]
    for term in own.anti_affinity:
        if term.key != HOSTNAME and (counted := _matched(needs, term.selector)):
            rules.append(_Rule("anti", term.key, counted))
    for other, need in enumerate(needs):
        for term in need.anti_affinity:
            if term.key != HOSTNAME and other != role and matches(term.selector, own.labels):
                rules.append(_Rule("anti", term.key, frozenset({other})))
    return rules


def _matched(needs: Sequence[Needs], selector: object) -> frozenset[int]:
    return frozenset(i for i, need in enumerate(needs) if matches(selector, need.labels))  # type: ignore[arg-type]


def _kept_apart(one: Needs, other: Needs) -> bool:
    """Whether two Pods are never on one node, by the anti-affinity of either of them."""
    return any(
        term.key == HOSTNAME and matches(term.selector, matched.labels)
        for has, matched in ((one, other), (other, one))
        for term in has.anti_affinity
    )


def _is_affine(needs: Needs, labels: Mapping[str, str]) -> bool:
    terms = needs.node_terms
    return matches(needs.selector, labels) and (
        terms is None or any(matches(term, labels) for term in terms)
    )


def _untolerated(needs: Needs, taints: Iterable[Taint]) -> Taint | None:
    """The first taint that keeps a Pod away."""
    kept = (taint for taint in taints if taint[2] in _EFFECTS)
    return next((taint for taint in kept if not tolerates(needs.tolerations, taint)), None)


def _collide(ports: frozenset[Port], taken: frozenset[Port]) -> bool:
    """Whether one of some ports of the host is taken already."""
    return any(
        protocol == other[0] and number == other[2] and (len({address, other[1], _ANY}) < 3)
        for protocol, address, number in ports
        for other in taken
    )


_ANY = "0.0.0.0"  # noqa: S104 - not bound here


def _hull(points: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The steps of the smallest concave curve above some points, which begins at (0, 0)."""
    corners = [(0, 0)]
    for point in points:
        while len(corners) > 1:
            (x1, y1), (x2, y2) = corners[-2:]
            if (y2 - y1) * (point[0] - x2) > (point[1] - y2) * (x2 - x1):
                break
            corners.pop()
        corners.append(point)
    return [(x2 - x1, y2 - y1) for (x1, y1), (x2, y2) in itertools.pairwise(corners)]
