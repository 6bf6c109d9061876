"""The leader's state on its way to the members that take it over, rank to rank over the group.

Owns: the order and the size of the messages. What arrives is complete and stands beside the live state, or nothing.
Refuses to know: what is in the tree, and when it is swapped in.
Does not guarantee: that the leader's tensors are the same at the start and the end: it must not train meanwhile.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor

from regroup.worker.group import Group, GroupBroken
from regroup.worker.tree import as_bytes, layout, of_slot, pack, unpack

CHUNK = 16 << 20  # bytes in one message at most
DIRECT = 4 << 20  # bytes from which a tensor is sent from where it lies; smaller ones share a message
HEADER = struct.Struct(">8sQ16s")  # magic, length and digest of the skeleton
MAGIC = b"regroup1"
LARGEST_SKELETON = 1 << 28  # bytes; a state of a million tensors has a tenth of it
LARGEST_STATE = 1 << 42  # bytes

Piece = tuple[int, int, int]  # tensor, and the stretch of its bytes: start, stop


def give(group: Group, tree: Any, receivers: Sequence[int]) -> None:
    """Send a tree to these ranks, which call `take`. Raises GroupBroken; TypeError for what no tree can hold."""
    skeleton, tensors = pack(tree)
    memory = [as_bytes(tensor) for tensor in tensors]
    header = HEADER.pack(MAGIC, len(skeleton), blake2b(skeleton, digest_size=16).digest())
    for message in (header, skeleton):
        for chunk in _tensor_of(message).split(CHUNK):  # type: ignore[no-untyped-call]
            _send(group, chunk, receivers)
    for pieces in _messages([each.numel() for each in memory]):
        parts = [memory[index][start:stop] for index, start, stop in pieces]
        _send(group, parts[0] if len(parts) == 1 else torch.cat(parts), receivers)


def take(group: Group, leader: int) -> Any:
    """Receive the tree that `leader` gives; its tensors are new, on the CPU. Raises GroupBroken, also for garbage."""
    magic, length, digest = HEADER.unpack(_receive(group, leader, HEADER.size))
    if magic != MAGIC or length > LARGEST_SKELETON:
        raise _garbage(group, leader)
    skeleton = _receive(group, leader, length)
    if blake2b(skeleton, digest_size=16).digest() != digest:
        raise _garbage(group, leader)
    slots = layout(skeleton)
    if sum(slot.nbytes for slot in slots) > LARGEST_STATE:
        raise _garbage(group, leader)
    memory = [torch.empty(slot.nbytes, dtype=torch.uint8) for slot in slots]
    for pieces in _messages([slot.nbytes for slot in slots]):
        parts = [memory[index][start:stop] for index, start, stop in pieces]
        if len(parts) == 1:
            group.recv(parts[0], leader)
        else:
            shared = torch.empty(sum(part.numel() for part in parts), dtype=torch.uint8)
            group.recv(shared, leader)
            for part, arrived in zip(parts, shared.split([part.numel() for part in parts]), strict=True):  # type: ignore[no-untyped-call]
                part.copy_(arrived)
    return unpack(skeleton, [of_slot(slot, each) for slot, each in zip(slots, memory, strict=True)])


def _messages(sizes: Iterable[int]) -> Iterator[list[Piece]]:
    """What each message holds, for tensors of these sizes in bytes. Both sides compute it."""
    shared: list[Piece] = []
    room = CHUNK
    for index, size in enumerate(sizes):
        if size >= DIRECT:
            yield from ([(index, start, min(start + CHUNK, size))] for start in range(0, size, CHUNK))
        elif size:
            if size > room:
                yield shared
                shared, room = [], CHUNK
            shared.append((index, 0, size))
            room -= size
    if shared:
        yield shared


def _send(group: Group, chunk: Tensor, receivers: Sequence[int]) -> None:
    for rank in receivers:
        group.send(chunk, rank)


def _receive(group: Group, leader: int, length: int) -> bytes:
    memory = torch.empty(length, dtype=torch.uint8)
    for chunk in memory.split(CHUNK):  # type: ignore[no-untyped-call]
        group.recv(chunk, leader)
    return memory.numpy().tobytes()


def _tensor_of(message: bytes) -> Tensor:
    return torch.frombuffer(bytearray(message), dtype=torch.uint8)


def _garbage(group: Group, leader: int) -> GroupBroken:
    reason = f"rank {leader} gave something that is no state"
    group.break_(reason)
    return GroupBroken(reason)
