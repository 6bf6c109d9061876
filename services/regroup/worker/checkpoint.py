"""The bytes of a durable state: one safetensors file per version, complete or absent.

    <folder or URL>/<job>/checkpoint-g000003-s00000200-1f9d3a5c.safetensors

The tensors are named by their path in the tree ("model/0.weight"), so that other tools read them. The header's one
metadata entry, "regroup", is JSON: format, job, generation, step, meta and the tree's skeleton. No pickle anywhere.

Owns: the file's name and format, and that nothing is parsed before its checksum, which covers every byte, is right.
Refuses to know: which checkpoint is the latest, when one is written or deleted, and how bytes are kept (`storage`).
Does not guarantee: that a killed writer's temporary file (it starts with a dot) goes away.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regroup.core.jobs import Checkpoint, Version
from regroup.worker.storage import Absent, Storage
from regroup.worker.tree import as_bytes, layout, of_slot, pack, unpack

FORMAT = 1
ADVICE = "restore it from a backup, or start from an earlier checkpoint"
FOREIGN = (SafetensorError, KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError)


class CheckpointDamaged(Exception):
    """A checkpoint is missing, or its bytes are not the ones that were written. The message says what to do.

    `missing`: nothing lies under its name here, where it may have been written on another machine.
    """

    def __init__(self, message: str, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


class OtherFormat(Exception):
    """A checkpoint is whole, and another version of Regroup wrote it. The message says what to do."""


def write(storage: Storage, job: str, version: Version, tree: Any, meta: Mapping[str, Any]) -> Checkpoint:
    """Make a state durable: when this returns it survives a power failure, as far as the storage does.

    Its name ends with the beginning of its checksum, so that a slow writer does not replace what another one wrote.

    `meta` is JSON. Raises StorageFailed, and TypeError for what no tree can hold.
    """
    skeleton, tensors = pack(tree)
    head = {
        "format": FORMAT,
        "job": job,
        "generation": version.generation,
        "step": version.step,
        "meta": dict(meta),
        "skeleton": skeleton.decode(),
    }
    named = {slot.name: _compact(tensor) for slot, tensor in zip(layout(skeleton), tensors, strict=True)}

    def fill(path: Path) -> None:
        try:
            save_file(named, path, metadata={"regroup": json.dumps(head, sort_keys=True)})
        except SafetensorError as error:  # it says so of a full disk, too
            number = re.search(r"\(os error (\d+)\)", str(error))
            raise (OSError(int(number[1]), os.strerror(int(number[1]))) if number else OSError(str(error))) from error

    name = f"checkpoint-g{version.generation:06}-s{version.step:08}"
    stored = storage.put(job, lambda checksum: f"{name}-{checksum[:8]}.safetensors", fill)
    return Checkpoint(version=version, path=stored.path, checksum=stored.checksum, bytes=stored.bytes)


def read(storage: Storage, job: str, checkpoint: Checkpoint) -> tuple[Any, dict[str, Any]]:
    """(tree, meta) of a job's checkpoint; its tensors are new, on the CPU. Raises CheckpointDamaged,
    OtherFormat, StorageFailed."""

    def verified(file: IO[bytes]) -> tuple[Any, dict[str, Any]]:
        found = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        if found != checkpoint.checksum:
            message = f"{checkpoint.path} has sha256 {found}, not {checkpoint.checksum}: {ADVICE}"
            raise CheckpointDamaged(message)
        return _parse(file, job, checkpoint)

    try:
        return storage.read(checkpoint.path, checkpoint.bytes, verified)
    except Absent as error:
        raise CheckpointDamaged(f"{error}: {ADVICE}", missing=error.missing) from error


def _parse(verified: IO[bytes], job: str, checkpoint: Checkpoint) -> tuple[Any, dict[str, Any]]:
    """By its number: another file may have got its name since it was verified."""
    path, version = checkpoint.path, checkpoint.version
    try:
        with safe_open(f"/proc/self/fd/{verified.fileno()}", framework="pt") as file:
            head = json.loads(file.metadata()["regroup"])
            if head["format"] != FORMAT:
                raise OtherFormat(f"{path} has format {head['format']}: read it with the version that wrote it")
            found = (head["job"], head["generation"], head["step"])
            if found != (job, version.generation, version.step):
                told = "it holds job {}, generation {}, step {}".format(*found)
                raise CheckpointDamaged(f"{path} is no checkpoint of step {version.step} of {job}, {told}: {ADVICE}")
            skeleton = head["skeleton"].encode()
            # copied: what is mapped changes with the file, and ends the process where that is cut short
            tensors = [of_slot(slot, as_bytes(file.get_tensor(slot.name)).clone()) for slot in layout(skeleton)]
            return unpack(skeleton, tensors), head["meta"]
    except FOREIGN as error:
        raise CheckpointDamaged(f"{path} is no checkpoint of Regroup ({error!r}): {ADVICE}") from error


def _compact(tensor: Tensor) -> Tensor:
    """A tensor that owns exactly its own memory: a view of a flat buffer would carry all of it."""
    if tensor.dtype == torch.complex128:  # the one that safetensors has no word for; the skeleton has
        return as_bytes(tensor).clone()
    compact = tensor.cpu().contiguous()
    return compact if compact.untyped_storage().nbytes() == compact.nbytes else compact.clone()
