"""Which tracebacks a user is shown."""

import pytest

from regroup.client.tracebacks import helps
from regroup.tasks import loading
from regroup.worker import prepare


def traceback(*files):
    frames = "".join(f'  File "{file}", line 7, in run\n    run()\n' for file in files)
    return f"Traceback (most recent call last):\n{frames}ValueError: why\n"


OURS = (prepare.__file__, loading.__file__)
INTERPRETER = ("<frozen importlib._bootstrap>", "/usr/lib/python3.11/importlib/__init__.py")


@pytest.mark.parametrize(
    "files",
    [
        OURS,
        (*OURS, *INTERPRETER),
        ("/elsewhere/lib/python3.12/site-packages/regroup/worker/prepare.py",),
    ],
)
def test_a_traceback_through_regroup_and_the_interpreter_alone_helps_nobody(files):
    assert not helps(traceback(*files))


@pytest.mark.parametrize(
    "file",
    [
        "/home/me/task.py",
        "/home/me/regroup/tasks/mine.py",
        "/opt/lib/python3.11/site-packages/torch/nn/modules/linear.py",
        "/usr/lib/python3.11/dist-packages/mine.py",
    ],
)
def test_a_frame_in_any_other_file_is_worth_all_of_them(file):
    assert helps(traceback(*OURS, file, *INTERPRETER))


def test_an_error_that_is_no_traceback_is_shown():
    assert helps("killed by SIGSEGV")
