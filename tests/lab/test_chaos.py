"""The pure parts of `regroup chaos`: which cells there are, when one passes, and how results are shown."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch
import typer

from regroup.lab.bench.machine import this_machine
from regroup.lab.chaos import network, report
from regroup.lab.chaos.bed import difference
from regroup.lab.chaos.cells import CI, FAULTS, Aftermath, Cell, Phase, cells, subset
from regroup.lab.chaos.command import chaos
from regroup.lab.chaos.faults import DEEDS, not_allowed
from regroup.lab.chaos.hold import HeldTrainer, Hold
from regroup.lab.chaos.network import Network
from regroup.lab.chaos.page import page
from regroup.lab.chaos.verdict import Observed, Outcome, Result, judge, unwanted
from regroup.wire.rest import EventView

FAULT = {fault.name: fault for fault in FAULTS}
KILLED = Cell(FAULT["trainer-killed"], Phase.FORWARD)
CALM = Cell(FAULT["coordinator-killed"], Phase.FORWARD)
SEEN = Observed(
    phase="completed",
    reason="completed at step 60",
    difference=1e-16,
    lost=0,
    doubled=0,
    audit_faults=(),
    restarts=0,
    regroups=1,
    noticed=8.0,
    recovered=97.4,
    remark="exited: w1's trainer: killed by SIGKILL",
)


# --- Which cells there are


def test_the_matrix_is_each_fault_in_each_phase():
    assert len(cells()) == len(FAULTS) * len(Phase)
    assert len(FAULTS) == len(FAULT) >= 14


def test_every_fault_is_there_in_some_phase_and_says_why_not_in_the_others():
    for fault in FAULTS:
        mine = [cell for cell in cells() if cell.fault is fault]
        assert any(cell.impossible is None for cell in mine), fault.name
        assert all(cell.impossible is None or len(cell.impossible) > 10 for cell in mine), fault.name


def test_every_phase_is_disturbed_by_at_least_ten_faults():
    for phase in Phase:
        assert sum(cell.impossible is None for cell in cells(phases=[phase])) >= 10, phase


def test_every_fault_is_either_done_to_a_process_or_told_to_the_users_code():
    assert {fault.name for fault in FAULTS if fault.word == "go"} == DEEDS.keys()


def test_faults_and_phases_choose():
    chosen = cells(["exception", "segfault"], ["forward", "joining"])
    assert [cell.name for cell in chosen] == [
        "exception/forward",
        "exception/joining",
        "segfault/forward",
        "segfault/joining",
    ]


def test_the_subset_for_ci_is_possible_on_every_machine():
    chosen = subset(CI)
    assert {cell.name for cell in chosen} == set(CI)
    assert all(cell.impossible is None and not_allowed(cell) is None for cell in chosen)


# --- When a cell passes


def test_a_cell_passes_with_the_same_weights_and_an_exact_audit():
    assert judge(KILLED, SEEN) == ()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"phase": "failed", "reason": "the task failed"}, "the job is failed, not completed: the task failed"),
        ({"difference": None}, "there are no final weights to compare"),
        ({"difference": 2e-9}, "weights differ from an undisturbed run's by 2e-09, more than 1e-09"),
        ({"difference": float("nan")}, "weights differ from an undisturbed run's by nan, more than 1e-09"),
        ({"lost": 2}, "the audit is not exact, 2 samples lost, 0 doubled"),
        ({"doubled": 1}, "the audit is not exact, 0 samples lost, 1 doubled"),
        ({"audit_faults": ("a line",)}, "the audit is not exact, 0 samples lost, 0 doubled: a line"),
        ({"restarts": 1}, "the job began again 1 times, though its state was not lost"),
        ({"noticed": None}, "nothing in the timeline names it: none of exited"),
        ({"recovered": None}, "no step was committed after it"),
        ({"unwanted": ("evicted: w1 is evicted",)}, "this must not follow it: evicted: w1 is evicted"),
    ],
)
def test_whatever_is_wrong_fails_the_cell_with_one_sentence(changes, complaint):
    assert judge(KILLED, replace(SEEN, **changes)) == (complaint,)


def test_a_hang_is_noticed_in_time():
    hung = Cell(FAULT["trainer-stopped"], Phase.FORWARD)
    assert judge(hung, replace(SEEN, noticed=5999.0)) == ()
    assert judge(hung, replace(SEEN, noticed=6100.0)) == ("it was noticed after 6.1 s, and 6 s is the limit",)
    assert judge(Cell(FAULT["trainer-stopped"], Phase.FORMING), replace(SEEN, noticed=9000.0)) == ()
    assert judge(hung, replace(SEEN, noticed=3900.0, limit=1.0)) == ()
    assert judge(hung, replace(SEEN, noticed=4100.0, limit=1.0)) == (
        "a hang of which 1 s were allowed was broken after 4.1 s",
    )


@pytest.mark.parametrize("name", ["agent-leaves", "all-leave", "rolling-restart", "last-step-leaves", "worker-drained"])
def test_who_leaves_must_not_be_taken_for_one_that_died(name):
    def told(at, kind, reason):
        return EventView(id="1-0", at=at, kind=kind, job="j", worker="w1", reason=reason, data={})

    before, leaving = told(9.0, "exited", "w0's trainer: killed"), told(10.0, "leaving", "w1 is to leave")
    evicted = told(11.0, "evicted", "w1 is evicted")
    cell = Cell(FAULT[name], Phase.FORWARD)
    assert unwanted(cell, [before, leaving], since=10.0) == ()
    assert unwanted(cell, [before, leaving, evicted], since=10.0) == ("evicted: w1 is evicted",)
    assert unwanted(KILLED, [evicted], since=10.0) == ()


def test_a_regroup_is_a_false_alarm_where_nobody_was_lost():
    assert judge(CALM, replace(SEEN, noticed=None)) == ("1 regroups followed, though nobody was lost",)
    assert judge(CALM, replace(SEEN, noticed=None, regroups=0)) == ()


@pytest.mark.parametrize("name", ["disk-full", "folder-unwritable", "write-hangs"])
def test_a_write_beside_the_training_that_fails_stops_nobody(name):
    cell = Cell(FAULT[name], Phase.BESIDE)
    assert judge(cell, SEEN) == ("1 regroups followed, though nobody was lost",)
    assert judge(cell, replace(SEEN, regroups=0)) == ()
    assert judge(cell, replace(SEEN, regroups=0, noticed=None)) == (
        "nothing in the timeline names it: none of checkpoint_failed, save_failed",
    )
    assert Cell(FAULT[name], Phase.CHECKPOINT).aftermath is Aftermath.REGROUPS


def test_who_loses_all_workers_may_begin_again_once():
    cell = Cell(FAULT["all-killed"], Phase.EXCHANGE)
    assert cell.fault.aftermath is Aftermath.RESTARTS
    assert judge(cell, replace(SEEN, restarts=1)) == ()
    assert judge(cell, replace(SEEN, restarts=2)) != ()


def test_the_largest_difference_of_any_weight_counts():
    one = {"a": torch.zeros(3, dtype=torch.float64), "b": torch.ones(2, dtype=torch.float64)}
    other = {"a": torch.zeros(3, dtype=torch.float64), "b": torch.tensor([1.0, 1.5], dtype=torch.float64)}
    assert difference(one, other) == 0.5
    assert difference(one, one) == 0.0


def test_weights_of_other_names_or_shapes_are_not_compared():
    one = {"a": torch.zeros(3)}
    assert difference(one, {"b": torch.zeros(3)}) is None
    assert difference(one, {"a": torch.zeros(4)}) is None
    assert difference({}, {}) is None


# --- How it is shown


def results():
    impossible = Cell(FAULT["exception"], Phase.EXCHANGE)
    return [
        Result(cell=KILLED, outcome=Outcome.PASSED, observed=SEEN, seconds=2.9),
        Result(
            cell=Cell(FAULT["trainer-killed"], Phase.EXCHANGE),
            outcome=Outcome.FAILED,
            observed=replace(SEEN, lost=3),
            complaints=("3 samples <lost>",),
            story=("1.000 halt why & how",),
        ),
        Result(cell=impossible, outcome=Outcome.IMPOSSIBLE, complaints=(impossible.impossible,)),
        Result(cell=Cell(FAULT["disk-full"], Phase.CHECKPOINT), outcome=Outcome.SKIPPED, complaints=("needs root",)),
    ]


def test_times_are_short():
    assert [report.milliseconds(each) for each in (None, 8.2, 999.0, 5300.0)] == ["–", "8 ms", "999 ms", "5.3 s"]


def test_the_summary_counts_and_tells_the_largest_difference():
    assert report.summary(results()) == (
        "1 cells passed, 1 failed, 1 skipped, 1 cannot be; "
        "largest difference of a weight 1.0e-16; 3 samples lost, 0 doubled"
    )


def test_the_figures_are_json_with_every_cell():
    told = json.loads(json.dumps(report.figures(results(), this_machine())))
    assert told["settings"]["error_limit"] == "1000000"
    assert [(each["fault"], each["phase"], each["outcome"]) for each in told["cells"]] == [
        ("trainer-killed", "forward", "passed"),
        ("trainer-killed", "exchange", "failed"),
        ("exception", "exchange", "impossible"),
        ("disk-full", "checkpoint", "skipped"),
    ]
    assert told["cells"][0]["observed"]["recovered"] == 97.4


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.classes, self.said, self.links, self.places = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.classes += [value for name, value in attrs if name == "class"]
        self.links += [value for name, value in attrs if name == "href"]
        self.places += [value for name, value in attrs if name == "id"]
        assert not {name for name, _ in attrs} & {"src", "onclick"}, "nothing comes from elsewhere"

    def handle_data(self, data):
        self.said.append(data)


def test_the_page_shows_each_cell_in_its_colour_and_fetches_nothing():
    reader = Reader()
    text = page(results(), "a machine")
    reader.feed(text)
    assert "script" not in reader.tags
    assert "url(" not in text
    assert [reader.classes.count(str(outcome)) for outcome in Outcome] == [1, 1, 1, 1]
    said = "".join(reader.said)
    assert "97 ms" in said
    assert "needs root: disk-full (checkpoint)" in said


def test_a_cell_that_failed_leads_to_why_and_to_how_to_run_it_alone():
    reader = Reader()
    reader.feed(page(results(), "a machine"))
    assert reader.links == ["#trainer-killed/exchange"]
    assert reader.places == ["trainer-killed/exchange"]
    said = "".join(reader.said)
    assert "regroup chaos --fault trainer-killed --phase exchange" in said
    assert said.index("What failed") < said.index("3 samples <lost>") < said.index("97 ms"), "it is found at a glance"
    assert "What failed" not in page(results()[:1], "a machine")


def test_the_terminal_tells_at_the_end_what_failed_and_how_to_run_it_alone():
    assert report.failures(results()) == (
        "\ntrainer-killed/exchange FAILED: 3 samples <lost>\n    regroup chaos --fault trainer-killed --phase exchange"
    )
    assert report.failures(results()[:1]) == ""


def test_the_page_shows_what_it_is_told_as_text():
    text = page(results(), "a <b>machine</b>")
    assert "a &lt;b&gt;machine" in text
    assert "3 samples &lt;lost&gt;" in text
    assert "why &amp; how" in text


# --- The command, and the folder by which a trainer is held


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"faults": ["trainer-kiled"]}, "there is no fault trainer-kiled; there are trainer-killed, agent-killed"),
        ({"named": "all"}, "there is no subset all; there are ci"),
        ({"named": "ci", "phases": [Phase.FORWARD]}, "--subset says which cells: leave --fault and --phase out"),
    ],
)
def test_wrong_usage_says_what_there_is(capsys, options, said):
    with pytest.raises(typer.Exit) as left:
        chaos(**options)
    assert left.value.exit_code == 2
    assert said in capsys.readouterr().err


def test_the_list_gives_the_reason_why_a_cell_is_not_there(capsys):
    chaos(faults=["exception"], listing=True)
    out = capsys.readouterr().out
    assert re.search("^exception/exchange +not there: no code of the user runs there$", out, re.MULTILINE)
    assert "refused, save_failed, step_failed" in out


def test_whoever_waits_is_released_whatever_happened(tmp_path):
    hold = Hold(tmp_path / "cell")
    hold.say("raise")
    hold.release()
    assert {path.name for path in hold.folder.iterdir()} == {"start", "finish", "word"}
    assert (hold.folder / "word").read_text() == "raise", "what was said stays said"


def test_who_is_held_is_known_by_name_or_as_anybody(tmp_path):
    hold = Hold(tmp_path / "cell")
    assert hold.held("w1") is None
    (hold.folder / "held-w1").write_text(json.dumps({"worker": "w1", "pid": 17, "step": 4}))
    assert hold.held("w0") is None
    assert hold.held("w1") == hold.held("*")
    assert hold.held("*") == HeldTrainer("w1", pid=17, step=4)


def test_names_of_cables_fit_into_the_kernels():
    cables = Network(["w0", "w1"])
    assert all(len(cables._cable(worker)) <= 15 for worker in ("w0", "w1"))
    command, environ = cables.launch("w1")
    assert command[0].endswith("nsenter")
    assert environ["REGROUP_DATA_HOST"] != cables.address


def test_a_network_in_which_workers_do_not_hear_each_other_is_not_used(monkeypatch):
    monkeypatch.setattr(network.os, "geteuid", lambda: 0)
    monkeypatch.setattr(network.shutil, "which", lambda tool: f"/bin/{tool}")
    monkeypatch.setattr(Network, "lay", lambda self: None)
    monkeypatch.setattr(Network, "remove", lambda self: None)
    for hears in (True, False):
        monkeypatch.setattr(Network, "hears", lambda self, worker, other, hears=hears: hears)
        reason = not_allowed(Cell(FAULT["cut-off"], Phase.FORWARD))
        assert (reason is None) == hears
    assert "lets nothing through between network namespaces" in reason


def test_a_connection_shows_that_one_worker_hears_another(monkeypatch):
    monkeypatch.setattr(Network, "launch", lambda self, worker: ([], {}))
    monkeypatch.setattr(Network, "_address", lambda self, worker: "127.0.0.1")
    assert Network(["w0", "w1"]).hears("w0", "w1")
    monkeypatch.setattr(Network, "launch", lambda self, worker: (["true"] if worker == "w0" else [], {}))
    assert not Network(["w0", "w1"]).hears("w0", "w1"), "nobody listens there"
