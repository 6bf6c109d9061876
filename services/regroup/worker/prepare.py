"""Everything that happens before a trainer may join: import the task, build model and data, warm up, take fingerprints.

Owns: the checks that find a user's mistake before the first step, each named by the field of the job spec to mend.
Refuses to know: generations, the group, the pipe. Runs beside whatever trains elsewhere.
Does not guarantee: that equal fingerprints mean equal data; it hashes the length and a few samples.
"""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import IterableDataset

from regroup.core.jobs import Fingerprint
from regroup.core.messages.trainer_reports import TASK
from regroup.core.spec import JobSpec
from regroup.tasks.contract import OptionError, SizedDataset, Task
from regroup.tasks.loading import TaskNotFound, load_task
from regroup.worker.data import DRAWS_NAME, Loader, draw_seed, natural_pass
from regroup.worker.evaluation import Evaluation
from regroup.worker.order import ORDER_NAME
from regroup.worker.reduce import Exchange, MovingBuffers, moving_buffers
from regroup.worker.replica import Replica
from regroup.worker.tail import size
from regroup.worker.tree import copy_of, pack
from regroup.worker.words import said, trace

# What a user's code may raise: also a script's SystemExit, asyncio's CancelledError, a KeyboardInterrupt. None of them
# is anybody else's word: a trainer hears no signal (`deaf`).
USERS = BaseException


class CannotPrepare(Exception):
    """The job cannot run as it is. `field` names what to mend in its spec, or is "worker" where that is this machine;
    `traceback` may be empty."""

    def __init__(self, field: str, message: str, traceback: str = "") -> None:
        super().__init__(f"{field}: {message}")
        self.field, self.message, self.traceback = field, message, traceback


@dataclass(frozen=True, slots=True)
class Bench:
    """What a trainer works with, built once per process."""

    task: Task
    replica: Replica
    exchange: Exchange
    moving: MovingBuffers
    loader: Loader
    evaluation: Evaluation | None
    fingerprint: Fingerprint


def prepare(spec: JobSpec) -> Bench:
    """Build everything of a job. Raises CannotPrepare, and nothing else that a task may raise."""
    with _blaming("preparing"):
        return _bench(spec)


@contextmanager
def _blaming(doing: str) -> Iterator[None]:
    """What the task raises inside is said as its error, unless it says so itself."""
    try:
        yield
    except CannotPrepare:
        raise
    except OptionError as error:
        raise CannotPrepare(str(error.path), str(error.message)) from error
    except TaskNotFound as error:
        raise CannotPrepare(TASK, str(error), trace()) from error
    except USERS as error:
        raise CannotPrepare(TASK, f"{doing} raised {said(error)}", trace()) from error


def _bench(spec: JobSpec) -> Bench:
    with _blaming(f"importing or constructing {spec.task}"):
        task = load_task(spec.task, spec.options)
    dataset = _dataset(task)
    evaluation = _evaluation(spec, task)
    replica = _replica(spec, task)
    names, nominal = _warm_up(spec, task, dataset, replica)
    if names and task.independent_samples:
        message = f"declares its samples independent, yet training changes the buffers {', '.join(names)} (BatchNorm?)"
        raise CannotPrepare(TASK, message)
    replica.nominal_weight = nominal
    samples = len(dataset)
    loader = Loader(
        dataset,
        task.collate,
        samples=samples,
        seed=spec.seed,
        global_batch=spec.global_batch,
        shards=spec.shard_count,
        independent=task.independent_samples,
    )
    moving = MovingBuffers(replica.model, names)
    exchange = Exchange(replica.model, moving, tail=size(spec.max_workers))
    fingerprint = Fingerprint(_code(spec, replica.model), _digest_samples(dataset), samples)
    return Bench(task, replica, exchange, moving, loader, evaluation, fingerprint)


def _dataset(task: Task) -> SizedDataset:
    with _blaming("dataset()"):
        dataset = task.dataset()
    indexed = hasattr(dataset, "__getitem__") and not isinstance(dataset, IterableDataset)  # torch's inherits an index
    if not indexed or not hasattr(dataset, "__len__"):
        message = "its dataset has no length or no index: iterable datasets are not covered"
        raise CannotPrepare(TASK, message)
    with _blaming("its dataset's length"):
        if len(dataset) == 0:
            raise CannotPrepare(TASK, "its dataset is empty: at least one sample is needed")
    return dataset


def _replica(spec: JobSpec, task: Task) -> Replica:
    with _blaming("building the model and optimizer"):
        replica = Replica(task, spec.seed)
    optimizer = replica.optimizer
    if not isinstance(optimizer, Optimizer):
        raise CannotPrepare(TASK, f"optimizer() gave {optimizer!r:.80}: it must give a torch.optim.Optimizer")
    _, *asked = signature(type(optimizer).step).parameters.values()  # the instance's may be wrapped by a schedule
    if any(each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in asked):
        name = type(optimizer).__name__
        message = f"optimizer() gave {name}, whose step() wants a closure: several evaluations per step are not covered"
        raise CannotPrepare(TASK, message)
    with _blaming("keeping its state"):  # what could never be saved is better said now than at the end
        pack(replica.tree())
    return replica


def _evaluation(spec: JobSpec, task: Task) -> Evaluation | None:
    if spec.evaluate_every is None:
        return None
    with _blaming("evaluation()"):
        dataset = task.evaluation()
        if dataset is None or len(dataset) == 0:
            message = "the task has nothing to evaluate on: leave evaluate_every out"
            raise CannotPrepare("evaluate_every", message)
    return Evaluation(task, dataset, spec.shard_count, max(spec.global_batch, 256))


def _warm_up(spec: JobSpec, task: Task, dataset: SizedDataset, replica: Replica) -> tuple[tuple[str, ...], float]:
    """One pass that changes nothing: which buffers move, and the weight of an average step.

    The nominal weight only keeps numbers small (the loss is divided by it before backward); it is the first
    samples', the same for everybody, and exact where all samples weigh the same.
    """
    count = min(len(dataset), spec.micro_batch or natural_pass(spec.global_batch, spec.shard_count))
    weights: list[float] = []
    kept = copy_of(task.state())  # a task may change what it gave in place

    def run() -> None:
        torch.manual_seed(draw_seed(spec.seed, 0, 0, 0, 0))
        batch = task.collate([dataset[index] for index in range(count)])
        given = task.loss(replica.model, batch)
        if not isinstance(given, tuple) or len(given) != 2:
            raise CannotPrepare(TASK, f"loss() must return the summed loss and its weight; it returned {_kind(given)}")
        loss, weight = given
        if not isinstance(loss, Tensor) or loss.dim() != 0 or not loss.requires_grad:
            wanted = "loss() must return a scalar that backward() can start from, and a weight"
            raise CannotPrepare(TASK, f"{wanted}; its loss is {_kind(loss)}")
        loss.backward()  # type: ignore[no-untyped-call]
        weights.append(float(weight))

    with _blaming("a first pass over the data"):
        replica.model.train()
        names = moving_buffers(replica.model, run)
        task.load_state(kept)
    for parameter in replica.model.parameters():
        parameter.grad = None
    weight = weights[0]
    if not math.isfinite(weight) or weight < 0:
        raise CannotPrepare(TASK, f"loss() gave the weight {weight}: it must be finite and not negative")
    return names, weight / count * spec.global_batch if weight > 0 else float(spec.global_batch)


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}{'' if value.requires_grad else ' that needs no gradient'}"
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, tuple) else type(value).__name__


def _code(spec: JobSpec, model: nn.Module) -> str:
    """A digest of the task's name and options, every parameter's and buffer's name, shape and dtype, and how order and
    draws are made: who makes other ones must not train along."""
    state = model.state_dict()  # a module may keep more in it than tensors
    shapes = [(name, list(each.shape), str(each.dtype)) for name, each in state.items() if isinstance(each, Tensor)]
    told = json.dumps([spec.task, dict(spec.options), shapes, ORDER_NAME, DRAWS_NAME], sort_keys=True, default=str)
    return blake2b(told.encode(), digest_size=16).hexdigest()


def _digest_samples(dataset: SizedDataset) -> str:
    """A digest of the length and of the first, the middle and the last sample."""
    digest = blake2b(str(len(dataset)).encode(), digest_size=16)
    for index in sorted({0, len(dataset) // 2, len(dataset) - 1}):
        with _blaming(f"reading sample {index}"):
            _absorb(digest, dataset[index])
    return digest.hexdigest()


def _absorb(digest: "blake2b", sample: Any) -> None:
    if isinstance(sample, Tensor):
        data = sample.detach().cpu().contiguous()
        digest.update(f"{tuple(data.shape)}{data.dtype}".encode())
        digest.update(data.reshape(-1).view(torch.uint8).numpy().tobytes() if data.numel() else b"")
    elif isinstance(sample, Mapping):
        for key in sample:
            digest.update(str(key).encode())
            _absorb(digest, sample[key])
    elif isinstance(sample, list | tuple):
        for part in sample:
            _absorb(digest, part)
    elif isinstance(sample, None | bool | int | float | str):
        digest.update(repr(sample).encode())
    elif isinstance(sample, bytes):
        digest.update(sample)
    else:
        digest.update(type(sample).__name__.encode())  # its repr may hold an address
