"""How a job begins from another job's checkpoint: what must fit, and which settings are the new job's own.

Owns: comparing a file with this job, by what the file tells: its task, order, draws and batch, the names and shapes of
its tensors, the kind of its optimizer.
Refuses to know: which option of a task means what, where the file comes from, and whether the data is the same.
Does not guarantee: that an option that changes no tensor, such as the number of attention heads, was the same.

Where the task's options are the checkpoint's, all of its state goes on. Where they are not, the optimizer's settings
and the schedule are this job's own, as they would be at that step; the weights, the optimizer's moments and the task's
state go on.
"""

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from regroup.core.spec import JobSpec
from regroup.worker.data import DRAWS_NAME
from regroup.worker.order import ORDER_NAME
from regroup.worker.prepare import USERS
from regroup.worker.replica import Replica, shapes
from regroup.worker.words import said

SHOWN = 3  # differing tensors that are named; more of them tell nobody anything


class DoesNotFit(Exception):
    """The checkpoint is no state that this job could begin with. The message names what differs, with both values."""


def facts(spec: JobSpec) -> dict[str, Any]:
    """What a checkpoint tells of its job, besides its state."""
    told = {"task": spec.task, "options": dict(spec.options), "seed": spec.seed}
    told |= {"order": ORDER_NAME, "draws": DRAWS_NAME}
    return told | {"global_batch": spec.global_batch, "shards": spec.shard_count}


def differing(spec: JobSpec, meta: Mapping[str, Any]) -> list[str]:
    """What a checkpoint tells of its job, and is another here: its order or draws would lose and double samples."""
    return [
        f"{name} is {value!r} here, and {meta.get(name)!r} in the checkpoint"
        for name, value in facts(spec).items()
        if name != "options" and value != meta.get(name)
    ]


def begun(spec: JobSpec, replica: Replica, tree: Mapping[str, Any], meta: Mapping[str, Any]) -> dict[str, Any]:
    """The state that the job begins with, out of another job's. Raises DoesNotFit."""
    if wrong := [*differing(spec, meta), *_other_tensors(shapes(replica.model.state_dict()), shapes(tree["model"]))]:
        raise DoesNotFit("; ".join(wrong))
    optimizer, scheduler = _at(replica, tree["step"])
    theirs = tree["optimizer"]
    _expect_same_kind(replica, optimizer, theirs)
    scheduled = (tree["scheduler"] is None) == (scheduler is None)
    if dict(spec.options) == meta.get("options") and scheduled:
        settled = {"optimizer": theirs, "scheduler": tree["scheduler"]}
    else:
        settled = {"optimizer": {**theirs, "param_groups": optimizer["param_groups"]}, "scheduler": scheduler}
    # This job may evaluate on other samples, so what was measured of that state is not taken over.
    return {**tree, **settled, "evaluation": {"step": 0, "finished": []}}


def _at(replica: Replica, step: int) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a schedule notes that no optimizer step was between its own
            return replica.settings_at(step)
    except USERS as error:
        raise DoesNotFit(f"its schedule cannot be brought to step {step}: {said(error)}") from error


def _other_tensors(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    names = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
    for name in names[:SHOWN]:
        here, there = _shape(mine, name), _shape(theirs, name)
        yield f"the model's {name} is {here} here, and {there} in the checkpoint"
    if len(names) > SHOWN:
        yield f"and so are {len(names) - SHOWN} more of its tensors"


def _shape(known: Mapping[str, Any], name: str) -> str:
    if name not in known:
        return "absent"
    if not known[name]:
        return "no tensor"
    *shape, dtype = known[name]
    return f"{str(dtype).removeprefix('torch.')} of shape ({', '.join(map(str, shape))})"


def _expect_same_kind(replica: Replica, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """A setting that the checkpoint's optimizer does not have is another kind's: its moments would mean nothing."""
    sizes = [[len(group["params"]) for group in each["param_groups"]] for each in (mine, theirs)]
    if sizes[0] != sizes[1]:
        raise DoesNotFit(f"the optimizer has groups of {sizes[0]} parameters here, and of {sizes[1]} in the checkpoint")
    wanted, found = replica.optimizer.defaults.keys(), theirs["param_groups"][0].keys()
    if missing := sorted(wanted - found):
        name = type(replica.optimizer).__name__
        raise DoesNotFit(f"the optimizer is {name} here, and the checkpoint's is another kind: it has no {missing[0]}")
