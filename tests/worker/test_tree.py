"""Trees of plain values and tensors come back equal, or are refused by path."""

import gc
import math
import weakref
from collections import Counter, OrderedDict
from enum import Enum

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regroup.worker.tree import as_bytes, layout, of_slot, pack, unpack

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_plain_values_come_back_equal_and_of_their_types(tree):
    skeleton, tensors = pack(tree)
    assert tensors == []
    assert repr(unpack(skeleton, [])) == repr(tree)


DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.int8, torch.uint8,
    torch.int16, torch.uint16, torch.int32, torch.int64, torch.uint64, torch.bool, torch.complex64, torch.complex128,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3)], ids=str)
def test_tensors_of_every_dtype_and_shape_come_back_bit_by_bit(dtype, shape):
    memory = torch.randint(0, 2, (math.prod(shape) * dtype.itemsize,), dtype=torch.uint8)
    tensor = memory.view(dtype).reshape(shape)
    skeleton, [packed] = pack({"a": tensor})
    [slot] = layout(skeleton)
    back = unpack(skeleton, [of_slot(slot, as_bytes(packed).clone())])["a"]
    assert (back.dtype, back.shape) == (dtype, tensor.shape)
    assert torch.equal(as_bytes(back), memory)


def test_tensors_are_named_by_their_path_and_listed_once():
    tied = torch.ones(2, 3)
    tree = {"model": OrderedDict({"0.weight": tied, "1.weight": tied, "0.bias": tied[0]}), "optimizer": [{3: tied.T}]}
    skeleton, tensors = pack(tree)
    assert [slot.name for slot in layout(skeleton)] == ["model/0.weight", "model/0.bias", "optimizer/0/3"]
    back = unpack(skeleton, tensors)
    assert back["model"]["0.weight"] is back["model"]["1.weight"]
    assert back["optimizer"][0][3].shape == (3, 2)


def test_paths_that_read_alike_stay_apart():
    skeleton, tensors = pack({"a": {"b": torch.ones(1)}, "a/b": torch.zeros(1)})
    assert len({slot.name for slot in layout(skeleton)}) == 2
    assert unpack(skeleton, tensors) == {"a": {"b": torch.ones(1)}, "a/b": torch.zeros(1)}


def test_counters_and_numpy_floats_come_back_as_what_they_are():
    import numpy

    back = unpack(*pack({"milestones": Counter({30: 1}), "rate": numpy.float64(0.5)}))
    assert back["milestones"].elements
    assert type(back["rate"]) is float


class Colour(Enum):
    RED = 1


@pytest.mark.parametrize(
    "odd",
    [{1, 2}, b"x", print, Colour.RED, object(), 1j, torch.ones(2).to_sparse()],
    ids=lambda odd: type(odd).__name__,
)
def test_anything_else_is_refused_by_its_path(odd):
    with pytest.raises(TypeError, match="the state at /scheduler/0/fn is a"):
        pack({"scheduler": [{"fn": odd}]})


def test_keys_that_are_neither_str_nor_int_are_refused():
    for key in (True, None, 1.5, (1,)):
        with pytest.raises(TypeError, match="only str and int can be keys"):
            pack({"a": {key: 1}})


@pytest.mark.parametrize("garbage", [b"{}", b"[]", b"no", b'{"tree":1,"tensors":[["a","system",[1]]]}', b"\xff"])
def test_garbage_is_no_skeleton(garbage):
    with pytest.raises(ValueError):
        unpack(garbage, [])


def test_a_state_goes_when_it_is_let_go_not_at_some_later_collection():
    gc.disable()
    try:
        tree = {"model": [torch.ones(2)]}
        skeleton, tensors = pack(tree)
        copy = unpack(skeleton, [tensor.clone() for tensor in tensors])
        kept = [weakref.ref(each) for each in (*tensors, *copy["model"])]
        del tree, tensors, copy
        assert [each() for each in kept] == [None, None]
    finally:
        gc.enable()


def test_tensors_of_another_skeleton_are_refused():
    skeleton, _ = pack([torch.ones(2)])
    with pytest.raises(ValueError, match="not the skeleton's"):
        unpack(skeleton, [torch.ones(3)])
