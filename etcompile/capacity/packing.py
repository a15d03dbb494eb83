"""Nodes and Pods to where the Pods go, by the filters of kube-scheduler 1.34; pure.

The scheduler never moves a Pod that it has placed, and how it scores nodes is configurable. So
there are two questions. `is_certain` proves that no order of placing Pods leaves one of them
pending. `simulate` places one after another, by the default scores of the scheduler or the other
way round; where it places all of them, there is a placement.

Nodes that are equal in all that matters are one `Cell` with a number, so the time depends on how
many different nodes there are.
"""

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from etcompile.capacity.pod_needs import Needs, Role, Rule, matches
from etcompile.capacity.snapshot import HOSTNAME, Group, Port, Snapshot, Use, units_of

_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints of nodes that are not ready now, under pressure or cordoned."""


class Place(Struct, frozen=True, eq=False):
    """What does not change on a node.

    Args:
        refusals: By role, why its Pods can never go there.
        counts: By role, whether its spread constraints count the node.
        domains: By the label of a rule, the node's own.
    """

    refusals: list[str | None]
    counts: list[bool]
    domains: dict[str, str | None]
    allocatable: list[int]


class Cell(NamedTuple):
    """The state of a node: what is free, the ports taken, and how many Pods of each role it has."""

    place: Place
    free: tuple[int, ...]
    ports: frozenset[Port]
    placed: tuple[int, ...]


class _Domains(NamedTuple):
    """A rule that a role meets, and the roles that it counts."""

    rule: Rule
    counted: frozenset[int]


class Packing:
    """Pods of some roles, in the order of their creation, and the nodes on which they may go.

    Args:
        uses: Which of the Pods that run are there.
        healthy: Whether all nodes are ready.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        roles: Sequence[Role],
        uses: Callable[[Use], bool],
        *,
        healthy: bool = False,
    ) -> None:
        needs = [role.needs for role in roles]
        self.roles, self.counts = roles, [role.number for role in roles]
        self.resources = sorted({"cpu", "memory"}.union(*(need.requests for need in needs)))
        self._requests = [
            [(at, need.requests[n]) for at, n in enumerate(self.resources) if need.requests.get(n)]
            for need in needs
        ]
        self._rules = [_rules(needs, role) for role in range(len(needs))]
        self._apart = [{at for at, o in enumerate(needs) if _is_apart(n, o)} for n in needs]
        self.cells, places = Counter[Cell](), dict[str, Place]()
        for group in snapshot.nodes:
            place = self._place(group, healthy=healthy)
            place = places.setdefault(repr(place), place)
            for state in group.states:
                used, ports = state.used_by(uses)
                has = zip(self.resources, place.allocatable, strict=True)
                free = tuple([amount - used[name] for name, amount in has])
                self.cells[Cell(place, free, ports, (0,) * len(needs))] += state.count

    def _place(self, group: Group, *, healthy: bool) -> Place:
        taints = [t for t in group.taints if not (healthy and t[0].startswith(_PASSING))]
        refusals: list[str | None] = []
        counts: list[bool] = []
        domains: dict[str, str | None] = {}
        for need in (role.needs for role in self.roles):
            keys = [rule.key for rule in need.rules if rule.kind == "spread"]
            followed = [rule.key for rule in need.rules if rule.kind == "together"]
            lacking = [key for key in (*keys, *followed) if key not in group.labels]
            is_affine, refusal = need.is_affine(group.labels), None
            if not is_affine:
                refusal = "that its node selector or affinity excludes"
            elif taint := need.untolerated(taints):
                value = f"={taint[1]}" if taint[1] else ""
                refusal = f"with the taint {taint[0]}{value}:{taint[2]}"
            elif lacking:
                refusal = f"without the label {lacking[0]}"
            refusals.append(refusal)
            counts.append(is_affine and all(key in group.labels for key in keys))
            domains |= {rule.key: group.labels.get(rule.key) for rule in need.rules}
        domains = {
            key: (value and "") if key == HOSTNAME else value for key, value in domains.items()
        }
        has = units_of(group.allocatable)
        return Place(refusals, counts, domains, [has.get(name, 0) for name in self.resources])

    # One node ----------------------------------------------------------------------------------

    def refusal(self, role: int, cell: Cell) -> str | None:
        """Why a Pod of a role cannot go on a node, apart from rules about domains."""
        if reason := cell.place.refusals[role]:
            return reason
        for at, amount in self._requests[role]:
            if cell.free[at] < amount:
                return f"with too little {self.resources[at]} left"
        if any(cell.placed[other] for other in self._apart[role]):
            return "with a Pod that it must be apart from"
        ports = self.roles[role].needs.ports
        return "whose port is taken" if _collide(ports, cell.ports) else None

    def capacity(self, role: int, cell: Cell) -> int:
        """How many Pods of a role a node takes, apart from rules about domains."""
        if self.refusal(role, cell):
            return 0
        if self.roles[role].needs.ports or role in self._apart[role]:
            return 1
        return min([cell.free[at] // amount for at, amount in self._requests[role]])

    def after(self, role: int, cell: Cell, count: int = 1) -> Cell:
        """The node with more Pods of a role."""
        free, placed = list(cell.free), list(cell.placed)
        for at, amount in self._requests[role]:
            free[at] -= amount * count
        placed[role] += count
        ports = cell.ports | self.roles[role].needs.ports
        return Cell(cell.place, tuple(free), ports, tuple(placed))

    def domain(self, role: int, cell: Cell, domains: _Domains) -> Any:
        """The domain of a node, None if it is in none; of single nodes the number of Pods on it."""
        rule, counted = domains
        name = cell.place.domains[rule.key]
        if name is None or (rule.kind == "spread" and not cell.place.counts[role]):
            return None
        return sum(cell.placed[other] for other in counted) if rule.key == HOSTNAME else name

    # One placement -----------------------------------------------------------------------------

    def simulate(self, *, packed: bool = False) -> list[int]:
        """How many Pods of each role are placed; `packed`: on the nodes with the lowest scores."""
        cells, placed = Counter(self.cells), [0] * len(self.roles)
        while True:
            before = sum(placed)
            for role, count in enumerate(self.counts):
                placed[role] += self._fill(cells, role, count - placed[role], -1 if packed else 1)
            if sum(placed) in (before, sum(self.counts)):
                return placed

    def _fill(self, cells: Counter[Cell], role: int, count: int, sign: int) -> int:
        """Places Pods of a role until there are enough, or none can be placed; how many it does."""
        tallies = [_Tally(self, cells, role, each) for each in self._rules[role]]
        heaps: dict[tuple[Any, ...], list[tuple[int, int, Cell]]] = defaultdict(list)
        serial = itertools.count()

        def push(cell: Cell) -> None:
            if self.capacity(role, cell):
                names = tuple([self.domain(role, cell, tally.domains) for tally in tallies])
                heapq.heappush(
                    heaps[names], (-sign * self._score(role, cell), sign * next(serial), cell)
                )

        for cell in cells if count else ():
            push(cell)
        for done in range(count):
            best = None
            for names, heap in heaps.items():
                while heap and not cells[heap[0][2]]:
                    heapq.heappop(heap)
                if heap and (best is None or heap[0] < best):
                    best = heap[0] if all(map(_Tally.allows, tallies, names)) else best
            if best is None:
                return done
            cell, after = best[2], self.after(role, best[2])
            cells[cell] -= 1
            for tally in tallies:
                tally.move(cell, after)
            cells[after] += 1
            if cells[after] == 1:
                push(after)
        return count

    def _score(self, role: int, cell: Cell) -> int:
        """The default score of the scheduler: nodes that are little and evenly used."""
        free, has = self.after(role, cell).free, cell.place.allocatable
        at = [self.resources.index(name) for name in ("cpu", "memory")]
        used = [min(1 - free[i] / has[i], 1.0) for i in at if has[i]] or [0.0]
        least = sum(int(100 * (1 - part)) for part in used) // len(used)
        return least + int(100 * (1 - (max(used) - min(used)) / 2))

    # All placements ----------------------------------------------------------------------------

    @property
    def is_certain(self) -> bool:
        """Whether it is proved that no order of placing them leaves a Pod pending."""
        return all(map(self._is_certain, range(len(self.roles))))

    def _is_certain(self, role: int) -> bool:
        count, rules = self.counts[role], self._rules[role]
        if not rules:
            return self._least(role, self.cells.items()) >= count
        rule, counted = domains = rules[0]
        if len(rules) > 1 or counted != {role}:
            return False
        is_host = rule.key == HOSTNAME
        grouped: dict[Any, list[tuple[Cell, int]]] = defaultdict(list)
        for cell, number in self.cells.items():
            name = self.domain(role, cell, domains)
            # Where none of them can go, none is followed.
            if name is not None and (rule.kind == "spread" or self.capacity(role, cell)):
                grouped[cell if is_host else name].append((cell, 1 if is_host else number))
        rooms = [self._least(role, cells) for cells in grouped.values()]
        least = min(rooms, default=0)
        if rule.kind == "together":  # they follow the first of them wherever it goes
            return least >= count
        sizes = [self.cells[at] if is_host else 1 for at in grouped]
        # If no more can go anywhere, the domain with the fewest is full.
        most = sum(min(r, least + rule.most) * size for r, size in zip(rooms, sizes, strict=True))
        return most >= count

    def _least(self, role: int, cells: Iterable[tuple[Cell, int]]) -> int:
        """How many Pods of a role nodes take at least, wherever Pods of other roles are.

        The larger of two bounds. Each of the others takes the most places that it can. Or as many
        of the others as a node takes are on each node at once.
        """
        cells, own = [*cells], dict(self._requests[role])
        places = [self.capacity(role, cell) for cell, _ in cells]
        rest = sum(n * number for n, (_, number) in zip(places, cells, strict=True))
        others = [other for other, count in enumerate(self.counts) if count and other != role]
        for other in others:
            needs, excluding = self.roles[other].needs, other in self._apart[role]
            excluding = excluding or _collide(needs.ports, self.roles[role].needs.ports)
            lost = max(-(-n // own[at]) for at, n in self._requests[other] if at in own)
            rest -= self.counts[other] * (max(places, default=0) if excluding else lost)
        if rest >= self.counts[role] or not others:
            return rest
        crowded = 0
        for cell, number in cells:
            full = cell
            for other in others:
                if most := min(self.counts[other], self.capacity(other, cell)):
                    full = self.after(other, full, most)
            crowded += self.capacity(role, full) * number
        return max(rest, crowded)

    def most(self, role: int) -> int:
        """How many Pods of a role find a place at most, apart from rules about domains."""
        return sum(self.capacity(role, cell) * count for cell, count in self.cells.items())


class _Tally:
    """How many Pods that a rule counts are in each domain, while Pods of a role are placed.

    Where each node is a domain: how many nodes have so many Pods.
    """

    def __init__(
        self, packing: Packing, cells: Counter[Cell], role: int, domains: _Domains
    ) -> None:
        self.domains, self._packing, self._role = domains, packing, role
        self._pods: Counter[Any] = Counter()
        self._total = 0
        for cell, count in cells.items():
            if count:
                self._add(cell, count)

    def _add(self, cell: Cell, count: int) -> None:
        name = self._packing.domain(self._role, cell, self.domains)
        if name is not None:
            pods = sum(cell.placed[role] for role in self.domains.counted) * count
            is_host = self.domains.rule.key == HOSTNAME
            self._total += pods
            self._pods[name] += count if is_host else pods
            if is_host and not self._pods[name]:
                del self._pods[name]

    def move(self, cell: Cell, after: Cell) -> None:
        """Counts a Pod that goes on a node."""
        self._add(cell, -1)
        self._add(after, 1)

    def allows(self, name: Any) -> bool:
        """Whether another Pod may go to a domain."""
        rule, counted = self.domains
        is_host, own = rule.key == HOSTNAME, self._role in counted
        number = name if is_host else self._pods[name]
        if rule.kind == "together":
            return number > 0 or (self._total == 0 and own)
        least = min(self._pods if is_host else self._pods.values(), default=0)
        return bool(number + own - least <= rule.most)


def _rules(needs: Sequence[Needs], role: int) -> list[_Domains]:
    """The rules about domains that a Pod of a role meets among the Pods that are placed."""

    def counted(rule: Rule) -> frozenset[int]:
        return frozenset(at for at, need in enumerate(needs) if matches(rule.selector, need.labels))

    domains = [_Domains(rule, counted(rule)) for rule in needs[role].rules if rule.kind != "apart"]
    # The first Pod that follows others by several rules must match all of them.
    every = [roles for rule, roles in domains if rule.kind == "together"]
    return [
        _Domains(rule, frozenset.intersection(*every) if rule.kind == "together" else roles)
        for rule, roles in domains
        if rule.kind == "together" or roles
    ]


def _is_apart(one: Needs, other: Needs) -> bool:
    """Whether two Pods are never on one node, by the anti-affinity of either of them."""
    return any(
        rule.kind == "apart" and matches(rule.selector, matched.labels)
        for has, matched in ((one, other), (other, one))
        for rule in has.rules
    )


def _collide(ports: frozenset[Port], others: frozenset[Port]) -> bool:
    """Whether one of some ports of the host is taken already."""
    every = ("", "0.0.0.0")  # noqa: S104 - nothing is bound here
    return any(
        (protocol, number) == (other[0], other[2])
        and (address == other[1] or address in every or other[1] in every)
        for protocol, address, number in ports
        for other in others
    )
