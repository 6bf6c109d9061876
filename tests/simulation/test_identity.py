"""Which states a search calls one, and what it does unseen: neither changes anything that is decided."""

from collections import deque
from dataclasses import fields, replace
from functools import cache

import pytest

from regroup.lab.sim.model.ghosts import Ghosts
from regroup.lab.sim.search.bounds import Bounds
from regroup.lab.sim.search.identity import identity, job_identity
from regroup.lab.sim.search.moves import moves
from regroup.lab.sim.search.small import Small
from regroup.lab.sim.search.tidying import settle, tidy

pytestmark = pytest.mark.timeout(1500)  # it computes, and a busy machine takes longer


@cache
def decisions(bounds, tidied, same):
    """Every state of the job that any schedule leads to, by what `same` calls one state of the cluster."""
    first = Small(bounds)
    tidied(first)
    seen, waiting, jobs = {same(first)}, deque([first]), set()
    while waiting:
        state = waiting.popleft()
        for _, _, do in moves(state):
            after = state.copy()
            do(after)
            tidied(after)
            if (number := same(after)) not in seen:
                seen.add(number)
                jobs.add(job_identity(after.jobs["j"]))
                waiting.extend([] if after.over or after.beyond else [after])
    return jobs


def nothing_dropped(state):
    """What a trainer does by itself it does; but orders are heard one by one, and nothing is forgotten."""
    for agent in state.agents.values():
        settle(state, agent, at_once=False)


MOMENTS = ("blamed", "out_since", "rested", "owes")  # no two are the same


def in_order(value):
    """Whatever it was put in first."""
    if isinstance(value, dict):
        return sorted(((key, in_order(each)) for key, each in value.items()), key=repr)
    return sorted(value, key=repr) if isinstance(value, set) else value


def to_the_letter(state):
    """A state with every word and every number in it."""
    ghosts = [in_order(getattr(state.ghosts, each.name)) for each in fields(Ghosts) if each.name not in MOMENTS]
    arrived = in_order(state.arrived)
    agents, exchanged = sorted(state.agents.items()), (sorted(state.contributions.items()), sorted(state.gifts.items()))
    return hash(repr((state.left, state.cluster, state.jobs, state.workers, agents, exchanged, arrived, ghosts)))


FEW = [
    Bounds(workers=1, generations=2, deaths=1),
    Bounds(workers=1, generations=1, deaths=1, crashes=1),
    Bounds(workers=1, generations=1, leaves=1, stops=1),
    Bounds(workers=1, generations=1, leaps=1, cuts=1),
    Bounds(workers=1, generations=2, pauses=1),
    Bounds(workers=1, generations=2, holds=1),
    Bounds(workers=2, generations=1, deaths=1),
    Bounds(workers=1, generations=1, stops=1, failed_saves=1),
    Bounds(workers=1, generations=1, losses=1),
    Bounds(workers=1, generations=1, departures=1),
    Bounds(workers=1, generations=2, drains=1),
    Bounds(workers=1, generations=1, drains=1, departures=1),
    Bounds(workers=2, generations=1, drains=1),
    Bounds(workers=1, steps=2, generations=1, beside=1),
    Bounds(workers=2, generations=1, breaks=1),
    Bounds(workers=1, generations=2, pauses=1, unreadable=1),
    pytest.param(Bounds(workers=1, generations=3, deaths=1), marks=pytest.mark.long),
    pytest.param(Bounds(workers=2, generations=2, deaths=1), marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
]


def test_who_is_drained_is_told_from_who_was_asked_to_end():
    """Both hand over; but one of them is back as its agent starts anew, the other as it is admitted."""
    state = Small(Bounds(workers=1))
    numbers = [identity(state)]
    for reason in ("drained", "leaving"):
        twin = state.copy()
        twin.workers = {name: replace(worker, **{reason: True}) for name, worker in state.workers.items()}
        numbers.append(identity(twin))
    assert len({*numbers}) == 3


@pytest.mark.parametrize("bounds", FEW, ids=str)
def test_what_is_done_unseen_and_dropped_changes_nothing_that_is_decided(bounds):
    assert decisions(bounds, tidy, identity) == decisions(bounds, nothing_dropped, identity)


@pytest.mark.parametrize("bounds", FEW, ids=str)
def test_states_that_are_called_one_lead_to_the_same_decisions(bounds):
    assert decisions(bounds, tidy, identity) == decisions(bounds, tidy, to_the_letter)
