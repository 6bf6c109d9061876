"""The GPT task: text in, causality, schedule, and a report that repeats."""

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regroup.tasks import OptionError
from regroup.tasks.corpus import ByteRuns, read_text, standard_library
from regroup.tasks.gpt import Gpt, generate

TINY = {"hidden": 32, "heads": 2, "layers": 2, "sequence": 16, "max_bytes": 20_000}


def test_the_default_model_has_about_three_and_a_quarter_million_parameters() -> None:
    with torch.device("meta"):
        model = Gpt().model()
    assert sum(p.numel() for p in model.parameters()) == 3_257_856


def test_it_learns_text() -> None:
    task = Gpt(**TINY, learning_rate=1e-2, warmup=0)
    torch.manual_seed(0)
    model, dataset = task.model(), task.dataset()
    optimizer = task.optimizer(model)
    losses = []
    for step in range(30):
        batch = task.collate([dataset[(step * 16 + i) % len(dataset)] for i in range(16)])
        total, weight = task.loss(model, batch)
        assert weight == 16 * 16
        optimizer.zero_grad()
        (total / weight).backward()
        optimizer.step()
        losses.append(total.item() / weight)
    assert losses[0] == pytest.approx(math.log(256), rel=0.02)  # it begins without an opinion
    assert losses[-1] < 0.7 * losses[0]


def test_no_position_sees_what_follows_it() -> None:
    task = Gpt(**TINY)
    model = task.model().eval()
    text = torch.randint(256, (1, 16))
    changed = text.clone()
    changed[0, 10:] = (changed[0, 10:] + 1) % 256
    before, after = model(text), model(changed)
    torch.testing.assert_close(before[0, :10], after[0, :10])
    assert not torch.allclose(before[0, 10], after[0, 10])


def test_the_loss_of_a_batch_is_the_sum_over_its_samples() -> None:
    task = Gpt(**TINY)
    dataset, model = task.dataset(), task.model()
    whole, weight = task.loss(model, task.collate([dataset[0], dataset[1]]))
    parts = [task.loss(model, task.collate([dataset[i]])) for i in (0, 1)]
    torch.testing.assert_close(whole, parts[0][0] + parts[1][0])
    assert weight == parts[0][1] + parts[1][1]


def test_dropout_makes_samples_depend_on_draws() -> None:
    assert Gpt(**TINY).independent_samples
    task = Gpt(**TINY, dropout=0.2)
    assert not task.independent_samples
    model, batch = task.model(), task.collate([task.dataset()[0]])
    losses = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        losses.append(task.loss(model, batch)[0].item())
    assert losses[0] == losses[1] != losses[2]


def test_the_learning_rate_rises_then_falls_to_a_tenth() -> None:
    task = Gpt(**TINY, learning_rate=1.0, warmup=4, decay=10)
    optimizer = task.optimizer(task.model())
    schedule = task.scheduler(optimizer)
    assert schedule is not None
    rates = []
    for _ in range(20):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert rates[4:15] == sorted(rates[4:15], reverse=True)
    assert rates[14:] == pytest.approx([0.1] * 6)


def test_a_schedule_goes_on_from_its_state() -> None:
    task = Gpt(**TINY, warmup=10)
    optimizer, other = task.optimizer(task.model()), task.optimizer(task.model())
    schedule, resumed = task.scheduler(optimizer), task.scheduler(other)
    assert schedule is not None
    assert resumed is not None
    for _ in range(3):
        optimizer.step()
        schedule.step()
    resumed.load_state_dict(schedule.state_dict())
    other.load_state_dict(optimizer.state_dict())
    for each, its in ((optimizer, schedule), (other, resumed)):
        each.step()
        its.step()
    assert other.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"] == pytest.approx(0.5e-3)


def test_without_warmup_and_decay_there_is_no_schedule() -> None:
    task = Gpt(**TINY, warmup=0)
    assert task.scheduler(task.optimizer(task.model())) is None


def test_a_report_repeats_and_leaves_no_trace() -> None:
    task = Gpt(**TINY, dropout=0.5)
    model = task.model().eval()
    before = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist())
    first = task.report(model)
    assert first == task.report(model)
    assert first["prompt"] == "def "
    assert first["sample"].startswith("def ")
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (random.getstate(), np.random.get_state()[1].tolist())


def test_a_generated_text_has_the_length_asked_for() -> None:
    model = Gpt(**TINY, vocabulary=300).model().eval()
    assert len(generate(model, b"def ", 30, sequence=16)) == 34  # longer than the context, and bytes only


def test_the_text_may_be_a_file_or_a_folder(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "one.txt").write_bytes(b"b" * 50)
    (tmp_path / "a.txt").write_bytes(b"a" * 50)
    (tmp_path / "c.txt").write_bytes(b"c" * 50)
    (tmp_path / ".hidden").write_bytes(b"hidden")
    assert bytes(read_text(tmp_path, 10**12)) == b"a" * 50 + b"c" * 50 + b"b" * 50
    assert bytes(read_text(tmp_path, 60)) == b"a" * 50 + b"c" * 10
    assert bytes(read_text(tmp_path / "a.txt", 10)) == b"a" * 10
    task = Gpt(text=str(tmp_path), sequence=10, holdout=0.2)
    held_out = task.evaluation()
    assert held_out is not None
    assert len(task.dataset()) == 11  # of 120 bytes, each sample and one byte more
    assert bytes(held_out[0].tolist()) == b"b" * 11


def test_each_byte_but_the_first_is_predicted_once() -> None:
    runs = ByteRuns(np.arange(26, dtype=np.uint8), 5)
    assert len(runs) == 5
    assert [byte for i in range(5) for byte in runs[i][1:].tolist()] == list(range(1, 26))
    assert (runs[0].dtype, runs[0].shape) == (torch.int64, (6,))
    with pytest.raises(IndexError):
        runs[5]


def test_the_default_corpus_is_the_same_each_time() -> None:
    text = standard_library(300_000)
    assert len(text) == 300_000
    assert bytes(text) == bytes(standard_library(300_000))
    assert b"import " in bytes(text)
    assert bytes(standard_library(1000)) == bytes(text[:1000])


def test_a_text_without_a_sample_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_bytes(b"x" * 100)
    task = Gpt(text=str(tmp_path / "short.txt"), sequence=128)
    with pytest.raises(OptionError, match="has 98 bytes") as caught:
        task.dataset()
    assert caught.value.field == "text"
    (tmp_path / "empty").mkdir()
    with pytest.raises(OptionError, match="0 bytes"):
        Gpt(text=str(tmp_path / "empty")).dataset()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"heads": 3}, "heads"),
        ({"hidden": 0}, "hidden"),
        ({"vocabulary": 255}, "vocabulary"),
        ({"vocabulary": 10**9}, "vocabulary"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"weight_decay": -0.1}, "weight_decay"),
        ({"betas": [0.9]}, "betas"),
        ({"betas": [0.9, 1.0]}, "betas"),
        ({"clip": -1.0}, "clip"),
        ({"holdout": 1.0}, "holdout"),
        ({"sequence": 1.5}, "sequence"),
        ({"text": "/no/such/file"}, "text"),
        ({"sequnce": 128}, "sequnce"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], field: str) -> None:
    with pytest.raises(OptionError) as caught:
        Gpt(**options)
    assert caught.value.field == field
