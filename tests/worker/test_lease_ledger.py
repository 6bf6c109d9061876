"""Which heartbeat an answer is to, and what a trainer is told of it."""

import pytest

from regroup.core.messages.orders import Heard, RenewLease
from regroup.worker.lease_ledger import KEPT, LeaseLedger


@pytest.fixture
def ledger():
    ledger = LeaseLedger()
    for sequence in (1, 2, 3):
        ledger.sent(sequence, at=10.0 * sequence)
    return ledger


def test_a_lease_counts_from_when_the_answered_heartbeat_was_sent(ledger):
    assert ledger.renewed_by(Heard(sequence=2, generation=7)) == RenewLease(7, 20.0)


def test_answers_that_come_in_another_order_each_count_from_their_own(ledger):
    assert [ledger.renewed_by(Heard(sequence=n, generation=7)).sent for n in (3, 1)] == [30.0, 10.0]


def test_an_answer_that_comes_twice_renews_once(ledger):
    answer = Heard(sequence=2, generation=7)
    assert ledger.renewed_by(answer) is not None
    assert ledger.renewed_by(answer) is None


def test_an_answer_to_what_was_never_sent_renews_nothing(ledger):
    assert ledger.renewed_by(Heard(sequence=4, generation=7)) is None


def test_a_trainer_is_told_of_nothing_that_says_nothing_to_it(ledger):
    assert ledger.renewed_by(Heard(sequence=2, generation=0)) is None


def test_a_trainer_without_a_generation_is_told_which_files_are_known(ledger):
    assert ledger.renewed_by(Heard(sequence=2, generation=0, settled=("a",))) == RenewLease(0, 20.0, ("a",))


def test_an_answer_to_a_heartbeat_of_long_ago_renews_nothing(ledger):
    ledger.sent(KEPT + 2, at=1000.0)
    assert ledger.renewed_by(Heard(sequence=2, generation=7)) is None
    assert ledger.renewed_by(Heard(sequence=3, generation=7)) == RenewLease(7, 30.0)
