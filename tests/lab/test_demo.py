"""What the demo says of a kill, of a curve and of a text, from made-up records and numbers."""

import json
from dataclasses import replace
from io import StringIO

import pytest
from typer.testing import CliRunner

from regroup.client.cli import app
from regroup.client.printable import PlainConsole
from regroup.coordinator.views import job_view
from regroup.core.cluster import Cluster
from regroup.core.jobs import Job
from regroup.lab.audit import Audit
from regroup.lab.demo.chart import Mark, chart
from regroup.lab.demo.claims import ClaimFailed, fallen, kept_its_state, lived_on, went_on
from regroup.lab.demo.ending import ending
from regroup.lab.demo.evidence import Aftermath, Kill, aftermath, steps_applied
from regroup.lab.demo.facts import Facts, Joined, Killed, Plan
from regroup.wire.rest import MemberView

KILL = Kill(worker="w1", incarnation="b", generation=2, at=1000.0, monotonic_ns=5_000_000)


def read(incarnation: str, generation: int, step: int) -> str:
    line = {
        "read": step,
        "generation": generation,
        "incarnation": incarnation,
        "epoch": 0,
        "shard": 0,
        "indices": [step],
    }
    return json.dumps(line) + "\n"


def applied(incarnation: str, generation: int, step: int, at: int) -> str:
    line = {"applied": step, "generation": generation, "incarnation": incarnation, "loss": 1.0, "weight": 1.0}
    return json.dumps(line | {"monotonic_ns": at}) + "\n"


def survivor(*lines: str) -> tuple[str, str]:
    return ("w0-a.jsonl", read("a", 2, 6) + applied("a", 2, 6, 4_000_000) + "".join(lines))


def victim(*lines: str) -> tuple[str, str]:
    return ("w1-b.jsonl", read("b", 2, 6) + applied("b", 2, 6, 4_100_000) + "".join(lines))


def test_a_step_that_was_read_and_not_applied_is_the_one_that_the_kill_hit() -> None:
    again = read("a", 3, 7), applied("a", 3, 7, 12_500_000), applied("a", 3, 8, 20_000_000)
    found = aftermath(KILL, [survivor(read("a", 2, 7), *again), victim(read("b", 2, 7))])
    assert (found.step, found.stood) == (7, False)
    assert (found.first, found.committed, found.milliseconds) == ("w0", 7, 7.5)


def test_a_step_that_a_survivor_applied_in_the_old_generation_stands() -> None:
    stands = read("a", 2, 7), applied("a", 2, 7, 5_100_000), applied("a", 3, 8, 12_000_000)
    found = aftermath(KILL, [survivor(*stands), victim(read("b", 2, 7))])
    assert (found.step, found.stood, found.committed) == (7, True, 8)


def test_a_kill_between_two_steps_is_told_apart() -> None:
    found = aftermath(KILL, [survivor(applied("a", 3, 7, 12_000_000)), victim()])
    assert found.step is None
    assert found.first == "w0"


def test_a_step_that_only_a_survivor_had_begun_counts_as_under_way() -> None:
    assert aftermath(KILL, [survivor(read("a", 2, 7)), victim()]).step == 7


def test_nothing_is_said_of_a_commit_before_there_is_one() -> None:
    found = aftermath(KILL, [survivor(read("a", 2, 7)), victim(read("b", 2, 7))])
    assert (found.first, found.committed, found.milliseconds) == (None, None, None)


def test_the_line_that_the_killed_worker_did_not_finish_counts_for_nothing() -> None:
    file, text = victim(read("b", 2, 7), applied("b", 2, 7, 4_900_000))
    found = aftermath(KILL, [survivor(read("a", 2, 7)), (file, text[:-5])])
    assert found.step == 7


def test_the_first_commit_is_the_earliest_of_all_survivors() -> None:
    late, early = applied("a", 3, 7, 13_000_000), applied("c", 3, 7, 12_000_000)
    found = aftermath(KILL, [survivor(read("a", 2, 7), late), victim(read("b", 2, 7)), ("w2-c.jsonl", early)])
    assert (found.first, found.milliseconds) == ("w2", 7.0)


def test_the_steps_of_a_worker_are_counted_over_pieces_that_end_inside_a_line() -> None:
    text = read("c", 3, 7) + applied("c", 3, 7, 1) + read("c", 3, 8) + applied("c", 3, 8, 2)
    pieces = [("w3-c.jsonl", text[:30]), survivor(), ("w3-c.jsonl", text[30:])]
    assert steps_applied("w3", pieces) == 2


def test_a_falling_curve_ends_lower_than_it_begins() -> None:
    rows = chart([8.0, 4.0, 2.0, 1.0], [], width=12, height=4).plain.split("\n")
    assert [row[8:].rstrip() for row in rows[:4]] == ["█", "█▆", "██▃", "███▁"]
    assert rows[0].startswith("  8.00 │")
    assert rows[3].startswith("  1.00 │")


def test_a_mark_stands_below_its_step_and_its_label_stays_inside() -> None:
    marks = [Mark(10, "killed", "red"), Mark(95, "joined", "green")]
    drawn = chart([2.0 - step / 100 for step in range(100)], marks, width=58, height=2).plain.split("\n")
    assert drawn[3] == " " * (8 + 5) + "▲ killed"
    assert drawn[4].endswith("joined ▲")
    assert len(drawn[4]) == 8 + 95 * 50 // 100 + 1


def test_a_curve_without_blocks_is_plain_ascii_and_a_flat_one_is_drawn() -> None:
    drawn = chart([1.5] * 10, [Mark(5, "killed", "red")], width=18, height=2, blocks=False)
    assert drawn.plain.isascii()
    assert "##########" in drawn.plain


def test_survivors_that_go_on_anywhere_but_after_their_last_step_fail_the_demo() -> None:
    done_again, stood = Aftermath(7, False, "w0", 7, 10.0), Aftermath(7, True, "w0", 8, 10.0)
    went_on(done_again)
    went_on(stood)
    for wrong in (replace(done_again, committed=0), replace(done_again, committed=8), replace(stood, committed=7)):
        with pytest.raises(ClaimFailed, match=f"went on with step {wrong.committed}"):
            went_on(wrong)
    with pytest.raises(ClaimFailed, match="between two steps"):
        went_on(replace(done_again, step=None))


def test_a_rollback_to_the_seed_fails_the_demo_by_the_records_alone() -> None:
    lost = read("a", 2, 7), read("c", 3, 0), applied("c", 3, 0, 12_500_000)
    with pytest.raises(ClaimFailed, match="went on with step 0"):
        went_on(aftermath(KILL, [survivor(*lost), victim(read("b", 2, 7))]))


def test_a_job_that_began_again_fails_the_demo() -> None:
    job = Job(id="j-1", spec=Plan().spec, submitted=0.0)
    kept_its_state(job_view(Cluster(started=0.0), job))
    with pytest.raises(ClaimFailed, match="all state was lost"):
        kept_its_state(job_view(Cluster(started=0.0), replace(job, restarts=1)))


def finished(stood: bool) -> Facts:
    """All that is known after a play of ten steps."""
    killed = Killed("w1", 4, stood, 1.0, 2.0, 3.0, 4.0, [])
    audit = Audit(
        ok=True,
        steps=10,
        generations=3,
        epochs=0,
        samples=360,
        lost=0,
        doubled=0,
        missing_records=0,
        void_steps=0,
        summary="360 samples in 10 steps over 3 generations, each exactly once",
        faults=(),
    )
    return Facts(
        plan=Plan(),
        data="/tmp/demo",
        killed=killed,
        joined=Joined("w3", 6, 1.0, 0.1, 4, []),
        losses=[2.0 - step / 10 for step in range(10)],
        loss_before=2.0,
        loss_after=1.0,
        sample="def f():",
        checkpoint={"path": "/tmp/demo/state", "bytes": 52_340, "sha256": "ab" * 32},
        audit=audit,
        seconds=100.0,
    )


def page(stood: bool) -> str:
    out = PlainConsole(file=StringIO(), width=80, color_system=None)
    with out.capture() as captured:
        out.print(ending(out, finished(stood), keep=False))
    return captured.get()


def test_the_ending_says_why_a_kill_makes_no_step_void() -> None:
    again, stands = page(stood=False), page(stood=True)
    assert "w1 died in step 4: the survivors did it again" in again
    assert "it was never applied, so nothing is void" in again
    assert "void steps: 0" in again
    assert "w1 died in step 4: its sum was complete and stands" in stands
    assert "void" not in stands.replace("void steps: 0", "")


def test_a_checkpoint_of_a_few_kilobytes_has_a_size() -> None:
    assert "52.3 kB, sha256 " in page(stood=True)


def test_a_survivor_whose_trainer_was_restarted_fails_the_demo() -> None:
    def members(**incarnations: str) -> list[MemberView]:
        return [
            MemberView(worker=name, incarnation=incarnation, rank=0, step=None, shards=())
            for name, incarnation in incarnations.items()
        ]

    before = members(w0="a", w1="b", w2="c")
    lived_on(before, members(w0="a", w2="c", w3="d"))
    with pytest.raises(ClaimFailed, match="the trainer of w2 was restarted"):
        lived_on(before, members(w0="a", w2="e"))


def test_a_loss_that_did_not_fall_or_is_not_known_fails_the_demo() -> None:
    assert fallen([3.0, None, 3.0] * 10 + [1.0] * 20) == (3.0, 1.0)
    with pytest.raises(ClaimFailed, match="did not fall"):
        fallen([1.0] * 40)
    with pytest.raises(ClaimFailed, match="not known"):
        fallen([1.0] * 20 + [None] * 20)


@pytest.mark.parametrize("workers", [2, 3, 16])
@pytest.mark.parametrize("steps", [300, 800, 5000])
def test_every_plan_is_a_sound_job_whose_acts_come_in_their_order(workers: int, steps: int) -> None:
    plan = Plan(workers=workers, steps=steps)
    assert plan.spec.problems() == ()
    assert plan.victim in plan.names
    assert plan.newcomer not in plan.names
    assert 60 < plan.kill_at < plan.join_at < steps / 2
    assert plan.kill_at % (plan.spec.evaluate_every or 0) > 10  # no evaluation is near the kill


def test_a_file_of_facts_that_cannot_be_written_is_said_before_anything_starts() -> None:
    result = CliRunner().invoke(app, ["demo", "--json", "/nowhere/facts.json"])
    assert result.exit_code == 1
    assert result.stderr == "regroup: cannot write /nowhere/facts.json: No such file or directory\n"
    assert result.stdout == ""
