"""The rival: plain DistributedDataParallel under torchrun, on the same tasks, as fast as it can be made.

    torchrun --standalone --nproc-per-node 2 -m regroup.lab.bench.ddp --task gpt --options '{}' --global-batch 8 ...

Owns: a training loop without anything that survives a failure. In its favour: its batches are collated before the
start and kept in memory, nothing is logged, no loss is read, and only rank 0 notes when each step ended.
Its loss is the mean over its own samples, and DDP averages over the ranks: the same update as the cluster's, because
each rank gets equally many samples.
"""

import argparse
import json
import os
import struct
import time
from itertools import cycle
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from regroup.lab.bench.gate import Gate
from regroup.tasks.contract import Task
from regroup.tasks.loading import load_task
from regroup.worker.nursery import die_with_parent

TIME = struct.Struct("q")  # CLOCK_MONOTONIC, ns
BATCHES = 64  # that each rank goes round and round


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", required=True)
    parser.add_argument("--options", type=json.loads, required=True)
    parser.add_argument("--global-batch", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gate", type=Path, required=True)
    parser.add_argument("--times", type=Path, required=True, help="a file of int64: when each step was complete, in ns")
    given = parser.parse_args()
    die_with_parent()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(load_task(given.task, given.options), given.global_batch, given.seed, Gate(given.gate), given.times)


def train(task: Task, global_batch: int, seed: int, gate: Gate, times: Path) -> None:
    """Train until killed."""
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(seed)
    module = task.model().train()
    model = DistributedDataParallel(module, gradient_as_bucket_view=True, static_graph=True, broadcast_buffers=False)
    optimizer = task.optimizer(module)
    scheduler = task.scheduler(optimizer)
    parameters = list(module.parameters())
    file = os.open(times, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for batch in cycle(batches(task, global_batch // size, rank, size, seed)):
        gate.enter()
        optimizer.zero_grad(set_to_none=True)
        loss, weight = task.loss(model, batch)
        (loss / weight).backward()  # type: ignore[no-untyped-call]
        if task.clip is not None:
            torch.nn.utils.clip_grad_norm_(parameters, task.clip)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        if rank == 0:
            os.write(file, TIME.pack(time.monotonic_ns()))


def batches(task: Task, batch: int, rank: int, size: int, seed: int) -> list[object]:
    """The first batches of a random order of the dataset, every `size`-th sample, as DistributedSampler has it."""
    dataset = task.dataset()
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed))[rank::size].tolist()
    starts = range(0, min(len(order) - batch + 1, BATCHES * batch), batch)
    return [task.collate([dataset[index] for index in order[start : start + batch]]) for start in starts]


if __name__ == "__main__":
    main()
