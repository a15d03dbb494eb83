"""Place Pods on nodes by the filters of kube-scheduler 1.34.

The scheduler never moves a placed Pod, and how it scores nodes is configurable. So there are two
questions. `is_certain` proves that no order of placing Pods leaves one of them pending. `simulate`
places one after another, by the scheduler's default scores or the reverse; if it places all of
them, a placement exists.

Nodes that are equal in all relevant ways are one `Cell` with a number, so the time depends on the
number of different nodes.
"""

import functools
import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from etcompile.capacity.pod_needs import Needs, Role, Rule, matches
from etcompile.capacity.snapshot import HOSTNAME, Group, Port, Snapshot, Use, units_of

_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints of nodes that are temporarily not ready, under pressure or cordoned."""


class Place(Struct, frozen=True, eq=False):
    """The constant properties of a node."""

    refusals: list[str | None]  # by role, why its Pods can never go there
    domains: list[list[str | None]]  # by role, for each rule that it meets the domain of the node
    allocatable: list[int]


class Cell(NamedTuple):
    """The state of a node: free amounts, taken ports, and the number of Pods of each role."""

    place: Place
    free: tuple[int, ...]
    ports: frozenset[Port]
    placed: tuple[int, ...]


class Packing:
    """Pods of some roles, in the order of their creation, and their possible nodes.

    Args:
        uses: Selects the running Pods that count.
        healthy: Treat all nodes as ready.
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
        self.rules = [_rules(needs, role) for role in range(len(needs))]
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
        labels, refusals, domains = group.labels, list[str | None](), []
        for role, rules in zip(self.roles, self.rules, strict=True):
            need, refusal = role.needs, None
            spread = [rule.key for rule in need.rules if rule.kind == "spread"]
            keys = [*spread, *(rule.key for rule in need.rules if rule.kind == "together")]
            if not (is_affine := need.is_affine(labels)):
                refusal = "that its node selector or affinity excludes"
            elif taint := need.untolerated(taints):
                value = f"={taint[1]}" if taint[1] else ""
                refusal = f"with the taint {taint[0]}{value}:{taint[2]}"
            elif lacking := [key for key in keys if key not in labels]:
                refusal = f"without the label {lacking[0]}"
            refusals.append(refusal)
            # Spread constraints count only eligible nodes that have all labels.
            counts = is_affine and labels.keys() >= {*spread}
            names = [
                labels.get(r.key) if counts or r.kind == "together" else None for r, _ in rules
            ]
            hosts = [rule.key == HOSTNAME for rule, _ in rules]
            domains.append([n and "" if host else n for n, host in zip(names, hosts, strict=True)])
        has = units_of(group.allocatable)
        return Place(refusals, domains, [has.get(name, 0) for name in self.resources])

    # One node ----------------------------------------------------------------------------------

    def refusal(self, role: int, cell: Cell) -> str | None:
        """Say why a Pod of a role cannot go on a node, apart from rules about domains."""
        if reason := cell.place.refusals[role]:
            return reason
        for at, amount in self._requests[role]:
            if cell.free[at] < amount:
                return f"with too little {self.resources[at]} left"
        if any(cell.placed[other] for other in self._apart[role]):
            return "with a Pod that it must be apart from"
        ports = self.roles[role].needs.ports
        return "whose port is taken" if _collide(ports, cell.ports) else None

    def refusals(self, role: int) -> str:
        """Say of how many nodes which reasons keep the Pods of a role away, the most first."""
        reasons = Counter[str]()
        for cell, count in self.cells.items():
            reasons[self.refusal(role, cell) or "with room"] += count
        ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:4]
        texts = [f"{count} {reason}" for reason, count in ordered]
        return f"of {reasons.total()} nodes {', '.join(texts)}" if texts else "there is no node"

    def capacity(self, role: int, cell: Cell) -> int:
        if self.refusal(role, cell):
            return 0
        if self.roles[role].needs.ports or role in self._apart[role]:
            return 1
        return min([cell.free[at] // amount for at, amount in self._requests[role]])

    def after(self, role: int, cell: Cell, count: int = 1) -> Cell:
        free, placed = list(cell.free), list(cell.placed)
        for at, amount in self._requests[role]:
            free[at] -= amount * count
        placed[role] += count
        ports = cell.ports | self.roles[role].needs.ports
        return Cell(cell.place, tuple(free), ports, tuple(placed))

    def domain(self, role: int, at: int, cell: Cell) -> Any:
        """Return a node's domain for a rule; for single nodes the number of Pods it counts."""
        name, (rule, counted) = cell.place.domains[role][at], self.rules[role][at]
        if name is None or rule.key != HOSTNAME:
            return name
        return sum(cell.placed[other] for other in counted)

    # One placement -----------------------------------------------------------------------------

    def simulate(self, *, packed: bool = False) -> list[int]:
        """Return how many Pods of each role find a node; `packed`: lowest scores first."""
        cells, placed = Counter(self.cells), [0] * len(self.roles)
        while True:
            before = sum(placed)
            for role, count in enumerate(self.counts):
                placed[role] += self._fill(cells, role, count - placed[role], -1 if packed else 1)
            if sum(placed) in (before, sum(self.counts)):
                return placed

    def _fill(self, cells: Counter[Cell], role: int, count: int, sign: int) -> int:
        tallies = [_Tally(self, cells, role, at) for at in range(len(self.rules[role]))]
        heaps: dict[tuple[Any, ...], list[tuple[int, int, Cell]]] = defaultdict(list)
        serial = itertools.count()

        def push(cell: Cell) -> None:
            if self.capacity(role, cell):
                names = tuple([self.domain(role, at, cell) for at in range(len(tallies))])
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
                tally.add(cell, -1)
                tally.add(after, 1)
            cells[after] += 1
            if cells[after] == 1:
                push(after)
        return count

    def _score(self, role: int, cell: Cell) -> int:
        """Return the scheduler's default score: high for nodes with little and even usage."""
        free, has = self.after(role, cell).free, cell.place.allocatable
        at = [self.resources.index(name) for name in ("cpu", "memory")]
        used = [min(1 - free[i] / has[i], 1.0) for i in at if has[i]] or [0.0]
        least = sum(int(100 * (1 - part)) for part in used) // len(used)
        return least + int(100 * (1 - (max(used) - min(used)) / 2))

    # All placements ----------------------------------------------------------------------------

    @property
    def is_certain(self) -> bool:
        """Return whether provably no order of placing them leaves a Pod pending."""
        for role, (count, rules) in enumerate(zip(self.counts, self.rules, strict=True)):
            if not rules:
                if self._least(role, self.cells.items()) < count:
                    return False
                continue
            rule, counted = rules[0]
            if len(rules) > 1 or counted != {role}:
                return False
            is_host = rule.key == HOSTNAME
            grouped: dict[Any, list[tuple[Cell, int]]] = defaultdict(list)
            for cell, number in self.cells.items():
                name = self.domain(role, 0, cell)
                # If none of them can go there, no others follow.
                if name is not None and (rule.kind == "spread" or self.capacity(role, cell)):
                    grouped[cell if is_host else name].append((cell, 1 if is_host else number))
            rooms = [self._least(role, cells) for cells in grouped.values()]
            least = min(rooms, default=0)
            if rule.kind == "together":  # they follow the first of them wherever it goes
                most = least
            else:
                sizes = [self.cells[at] if is_host else 1 for at in grouped]
                # If no more can go anywhere, the domain with the fewest is full.
                limits = (min(spare, least + rule.most) for spare in rooms)
                most = sum(limit * size for limit, size in zip(limits, sizes, strict=True))
            if most < count:
                return False
        return True

    def _least(self, role: int, cells: Iterable[tuple[Cell, int]]) -> int:
        """Return a lower bound of the Pods of a role that fit, wherever other roles' Pods are.

        It is the larger of two bounds. Each other Pod takes as many places as it can. Or each node
        at once has as many of the others as it takes.
        """
        cells, requests = [*cells], dict(self._requests[role])
        places = [self.capacity(role, cell) for cell, _ in cells]
        rest = sum(n * number for n, (_, number) in zip(places, cells, strict=True))
        others = [other for other, count in enumerate(self.counts) if count and other != role]
        for other in others:
            needs, excluding = self.roles[other].needs, other in self._apart[role]
            excluding = excluding or _collide(needs.ports, self.roles[role].needs.ports)
            lost = max(-(-n // requests[at]) for at, n in self._requests[other] if at in requests)
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
        return sum(self.capacity(role, cell) * count for cell, count in self.cells.items())


class _Tally:
    """The number of counted Pods in each domain, while Pods of a role are placed.

    If each node is a domain, it counts the nodes with so many Pods.
    """

    def __init__(self, packing: Packing, cells: Counter[Cell], role: int, at: int) -> None:
        self._domain = functools.partial(packing.domain, role, at)
        self._rule, self._counted = packing.rules[role][at]
        self._is_host, self._is_counted = self._rule.key == HOSTNAME, role in self._counted
        self._pods: Counter[Any] = Counter()
        for cell, count in cells.items():
            if count:
                self.add(cell, count)

    def add(self, cell: Cell, count: int) -> None:
        if (name := self._domain(cell)) is not None:
            each = 1 if self._is_host else sum(cell.placed[role] for role in self._counted)
            self._pods[name] += count * each
            if self._is_host and not self._pods[name]:
                del self._pods[name]

    def allows(self, name: Any) -> bool:
        numbers = self._pods if self._is_host else self._pods.values()
        number = name if self._is_host else self._pods[name]
        if self._rule.kind == "together":
            return number > 0 or (self._is_counted and not any(numbers))
        return bool(number + self._is_counted - min(numbers, default=0) <= self._rule.most)


def _rules(needs: Sequence[Needs], role: int) -> list[tuple[Rule, frozenset[int]]]:
    rules = [
        (rule, frozenset(at for at, o in enumerate(needs) if matches(rule.selector, o.labels)))
        for rule in needs[role].rules
        if rule.kind != "apart"
    ]
    # The first Pod that follows others by several rules must match all of them.
    every = [counted for rule, counted in rules if rule.kind == "together"]
    spread = [(rule, counted) for rule, counted in rules if rule.kind == "spread" and counted]
    return spread + [
        (rule, frozenset.intersection(*every)) for rule, _ in rules if rule.kind == "together"
    ]


def _is_apart(one: Needs, other: Needs) -> bool:
    return any(
        rule.kind == "apart" and matches(rule.selector, matched.labels)
        for has, matched in ((one, other), (other, one))
        for rule in has.rules
    )


def _collide(ports: frozenset[Port], others: frozenset[Port]) -> bool:
    every = ("", "0.0.0.0")  # noqa: S104 - nothing is bound here
    return any(
        (protocol, number) == (other[0], other[2])
        and (address == other[1] or address in every or other[1] in every)
        for protocol, address, number in ports
        for other in others
    )
