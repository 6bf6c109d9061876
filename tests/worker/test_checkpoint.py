"""Checkpoints: whole or absent, verified, readable by other tools, and never pickled."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from regroup.core.jobs import Version
from regroup.worker.checkpoint import CheckpointDamaged, read, write
from regroup.worker.tree import as_bytes, pack

VERSION = Version(3, 200)
META = {"order": "feistel-1", "options": {"lr": 0.1}}


def tree() -> dict:
    flat = torch.arange(1000.0)
    return {
        "model": {"0.weight": flat[:12].view(3, 4), "0.bias": flat[12:15], "tied": flat[:12].view(3, 4)},
        "optimizer": {
            "state": {0: {"step": torch.tensor(200.0), "exp_avg": flat[15:27].view(4, 3).T}},
            "betas": (0.9, 1),
        },
        "wide": torch.tensor([1 + 2j], dtype=torch.complex128),
        "empty": torch.zeros(0, 3),
        "step": 200,
        "scheduler": None,
    }


def bits(state: dict) -> bytes:
    skeleton, tensors = pack(state)
    return skeleton + b"".join(as_bytes(tensor).numpy().tobytes() for tensor in tensors)


def test_a_checkpoint_comes_back_whole(tmp_path):
    checkpoint = write(tmp_path, "job-1", VERSION, tree(), META)
    assert checkpoint.version == VERSION
    name = f"checkpoint-g000003-s00000200-{checkpoint.checksum[:8]}.safetensors"
    assert Path(checkpoint.path) == tmp_path / "job-1" / name
    assert checkpoint.bytes == os.stat(checkpoint.path).st_size
    state, meta = read(checkpoint.path, checkpoint.checksum)
    assert bits(state) == bits(tree())
    assert meta == META
    assert os.listdir(tmp_path / "job-1") == [Path(checkpoint.path).name]


def test_a_view_of_a_large_buffer_is_saved_alone(tmp_path):
    view = torch.zeros(1_000_000)[:10]
    assert write(tmp_path, "job", VERSION, {"view": view}, {}).bytes < 1000


def test_other_tools_read_the_tensors_by_name(tmp_path):
    checkpoint = write(tmp_path, "job", VERSION, tree(), META)
    tensors = load_file(checkpoint.path)
    assert torch.equal(tensors["model/0.weight"], tree()["model"]["0.weight"])
    assert torch.equal(tensors["optimizer/state/0/exp_avg"], tree()["optimizer"]["state"][0]["exp_avg"])


def test_equal_states_are_equal_files_so_that_a_retry_changes_nothing(tmp_path):
    first = write(tmp_path, "job", VERSION, tree(), META)
    assert write(tmp_path, "job", VERSION, tree(), dict(reversed(META.items()))) == first
    read(first.path, first.checksum)


def test_a_slow_writer_of_the_same_version_replaces_nobody_elses_file(tmp_path):
    first = write(tmp_path, "job", VERSION, tree(), META)
    second = write(tmp_path, "job", VERSION, tree() | {"step": 201}, META)
    assert read(second.path, second.checksum)[0]["step"] == 201
    assert read(first.path, first.checksum)[0]["step"] == tree()["step"]


@pytest.mark.parametrize("place", [0, 20, -1])
def test_one_flipped_bit_is_damage(tmp_path, place):
    checkpoint = write(tmp_path, "job", VERSION, tree(), META)
    with open(checkpoint.path, "r+b") as file:
        content = bytearray(file.read())
        content[place] ^= 1
        file.seek(0)
        file.write(content)
    with pytest.raises(CheckpointDamaged, match=r"checkpoint-g000003.*earlier checkpoint"):
        read(checkpoint.path, checkpoint.checksum)


def test_a_truncated_or_absent_checkpoint_is_damage(tmp_path):
    checkpoint = write(tmp_path, "job", VERSION, tree(), META)
    os.truncate(checkpoint.path, checkpoint.bytes // 2)
    with pytest.raises(CheckpointDamaged):
        read(checkpoint.path, checkpoint.checksum)
    os.unlink(checkpoint.path)
    with pytest.raises(CheckpointDamaged, match="No such file"):
        read(checkpoint.path, checkpoint.checksum)


def test_a_foreign_file_is_no_checkpoint(tmp_path):
    from hashlib import sha256

    for content in (b"", b"hello", (2).to_bytes(8, "little") + b"{}"):
        (tmp_path / "foreign").write_bytes(content)
        with pytest.raises(CheckpointDamaged, match="no checkpoint of Regroup"):
            read(tmp_path / "foreign", sha256(content).hexdigest())


def test_a_state_that_cannot_be_kept_leaves_no_file(tmp_path):
    with pytest.raises(TypeError, match="/scheduler is a"):
        write(tmp_path, "job", VERSION, {"scheduler": print}, {})
    assert list(tmp_path.rglob("*")) == []


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "job").write_text("in the way")
    with pytest.raises(OSError, match="job"):
        write(tmp_path, "job", VERSION, tree(), META)
