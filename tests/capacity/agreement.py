"""What a snapshot answers about a case, and how that agrees with what the scheduler did."""

import collections
from collections.abc import Iterable
from dataclasses import dataclass, field

import yaml
from random_clusters import PRIORITY_CLASSES, RUNTIME_CLASSES, Case
from real_scheduler import Truth

from etcompile.capacity import answers, snapshot

OTHERS = {
    "ResourceQuota": "ResourceQuota",
    "LimitRange": "LimitRange",
    "LocalQueue": "LocalQueue",
    "ClusterQueue": "ClusterQueue",
    "ResourceFlavor": "ResourceFlavor",
    "Cohort": "Cohort",
}
"""Other objects of a case that a snapshot has, by the name that they have there."""


@dataclass
class Agreement:
    """Counts cases.

    Attributes:
        unsound: Jobs that fit by the answer and not in truth.
        wrong: Other answers that are not true.
        unknown: Cases about which a snapshot knows too little, with its reasons.
    """

    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    unsound: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def add(self, case: Case, answer: answers.Answer, truth: Truth) -> None:
        verdict = answer.verdict
        line = f"{case.namespace}: {verdict} {[*answer.reasons][:2]}, but {truth.describe()}"
        self.counts[f"{verdict}, {'fits' if truth.fits else 'does not fit'}"] += 1
        fits = answer.likely if verdict == "depends" else verdict == "fits"
        if verdict == "unknown":
            self.unknown.append(line)
        elif verdict == "fits" and not truth.fits:
            self.unsound.append(line)
        elif fits != truth.fits:
            self.wrong.append(line)

    @property
    def known(self) -> int:
        return self.counts.total() - len(self.unknown)

    @property
    def fitting(self) -> int:
        return sum(count for name, count in self.counts.items() if name.endswith(", fits"))

    def lines(self) -> Iterable[str]:
        yield ", ".join(f"{name}: {count}" for name, count in sorted(self.counts.items()))
        for name in ("unsound", "wrong", "unknown"):
            yield from (f"{name} {line}" for line in getattr(self, name))


def answer(case: Case, truth: Truth) -> answers.Answer:
    """What a snapshot of the cluster, written and read, answers about the job."""
    cluster = truth.cluster
    others = {name: cluster.get(kind, ()) for name, kind in OTHERS.items()}
    others |= {"PriorityClass": PRIORITY_CLASSES, "RuntimeClass": RUNTIME_CLASSES}
    shot = snapshot.of_objects(cluster["Node"], cluster.get("Pod", ()), others)
    text = yaml.safe_dump(snapshot.to_document(shot))
    return answers.fit(snapshot.of_document(yaml.safe_load(text)), case.objects)
