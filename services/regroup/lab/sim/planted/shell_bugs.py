"""Bugs in how the shell persists first and acts second, and in how it knows that it leads.

Owns: mutations of its text, and of how it comes to lead. Refuses to know: how one is planted.
"""

from regroup.lab.sim.planted.planting import Bug

LEADERSHIP = "regroup.coordinator.leadership"
SHELL = "regroup.coordinator.shell"

BUGS = (
    # rule 7: the lease
    Bug(
        "an unconfirmed leader renews leases",
        SHELL,
        "if not isinstance(order, Heard) or self._answers():",
        "if True:",
        rule=7,
    ),
    Bug(
        "somebody is told to end on old words",
        SHELL,
        "isinstance(order, Kill | Release | Go) and late",
        "isinstance(order, Kill | Release | Go) and False",
        among="STORE_SLOW",
    ),
    # persist first, fenced
    Bug(
        "orders leave before they are saved",
        SHELL,
        "            try:\n                await self._persist(",
        "            self._send(decision, at)\n            try:\n                await self._persist(",
    ),
    Bug(
        "a fence is forgotten",
        SHELL,
        "                except Fenced as fenced:\n                    raise LeadershipLost(OVERTAKEN) from fenced\n"
        "                except StoreUnavailable as trouble:\n                    self._meet(trouble)",
        "                except Fenced:\n                    break\n"
        "                except StoreUnavailable as trouble:\n                    self._meet(trouble)",
        among="STORE_CUT",
    ),
    Bug(
        "what the store did not confirm is taken for saved",
        SHELL,
        "                    if not patient:\n                        raise\n",
        "                    break\n",
    ),
    # saved, paused, held
    Bug("void measurements are shown", SHELL, "return [min(void)] if void else []", "return []", among="STOP"),
    Bug(
        "a command is acknowledged before it is saved",
        SHELL,
        "                self._waiting.discard(done)\n            began",
        "                self._waiting.discard(done)\n                done.set_result(None)\n            began",
    ),
    Bug(
        "no void measurement is ever dropped",
        SHELL,
        "            await self._drop_points_of(id, step)\n",
        "            pass\n",
        among="all killed",
    ),
    Bug(
        "an answer that changes nothing does not pass the fence",
        SHELL,
        "or decision.notes or done is not None:",
        "or decision.notes:",
        among="STORE_CUT",
    ),
    Bug(
        "who stood still does not notice",
        SHELL,
        "        if at - self._heard > self._leadership.lease:\n",
        "        if False:\n",
        among="FREEZE",
    ),
    Bug(
        "leading is counted from the answer",
        SHELL,
        "self._confirmed = asked",
        "self._confirmed = self._clock()",
        among="FREEZE",
    ),
    Bug(
        "a slow store is the members' silence",
        SHELL,
        "        if took > SLOW_STORE:\n",
        "        if False:\n",
        among="STORE_MUTE",
    ),
    Bug(
        "a lease that runs out is taken for one that is renewed",
        LEADERSHIP,
        "if (held.holder, held.fence, held.renewals) != (first.holder, first.fence, first.renewals):",
        "if held != first:",
    ),
    Bug(
        "what was refused is carried out",
        SHELL,
        "            if done is not None and done.done():\n",
        "            if False:\n",
        among="STORE_MUTE",
    ),
    Bug(
        "what the store did not confirm is acknowledged",
        SHELL,
        'done.set_exception(Unconfirmed(f"it may have been taken: {trouble}"))',
        "done.set_result(None)",
        among="STORE_AWAY",
    ),
    Bug(
        "a job begins from another one's checkpoint with another seed",
        "regroup.core.beginning",
        '("task", "global_batch", "shards", "seed")',
        '("task", "global_batch", "shards")',
        among="MISTAKE",
    ),
)
