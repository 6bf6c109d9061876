"""What a disturbed job must have come to. What is done to it, and how it goes on, is tried in tests/e2e."""

from dataclasses import replace

import pytest

from regroup.lab.audit.count import Audit
from regroup.lab.disturb.run import Outcome, Struck

EXACT = Audit(
    ok=True,
    steps=10,
    generations=2,
    epochs=0,
    samples=80,
    lost=0,
    doubled=0,
    missing_records=0,
    void_steps=0,
    summary="80 samples in 10 steps, each exactly once",
    faults=(),
)
HIT = Struck("trainer-killed", "w1", 150.0, 900.0, "exited: its trainer died")


def test_a_job_that_went_on_with_all_is_no_complaint() -> None:
    assert Outcome(struck=[HIT], audit=EXACT).complaints == []


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Outcome(struck=[replace(HIT, went_on=None)], audit=EXACT), "trainer-killed of w1: the job committed no step"),
        (Outcome(struck=[replace(HIT, whole=None)], audit=EXACT), "trainer-killed of w1: not all were back 180 s"),
        (Outcome(restarts=1, audit=EXACT), "all that held its state were lost, and it began again 1 times"),
        (Outcome(), "it did not come to the audit"),
        (
            Outcome(audit=replace(EXACT, ok=False, lost=3, summary="3 samples lost", faults=("step 4: nobody",))),
            "3 samples lost; step 4: nobody",
        ),
    ],
    ids=["stands still", "not back", "began again", "no audit", "lost"],
)
def test_what_is_not_as_it_should_be_is_said(outcome: Outcome, said: str) -> None:
    (complaint,) = outcome.complaints
    assert complaint.startswith(said)
