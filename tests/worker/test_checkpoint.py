"""Checkpoints: whole or absent, verified, readable by other tools, and never pickled."""

import io
import pickle
import resource
import zipfile
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from regroup.core.jobs import Checkpoint, Version
from regroup.worker.checkpoint import CheckpointDamaged, OtherFormat, read, write
from regroup.worker.storage import Storage, StorageFailed
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


def test_a_checkpoint_comes_back_whole(kept: Any) -> None:
    checkpoint = write(kept.storage, "job", VERSION, tree(), META)
    assert checkpoint.version == VERSION
    name = f"job/checkpoint-g000003-s00000200-{checkpoint.checksum[:8]}.safetensors"
    assert checkpoint.path == f"{kept.place}/{name}"
    content = kept.content(checkpoint.path)
    assert (checkpoint.bytes, checkpoint.checksum) == (len(content), sha256(content).hexdigest())
    state, meta = read(kept.storage, "job", checkpoint)
    assert bits(state) == bits(tree())
    assert meta == META
    assert kept.names == [name]


def test_a_view_of_a_large_buffer_is_saved_alone(kept: Any) -> None:
    view = torch.zeros(1_000_000)[:10]
    assert write(kept.storage, "job", VERSION, {"view": view}, {}).bytes < 1000


def test_other_tools_read_the_tensors_by_name(kept: Any) -> None:
    checkpoint = write(kept.storage, "job", VERSION, tree(), META)
    tensors = load(kept.content(checkpoint.path))
    assert torch.equal(tensors["model/0.weight"], tree()["model"]["0.weight"])
    assert torch.equal(tensors["optimizer/state/0/exp_avg"], tree()["optimizer"]["state"][0]["exp_avg"])


def test_equal_states_are_equal_files_so_that_a_retry_changes_nothing(kept: Any) -> None:
    first = write(kept.storage, "job", VERSION, tree(), META)
    assert write(kept.storage, "job", VERSION, tree(), dict(reversed(META.items()))) == first
    assert len(kept.names) == 1
    read(kept.storage, "job", first)


def test_a_slow_writer_of_the_same_version_replaces_nobody_elses_file(kept: Any) -> None:
    first = write(kept.storage, "job", VERSION, tree(), META)
    second = write(kept.storage, "job", VERSION, tree() | {"step": 201}, META)
    assert read(kept.storage, "job", second)[0]["step"] == 201
    assert read(kept.storage, "job", first)[0]["step"] == tree()["step"]


@pytest.mark.parametrize("place", [0, 20, -1])
def test_one_flipped_bit_is_damage(kept: Any, place: int) -> None:
    checkpoint = write(kept.storage, "job", VERSION, tree(), META)
    content = bytearray(kept.content(checkpoint.path))
    content[place] ^= 1
    kept.replace(checkpoint.path, bytes(content))
    with pytest.raises(CheckpointDamaged, match=r"checkpoint-g000003.*sha256.*earlier checkpoint"):
        read(kept.storage, "job", checkpoint)


def test_what_becomes_of_the_file_later_touches_no_state_that_was_read(tmp_path: Any) -> None:
    storage = Storage(str(tmp_path), tmp_path / "scratch")
    checkpoint = write(storage, "job", VERSION, tree(), META)
    state, _ = read(storage, "job", checkpoint)
    with open(checkpoint.path, "r+b") as file:
        file.write(b"\0" * checkpoint.bytes)
        file.flush()
        assert bits(state) == bits(tree())
        file.truncate(0)
    assert bits(state) == bits(tree())


def test_a_truncated_empty_or_absent_checkpoint_is_damage(kept: Any) -> None:
    checkpoint = write(kept.storage, "job", VERSION, tree(), META)
    half = kept.content(checkpoint.path)[: checkpoint.bytes // 2]
    for content in (half, b""):
        kept.replace(checkpoint.path, content)
        why = f"checkpoint-g000003.* has {len(content)} bytes, not {checkpoint.bytes}: .*earlier checkpoint"
        with pytest.raises(CheckpointDamaged, match=why):
            read(kept.storage, "job", checkpoint)
    kept.remove(checkpoint.path)
    with pytest.raises(CheckpointDamaged, match=r"checkpoint-g000003.* is not there.*earlier checkpoint") as raised:
        read(kept.storage, "job", checkpoint)
    assert raised.value.missing


class Bomb:
    """Whoever unpickles it raises."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise AssertionError('it was unpickled')",)


def saved_by_torch() -> bytes:
    file = io.BytesIO()
    torch.save({"weight": torch.ones(3), "bomb": Bomb()}, file)
    return file.getvalue()


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("weights", b"1234")
    return file.getvalue()


def one(head: str) -> bytes:
    return save({"model/0.weight": torch.ones(3)}, metadata={"regroup": head})


FOREIGN = {
    "empty": b"",
    "text": b"hello",
    "header-alone": (2).to_bytes(8, "little") + b"{}",
    "endless-header": (2**63).to_bytes(8, "little") + b"{}",
    "pickle": pickle.dumps(Bomb()),
    "torch-save": saved_by_torch(),
    "zip": zipped(),
    "weights-of-others": save({"weight": torch.ones(3)}),
    "no-json": one("{"),
    "no-object": one("[]"),
    "no-format": one("{}"),
    "no-place": one('{"format": 1, "meta": {}}'),
    "no-skeleton": one('{"format": 1, "job": "job", "generation": 3, "step": 200, "meta": {}}'),
    "wrong-skeleton": one(
        '{"format": 1, "job": "job", "generation": 3, "step": 200, "meta": {}, "skeleton": "[1, {}]"}'
    ),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_what_is_no_checkpoint_is_refused_by_name_even_with_the_right_checksum(kept: Any, what: str) -> None:
    content, path = FOREIGN[what], f"{kept.place}/foreign"
    written = write(kept.storage, "job", VERSION, tree(), META)  # so that the place is there
    kept.replace(path, content)
    given = replace(written, path=path, checksum=sha256(content).hexdigest(), bytes=len(content))
    with pytest.raises(CheckpointDamaged, match="/foreign is no checkpoint of Regroup"):
        read(kept.storage, "job", given)


@pytest.mark.parametrize("other", [("other", Version(3, 200)), ("job", Version(4, 200)), ("job", Version(3, 201))])
def test_another_jobs_or_another_steps_state_is_no_checkpoint_of_this_one(kept: Any, other: Any) -> None:
    written = write(kept.storage, "job", VERSION, tree(), META)
    theirs = write(kept.storage, *other, tree(), META)
    kept.replace(written.path, kept.content(theirs.path))
    given = replace(written, checksum=theirs.checksum, bytes=theirs.bytes)
    found = f"it holds job {other[0]}, generation {other[1].generation}, step {other[1].step}"
    with pytest.raises(CheckpointDamaged, match=f"is no checkpoint of step 200 of job, {found}: ") as raised:
        read(kept.storage, "job", given)
    assert not raised.value.missing


def test_another_format_is_left_to_the_version_that_wrote_it(kept: Any) -> None:
    written = write(kept.storage, "job", VERSION, tree(), META)
    content = one('{"format": 2}')
    kept.replace(written.path, content)
    given = Checkpoint(VERSION, written.path, sha256(content).hexdigest(), len(content))
    with pytest.raises(OtherFormat, match=r"checkpoint-g000003.* has format 2: read it with the version"):
        read(kept.storage, "job", given)


def test_a_state_that_cannot_be_kept_leaves_no_file(kept: Any, tmp_path: Any) -> None:
    with pytest.raises(TypeError, match="/scheduler is a"):
        write(kept.storage, "job", VERSION, {"scheduler": print}, {})
    assert kept.names == []
    assert list(tmp_path.rglob("*")) == []


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Any) -> None:
    (tmp_path / "job").write_text("in the way")
    with pytest.raises(StorageFailed, match=r"/job cannot be written \(File exists\): .*permissions"):
        write(Storage(str(tmp_path), tmp_path), "job", VERSION, tree(), META)


def test_a_full_disk_is_said_in_the_systems_own_words(tmp_path: Any) -> None:
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(StorageFailed, match=r"/job cannot be written \(File too large\): free some space there"):
            write(Storage(str(tmp_path), tmp_path), "job", VERSION, tree(), META)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
