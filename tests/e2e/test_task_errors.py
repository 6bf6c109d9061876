"""Whatever is wrong with a user's task, the job's record says what, and the workers serve the next job.

The user's code is found through the PYTHONPATH of whoever starts the workers.
"""

from math import nan
from typing import Any

import pytest

from regroup.client.errors import Invalid
from regroup.worker.order import Order

pytestmark = pytest.mark.cluster

SAMPLES = 64  # of the user's dataset
STEP = 3  # the step that consumes the bad sample
BAD = next(int(index) for index in Order(SAMPLES, seed=0, epoch=0).at(range(8 * STEP, 8 * STEP + 8)) if index >= 16)

FOUND_WHILE_PREPARING = [
    # task, its options, what the reason says, what the traceback names
    ("nowhere:Task", {}, "task: nowhere:Task: there is no module nowhere on the workers' path", "import_module"),
    (
        "broken_import:Task",
        {},
        "task: importing or constructing broken_import:Task raised ModuleNotFoundError: "
        "No module named 'a_package_that_nobody_has'",
        "import a_package_that_nobody_has",
    ),
    (
        "script:Script",
        {},
        "task: importing or constructing script:Script raised SystemExit: usage: script.py DATA",
        "script.py",
    ),
    ("faulty:Nothing", {}, "module faulty has no class Nothing; its tasks: faulty:Sound", "TaskNotFound"),
    ("faulty:NoTask", {}, "module faulty has a NoTask that is no regroup.tasks.Task", "TaskNotFound"),
    (
        "faulty:RaisesWhenConstructed",
        {},
        "task: importing or constructing faulty:RaisesWhenConstructed raised RuntimeError: no licence for this task",
        'raise RuntimeError("no licence for this task")',
    ),
    (
        "faulty:LeavesWhenConstructed",
        {},
        "raised SystemExit: give me a data folder",
        'raise SystemExit("give me a data folder")',
    ),
    ("faulty:RefusesAnOption", {"rate": "fast"}, "options.rate: must be a positive number, not 'fast'", "options.rate"),
    ("faulty:RefusesAnOption", {"rat": 0.1}, "options.rat: unknown option; there are rate", "options.rat"),
    ("gpt", {"hiden": 64}, "options.hiden: unknown option; there are ", "options.hiden"),
    ("gpt", {"hidden": "wide"}, "options.hidden: Input should be a valid integer, not 'wide'", "options.hidden"),
    ("gpt", {"learning_rate": -1.0}, "options.learning_rate: Input should be greater than 0, not -1", "learning_rate"),
    (
        "faulty:RaisesAtLengthWhenConstructed",
        {},
        "importing or constructing faulty:RaisesAtLengthWhenConstructed raised ValueError: xxx",
        " characters ...] xxx",
    ),
    ("faulty:Empty", {}, "task: its dataset is empty: at least one sample is needed", "empty"),
    ("faulty:Unsized", {}, "task: its dataset has no length or no index: iterable datasets are not covered", "length"),
    ("faulty:Streams", {}, "task: its dataset has no length or no index: iterable datasets are not covered", "length"),
    (
        "faulty:CannotReadTheEnd",
        {},
        "task: reading sample 64 raised IndexError: index 64 is out of bounds",
        "in __getitem__",
    ),
    (
        "faulty:RaisesInTheFirstPass",
        {},
        "task: a first pass over the data raised ZeroDivisionError: the first pass divides by zero",
        'raise ZeroDivisionError("the first pass divides by zero")',
    ),
    ("faulty:LossIsNone", {}, "task: loss() must return the summed loss and its weight; it returned NoneType", ""),
    ("faulty:LossIsAVector", {}, "and a weight; its loss is a tensor of shape (", ""),
    ("faulty:LossHasNoGradient", {}, "task: loss() must return a scalar that backward() can start from", ""),
    ("faulty:WeightIsAWord", {}, "raised ValueError: could not convert string to float: 'eight'", "float("),
    ("faulty:NoModel", {}, "task: building the model and optimizer raised AttributeError", "optimizer"),
    ("faulty:NoOptimizer", {}, "task: optimizer() gave None: it must give a torch.optim.Optimizer", "None"),
    (
        "faulty:Lbfgs",
        {},
        "task: optimizer() gave LBFGS, whose step() wants a closure: several evaluations per step are not covered",
        "LBFGS",
    ),
]

FOUND_IN_A_STEP = [
    # task, how the reason ends, what the record's error names
    ("faulty:Raises", "KeyError: 'label 17'", 'raise KeyError("label 17")'),
    ("faulty:CannotReadASample", f"OSError: sample {BAD} cannot be read", "in __getitem__"),
    ("faulty:LosesItsLoss", "TypeError: cannot unpack non-iterable NoneType object", "self.task.loss("),
    ("faulty:WeighsNegative", "the weight -1.0: it must be finite and not negative", "ValueError"),
    ("faulty:WeighsNan", "the weight nan: it must be finite and not negative", "ValueError"),
    ("faulty:RaisesAtLength", " characters ...] " + "x" * 1000, "raise ValueError("),
    ("faulty:GivesUp", "CancelledError: gave up", 'raise CancelledError("gave up")'),
    ("faulty:Speechless", "<exception str() failed>", "Mute"),
    ("faulty:Segfaults", "killed by SIGSEGV", "SIGSEGV"),
    ("faulty:Exits", "exit status 3", "exit status 3"),
]


@pytest.mark.parametrize(
    ("task", "options", "reason", "traceback"),
    FOUND_WHILE_PREPARING,
    ids=[" ".join([each[0], *each[1]]) for each in FOUND_WHILE_PREPARING],
)
def test_a_fault_found_while_preparing_fails_the_job_before_its_first_step_and_says_what_to_mend(
    task: str, options: dict[str, Any], reason: str, traceback: str, served: Any
) -> None:
    job = served.ended(served.submit(task, options=options, max_workers=2))
    assert job.phase == "failed"
    assert reason in job.reason
    assert traceback in job.error
    assert (job.step, job.generation, job.members) == (0, 0, ())
    served.all_serve()


@pytest.mark.parametrize(("task", "reason", "error"), FOUND_IN_A_STEP, ids=[each[0] for each in FOUND_IN_A_STEP])
def test_a_fault_in_a_later_step_fails_the_job_in_that_step_wherever_it_is_tried(
    task: str, reason: str, error: str, served: Any
) -> None:
    job = served.ended(served.submit(task, options={"bad": BAD}, max_workers=2))
    assert job.phase == "failed"
    assert job.reason.startswith(f"the task failed in step {STEP}, shard ")
    assert job.reason.endswith(reason)
    assert error in job.error
    assert {failure.step for failure in job.failures} == {STEP}
    assert len({failure.shard for failure in job.failures}) == 1
    assert len(job.failures) > 1, "once may be the worker's fault"
    for worker in served.client.workers():
        served.client.clear(worker.name)
    served.all_serve()


def test_a_sample_that_ends_the_process_as_it_is_fetched_fails_the_job_and_blames_nobody(served: Any) -> None:
    job = served.ended(served.submit("faulty:DataSegfaults", options={"bad": BAD}, max_workers=2))
    assert job.phase == "failed"
    assert job.reason.startswith(f"the task failed in step {STEP}, outside of a pass on w0, w1: killed by SIGSEGV")
    assert [worker.errors for worker in served.client.workers()] == [0, 0]
    served.all_serve()


def test_a_loss_that_is_no_number_is_told_once_and_the_training_goes_on(served: Any) -> None:
    job = served.ended(served.submit("faulty:Diverges", options={"bad": BAD}, max_workers=2))
    assert (job.phase, job.step, job.restarts) == ("completed", 8, 0)
    (told,) = [event for event in served.client.events(job.id) if event.kind == "diverged"]
    assert told.reason.startswith(f"the loss of step {STEP} is nan: ")


def test_a_fault_in_the_update_fails_the_job(served: Any) -> None:
    job = served.ended(served.submit("faulty:OptimizerRaises", max_workers=2))
    assert job.phase == "failed"
    assert job.reason.endswith("FloatingPointError: the update overflowed")
    assert 'raise FloatingPointError("the update overflowed")' in job.error
    assert job.step == 0
    served.all_serve()


def test_a_fault_in_what_a_module_tells_of_its_state_fails_the_job_and_blames_nobody(served: Any) -> None:
    """It is asked for it outside of the task's own functions: where replicas are compared.

    Whoever comes there first breaks the group, in which the other may still be at the last sums of the step before:
    then the first one has the state, and cannot give it.
    """
    job = served.ended(served.submit("faulty:TellsNoMore", min_workers=2, max_workers=2, steps=200))
    assert job.phase == "failed"
    assert job.step in (99, 100)
    place = "outside of a pass" if job.step == 100 else "in its state()"
    assert job.reason.startswith(f"the task failed in step 100, {place} on w")
    assert 'raise RuntimeError("my extra state is broken")' in job.error
    assert [worker.errors for worker in served.client.workers()] == [0, 0]
    served.all_serve()


@pytest.mark.parametrize("task", ["faulty:ReportsATensor", "faulty:ReportsAList", "faulty:LeavesWhenAskedToReport"])
def test_a_report_that_cannot_be_told_costs_the_report_and_not_the_run(task: str, served: Any) -> None:
    job = served.ended(served.submit(task, max_workers=2))
    assert (job.phase, job.step, job.result) == ("completed", 8, None)
    assert job.checkpoint is not None
    served.all_serve()


@pytest.mark.parametrize(
    ("place", "how", "last"),
    [
        ("state", "raises", "ValueError: cannot tell its state"),
        ("state", "dies", "killed by SIGSEGV"),
        ("report", "dies", "killed by SIGSEGV"),
        ("report", "hangs", "it hung, and was evicted"),
    ],
)
def test_a_task_whose_own_code_fails_each_save_fails_its_job_once_and_blames_nobody(
    place: str, how: str, last: str, served: Any
) -> None:
    options = {"place": place, "how": how}
    job = served.ended(
        served.submit("faulty:FailsItsSaves", options=options, max_workers=2, min_workers=2, steps=40, step_timeout=3.0)
    )
    assert job.phase == "failed"
    assert job.reason.startswith(f"the task failed in step 40, in its {place}() on w")
    assert f": {last}; " in job.reason
    assert job.step == 40
    assert (job.checkpoint is not None) == (place == "report")
    if job.checkpoint is not None:
        assert job.checkpoint.version.step == 40
    assert [worker.errors for worker in served.client.workers()] == [0, 0]
    served.all_serve()


def test_a_rate_that_is_no_number_is_refused_at_once(served: Any) -> None:
    with pytest.raises(Invalid) as refused:
        served.submit("gpt", options={"learning_rate": nan})
    assert [problem.field for problem in refused.value.errors] == ["options.learning_rate"]


def test_after_all_that_the_workers_train_the_digits(served: Any) -> None:
    job = served.ended(served.submit("digits", steps=20, global_batch=64, min_workers=2, max_workers=2))
    assert job.phase == "completed"
    assert job.result["accuracy"] > 0.05
    assert all(worker.healthy and not worker.quarantined for worker in served.client.workers())
