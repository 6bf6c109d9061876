"""The audit against made-up histories of kills, joins and total losses, whole ones and ones with planted faults."""

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from regroup.core.jobs import Link
from regroup.core.shards import assign, owned, positions
from regroup.lab.audit import Audit, Claim, audit
from regroup.lab.audit.claim import surviving
from regroup.lab.audit.lines import lines

Line = dict[str, Any]


@dataclass
class Story:
    """A job as it could have gone: what its coordinator claims, and what its workers wrote."""

    claim: Claim
    files: dict[str, list[Line]]
    void: int

    def audit(self, cut: int = 1 << 20) -> Audit:
        return audit(self.claim, self.pieces(cut))

    def pieces(self, cut: int) -> Iterator[tuple[str, str]]:
        for file, written in self.files.items():
            text = "".join(json.dumps(line) + "\n" for line in written)
            yield from ((file, text[start : start + cut]) for start in range(0, len(text), cut))

    def survivors(self, kind: str = "read") -> list[tuple[str, Line]]:
        """The lines of one kind, with their files, that the final state rests on."""
        spans, _ = surviving(self.claim)
        found = [(file, line) for file, written in self.files.items() for line in written if kind in line]
        return [(file, line) for file, line in found if line[kind] in spans.get(line["generation"], ())]


class Writer:
    """Plays a cluster that trains, and writes what trainers write."""

    def __init__(self, *, samples: int, shards: int, per_shard: int, seed: int = 0) -> None:
        self.samples, self.shards, self.batch, self.seed = samples, shards, shards * per_shard, seed
        self.files: dict[str, list[Line]] = {}
        self.history: list[Link] = []
        self.workers: dict[int, frozenset[str]] = {}
        self.tip = self.step = self.void = 0
        self.members: list[str] = []

    def form(self, members: list[str], connected: bool = True) -> None:
        """Issue the next generation; not `connected`: a member died before it held the state."""
        generation = len(self.history) + 1
        self.history.append(Link(generation, self.tip, self.step))
        self.workers[generation] = frozenset(member.rpartition("-")[0] for member in members)
        self.members = members
        if connected:
            self.tip = generation

    def lose_everything(self) -> None:
        """The next generation starts from the seed."""
        spans, _ = surviving(self.claim())
        self.void += sum(len(span) for span in spans.values())
        self.tip = self.step = 0

    def commit(self, steps: int = 1) -> None:
        for _ in range(steps):
            self._read(len(self.members))
            for member in self.members:
                self._apply(member)
            self.step += 1

    def abort(self, readers: int) -> None:
        """Some members read their shards, and then the group breaks."""
        self._read(readers)

    def trail(self) -> None:
        """All gave their gradients away, and the only one that applied the step is evicted."""
        self._read(len(self.members))
        self._apply(self.members[-1])
        self.void += 1

    def claim(self, *, final: bool = True) -> Claim:
        return Claim(
            history=tuple(self.history),
            tip=self.tip or None,
            steps=self.step,
            final=final,
            dataset=self.samples,
            global_batch=self.batch,
            shards=self.shards,
            workers=self.workers,
        )

    def story(self, *, final: bool = True) -> Story:
        return Story(self.claim(final=final), self.files, self.void)

    def _read(self, readers: int) -> None:
        owners = assign(self.shards, len(self.members), turn=self.tip)
        for rank, member in enumerate(self.members[:readers]):
            for shard in owned(owners, rank):
                epoch, at = positions(
                    self.step, shard, samples=self.samples, global_batch=self.batch, shards=self.shards
                )
                order = random.Random(f"{self.seed} {epoch}").sample(range(self.samples), self.samples)
                indices = [order[position] for position in at]
                self._write(member, {"read": self.step, "epoch": epoch, "shard": shard, "indices": indices})

    def _apply(self, member: str) -> None:
        self._write(member, {"applied": self.step, "loss": 0.5, "weight": 8.0, "monotonic_ns": 1})

    def _write(self, member: str, line: Line) -> None:
        incarnation = member.rpartition("-")[2]
        line |= {"generation": self.tip, "incarnation": incarnation}
        self.files.setdefault(f"{member}.jsonl", []).append(line)


MEMBERS = ["w0-a", "w1-a", "w2-a", "w1-b", "w2-b"]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Jobs of 1 to 6 generations that end in any way a generation can end."""
    writer = Writer(
        samples=draw(st.integers(1, 30)),
        shards=draw(st.sampled_from([1, 2, 3, 4])),
        per_shard=draw(st.integers(1, 4)),
        seed=draw(st.integers(0, 3)),
    )
    for _ in range(draw(st.integers(1, 6))):
        members = draw(st.lists(st.sampled_from(MEMBERS), min_size=1, max_size=3, unique=True))
        end = draw(st.sampled_from(["boundary", "abort", "trail", "unconnected", "lost"]))
        writer.form(members, connected=end != "unconnected")
        if end == "unconnected":
            continue
        writer.commit(draw(st.integers(0, 6)))
        if end == "abort":
            writer.abort(draw(st.integers(0, len(members))))
        elif end == "trail" and len(members) > 1:
            writer.trail()
        elif end == "lost":
            writer.lose_everything()
    return writer.story()


def trained(*, steps: int = 0, epochs: int = 0) -> Story:
    """20 samples in batches of 6 (the last of an epoch has 2), 3 workers, one of them killed after a void step."""
    writer = Writer(samples=20, shards=3, per_shard=2)
    total = steps or 4 * epochs
    writer.form(["w0-a", "w1-a", "w2-a"])
    writer.commit(2)
    writer.trail()
    writer.form(["w0-a", "w1-a"])
    writer.commit(total - 2)
    return writer.story()


def begun(begins: int, *, steps: int) -> Story:
    """As above, with two members, from another job's checkpoint after `begins` steps."""
    writer = Writer(samples=20, shards=3, per_shard=2)
    writer.step = begins
    writer.form(["w0-a", "w1-a"])
    writer.commit(2)
    writer.trail()
    writer.form(["w0-a"])
    writer.commit(steps - 2)
    return replace(writer.story(), claim=replace(writer.claim(), begins=begins))


# --- What is whole is found whole


@given(stories())
def test_whatever_dies_a_history_that_lost_nothing_is_found_exact(story):
    found = story.audit()
    assert found.faults == ()
    assert found.ok
    assert (found.lost, found.doubled, found.missing_records) == (0, 0, 0)
    assert found.steps == story.claim.steps
    assert found.samples == sum(len(line["indices"]) for _, line in story.survivors())
    assert found.void_steps == story.void


@given(stories(), st.integers(1, 40))
def test_it_does_not_matter_how_the_files_are_cut_into_pieces(story, cut):
    assert story.audit(cut) == story.audit()


@given(stories())
def test_without_the_datasets_length_a_whole_history_is_exact_too(story):
    story.claim = replace(story.claim, dataset=None)
    assert story.audit().ok


def test_the_summary_says_it_in_one_line():
    writer = Writer(samples=1500, shards=4, per_shard=16)
    writer.form(["w0-a", "w1-a"])
    writer.commit(7)
    writer.trail()
    writer.form(["w0-a"])
    writer.commit(13)
    expected = "1 280 samples in 20 steps over 2 generations, each exactly once; 1 void step discarded"
    assert writer.story().audit().summary == expected


def test_the_summary_tells_complete_epochs():
    assert trained(epochs=3).audit().summary == (
        "60 samples in 12 steps over 2 generations, each exactly once in each of 3 complete epochs; "
        "1 void step discarded"
    )


def test_all_that_a_total_loss_made_void_is_discarded():
    writer = Writer(samples=20, shards=2, per_shard=2)
    writer.form(["w0-a", "w1-a"])
    writer.commit(4)
    writer.lose_everything()
    writer.form(["w0-b"])
    writer.commit(5)
    found = writer.story().audit()
    assert (found.ok, found.samples, found.void_steps, found.generations) == (True, 20, 4, 1)


def test_a_job_without_a_committed_step_has_nothing_to_count():
    found = Writer(samples=20, shards=2, per_shard=2).story().audit()
    assert found.ok
    assert found.summary == "no step was committed, and nothing contradicts that"


def test_what_a_running_job_does_beyond_the_claim_is_under_way_and_not_void():
    writer = Writer(samples=20, shards=2, per_shard=2)
    writer.form(["w0-a", "w1-a"])
    writer.commit(3)
    claim = writer.claim(final=False)
    writer.commit(2)
    writer.form(["w0-a"])  # formed after the claim was made
    writer.commit(1)
    found = Story(claim, writer.files, 0).audit()
    assert (found.ok, found.steps, found.void_steps) == (True, 3, 0)


def test_what_lies_beyond_the_final_state_is_void():
    writer = Writer(samples=20, shards=2, per_shard=2)
    writer.form(["w0-a", "w1-a"])
    writer.commit(3)
    writer.trail()
    assert writer.story(final=True).audit().void_steps == 1


def test_a_line_that_its_worker_did_not_end_is_left_out():
    assert list(lines([("f", '{"a": 1}\n{"b"'), ("g", "x\n"), ("f", ": 2}\n{")])) == [
        ("f", '{"a": 1}'),
        ("g", "x"),
        ("f", '{"b": 2}'),
    ]


# --- What is not is found, and said


@given(stories(), st.data())
def test_a_sample_that_was_read_again_is_found(story, data):
    read = [line for _, line in story.survivors() if line["indices"]]
    assume(read)
    line = data.draw(st.sampled_from(read))
    again = data.draw(st.sampled_from([other for other in read if other["epoch"] == line["epoch"]]))
    line["indices"].append(data.draw(st.sampled_from(again["indices"])))
    found = story.audit()
    assert not found.ok
    assert found.doubled == 1


@given(stories(), st.data())
def test_a_shard_that_nobody_read_is_found(story, data):
    survivors = story.survivors()
    assume(survivors)
    file, line = data.draw(st.sampled_from(survivors))
    story.files[file].remove(line)
    found = story.audit()
    assert not found.ok
    assert found.missing_records == 1
    assert found.lost == len(line["indices"])


@given(stories(), st.data())
def test_a_shard_that_two_workers_read_is_found(story, data):
    survivors = story.survivors()
    assume(survivors)
    _, line = data.draw(st.sampled_from(survivors))
    story.files.setdefault("w9-z.jsonl", []).append(deepcopy(line))
    found = story.audit()
    assert not found.ok
    assert found.doubled == len(line["indices"])
    assert any("and again by" in fault for fault in found.faults)


@given(stories(), st.data())
def test_a_sample_taken_for_another_is_lost_and_doubled_in_a_complete_epoch(story, data):
    complete = story.claim.steps // -(-story.claim.dataset // story.claim.global_batch)
    read = [line for _, line in story.survivors() if line["indices"] and line["epoch"] < complete]
    assume(read and story.claim.dataset > 1)
    line = data.draw(st.sampled_from(read))
    place = data.draw(st.integers(0, len(line["indices"]) - 1))
    line["indices"][place] = (line["indices"][place] + 1) % story.claim.dataset
    found = story.audit()
    assert (found.ok, found.lost, found.doubled) == (False, 1, 1)


@given(stories(), st.sampled_from([-1, 1]), st.data())
def test_a_base_that_counts_a_void_step_or_skips_one_is_found(story, shift, data):
    spans, _ = surviving(story.claim)
    links = [link for link in story.claim.history if link.generation in spans and link.base_step + shift >= 0]
    assume(links)
    link = data.draw(st.sampled_from(links))
    wrong = replace(link, base_step=link.base_step + shift)
    story.claim = replace(story.claim, history=tuple(wrong if each == link else each for each in story.claim.history))
    assert not story.audit().ok


@given(stories())
def test_a_step_more_than_was_trained_is_found(story):
    beyond = (story.claim.steps, story.claim.tip)
    # a step that somebody did apply there could have been the last one: the records cannot tell
    assume(all((line.get("applied"), line["generation"]) != beyond for file in story.files.values() for line in file))
    story.claim = replace(story.claim, steps=story.claim.steps + 1)
    assert not story.audit().ok


@given(stories(), st.data())
def test_the_missing_file_of_a_worker_is_found(story, data):
    survivors = story.survivors()
    assume(survivors)
    file, _ = data.draw(st.sampled_from(survivors))
    del story.files[file]
    found = story.audit()
    assert not found.ok
    assert found.missing_records > 0


def test_who_left_no_record_is_named():
    story = trained(epochs=2)
    del story.files["w2-a.jsonl"]
    found = story.audit()
    inexact = "NOT EXACT, 4 lost, 0 doubled, without the records of w2"
    assert found.summary == f"36 samples in 8 steps over 2 generations: {inexact}"
    assert found.faults[0] == (
        "steps 0 to 1 of generation 1: nobody wrote to have read shard 1; w2 took part, but no record of theirs is here"
    )


def test_a_void_step_that_is_claimed_to_have_survived_is_found():
    story = trained(epochs=2)
    first, second = story.claim.history
    story.claim = replace(story.claim, history=(first, replace(second, base_step=3)))
    found = story.audit()
    assert not found.ok
    assert "w0-a.jsonl read step 2 of generation 2, which began at step 3" in found.faults


def test_a_committed_step_that_nobody_wrote_to_have_applied_is_found():
    story = trained(epochs=2)
    for written in story.files.values():
        written[:] = [line for line in written if line.get("applied") != 7]
    found = story.audit()
    assert found.faults == ("step 7 of generation 2: said to be committed, but nobody wrote to have applied it",)


def test_a_step_that_no_record_applies_is_vouched_for_by_the_next_generations_base():
    story = trained(epochs=2)
    for written in story.files.values():
        written[:] = [line for line in written if (line.get("applied"), line["generation"]) != (1, 1)]
    story.files["w2-a.jsonl"] = [line for line in story.files["w2-a.jsonl"] if line.get("applied") != 2]
    assert story.audit().ok


def test_a_worker_that_applied_a_step_twice_is_found():
    story = trained(epochs=2)
    written = story.files["w0-a.jsonl"]
    last = next(line for line in reversed(written) if "applied" in line)
    written.append(dict(last))
    assert story.audit().faults == ("w0-a.jsonl applied step 7 of generation 2, not step 8",)


def test_an_index_outside_the_dataset_is_found():
    story = trained(epochs=1)
    line = next(line for line in story.files["w1-a.jsonl"] if line.get("read") == 3)
    line["indices"][0] = 20
    found = story.audit()
    assert (found.ok, found.lost) == (False, 1)
    assert "epoch 0: 1 read outside the dataset's 20 samples" in found.faults


def test_records_of_a_generation_that_the_history_does_not_know_are_found():
    story = trained(epochs=1)
    story.files["w0-a.jsonl"].append({"applied": 4, "generation": 9})
    assert story.audit().faults == ("w0-a.jsonl applied step 4 of generation 9, unknown to the history",)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "nonsense",
        "[]",
        "[" * 100_000,
        '{"applied": -1, "generation": 1}',
        '{"applied": "7", "generation": 1}',
        '{"read": 0, "generation": 1, "epoch": 0, "shard": 0, "indices": [-1]}',
        '{"read": 0, "generation": 1, "epoch": 0, "shard": 0, "indices": [0.5]}',
        '{"read": 0, "generation": 1, "epoch": 0, "shard": 0}',
    ],
)
def test_a_line_that_cannot_be_read_is_told_and_harms_nothing_else(line):
    story = trained(epochs=1)
    found = audit(story.claim, [*story.pieces(100), ("w7-a.jsonl", f"{line}\n")])
    assert found.faults == ("w7-a.jsonl has 1 line that cannot be read",)
    assert found.samples == 20


@pytest.mark.parametrize(
    ("history", "fault"),
    [
        ((Link(2, 1, 4),), "the history does not know generation 1, whose state was taken over"),
        ((Link(2, 2, 4),), "generation 2 is said to descend from generation 2"),
        ((Link(2, 0, 9),), "generation 2 began at step 9, beyond its state's step 8"),
        ((Link(2, 0, 4),), "nothing in the history says where the first 4 steps came from"),
    ],
)
def test_a_history_that_contradicts_itself_is_found(history, fault):
    claim = replace(trained(epochs=2).claim, history=history)
    assert audit(claim, []).faults[0] == fault


def test_a_thousand_faults_of_one_kind_are_told_in_a_few_lines():
    story = trained(epochs=50)
    for written in story.files.values():
        written[:] = [line for line in written if line.get("read", 0) % 2 == 0]
    found = story.audit()
    assert found.missing_records == 300
    assert len(found.faults) < 30
    assert "and 92 more like this" in found.faults


@pytest.mark.parametrize("begins", [2, 3, 4])
def test_a_job_that_begins_from_another_ones_checkpoint_answers_for_its_own_steps(begins):
    story = begun(begins, steps=8 - begins)
    found = story.audit()
    assert (found.ok, found.steps, found.lost, found.doubled, found.faults) == (True, 8 - begins, 0, 0, ())
    assert found.epochs == (8 - begins) // 4
    assert f" in {8 - begins} steps from step {begins} on over 2 generations, each exactly once" in found.summary


def test_a_sample_that_is_lost_in_the_epoch_that_another_job_began_is_found():
    story = begun(2, steps=6)
    (_, line), *_ = story.survivors()
    line["indices"].pop()
    found = story.audit()
    assert (found.ok, found.lost) == (False, 1)
    assert any(fault.startswith("epoch 0: 1 sample of ") for fault in found.faults)


def test_a_history_that_does_not_lead_back_to_where_the_job_begins_is_found():
    story = begun(3, steps=5)
    claim = replace(story.claim, begins=2)
    fault = "the history leads back to step 3, and the job is said to begin at step 2"
    assert audit(claim, story.pieces(100)).faults[0] == fault
    assert (
        audit(replace(claim, begins=0), []).faults[0] == "nothing in the history says where the first 3 steps came from"
    )
