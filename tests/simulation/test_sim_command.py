"""`regroup sim` as a user calls it."""

import json
import re
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from errno import ENOSPC
from importlib.metadata import version
from itertools import count

import pytest
import typer
from typer.testing import CliRunner

from regroup.lab.sim.command import sim
from regroup.lab.sim.lives.code import as_code
from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.lives.ledger import Batch, Ledger, Span, code_under_test, simulator
from regroup.lab.sim.lives.ledger_file import write
from regroup.lab.sim.lives.many import KILLED
from regroup.lab.sim.lives.outcome import live
from regroup.lab.sim.planted.bugs import BUGS
from regroup.lab.sim.planted.finding import Found
from regroup.lab.sim.search.bounds import GREAT, SMALL
from regroup.lab.sim.search.breadth import search
from regroup.lab.sim.search.runs import Telling

pytestmark = pytest.mark.timeout(1500)  # it computes, and a busy machine takes longer


@pytest.fixture
def regroup_sim():
    app = typer.Typer()
    app.command()(sim)
    return lambda *words: CliRunner().invoke(app, list(map(str, words)))


PLANTED = """
from regroup.lab.sim.planted.bugs import BUGS
from regroup.lab.sim.planted.planting import plant
plant(next(bug for bug in BUGS if bug.name == "a number is used again"))
import typer
from regroup.lab.sim.command import sim
typer.run(sim)
"""


def test_a_bug_in_the_core_turns_the_command_red_and_it_says_which_seed_tells_the_story():
    told = subprocess.run([sys.executable, "-c", PLANTED, "--count", "20"], capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (1, "")
    found = re.search(
        r"^seed (\d+): AssertionError: .*^regroup sim --seed \1 tells its story$", told.stdout, re.M | re.S
    )
    assert found
    assert re.search(rf"^seed {found[1]}, regroup {version('regroup')}", told.stdout, re.M)
    kept = re.search(r"^Plan\(\n    seed=(\d+),.*^\)$", told.stdout, re.M | re.S)
    assert kept, "what its seed draws may change"
    assert kept[1] == found[1]
    faults = re.findall(r"^ +Fault\(.*$", kept[0], re.M)
    assert set(faults) <= set(re.findall(r"^ +Fault\(.*$", as_code(draw(int(found[1]))), re.M))


def test_a_life_with_a_planted_bug_is_told_with_the_decision_that_is_wrong_and_who_says_so(
    regroup_sim, capfd, tmp_path
):
    done = regroup_sim("--seed", 0, "--bug", "A NUMBER is used again", "--json", tmp_path / "life.json")
    told = capfd.readouterr().out
    assert done.exit_code == 1
    assert re.search(r"^ +(\d+\.\d+)  coordinator \d +decided, about .*, and it is judged:$", told, re.M)
    assert re.search(r"^ +(\d+\.\d+)  coordinator \d +orders \w: Form 1\n\nBROKEN after \1 s: Assert", told, re.M)
    assert "\nas regroup.lab.sim.model.decision_rules._issued says; digest " in told
    facts = json.loads((tmp_path / "life.json").read_text())
    assert facts["error"] == "AssertionError: a generation forms once"
    assert facts["where"] == "regroup.lab.sim.model.decision_rules._issued"
    left_out, last = told.split(" left out; --json FILE has all ...\n")
    assert "hears         Heard" not in left_out
    assert "hears         Heard" in last, "what repeats may be what matters, shortly before the end"
    several = regroup_sim("--seed", 0, "--bug", "fence")
    assert several.exit_code == 2
    assert "--seed tells one life, and 2 bugs are named so: a fence is forgotten; " in several.stderr


def test_a_fault_that_strikes_nobody_is_told(regroup_sim):
    heard = "".join(regroup_sim("--seed", seed).output for seed in range(4))
    assert re.search(r"^ +\d+\.\d+  FAULT +.*: nobody (is there for it|came to '\w+')$", heard, re.M)


def test_whoever_reads_no_further_ends_the_command_and_it_says_nothing_of_the_rules(tmp_path):
    sound = "import typer; from regroup.lab.sim.command import sim; typer.run(sim)"
    (tmp_path / "life.json").write_text("mine\n")
    words = [sys.executable, "-c", sound, "--seed", "3", "--json", str(tmp_path / "life.json")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141
    assert (tmp_path / "life.json").read_text() == "mine\n"
    assert [each.name for each in tmp_path.iterdir()] == ["life.json"]


def test_clusters_and_bugs_can_be_listed(regroup_sim):
    clusters = regroup_sim("--exhaustive", "--list", "--cluster", "IS HELD")
    assert (clusters.exit_code, len(clusters.stdout.splitlines())) == (0, 2)
    bugs = regroup_sim("--plants", "--list")
    assert [line.rpartition(": in ")[0] for line in bugs.stdout.splitlines()] == [str(bug) for bug in BUGS]


def test_without_assertions_nothing_is_lived():
    sound = "import typer; from regroup.lab.sim.command import sim; typer.run(sim)"
    told = subprocess.run([sys.executable, "-O", "-c", sound, "--count", "1"], capture_output=True, text=True)
    assert (told.returncode, told.stdout) == (2, "")
    assert "PYTHONOPTIMIZE" in told.stderr


def test_a_record_grows_from_where_it_ended(regroup_sim, tmp_path):
    record = tmp_path / "lives.json"
    for ranges in ([[0, 12]], [[0, 24]]):
        done = regroup_sim("--count", 12, "--record", record, "--processes", 1)
        assert done.exit_code == 0, done.output
        assert json.loads(record.read_text())["ranges"] == ranges
    assert "24 lives on this code" in done.output
    reached = [int(each) for each in re.findall(r"reasons of decisions +\d+ +(\d+)", done.output)]
    assert len(reached) == 2
    assert reached[1] > reached[0], "all of the record's lives together meet more than these"
    now = json.loads(record.read_text())
    unmet, cannot = now["never"]["reasons of decisions"], now["cannot"]["reasons of decisions"]
    explained = sum(map(len, cannot.values()))
    every = reached[1] + explained + len(unmet)
    assert re.search(rf"reasons of decisions +{every} +{reached[1]} +{explained} +{len(unmet)}$", done.output, re.M)
    assert re.search(rf"^  24 lives by this simulator \({simulator()}\b", done.output, re.M)
    assert "seeds 12 to 23: 0 broke a rule" in done.output


def test_a_record_says_of_how_many_lives_it_is_not_known_that_this_simulator_lived_them(regroup_sim, tmp_path):
    record = tmp_path / "lives.json"
    old = {"code": code_under_test(), "ranges": [[0, 1000]], "broken": [], "never": {}}
    record.write_text(json.dumps(old))
    write(record, Ledger(**old | {"ranges": ((0, 1000),)}).add(Batch(Span(2000, 2001, "sim", "1234567"))))
    done = regroup_sim("--from", 1000, "--count", 2, "--record", record, "--processes", 1)
    assert done.exit_code == 0, done.output
    assert re.search(rf"^  2 lives by this simulator \({simulator()}\b", done.output, re.M)
    assert "\n  1 life by another simulator (sim, commit 1234567)\n" in done.output
    assert "\n  1 000 lives by an unknown simulator\n" in done.output
    assert json.loads(record.read_text())["ranges"] == [[0, 1002], [2000, 2001]]


def test_a_record_that_is_none_is_refused_and_left_alone(regroup_sim, tmp_path):
    (tmp_path / "notes.txt").write_text("mine\n")
    done = regroup_sim("--count", 1, "--record", tmp_path / "notes.txt")
    assert done.exit_code == 2
    assert "is no record of lives" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (tmp_path / "notes.txt").read_text() == "mine\n"


@pytest.mark.parametrize("place", ["nowhere/lives.json", "."])
def test_a_record_that_cannot_be_written_is_said_before_anything_is_lived(regroup_sim, tmp_path, place):
    done = regroup_sim("--count", 1, "--record", tmp_path / place)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"regroup: cannot write {tmp_path / place}: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--seed 7 --count 5", "--count says nothing beside --seed: leave it out"),
        ("--seed 7 --from 1 --record x", "--from and --record say nothing beside --seed: leave them out"),
        ("--seed 7 --plants", "--seed and --plants contradict each other: give one of them"),
        ("--exhaustive --count 3 --plants", "--exhaustive and --plants contradict each other: give one of them"),
        ("--exhaustive --coverage", "--coverage says nothing beside --exhaustive: leave it out"),
        ("--cluster three", "--cluster says nothing without --exhaustive: leave it out"),
        ("--minutes 3", "--minutes says nothing without --exhaustive: leave it out"),
        ("--anew", "--anew says nothing without --record: leave it out"),
        ("--bug fence", "--bug says nothing without --seed or --plants: leave it out"),
        ("--seed 3 --list", "--list says nothing beside --seed: leave it out"),
    ],
)
def test_options_that_contradict_each_other_are_refused_in_one_line(regroup_sim, words, why):
    done = regroup_sim(*words.split())
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"regroup: {why}\n")


def interrupted(wrong):
    """Ten lives, and then this."""

    def lives(first, count, processes):
        yield [live(draw(seed)) for seed in range(first, first + 10)]
        raise wrong

    return lives


@pytest.mark.parametrize(
    ("wrong", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "regroup: interrupted: the figures are of the lives until then\n"),
        (BrokenProcessPool(), 1, f"regroup: {KILLED}\n"),
    ],
)
def test_what_was_lived_before_an_end_in_between_is_told_and_recorded(
    regroup_sim, tmp_path, monkeypatch, wrong, code, said
):
    monkeypatch.setattr("regroup.lab.sim.lives.many.lives", interrupted(wrong))
    done = regroup_sim("--count", 500, "--record", tmp_path / "lives.json", "--json", tmp_path / "facts.json")
    assert (done.exit_code, done.stderr) == (code, said)
    assert "seeds 0 to 9: 0 broke a rule" in done.stdout
    assert json.loads((tmp_path / "lives.json").read_text())["ranges"] == [[0, 10]]
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert (facts["asked"], facts["lives"]) == (500, 10)


def test_a_record_that_cannot_be_written_any_more_is_named(regroup_sim, tmp_path, monkeypatch):
    record = tmp_path / "lives.json"

    def full(path, ledger):
        if ledger.lives:
            raise OSError(ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("regroup.lab.sim.lives.record.write", full)
    words = ("--count", 2, "--processes", 1, "--record", record, "--json", tmp_path / "facts.json")
    done = regroup_sim(*words)
    assert "seeds 0 to 1: 0 broke a rule" in done.stdout
    assert done.exit_code == 1
    assert done.stderr == f"regroup: not recorded: cannot write {record}: No space left on device\n"
    assert json.loads((tmp_path / "facts.json").read_text())["lives"] == 2


def test_a_record_that_cannot_be_written_in_between_ends_the_lives_and_what_was_lived_is_told(
    regroup_sim, tmp_path, monkeypatch
):
    def full(path, ledger):
        if ledger.lives:
            raise OSError(ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("regroup.lab.sim.lives.record.write", full)
    monkeypatch.setattr("regroup.lab.sim.lives.many.RECORDED", 5)
    words = ("--count", 500, "--processes", 1, "--record", tmp_path / "lives.json", "--json", tmp_path / "facts.json")
    done = regroup_sim(*words)
    told = f"cannot write {tmp_path / 'lives.json'}: No space left on device"
    assert done.stderr == f"regroup: {told}: no more is lived\nregroup: not recorded: {told}\n"
    assert done.exit_code == 1
    lived = json.loads((tmp_path / "facts.json").read_text())["lives"]
    assert 0 < lived < 500
    assert f"seeds 0 to {lived - 1}: 0 broke a rule" in done.stdout


def test_a_record_is_not_replaced_where_the_facts_cannot_be_written(regroup_sim, tmp_path):
    record = tmp_path / "lives.json"
    write(record, Ledger("0123456789abcdef").add(Batch(Span(0, 100, "sim"))))
    done = regroup_sim("--count", 1, "--record", record, "--anew", "--json", tmp_path / "nowhere" / "facts.json")
    assert done.exit_code == 1
    assert json.loads(record.read_text())["lives"] == 100


def test_lives_are_summed_up_and_the_tables_are_shown_if_asked_for(regroup_sim):
    plain, tables = (regroup_sim("--count", 3, "--processes", 1, *more).stdout for more in ((), ("--coverage",)))
    assert len(plain.splitlines()) < 15
    assert "faults, by the phase of a job  (· never, - cannot be)" not in plain
    assert "faults, by the phase of a job  (· never, - cannot be)" in tables
    for told in (plain, tables):
        assert "seeds 0 to 2: 0 broke a rule" in told


def test_what_is_one_is_told_as_one(regroup_sim):
    seed = next(seed for seed in range(1000) if len(draw(seed).jobs) == 1)
    first, *_ = regroup_sim("--seed", seed).output.splitlines()
    assert first.endswith(", 1 job")


def test_one_life_is_told_and_written_down(regroup_sim, tmp_path):
    done = regroup_sim("--seed", 3, "--json", tmp_path / "life.json")
    assert done.exit_code == 0, done.output
    told = json.loads((tmp_path / "life.json").read_text())
    assert f"digest {told['digest']}, lived twice; every rule held" in done.output
    assert told["error"] is None
    assert len(told["story"]) > 50


def test_a_seed_that_is_another_life_each_time_turns_the_command_red_and_it_says_where_they_part(
    regroup_sim, tmp_path, monkeypatch
):
    """A batch said so of it; that every rule held in one of them says nothing."""
    times = count()

    def moody(plan, keep=False):
        one = live(plan, keep)
        return replace(one, digest=f"{next(times)}", lines=(*one.lines[:50], f"it is {next(times)}", *one.lines[50:]))

    monkeypatch.setattr("regroup.lab.sim.lives.telling.live", moody)
    done = regroup_sim("--seed", 3, "--json", tmp_path / "life.json")
    assert done.exit_code == 1
    told = r"NotReproducible: .*: digest 0, and 4\. The first parts from the second with\n  it is 1\n  it is 5\n"
    assert re.search(told, done.output)
    assert as_code(draw(3)) in done.output
    assert json.loads((tmp_path / "life.json").read_text())["error"].startswith("NotReproducible: ")


def test_one_of_the_searches_can_be_named(regroup_sim, tmp_path):
    words = ("--exhaustive", "--minutes", 0, "--cluster", "is held", "--json", tmp_path / "found.json")
    done = regroup_sim(*words)
    assert done.exit_code == 0, done.output
    told = json.loads((tmp_path / "found.json").read_text()).keys()
    assert told & {*SMALL, *GREAT} == {"one worker is held, and dies", "one is held, and dies, in three"}
    unknown = regroup_sim("--exhaustive", "--cluster", "hundred workers")
    assert unknown.exit_code == 2
    assert unknown.stderr.startswith("regroup: --cluster hundred workers: no cluster has that in its name; there are: ")


def test_the_searches_that_ended_before_an_interruption_are_told(regroup_sim, tmp_path, monkeypatch):
    def searched(named, seconds, memory, processes, on_told):
        name, bounds = next(iter(named.items()))
        yield name, search(bounds, 0.0, memory)
        on_told(Telling(list(named)[1], 7000, 12, 300))
        raise KeyboardInterrupt

    monkeypatch.setattr("regroup.lab.sim.search.showing.searches", searched)
    done = regroup_sim("--exhaustive", "--json", tmp_path / "found.json")
    assert done.exit_code == 130
    assert done.stderr == f"regroup: interrupted: 1 of {len(SMALL) + len(GREAT)} searches had ended\n"
    first = next(iter(SMALL))
    assert f"{first}: to depth" in done.stdout
    second = [*SMALL][1]
    assert f"{second}: had come to 7,000 states, depth 12; no rule was broken in them" in done.stdout
    facts = json.loads((tmp_path / "found.json").read_text())
    assert facts["interrupted"]
    assert facts["unfinished"] == {second: {"name": second, "states": 7000, "depth": 12, "waiting": 300}}
    assert json.loads((tmp_path / "found.json").read_text()).keys() & SMALL.keys() == {first}


def test_a_search_that_is_killed_is_said_to_be(regroup_sim, monkeypatch):
    def searched(named, seconds, memory, processes, on_told):
        yield from ()
        raise BrokenProcessPool

    monkeypatch.setattr("regroup.lab.sim.search.showing.searches", searched)
    done = regroup_sim("--exhaustive")
    assert (done.exit_code, done.stdout.strip()) == (1, "")
    assert done.stderr.startswith("regroup: a search was killed, as happens where memory is short")


@pytest.mark.parametrize(
    ("wrong", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "regroup: interrupted: the bugs above had been looked for by then\n"),
        (RuntimeError("x: no"), 1, "regroup: x: no; those after it are not told\n"),
    ],
)
def test_the_planted_bugs_that_were_found_before_an_end_in_between_are_told(
    regroup_sim, tmp_path, monkeypatch, wrong, code, said
):
    def found(bugs, count, processes):
        yield Found(bugs[0], 7, 8, "AssertionError: it is wrong")
        raise wrong

    monkeypatch.setattr("regroup.lab.sim.planted.showing.find_planted", found)
    done = regroup_sim("--plants", "--json", tmp_path / "found.json")
    assert (done.exit_code, done.stderr) == (code, said)
    assert f"1/{len(BUGS)}  {BUGS[0].name}\n    life 8, seed 7: AssertionError: it is wrong\n" in done.stdout
    assert f"1 of 1 planted bug that were looked for, of {len(BUGS)}, found; lives until then: median 8" in done.stdout
    facts = json.loads((tmp_path / "found.json").read_text())
    assert (facts["planted"], facts["interrupted"]) == ({BUGS[0].name: 7}, code == 130)


def test_a_bug_that_was_not_found_is_told_and_fails_the_command(regroup_sim, monkeypatch):
    monkeypatch.setattr(
        "regroup.lab.sim.planted.showing.find_planted", lambda bugs, *_: (Found(one, None, 500, None) for one in bugs)
    )
    done = regroup_sim("--plants", "--bug", BUGS[0].name)
    assert done.exit_code == 1
    assert "NOT FOUND in 500 lives" in done.stdout


def test_what_is_named_and_is_not_there_is_refused_with_names_that_are(regroup_sim):
    done = regroup_sim("--plants", "--bug", "no such bug")
    assert done.exit_code == 2
    assert done.stderr.startswith("regroup: --bug no such bug: no bug has that in its name; there are: ")
    assert done.stderr.endswith("; and others: --list names all\n")
    misspelt = regroup_sim("--plants", "--bug", "fense")
    assert misspelt.exit_code == 2
    assert misspelt.stderr.startswith("regroup: --bug fense: no bug has that in its name; did you mean fence")
    words = regroup_sim("--plants", "--bug", "Stale anser")
    assert words.stderr == "regroup: --bug stale anser: no bug has that in its name; did you mean stale answer?\n"


@pytest.mark.cluster
def test_planted_bugs_can_be_named(regroup_sim, tmp_path):
    done = regroup_sim("--plants", "--bug", "a number is used again", "--json", tmp_path / "found.json")
    assert done.exit_code == 0, done.output
    assert list(json.loads((tmp_path / "found.json").read_text())["planted"]) == ["a number is used again"]
    assert "1 of 1 planted bug found" in done.output


@pytest.mark.cluster
def test_a_search_that_has_no_time_says_how_far_it_came(regroup_sim, tmp_path):
    done = regroup_sim("--exhaustive", "--minutes", 0, "--json", tmp_path / "found.json")
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["commit"] is None or found["commit"]
    for name in (*SMALL, *GREAT):
        assert not found[name]["complete"]
        assert found[name]["error"] is None
        assert 0 < found[name]["depth"] < 30
        assert found[name]["states"] > 500
    assert "to depth" in done.output
