"""What the task raises, or the disk, as a report: what it was, where, and what passes as it is."""

from asyncio import CancelledError
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from torch import nn

from regroup.core.jobs import IN_LOAD, OUTSIDE, Checkpoint, Version
from regroup.core.messages.trainer_reports import CheckpointUnreadable, StepFailed
from regroup.tasks import Task
from regroup.wire.codec import encode
from regroup.worker.beginning import DoesNotFit
from regroup.worker.checkpoint import CheckpointDamaged, OtherFormat
from regroup.worker.group import GroupBroken
from regroup.worker.position import Position, last_position
from regroup.worker.reduce import Interrupted
from regroup.worker.replica import Replica
from regroup.worker.storage import StorageFailed
from regroup.worker.trouble import Raised, Trouble

FILE = Checkpoint(Version(2, 7), "/c/file", "sum", 1)


class Line(Task):
    def model(self) -> nn.Module:
        return nn.Linear(2, 1)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.1)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "position"


@pytest.fixture
def trouble(place: Path) -> Trouble:
    """Of a trainer that has seven steps behind it."""
    replica = Replica(Line(), seed=1)
    replica.step = 7
    return Trouble("j", "i", replica, Position(place))


def test_what_the_task_raises_is_told_with_the_place_and_where_in_its_code(
    trouble: Trouble, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Raised) as caught, trouble.told(3, shard=1):
        raise KeyError("label 17")
    report = caught.value.report
    assert isinstance(report, StepFailed)
    assert (report.job, report.incarnation, report.generation, report.step, report.shard) == ("j", "i", 3, 7, 1)
    assert report.error == "KeyError: 'label 17'"
    assert 'raise KeyError("label 17")' in report.traceback
    assert report.traceback in capsys.readouterr().err
    assert not caught.value.torn


def test_what_is_raised_in_the_middle_of_a_change_tears_the_state(trouble: Trouble) -> None:
    with pytest.raises(Raised) as caught, trouble.told(3, torn=True):
        raise SystemExit("done")
    assert caught.value.torn
    assert caught.value.report.error == "SystemExit: done"


class Stop(BaseException):
    """A user's own, beside all errors."""


@pytest.mark.parametrize("error", [CancelledError("gave up"), KeyboardInterrupt(), SystemExit(2), Stop()], ids=repr)
def test_what_is_no_error_elsewhere_is_the_tasks_where_its_code_raises_it(
    trouble: Trouble, error: BaseException
) -> None:
    """No signal raises in a trainer: it is deaf to them."""
    with pytest.raises(Raised) as caught, trouble.told(3, shard=1):
        raise error
    assert caught.value.report.error == f"{type(error).__name__}: {error}"


def test_what_is_raised_is_told_in_bounds_and_the_log_has_no_more(
    trouble: Trouble, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Raised) as caught, trouble.told(3):
        raise ValueError("x" * 9_000_000)
    assert len(encode(caught.value.report)) < 20_000
    assert len(capsys.readouterr().err) < 20_000


@pytest.mark.parametrize("passes", [GroupBroken("b is gone"), Interrupted("over")], ids=repr)
def test_a_broken_group_and_a_halt_are_nobodys_errors(trouble: Trouble, passes: BaseException) -> None:
    with pytest.raises(type(passes)) as caught, trouble.told(3):
        raise passes
    assert caught.value is passes


def test_who_dies_outside_every_pass_is_found_there_until_it_is_over(trouble: Trouble, place: Path) -> None:
    with suppress(ValueError), trouble.outside():
        assert last_position(place) == (7, OUTSIDE)
        raise ValueError("no")
    assert last_position(place) is None


def test_who_takes_a_state_is_found_at_the_step_of_that_one(trouble: Trouble, place: Path) -> None:
    with trouble.outside(IN_LOAD, step=9):
        assert last_position(place) == (9, IN_LOAD)
    with pytest.raises(Raised) as caught, trouble.told(3, IN_LOAD, step=9):
        raise MemoryError("no room")
    assert (caught.value.report.step, caught.value.report.shard) == (9, IN_LOAD)


@pytest.mark.parametrize(
    ("error", "said", "flags"),
    [
        (CheckpointDamaged("/c/file is torn"), "/c/file is torn", (True, False, False)),
        (CheckpointDamaged("/c/file is gone", missing=True), "/c/file is gone", (True, True, False)),
        (StorageFailed("/c does not answer"), "/c does not answer", (False, False, False)),
        (OtherFormat("/c/file: order is a here"), "/c/file: order is a here", (False, False, False)),
        (DoesNotFit("seed is 1 here"), "/c/file: seed is 1 here", (False, False, True)),
    ],
    ids=["damaged", "missing", "away", "another version's", "unfit"],
)
def test_a_checkpoint_that_cannot_be_read_is_told_with_its_file_and_what_is_wrong_with_it(
    trouble: Trouble, error: Exception, said: str, flags: tuple[bool, bool, bool]
) -> None:
    report = trouble.unreadable(3, FILE, error).report
    assert isinstance(report, CheckpointUnreadable)
    assert (report.generation, report.error) == (3, said)
    assert (report.damaged, report.missing, report.unfit) == flags
