"""Every reason that a decision can have, as `core` says it, and which of them a simulation reached.

Owns: why some are reached by no life. Refuses to know: what is decided for which reason, and how a sentence is found
in source code (`sentences`).
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path

import regroup.core
from regroup.core.cluster import Cluster
from regroup.core.messages.orders import Kill
from regroup.core.orders import due
from regroup.lab.sim.lives.sentences import Sentence, Texts
from regroup.lab.sim.model.world import changes

# Reached by none of the simulator's worlds, and why. A life that reaches one all the same is told as a contradiction.
EXPLAINED: Mapping[str, str] = {
    "stopped at once, before its first step": "a job that has no checkpoint is stopped in other words",
    "rests before its first step: all that hold it leave": (
        "whoever holds a state holds that of a generation, and it is saved, even if no step was done"
    ),
    "{} saves the state of step {}, to hold": "what is held is saved only where all that have it go",
    "the task failed {} on {}: without a word{}": (
        "every report of a failure has a traceback or a cause; this is for one that has neither"
    ),
    "without a word, {}": "likewise",
    "{} knows generation {}, above the coordinator's": (
        "a number is asked for only once it is durable; this is for a store that loses what it confirmed"
    ),
    "from step {}, the most advanced state left, on {}": (
        "it is written only where the last generation is lost, which then stands before it"
    ),
    "it cannot begin from another job's checkpoint: {} found: {}": (
        "no step loop of a life has a model that another job's state would not fit"
    ),
    "{} had a {} of {} bytes to tell, more than its link carries: it is lost": (
        "messages of lives have no size, and what is reported is cut where it is made"
    ),
}


def told(before: Cluster, after: Cluster) -> Iterator[str]:
    """What a decision gives as reasons beside its notes: of jobs, workers, orders, the dead and those that failed."""
    for _, old, job in changes(before.jobs, after.jobs):
        yield job.reason
        if old is None or job.failures is not old.failures:
            yield from (failure.error for failure in job.failures)
    for _, _, worker in changes(before.workers, after.workers):
        yield worker.reason
    for _, known, watch in changes(before.watches, after.watches):
        if known is None or watch.dead is not known.dead:
            yield from watch.dead.values()
        if watch.broken is not None and (known is None or watch.broken != known.broken):
            yield watch.broken
        if known is not None and watch.evicted is not known.evicted:
            orders = chain.from_iterable(due(after, member.worker) for member in watch.evicted)
            yield from (order.reason for order in orders if isinstance(order, Kill))


@cache
def sentences() -> dict[str, Sentence]:
    """module:line and the sentence -> what it is made of."""
    folder = Path(regroup.core.__file__).parent
    trees = {path.stem: ast.parse(path.read_text()) for path in sorted(folder.glob("*.py"))}
    texts = Texts(trees.values())
    found: dict[str, tuple[str, Sentence]] = {}  # what reads alike is one reason, wherever it is given
    for module, tree in trees.items():
        for sentence in texts.sentences(tree):
            found.setdefault(sentence.shown, (f"core/{module}.py:{sentence.line}  {sentence.shown}", sentence))
    return dict(found.values())


def unreached(reasons: Iterable[str]) -> list[str]:
    """The names of the sentences that none of these reasons says."""
    known = sentences()
    patterns = {name: (sentence, sentence.pattern) for name, sentence in known.items()}
    rivals = defaultdict(list)
    for sentence, pattern in patterns.values():
        rivals[sentence.choice].append((sentence.weight, pattern))
    missing = dict(patterns)
    longest = {name: max(filter(None, sentence.parts), key=len) for name, sentence in known.items()}
    for reason in reasons:
        for name, (sentence, pattern) in list(missing.items()):
            if longest[name] not in reason or not pattern.search(reason):
                continue
            if not any(weight > sentence.weight and other.search(reason) for weight, other in rivals[sentence.choice]):
                del missing[name]
    return list(missing)


def explanation(name: str) -> str | None:
    """Why no life reaches a reason, which is named as `unreached` does."""
    return EXPLAINED.get(name.partition("  ")[2])
