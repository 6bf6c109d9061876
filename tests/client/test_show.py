"""Wording for people, and the YAML that people write."""

import io
import math
from dataclasses import replace

import pytest

from regroup.client import show, terminal
from regroup.client.printable import PlainConsole
from regroup.client.yaml_values import BadYaml, read_yaml
from regroup.core.jobs import Checkpoint, JobPhase, Struck, Version


@pytest.mark.parametrize(
    ("seconds", "words"), [(-1, "0 s"), (42, "42 s"), (420, "7 min"), (12600, "3.5 h"), (12 * 86400, "12 d")]
)
def test_durations_are_in_a_unit_that_fits(seconds, words):
    assert show.duration(seconds) == words


def test_in_a_terminal_a_job_is_one_line_of_the_table_and_in_a_pipe_its_reason_is_whole(client):
    job = replace(client.submit(task="digits", steps=5), reason="because " * 20 + "of that")

    def shown(width):
        out = PlainConsole(width=width, record=True, file=io.StringIO())
        out.print(show.jobs_table([job], now=job.submitted))
        return out.export_text().splitlines()

    narrow, wide = shown(100), shown(10_000)
    assert len(narrow) == len(wide) == 2
    assert job.id in narrow[1]
    assert narrow[1].endswith("…")
    assert wide[1].rstrip().endswith(job.reason)


def test_in_a_narrow_terminal_ids_and_steps_are_whole_and_the_beginning_of_the_reason_is_there(client):
    job = replace(client.submit(task="digits", steps=100_000), reason="because " * 20, name="a long name " * 9)
    job = replace(job, step=98_765, phase=JobPhase.REGROUPING)
    head, row = written(show.jobs_table([job], now=job.submitted + 9)).splitlines()
    assert head.split() == ["job", "name", "phase", "step", "workers", "reason"]
    assert len(row) <= 80
    assert row.split()[0] == job.id
    assert all(each in row for each in ("98765/100000", "regrouping", "because"))
    assert row.rstrip().endswith("…")


def test_where_no_job_has_a_name_a_narrow_terminal_tells_their_tasks(client):
    head, row = written(show.jobs_table([client.submit(task="digits", steps=5)], now=0.0)).splitlines()
    assert head.split() == ["job", "task", "phase", "step", "workers", "reason"]
    assert row.split()[1] == "digits"


def written(shown, width=80):
    """What a command shows in a terminal."""
    out = PlainConsole(width=width, record=True, file=io.StringIO(), force_terminal=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal, "console", lambda: out)
        terminal.write(shown)
    return out.export_text()


def sheet(job):
    return written(show.job_sheet(job, now=job.submitted))


def test_the_path_of_a_checkpoint_is_on_one_line_to_be_copied(client):
    path = "/data/" + "a long name/" * 20 + "step_39"
    job = replace(client.submit(task="digits", steps=5), checkpoint=Checkpoint(Version(1, 39), path, "ab" * 32, 900))
    (line,) = [line for line in sheet(job).splitlines() if "a long name" in line]
    assert line == f"  file        {path}"


def test_the_checkpoints_that_are_kept_are_listed_with_their_files_to_be_copied():
    kept = [Checkpoint(Version(1, step), f"/c/{'long' * 40}/s{step}", "ab" * 32, 900, "w0") for step in (8, 4)]
    lines = written(show.checkpoints_table(kept)).splitlines()
    rows = [line.split() for line in lines if "abab" in line]
    assert rows == [[step, "1", "0.9", "kB", "-", "w0", "abababababababab..."] for step in ("8", "4")]
    assert [line.rstrip() for line in lines[-2:]] == [one.path for one in kept]
    assert show.checkpoints_table([]) == "no checkpoints"


def test_a_damaged_checkpoint_is_listed_after_those_that_are_kept_with_what_is_wrong():
    good, bad = (Checkpoint(Version(1, step), f"/c/s{step}", "ab" * 32, 900, "w0") for step in (4, 8))
    lines = written(show.checkpoints_table([good], [Struck(bad, "/c/s8 has 7 bytes, not 900")])).splitlines()
    assert [line.split()[0] for line in lines if "abab" in line] == ["4", "8"]
    assert [line.endswith("damaged") for line in map(str.rstrip, lines) if "abab" in line] == [False, True]
    assert lines[-1].rstrip() == "damaged: /c/s8 has 7 bytes, not 900"


def failed(client, reason, error):
    return replace(client.submit(task="digits", steps=5), phase=JobPhase.FAILED, reason=reason, error=error)


def test_an_error_that_only_repeats_the_reason_is_not_shown_again(client):
    reason = "options.hiden: unknown option"
    assert sheet(failed(client, reason, reason)).count(reason) == 1
    assert "Traceback" in sheet(failed(client, reason, f"Traceback\n{reason}"))


def test_a_traceback_is_shown_if_it_leads_through_the_users_files(client):
    ours = f'Traceback (most recent call last):\n  File "{show.__file__}", line 1, in find\n'
    theirs = '  File "/home/me/task.py", line 1, in loss\n'
    assert "Traceback" not in sheet(failed(client, "task: there is no module nowhere", ours + "TaskNotFound: nowhere"))
    assert "in loss" in sheet(failed(client, "it raised KeyError", ours + theirs + "KeyError: 1"))


@pytest.mark.parametrize(
    ("loss", "diverged", "told"), [(0.5, None, ["loss 0.5"]), (None, "nan", ["loss nan"]), (None, None, [])]
)
def test_a_loss_that_is_no_number_is_told_as_what_it_is(client, loss, diverged, told):
    assert show.loss_text(replace(client.submit(task="digits", steps=5), loss=loss, diverged=diverged)) == told


@pytest.mark.parametrize(("count", "words"), [(900, "0.9 kB"), (52_340, "52.3 kB"), (1_250_000, "1.2 MB")])
def test_a_small_checkpoint_has_a_size_too(count, words):
    assert show.size(count) == words


@pytest.mark.parametrize(("numbers", "words"), [((), ""), ((3,), "3"), ((0, 1, 2, 5, 7, 8), "0-2, 5, 7-8")])
def test_shards_are_written_as_ranges(numbers, words):
    assert show.ranges(numbers) == words


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1.", 1.0),
        (".5", 0.5),
        ("10", 10),
        ("010", 10),
        ("0x10", 16),
        ("-3", -3),
        ("1:30", "1:30"),
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("null", None),
        ("", None),
        ("2024-01-01", "2024-01-01"),
        ("'1'", "1"),
        ("1_000", "1_000"),
        ("[1, a]", [1, "a"]),
        ("1.2.3", "1.2.3"),
    ],
)
def test_plain_words_of_yaml_mean_what_people_mean(text, value):
    read = read_yaml(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("steps: 5\nglobal_batch: 4: 8", "line 2, column 16: mapping values are not allowed here"),
        ("[1", "line 1, column 3: expected ',' or ']', but got '<stream end>'"),
    ],
)
def test_what_is_no_yaml_is_told_with_its_place(text, why):
    with pytest.raises(BadYaml) as error:
        read_yaml(text)
    assert str(error.value) == why


def test_yaml_has_words_for_what_is_no_finite_number():
    assert read_yaml(".inf") == math.inf
    assert math.isnan(read_yaml(".nan"))


@pytest.mark.parametrize("text", ["a: [", "!!python/object/apply:os.getcwd []", "a: b: c", "- 1\n---\n- 2"])
def test_what_is_no_plain_yaml_is_refused_in_one_line(text):
    with pytest.raises(BadYaml) as error:
        read_yaml(text)
    assert "\n" not in str(error.value)
