"""Scanned handwritten digits, classified by a multilayer perceptron: the shortest complete task.

Owns: the images of scikit-learn's `load_digits` (1797 of 8x8 pixels, part of the installed package, nothing is
downloaded), split into samples to train on and the last `holdout` to evaluate on.
Does not guarantee: with `batch_norm`, that a pass of a single sample can be normalised; choose `global_batch` and
`shards` so that no pass gets just one, the short last batch of an epoch included.
"""

from dataclasses import dataclass
from importlib.metadata import distribution
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer
from torch.utils.data import TensorDataset

from regroup.tasks.contract import Options, SizedDataset, Task, parse_options

PIXELS = 64
CLASSES = 10
IMAGES = 1797
FILE = "sklearn/datasets/data/digits.csv.gz"  # a line for each image: its pixels, 0 to 16, and its label
DTYPES = {"float32": torch.float32, "float64": torch.float64}

Width = Annotated[int, Field(ge=1, le=65536)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DigitsOptions(Options):
    hidden: Annotated[tuple[Width, ...], Field(max_length=64)] = (64, 32)  # widths of the hidden layers
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    batch_norm: bool = False
    dtype: Literal["float32", "float64"] = "float32"
    optimizer: Literal["adamw", "sgd"] = "adamw"
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    weight_decay: Annotated[float, Field(ge=0)] = 1e-2
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9  # of sgd
    clip: Annotated[float, Field(gt=0)] | None = None
    holdout: Annotated[int, Field(ge=0, lt=IMAGES)] = 297  # the last so many images are evaluated on


class Digits(Task):
    """Batches are (images, labels): images (n, 64) of the option `dtype`, 0 to 1; labels (n,) int64, 0 to 9."""

    def __init__(self, **options: Any) -> None:
        self.options = parse_options(DigitsOptions, options)
        self.clip = self.options.clip
        self.independent_samples = self.options.dropout == 0 and not self.options.batch_norm

    def model(self) -> nn.Module:
        o = self.options
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise((PIXELS, *o.hidden)):
            layers.append(nn.Linear(inputs, outputs))
            if o.batch_norm:
                layers.append(nn.BatchNorm1d(outputs))
            layers.append(nn.ReLU())
            if o.dropout > 0:
                layers.append(nn.Dropout(o.dropout))
        layers.append(nn.Linear((PIXELS, *o.hidden)[-1], CLASSES))
        return nn.Sequential(*layers).to(DTYPES[o.dtype])

    def dataset(self) -> TensorDataset:
        images, labels = self._read()
        kept = IMAGES - self.options.holdout
        return TensorDataset(images[:kept], labels[:kept])

    def evaluation(self) -> SizedDataset | None:
        images, labels = self._read()
        kept = IMAGES - self.options.holdout
        return TensorDataset(images[kept:], labels[kept:]) if self.options.holdout else None

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        images, labels = batch
        return F.cross_entropy(model(images), labels, reduction="sum"), float(len(labels))

    def optimizer(self, model: nn.Module) -> Optimizer:
        o = self.options
        # fused: one pass over memory instead of about ten; on the CPU it takes a tenth of the time.
        if o.optimizer == "adamw":
            return AdamW(model.parameters(), lr=o.learning_rate, weight_decay=o.weight_decay, fused=True)
        return SGD(model.parameters(), lr=o.learning_rate, weight_decay=o.weight_decay, momentum=o.momentum, fused=True)

    def evaluate(self, model: nn.Module, batch: Any) -> dict[str, tuple[float, float]]:
        images, labels = batch
        scores = model(images)
        weight = float(len(labels))
        right = (scores.argmax(dim=1) == labels).sum().item()
        return {
            "accuracy": (right, weight),
            "loss": (F.cross_entropy(scores, labels, reduction="sum").item(), weight),
        }

    def report(self, model: nn.Module) -> dict[str, Any]:
        """The number of parameters and, if images were held out, the accuracy on them (a fraction of 1)."""
        told: dict[str, Any] = {"parameters": sum(p.numel() for p in model.parameters())}
        if self.options.holdout:
            images, labels = (part[-self.options.holdout :] for part in self._read())
            device = next(model.parameters()).device
            right, weight = self.evaluate(model, (images.to(device), labels.to(device)))["accuracy"]
            told["accuracy"] = right / weight
        return told

    def _read(self) -> tuple[Tensor, Tensor]:
        # The file alone: to import scikit-learn takes each trainer that starts a second.
        lines = np.loadtxt(str(distribution("scikit-learn").locate_file(FILE)), delimiter=",")
        images, labels = lines[:, :PIXELS] / 16, lines[:, PIXELS]
        return torch.from_numpy(images).to(DTYPES[self.options.dtype]), torch.from_numpy(labels).long()
