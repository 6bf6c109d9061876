"""The bytes of a durable state: one safetensors file per version, complete or absent.

    <folder>/<job>/checkpoint-g000003-s00000200-1f9d3a5c.safetensors

The tensors are named by their path in the tree ("model/0.weight"), so that other tools read them. The header's one
metadata entry, "regroup", is JSON: format, job, generation, step, meta and the tree's skeleton. No pickle anywhere.

Owns: the file's name and format, that a reader never sees half of one, and its checksum, which covers every byte.
Refuses to know: which checkpoint is the latest, when one is written, and when one may be deleted.
Does not guarantee: that a killed writer's temporary file (it starts with a dot) goes away.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regroup.core.jobs import Checkpoint, Version
from regroup.worker.tree import as_bytes, layout, of_slot, pack, unpack

FORMAT = 1


class CheckpointDamaged(Exception):
    """A checkpoint is missing, or its bytes are not the ones that were written. The message says what to do."""


def write(folder: Path, job: str, version: Version, tree: Any, meta: Mapping[str, Any]) -> Checkpoint:
    """Make a state durable: when this returns it survives a power failure.

    Its name ends with the beginning of its checksum, so that a slow writer does not replace what another one wrote.

    `meta` is JSON. Raises OSError, and TypeError for what no tree can hold.
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
    name = f"checkpoint-g{version.generation:06}-s{version.step:08}"
    half = folder / job / f".{name}.{secrets.token_hex(4)}"
    half.parent.mkdir(parents=True, exist_ok=True)
    try:
        save_file(named, half, metadata={"regroup": json.dumps(head, sort_keys=True)})
        with half.open("rb") as file:
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
            size = os.fstat(file.fileno()).st_size
            os.fsync(file.fileno())
        target = half.replace(half.with_name(f"{name}-{checksum[:8]}.safetensors"))
    finally:
        half.unlink(missing_ok=True)
    for each in (target.parent, folder):
        _sync_folder(each)
    return Checkpoint(version=version, path=str(target), checksum=checksum, bytes=size)


def read(path: str | Path, checksum: str) -> tuple[Any, dict[str, Any]]:
    """(tree, meta) of a checkpoint with this sha256; its tensors are new, on the CPU. Raises CheckpointDamaged."""
    advice = "restore it from a backup, or start from an earlier checkpoint"
    try:
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointDamaged(f"{path} cannot be read ({error.strerror}): {advice}") from error
    if found != checksum:
        raise CheckpointDamaged(f"{path} has sha256 {found}, not {checksum}: {advice}")
    try:
        with safe_open(path, framework="pt") as file:
            head = json.loads(file.metadata()["regroup"])
            if head["format"] != FORMAT:
                raise CheckpointDamaged(f"{path} has format {head['format']}: read it with the version that wrote it")
            slots = layout(head["skeleton"].encode())
            tensors = [of_slot(slot, as_bytes(file.get_tensor(slot.name))) for slot in slots]
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CheckpointDamaged(f"{path} is no checkpoint of Regroup ({error!r}): {advice}") from error
    return unpack(head["skeleton"].encode(), tensors), head["meta"]


def _compact(tensor: Tensor) -> Tensor:
    """A tensor that owns exactly its own memory: a view of a flat buffer would carry all of it."""
    if tensor.dtype == torch.complex128:  # the one that safetensors has no word for; the skeleton has
        return as_bytes(tensor).clone()
    compact = tensor.cpu().contiguous()
    return compact if compact.untyped_storage().nbytes() == compact.nbytes else compact.clone()


def _sync_folder(folder: Path) -> None:
    """The file's name is as durable as its bytes only when its folder is."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
