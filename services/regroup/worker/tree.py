"""A tree of plain values and tensors as bytes without pickle: a JSON skeleton, and the tensors beside it.

Owns: which values may be in a state, and that they come back equal: types, order of keys, NaN, infinities and all.
Refuses to know: what the tree means, and where skeleton and tensors go.
Does not guarantee: that two names of one tensor stay one tensor; they come back as equal values.
"""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# What JSON has no word for is an object with one key: t tuple, d dict (pairs), c Counter (pairs), f float, x tensor.


@dataclass(frozen=True, slots=True)
class Slot:
    """A tensor of a tree: its path with "/" between keys, dtype and shape."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def pack(tree: Any) -> tuple[bytes, list[Tensor]]:
    """(skeleton, tensors): dict with keys of str or int, Counter, list, tuple, None, bool, int, float, str, tensors.

    The tensors are the tree's own, detached; one that stands in several places is listed once. Raises TypeError, naming
    the path, for anything else.
    """
    packing = _Packing()
    skeleton = {"tree": packing.walk(tree, ""), "tensors": packing.slots}
    return json.dumps(skeleton, separators=(",", ":"), allow_nan=False).encode(), packing.tensors


class _Packing:
    """One tree on its way. No function names itself: such a circle would keep the tensors until a collection."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.slots: list[tuple[str, str, list[int]]] = []
        self._known: dict[Any, int] = {}
        self._names: set[str] = set()

    def walk(self, value: Any, path: str) -> Any:
        match value:
            case None | bool():
                return value
            case Tensor() if value.layout == torch.strided:
                return {"x": self._add(value, path)}
            case str():
                return str(value)
            case int():
                return int(value)
            case float():
                return float(value) if math.isfinite(value) else {"f": repr(float(value))}
            case list():
                return [self.walk(each, f"{path}/{index}") for index, each in enumerate(value)]
            case tuple():
                return {"t": [self.walk(each, f"{path}/{index}") for index, each in enumerate(value)]}
            case dict():
                pairs = [[_key(key, path), self.walk(each, f"{path}/{key}")] for key, each in value.items()]
                return {"c" if isinstance(value, Counter) else "d": pairs}
        where = path or "the tree itself"
        raise TypeError(
            f"the state at {where} is a {type(value).__qualname__}: only dict, list, tuple, None, bool, int, float, "
            "str and dense tensors can be kept"
        )

    def _add(self, tensor: Tensor, path: str) -> int:
        place = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.device)
        if tensor.numel() and place in self._known:
            return self._known[place]
        name = path.removeprefix("/")
        name = name if name not in self._names else f"{name}#{len(self.tensors)}"
        self._names.add(name)
        self._known[place] = len(self.tensors)
        self.slots.append((name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape)))
        self.tensors.append(tensor.detach())
        return self._known[place]


def layout(skeleton: bytes) -> list[Slot]:
    """The tensors that belong to a skeleton, in order. Raises ValueError if it is no skeleton."""
    try:
        return [_slot(*entry) for entry in json.loads(skeleton)["tensors"]]
    except (KeyError, TypeError) as error:
        raise ValueError(f"no skeleton: {error!r}") from error


def unpack(skeleton: bytes, tensors: Sequence[Tensor]) -> Any:
    """The tree. Raises ValueError if skeleton and tensors do not belong together."""
    slots = layout(skeleton)
    if [(each.dtype, each.shape) for each in slots] != [(each.dtype, tuple(each.shape)) for each in tensors]:
        raise ValueError("these tensors are not the skeleton's")

    return _unpacked(json.loads(skeleton)["tree"], tensors)


def _unpacked(node: Any, tensors: Sequence[Tensor]) -> Any:
    match node:
        case {"x": int(index)}:
            return tensors[index]
        case {"f": str(word)}:
            return float(word)
        case {"t": list(items)}:
            return tuple(_unpacked(each, tensors) for each in items)
        case {"d": list(pairs)}:
            return {key: _unpacked(each, tensors) for key, each in pairs}
        case {"c": list(pairs)}:
            return Counter({key: _unpacked(each, tensors) for key, each in pairs})
        case list():
            return [_unpacked(each, tensors) for each in node]
        case dict():
            raise ValueError(f"no skeleton: {node!r:.80}")
    return node


def _key(key: Any, path: str) -> str | int:
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise TypeError(f"the state at {path or 'the top'} has the key {key!r}: only str and int can be keys")
    return str(key) if isinstance(key, str) else int(key)


def _slot(name: str, dtype: str, shape: Sequence[int]) -> Slot:
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype) or any(not isinstance(size, int) or size < 0 for size in shape):
        raise ValueError(f"no skeleton: {name!r:.80} has dtype {dtype!r:.80} and shape {shape!r:.80}")
    return Slot(name, kind, tuple(shape))


def as_bytes(tensor: Tensor) -> Tensor:
    """The memory of a dense tensor, row by row, as uint8 on the CPU, shape (nbytes). A view where that is possible."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def of_slot(slot: Slot, memory: Tensor) -> Tensor:
    """The tensor that these bytes, shape (slot.nbytes), are; a view of them."""
    return memory.view(slot.dtype).reshape(slot.shape)


def copy_of(value: Any) -> Any:
    """A tree that shares nothing with this one."""
    skeleton, tensors = pack(value)
    return unpack(skeleton, [tensor.clone() for tensor in tensors])
