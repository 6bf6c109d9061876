"""A small GPT over bytes, trained on any text.

Owns: the model (pre-norm transformer, tied embeddings), its schedule, and a report with a sample of generated text.
With the default options it has 3.3 million parameters and reads the source of Python's standard library.
Refuses to know: where the text comes from (`corpus`).
Does not guarantee: a tokenizer. A token is a byte; `vocabulary` above 256 only widens the embedding.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from regroup.tasks.contract import OptionError, Options, SizedDataset, Task, parse_options
from regroup.tasks.corpus import ByteRuns, Bytes, read_text, standard_library

PROMPT = "def "
SAMPLE_BYTES = 240
BYTES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class GptOptions(Options):
    hidden: Annotated[int, Field(ge=1, le=16384)] = 256
    heads: Annotated[int, Field(ge=1, le=1024)] = 4
    layers: Annotated[int, Field(ge=1, le=1024)] = 4
    sequence: Annotated[int, Field(ge=1, le=65536)] = 128  # bytes a sample predicts, and the longest context
    vocabulary: Annotated[int, Field(ge=BYTES, le=50304)] = BYTES
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    weight_decay: Annotated[float, Field(ge=0)] = 0.1  # of matrices; vectors are not decayed
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.95)
    clip: Annotated[float, Field(gt=0)] | None = 1.0
    warmup: Annotated[int, Field(ge=0)] = 20  # steps of linear rise to learning_rate
    decay: Annotated[int, Field(ge=1)] | None = None  # steps after the warmup of cosine fall to a tenth; None: constant
    text: str | None = None  # a file or folder on the workers' machines; None: Python's standard library
    max_bytes: Annotated[int, Field(ge=2)] = 8_000_000  # of text that are read
    holdout: Annotated[float, Field(ge=0, lt=1)] = 0.02  # the last fraction of the text is evaluated on

    def __post_init__(self) -> None:
        if self.hidden % self.heads:
            raise OptionError("heads", f"must divide hidden: {self.hidden} is no multiple of {self.heads}")


class Gpt(Task):
    """Batches are bytes (n, sequence + 1) int64: each position predicts the next. The weight counts predictions."""

    def __init__(self, **options: Any) -> None:
        self.options = parse_options(GptOptions, options)
        self.clip = self.options.clip
        self.independent_samples = self.options.dropout == 0
        self._text: Bytes | None = None
        if self.options.text is not None and not Path(self.options.text).exists():
            raise OptionError("text", f"there is no file or folder {self.options.text} on this worker")

    def model(self) -> nn.Module:
        return Transformer(self.options)

    def dataset(self) -> SizedDataset:
        text, cut = self._read()
        return ByteRuns(text[:cut], self.options.sequence)

    def evaluation(self) -> SizedDataset | None:
        text, cut = self._read()
        held_out = ByteRuns(text[cut:], self.options.sequence)
        return held_out if len(held_out) else None

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        scores = model(batch[:, :-1])
        targets = batch[:, 1:].flatten()
        return F.cross_entropy(scores.flatten(0, 1), targets, reduction="sum"), float(len(targets))

    def optimizer(self, model: nn.Module) -> Optimizer:
        o = self.options
        parameters = list(model.parameters())
        groups = [
            {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": o.weight_decay},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ]
        # fused: one pass over memory instead of about ten; on the CPU it takes a quarter of the time.
        return AdamW(groups, lr=o.learning_rate, betas=o.betas, fused=True)

    def scheduler(self, optimizer: Optimizer) -> LRScheduler | None:
        warmup, decay = self.options.warmup, self.options.decay
        if not warmup and decay is None:
            return None

        def factor(step: int) -> float:
            if step < warmup:
                return (step + 1) / warmup
            if decay is None:
                return 1.0
            done = min(1.0, (step - warmup) / decay)
            return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done))

        return LambdaLR(optimizer, factor)

    def report(self, model: nn.Module) -> dict[str, Any]:
        """A text that continues a prompt, drawn with a generator of its own: the same state writes the same text."""
        written = generate(model, PROMPT.encode(), SAMPLE_BYTES, self.options.sequence)
        parameters = sum(p.numel() for p in model.parameters())
        return {"prompt": PROMPT, "sample": written.decode(errors="replace"), "parameters": parameters}

    def _read(self) -> tuple[Bytes, int]:
        """The text, read once, and where the part that is held out begins."""
        o = self.options
        if self._text is None:
            self._text = standard_library(o.max_bytes) if o.text is None else read_text(Path(o.text), o.max_bytes)
        cut = len(self._text) - int(len(self._text) * o.holdout)
        if cut < o.sequence + 1:
            raise OptionError("text", f"has {cut} bytes to train on, and one sample needs {o.sequence + 1}")
        return self._text, cut


class Transformer(nn.Module):
    """Bytes (n, t) int64, t <= sequence, to scores (n, t, vocabulary) for the byte that follows each."""

    def __init__(self, options: GptOptions) -> None:
        super().__init__()
        self.token = nn.Embedding(options.vocabulary, options.hidden)
        self.position = nn.Embedding(options.sequence, options.hidden)
        self.dropout = nn.Dropout(options.dropout)
        self.blocks = nn.ModuleList(Block(options) for _ in range(options.layers))
        self.norm = nn.LayerNorm(options.hidden)
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                # Radford et al. 2019, section 2.3: what is added to the residual path shrinks with its depth.
                deep = name.endswith(("attention_out.weight", "mlp_out.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * options.layers) if deep else 0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x: Tensor = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x)
        scores: Tensor = F.linear(self.norm(x), self.token.weight)  # tied to the embedding
        return scores


class Block(nn.Module):
    """Causal attention and a perceptron of four times the width, each normalised before and added to what came in."""

    def __init__(self, options: GptOptions) -> None:
        super().__init__()
        hidden = options.hidden
        self.heads = options.heads
        self.attention_norm = nn.LayerNorm(hidden)
        self.attention_in = nn.Linear(hidden, 3 * hidden)
        self.attention_out = nn.Linear(hidden, hidden)
        self.mlp_norm = nn.LayerNorm(hidden)
        self.mlp_in = nn.Linear(hidden, 4 * hidden)
        self.mlp_out = nn.Linear(4 * hidden, hidden)
        self.dropout = nn.Dropout(options.dropout)

    def forward(self, x: Tensor) -> Tensor:
        n, t, hidden = x.shape
        mixed = self.attention_in(self.attention_norm(x)).view(n, t, 3, self.heads, hidden // self.heads)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)  # each (n, heads, t, hidden // heads)
        dropped = self.dropout.p if self.training else 0.0
        attended = F.scaled_dot_product_attention(query, key, value, dropout_p=dropped, is_causal=True)
        x = x + self.dropout(self.attention_out(attended.transpose(1, 2).reshape(n, t, hidden)))
        x = x + self.dropout(self.mlp_out(F.gelu(self.mlp_in(self.mlp_norm(x)))))
        return x


@torch.no_grad()
def generate(model: nn.Module, prompt: bytes, count: int, sequence: int, temperature: float = 0.7) -> bytes:
    """`prompt` and `count` bytes drawn after it. The model sees the last `sequence` bytes, and must be in eval mode."""
    generator = torch.Generator().manual_seed(0)
    device = next(model.parameters()).device
    text = list(prompt)
    for _ in range(count):
        scores: Tensor = model(torch.tensor([text[-sequence:]], device=device))[0, -1, :BYTES]
        chances = F.softmax(scores.cpu().double() / temperature, dim=-1)
        text.append(int(torch.multinomial(chances, 1, generator=generator)))
    return bytes(text)
