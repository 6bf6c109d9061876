"""The contract of a task: what a user implements so that a job can train it.

Owns: the methods, their shapes and dtypes, where and when each is called, and how options are checked.
Refuses to know: workers, shards, generations. A task sees batches of samples, whoever computes them.
Does not guarantee: optimizers that evaluate more than once per step (LBFGS, SAM), alternating updates (GAN), losses
across the samples of a step (in-batch contrastive), iterable datasets. These are not covered.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, TypeVar

import pydantic
from pydantic_core import to_json
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import default_collate


class OptionError(Exception):
    """A task's option is wrong. `field` names the option; a job shows it as options.<field>. "": several together."""

    def __init__(self, field: str, message: str) -> None:
        self.path = f"options.{field}" if field else "options"
        super().__init__(f"{self.path}: {message}")
        self.field = field
        self.message = message


class SizedDataset(Protocol):
    """A dataset with a length and random access. `torch.utils.data.TensorDataset` is one; a generator is not."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class Task:
    """A model, its data and how to train it. Subclass it; `model`, `dataset`, `loss` and `optimizer` have no default.

    Where it runs: only in trainer processes, never in an agent or the coordinator. For training, `dataset()[i]` and
    `collate` are called on the loader's thread; everything else, and both of them for evaluation, on the trainer's main
    thread. The two threads run at once, so what they share must be read-only.

    When it is called, in this order: `__init__`, `dataset`, `evaluation`, `model`, `optimizer`, `scheduler`, once
    each while the trainer prepares (the last three again whenever a state is built from the seed); then, for every
    step, `loss` once per pass of a shard this trainer owns (perhaps never: a spare owns none); `evaluate` at the steps
    that are evaluated; `report` at the end, on one trainer: once, and again where the state is being saved again.

    What is kept when a worker dies or joins: the model's parameters and buffers, the optimizer's and the scheduler's
    state, and `state()`. Anything else that changes from step to step is lost, and replicas would differ.

    Randomness: the trainer seeds torch before `model()` from the job's seed, and before each pass from (seed, epoch,
    step, shard, pass). Draw only in `model` and `loss`, and only from torch's global generator of the device. Then a
    job draws the same numbers whoever computes them.
    """

    independent_samples: bool = False
    """True: the loss of a sample depends neither on the other samples of its pass (BatchNorm) nor on a draw (dropout).
    Then shards may be joined in one pass, which is faster. Read after the constructor."""

    clip: float | None = None
    """The largest norm of the mean gradient of a step, over all parameters; None: not clipped."""

    def __init__(self, **options: Any) -> None:
        """Check the options, as JSON values, and keep them. Builds nothing heavy: no model, no reading of data.

        Raises OptionError for an option that is unknown, of the wrong type or out of bounds; `parse_options` does so.
        """
        for name in options:
            raise OptionError(name, "this task takes no options")

    def model(self) -> nn.Module:
        """The model, freshly initialised, on the CPU. Called under a seed; equal seeds must give equal models."""
        raise NotImplementedError(f"{type(self).__name__}.model")

    def dataset(self) -> SizedDataset:
        """The samples to train on: at least one, the same on each worker.

        `dataset[i]`, 0 <= i < len, is a deterministic function of i: draws (augmentation) belong into `loss`. It is
        called with Python ints, ahead of the step that needs it. May raise OptionError if the data does not fit.
        """
        raise NotImplementedError(f"{type(self).__name__}.dataset")

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        """The loss summed over the samples of `batch`, a scalar that backward() can start from, and its weight.

        `batch` is what `collate` gave, with its tensors on the model's device; the model is in training mode. The
        weight is the number of terms in the sum (samples, tokens): finite and not negative. A step's gradient is the
        sum over all its passes divided by their summed weight. Weight 0 everywhere: the step commits no update.
        """
        raise NotImplementedError(f"{type(self).__name__}.loss")

    def optimizer(self, model: nn.Module) -> Optimizer:
        """An optimizer over the model's parameters whose step() needs no closure."""
        raise NotImplementedError(f"{type(self).__name__}.optimizer")

    def scheduler(self, optimizer: Optimizer) -> LRScheduler | None:
        """A learning rate schedule, stepped once after each committed step; it sees nothing but their number."""
        return None

    def collate(self, samples: list[Any]) -> Any:
        """One batch from the samples of one pass, at least one: tensors on the CPU, in any nest of dict, list, tuple.

        The default stacks them: samples of shape (*s) give a tensor of shape (len(samples), *s).
        """
        return default_collate(samples)

    def evaluation(self) -> SizedDataset | None:
        """The samples to evaluate on, in order, the same on each worker; None: there is nothing to evaluate."""
        return None

    def evaluate(self, model: nn.Module, batch: Any) -> dict[str, tuple[float, float]]:
        """Each metric's sum over `batch` and the weight to divide by. Same names in each call; a read-only pass.

        At most 256 metrics, with names of at most 100 characters: they are told with the step.

        Called without gradients, the model in evaluation mode, on the trainer's main thread, with `collate` of samples
        of `evaluation()`. The default reports `loss`.
        """
        total, weight = self.loss(model, batch)
        return {"loss": (total.item(), weight)}

    def state(self) -> dict[str, Any]:
        """What else changes from step to step: tensors, numbers, strings, in any nest of dict and list.

        Called while the trainer prepares, and whenever the state is sent or saved.
        """
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take what `state()` gave, perhaps in another process.

        Called while the trainer prepares, after the pass that nothing comes of, and whenever a state is taken over or
        built from the seed.
        """

    def report(self, model: nn.Module) -> dict[str, Any] | None:
        """What to tell the user of the final state: a dict of JSON values, of at most 1 MiB as JSON.

        Called when the state is saved, without gradients, the model in evaluation mode: a read-only pass. If it raises
        or gives anything else (a tensor, a NumPy number of 32 bits), nothing is told, and the trainer's log says why.
        """
        return None


class Options:
    """What a task's options inherit from, to be checked by `parse_options`: a frozen dataclass with a default for each.

    Types are strict (a number is no string, True is no number), numbers are finite, unknown names are refused.
    Bounds are pydantic's: `rate: Annotated[float, Field(gt=0)] = 0.1`. For what contradicts, `__post_init__` may raise
    OptionError, or ValueError where no single option is to blame.
    """

    __slots__ = ()
    __pydantic_config__: ClassVar = pydantic.ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


OptionsT = TypeVar("OptionsT", bound=Options)


def parse_options(kind: type[OptionsT], options: Mapping[str, Any]) -> OptionsT:
    """`options`, JSON values by name, as a value of the dataclass `kind`. Raises OptionError for the first fault."""
    try:
        # By way of JSON: its strict mode takes a list for a tuple, and NaN must arrive as NaN to be refused by name.
        return pydantic.TypeAdapter(kind).validate_json(to_json(dict(options), inf_nan_mode="constants"))
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        if not first["loc"]:  # of `__post_init__`, which saw them all
            raise OptionError("", first["msg"].removeprefix("Value error, ")) from None
        field = str(first["loc"][0])
        if first["type"] == "unexpected_keyword_argument":
            known = ", ".join(sorted(pydantic.TypeAdapter(kind).json_schema()["properties"]))
            raise OptionError(field, f"unknown option; there are {known}") from None
        raise OptionError(field, f"{first['msg']}, not {first['input']!r:.80}") from None
