"""Nodes and Pods to where the Pods go, by the filters of kube-scheduler 1.34; pure.

The scheduler never moves a Pod that it has placed, and how it scores nodes is configurable. So
there are two questions. `is_certain` proves that no order of placing Pods leaves one of them
pending: it takes the worst that Pods of other roles can do to the nodes. `simulate` places Pods one
after another as a policy prefers; where it places all of them, there is a placement. Whether the
scheduler finds it is open if nothing is proved.

Nodes that are equal in all that matters are one `_Cell` with a number, so the time depends on how
many different nodes there are.
"""

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from etcompile.capacity.pod_needs import (
    HOSTNAME,
    Needs,
    Port,
    Role,
    Spread,
    Taint,
    collide,
    matches,
)


class Node(NamedTuple):
    """Equal nodes: the requests of what runs on each, the host ports taken, how many there are."""

    allocatable: Mapping[str, int]
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    used: Mapping[str, int]
    ports: frozenset[Port]
    number: int


class _Place(NamedTuple):
    """What does not change on a node: what keeps the Pods of each role away, and its domains."""

    affine: tuple[bool, ...]
    tolerated: tuple[bool, ...]
    refusals: tuple[str | None, ...]
    domains: Mapping[str, str | None]
    allocatable: tuple[int, ...]


class _Cell(NamedTuple):
    """The state of a node: what is free, the ports taken, and how many Pods of each role it has."""

    place: int
    free: tuple[int, ...]
    ports: frozenset[Port]
    placed: tuple[int, ...]


_Cells = dict[_Cell, int]


class _Rule(NamedTuple):
    """A rule about how many Pods of some roles are in the domain of a node."""

    key: str
    counted: frozenset[int]
    spread: Spread | None = None
    apart: bool = False


class Packing:
    """Pods of some roles, in the order of their creation, and the nodes on which they may go."""

    def __init__(self, nodes: Iterable[Node], roles: Sequence[Role]) -> None:
        needs = [role.needs for role in roles]
        self.roles = roles
        self.counts = [len(role.pods) for role in roles]
        self.resources = sorted({"cpu", "memory"}.union(*(need.requests for need in needs)))
        self._requests = [
            [(at, need.requests[n]) for at, n in enumerate(self.resources) if need.requests.get(n)]
            for need in needs
        ]
        self._ports = [need.ports for need in needs]
        self._rules = [_rules(needs, role) for role in range(len(needs))]
        self._apart = [
            {at for at, other in enumerate(needs) if _kept_apart(need, other)} for need in needs
        ]
        self._nearby: dict[tuple[_Rule, Any], int] = {}
        self.cells: _Cells = Counter()
        self.places: list[_Place] = []
        equal: dict[str, int] = {}
        seen: dict[int, int] = {}
        for node in nodes:
            at = seen.get(id(node.allocatable))  # each group has its own
            if at is None:
                place = self._place(node)
                at = seen[id(node.allocatable)] = equal.setdefault(repr(place), len(self.places))
                self.places += [place] if at == len(self.places) else []
            has = zip(self.resources, self.places[at].allocatable)  # noqa: B905 - slower
            free = tuple([amount - node.used.get(name, 0) for name, amount in has])
            self.cells[_Cell(at, free, node.ports, (0,) * len(needs))] += node.number

    def _place(self, node: Node) -> _Place:
        affine, tolerated = [], []
        refusals: list[str | None] = []
        for need in (role.needs for role in self.roles):
            keys = [*(spread.term.key for spread in need.spreads), *(t.key for t in need.affinity)]
            lacking = next((key for key in keys if key not in node.labels), None)
            taint = need.untolerated(node.taints)
            affine.append(need.is_affine(node.labels))
            tolerated.append(taint is None)
            if not affine[-1]:
                refusals.append("that its node selector or affinity excludes")
            elif taint:
                text = f"{taint[0]}={taint[1]}" if taint[1] else taint[0]
                refusals.append(f"with the taint {text}:{taint[2]}")
            else:
                refusals.append(f"without the label {lacking}" if lacking else None)
        return _Place(
            tuple(affine),
            tuple(tolerated),
            tuple(refusals),
            {term.key: node.labels.get(term.key) for r in self.roles for term in r.needs.terms},
            tuple(node.allocatable.get(name, 0) for name in self.resources),
        )

    # One node ----------------------------------------------------------------------------------

    def refusal(self, role: int, cell: _Cell) -> str | None:
        """Why a Pod of a role cannot go on a node, apart from rules about domains."""
        if reason := self.places[cell.place].refusals[role]:
            return reason
        for at, amount in self._requests[role]:
            if cell.free[at] < amount:
                return f"with too little {self.resources[at]} left"
        if any(cell.placed[other] for other in self._apart[role]):
            return "with a Pod that it must be apart from"
        return "whose port is taken" if collide(self._ports[role], cell.ports) else None

    def capacity(self, role: int, cell: _Cell) -> int:
        """How many Pods of a role a node takes, apart from rules about domains."""
        if self.refusal(role, cell):
            return 0
        if self._ports[role] or role in self._apart[role]:
            return 1
        return min([cell.free[at] // amount for at, amount in self._requests[role]])

    def after(self, role: int, cell: _Cell) -> _Cell:
        """The node with another Pod of a role."""
        free, placed = list(cell.free), list(cell.placed)
        for at, amount in self._requests[role]:
            free[at] -= amount
        placed[role] += 1
        return _Cell(cell.place, tuple(free), cell.ports | self._ports[role], tuple(placed))

    def domain(self, cell: _Cell, rule: _Rule) -> Any:
        """The domain of a node; of single nodes the number of Pods is all that matters."""
        if rule.key == HOSTNAME:
            return sum(cell.placed[role] for role in rule.counted)
        return self.places[cell.place].domains[rule.key]

    def counts_in(self, role: int, rule: _Rule, cell: _Cell) -> bool:
        """Whether a node is in a domain of a rule."""
        place, spread = self.places[cell.place], rule.spread
        if spread is None:
            return place.domains[rule.key] is not None
        return (
            all(place.domains[s.term.key] is not None for s in self.roles[role].needs.spreads)
            and (place.affine[role] or not spread.by_affinity)
            and (place.tolerated[role] or not spread.by_taints)
        )

    def places_nearby(self, role: int, cell: _Cell) -> int:
        """How many Pods that must be in the domain of a node have a place there, at first."""
        number = 0
        for rule in self._rules[role]:
            if rule.spread or rule.apart:
                continue
            at = (rule, cell if rule.key == HOSTNAME else self.domain(cell, rule))
            if at not in self._nearby:
                cells = {cell: 1} if rule.key == HOSTNAME else self.cells
                near = [
                    (c, n) for c, n in cells.items() if self.domain(c, rule) == at[1] or c == cell
                ]
                self._nearby[at] = sum(
                    min(self.counts[other], sum(self.capacity(other, c) * n for c, n in near))
                    for other in rule.counted
                )
            number += self._nearby[at]
        return number

    # One placement -----------------------------------------------------------------------------

    def simulate(self, prefer: "Policy") -> list[int]:
        """How many Pods of each role are placed, one after another, where a policy prefers."""
        cells, placed = dict(self.cells), [0] * len(self.roles)
        while True:
            before = sum(placed)
            for role, count in enumerate(self.counts):
                placed[role] += self._fill(cells, role, count - placed[role], prefer)
            if sum(placed) in (before, sum(self.counts)):
                return placed

    def _fill(self, cells: _Cells, role: int, count: int, prefer: "Policy") -> int:
        """Places Pods of a role until there are enough, or none can be placed; how many it does."""
        tallies = [_Tally(self, cells, role, rule) for rule in self._rules[role]]
        heaps: dict[tuple[Any, ...], list[tuple[float, int, _Cell]]] = defaultdict(list)
        serial = itertools.count()

        def push(cell: _Cell) -> None:
            if self.capacity(role, cell):
                domains = tuple([self.domain(cell, tally.rule) for tally in tallies])
                heapq.heappush(heaps[domains], (-prefer(self, role, cell), next(serial), cell))

        for cell in cells if count else ():
            push(cell)
        for done in range(count):
            best = None
            for domains, heap in heaps.items():
                while heap and not cells[heap[0][2]]:
                    heapq.heappop(heap)
                if heap and (best is None or heap[0] < best):
                    best = heap[0] if all(map(_Tally.allows, tallies, domains)) else best
            if best is None:
                return done
            cell, after = best[2], self.after(role, best[2])
            cells[cell] -= 1
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
        return all(self.bound(role, rivals=True) >= n for role, n in enumerate(self.counts))

    @property
    def is_possible(self) -> bool:
        """Whether nothing proves that no placement of all Pods exists."""
        places = (self.bound(role, rivals=False) >= n for role, n in enumerate(self.counts))
        return all(places) and not any(self.shortages())

    def shortages(self) -> Iterator[tuple[str, int, int]]:
        """Resources of which the Pods need more in all than all nodes have that they may go on."""
        for at, name in enumerate(self.resources):
            users = {r: need[at] for r, need in enumerate(map(dict, self._requests)) if at in need}
            needed = sum(self.counts[role] * amount for role, amount in users.items())
            has = sum(
                count * max(cell.free[at], 0)
                for cell, count in self.cells.items()
                if not all(self.places[cell.place].refusals[role] for role in users)
            )
            if needed > has:
                yield name, needed, has

    def largest(self) -> dict[str, int]:
        """The most that one node has of each resource."""
        frees = [cell.free for cell in self.cells]
        return dict(zip(self.resources, map(max, zip(*frees, strict=True)), strict=False))

    def bound(self, role: int, *, rivals: bool) -> int:
        """How many Pods of a role there is a place for.

        Args:
            rivals: However the Pods of other roles are placed: never more than can be placed.
                Else as if there were no others: never less.
        """
        rules = self._rules[role]
        is_shared = any((r.spread or r.apart) and r.counted != {role} for r in rules)
        if not rules or len(rules) > 1 or is_shared:
            return self._room(role, self.cells, rivals=rivals) if not (rules and rivals) else 0
        (rule,) = rules
        outside = {c: n for c, n in self.cells.items() if not self.counts_in(role, rule, c)}
        grouped: dict[Any, _Cells] = defaultdict(dict)
        for cell, count in self.cells.items():
            if cell not in outside:
                is_host = rule.key == HOSTNAME
                grouped[cell if is_host else self.domain(cell, rule)][cell] = (
                    1 if is_host else count
                )
        times = [self.cells[at] if rule.key == HOSTNAME else 1 for at in grouped]
        rooms = [self._room(role, cells, rivals=rivals) for cells in grouped.values()]
        if rule.apart:
            return self._room(role, outside, rivals=rivals) + sum(min(room, 1) for room in rooms)
        if rule.spread:
            enough = sum(times) >= rule.spread.least_domains
            most = rule.spread.most + (min(rooms, default=0) if enough else 0)
            return sum(min(room, most) * n for room, n in zip(rooms, times, strict=True))
        if not rivals:
            everywhere = self._room(role, self.cells, rivals=False)
            return max(rooms, default=0) if rule.counted == {role} else everywhere
        if not any(other == role or not self._rules[other] for other in rule.counted):
            return 0
        # The first Pod may go to any domain, and the others must follow it.
        entered = (
            any(self.capacity(other, cell) for other in rule.counted for cell in cells)
            for cells in grouped.values()
        )
        return min(itertools.compress(rooms, entered), default=0)

    def _room(self, role: int, cells: _Cells, *, rivals: bool) -> int:
        """How many Pods of a role some nodes take; `rivals` as for `bound`."""
        room = sum([self.capacity(role, cell) * count for cell, count in cells.items()])
        others = [other for other, count in enumerate(self.counts) if count and other != role]
        if not rivals or not others:
            return room
        pods, own = sum(self.counts[other] for other in others), dict(self._requests[role])
        excluding = {
            other
            for other in others
            if other in self._apart[role] or collide(self._ports[other], self._ports[role])
        }
        if not excluding:  # it may be enough to count the most places that each Pod can take
            taken = (-(-n // own[at]) for o in others for at, n in self._requests[o] if at in own)
            if (rest := room - pods * max(taken)) >= self.counts[role]:
                return rest
        # Places lost for each Pod of others, places of the node, nodes; the worst come first.
        losses: list[tuple[float, int, int]] = []
        for cell, count in cells.items():
            if places := self.capacity(role, cell):
                here = [other for other in others if self.capacity(other, cell)]
                worst = places if excluding & {*here} else self._loss(role, here, cell, places)
                losses.append((worst, places, count))
        for worst, places, count in sorted(losses, reverse=True):
            lost = min(places * count, int(worst * pods + 0.999))
            room -= lost
            pods -= int(lost / worst) if worst else pods
            if pods <= 0:
                break
        return room

    def _loss(self, role: int, others: Sequence[int], cell: _Cell, places: int) -> float:
        """How many places of a node are lost at most for each Pod of other roles on it."""
        each: Counter[int] = Counter()
        for other in others:
            each |= Counter(dict(self._requests[other]))
        own = [(cell.free[at], each[at], amount) for at, amount in self._requests[role]]
        worst, most = 0.0, sum(self.capacity(other, cell) for other in others)
        for pods in range(1, most + 1):
            rest = min([(free - pods * taken) // amount for free, taken, amount in own])
            worst = max(worst, (places - max(rest, 0)) / pods)
            if rest <= 0:
                break
        return worst


class _Tally:
    """How many Pods that count for a rule are in each domain, while Pods are placed."""

    def __init__(self, packing: Packing, cells: _Cells, role: int, rule: _Rule) -> None:
        self.rule, self._packing, self._role = rule, packing, role
        self._pods: dict[Any, int] = defaultdict(int)  # by domain; of hosts: nodes by their Pods
        self._total = 0
        for cell, count in cells.items():
            if count and packing.counts_in(role, rule, cell):
                number = sum(cell.placed[other] for other in rule.counted)
                self._total += number * count
                weight = count if rule.key == HOSTNAME else number * count
                self._pods[packing.domain(cell, rule)] += weight

    def allows(self, domain: Any) -> bool:
        """Whether another Pod may go to a domain."""
        is_host, own = self.rule.key == HOSTNAME, self._role in self.rule.counted
        number = domain if is_host else self._pods.get(domain, 0)
        if self.rule.apart:
            return domain is None or number == 0
        if self.rule.spread is None:
            return number > 0 or (self._total == 0 and own)
        domains = sum(self._pods.values()) if is_host else len(self._pods)
        enough = domains >= self.rule.spread.least_domains
        least = min(self._pods if is_host else self._pods.values(), default=0) if enough else 0
        return bool(number + own - least <= self.rule.spread.most)

    def add(self, cell: _Cell) -> None:
        """Counts a Pod that goes on a node."""
        if self._role in self.rule.counted and self._packing.counts_in(self._role, self.rule, cell):
            domain = self._packing.domain(cell, self.rule)
            self._total += 1
            if self.rule.key == HOSTNAME:
                self._pods[domain] -= 1
                if not self._pods[domain]:
                    del self._pods[domain]
                domain += 1
            self._pods[domain] += 1


# Policies --------------------------------------------------------------------------------------

Policy = Callable[[Packing, int, _Cell], float]
"""How much a node is preferred for a Pod of a role."""


def _least_allocated(packing: Packing, role: int, cell: _Cell) -> float:
    """The default score of the scheduler: nodes that are little and evenly used."""
    free, has = packing.after(role, cell).free, packing.places[cell.place].allocatable
    at = [packing.resources.index(name) for name in ("cpu", "memory")]
    used = [min(1 - free[i] / has[i], 1.0) for i in at if has[i]] or [0.0]
    least = sum(int(100 * (1 - part)) for part in used) // len(used)
    return least + int(100 * (1 - (max(used) - min(used)) / 2))


def _together(packing: Packing, role: int, cell: _Cell) -> float:
    """Nodes in the domain that has the most places for Pods that must be together."""
    return float(packing.places_nearby(role, cell))


def _shuffled(salt: int) -> Policy:
    """Nodes in an order that looks random, and is the same in each run."""
    return lambda _, role, cell: hash((salt, role, cell.place, cell.free, cell.placed))


POLICIES: tuple[Policy, ...] = (
    _least_allocated,
    lambda packing, role, cell: -_least_allocated(packing, role, cell),
    _together,
    *map(_shuffled, range(8)),
)
"""The default of the scheduler, its reverse, Pods together that must be, and random ones."""


# Rules -----------------------------------------------------------------------------------------


def _rules(needs: Sequence[Needs], role: int) -> list[_Rule]:
    """The rules about domains that a Pod of a role meets among the Pods that are placed."""

    def matched(selector: Any) -> frozenset[int]:
        return frozenset(at for at, need in enumerate(needs) if matches(selector, need.labels))

    own, together = needs[role], [matched(term.selector) for term in needs[role].affinity]
    # An empty selector counts no Pods: countPodsMatchSelector in the plugin's common.go.
    spreads = [(s, matched(s.term.selector)) for s in own.spreads if s.term.selector]
    apart = [(term, matched(term.selector)) for term in own.anti_affinity]
    for at, other in enumerate(needs):
        terms = other.anti_affinity if at != role else ()
        apart += [(t, frozenset({at})) for t in terms if matches(t.selector, own.labels)]
    return [
        *(_Rule(spread.term.key, counted, spread) for spread, counted in spreads if counted),
        *(_Rule(term.key, frozenset.intersection(*together)) for term in own.affinity),
        *(_Rule(t.key, roles, apart=True) for t, roles in apart if roles and t.key != HOSTNAME),
    ]


def _kept_apart(one: Needs, other: Needs) -> bool:
    """Whether two Pods are never on one node, by the anti-affinity of either of them."""
    return any(
        term.key == HOSTNAME and matches(term.selector, matched.labels)
        for has, matched in ((one, other), (other, one))
        for term in has.anti_affinity
    )
