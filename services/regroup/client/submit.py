"""`regroup submit`: a job from options, from a YAML file, or from a file with options on top.

Owns: reading both into the fields of a job spec.
Refuses to know: which values are sound; the coordinator says, field by field.
"""

import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from regroup.client import terminal
from regroup.client.sdk import Client
from regroup.client.terminal import AsJson
from regroup.client.watch import exit_code, watch
from regroup.client.yaml_values import BadYaml, read_yaml
from regroup.core.jobs import JobPhase
from regroup.core.spec import JobSpec
from regroup.wire.rest import SPEC_WORDS


def _field(name: str, *short: str) -> Any:
    words, usual = SPEC_WORDS[name], JobSpec.__dataclass_fields__[name].default
    default = f" Default: {usual:g}." if isinstance(usual, int | float) else ""
    return typer.Option(f"--{name.replace('_', '-')}", *short, help=words[0].upper() + words[1:] + "." + default)


class Submit(terminal.Command):
    """Whoever looks for an option of the task among our own is told where those are given."""

    def parse_args(self, *given: Any) -> list[str]:
        try:
            return super().parse_args(*given)
        except Exception as error:  # typer makes the class public nowhere
            wanted, ours = getattr(error, "option_name", ""), [name for each in self.params for name in each.opts]
            if wanted.startswith("--") and not get_close_matches(wanted, ours):
                name = wanted.removeprefix("--").replace("-", "_")
                terminal.give_up(f"{error}; an option of the task is given as -o {name}=VALUE", terminal.USAGE)
            raise


def submit(
    context: typer.Context,
    task: Annotated[str | None, typer.Argument(metavar="TASK", help=SPEC_WORDS["task"], show_default=False)] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help="A YAML file of the job's fields, or - for standard input; options come on top."
        ),
    ] = None,
    task_option: Annotated[str | None, typer.Option("--task", help="The task, if not given as the argument.")] = None,
    name: Annotated[str | None, _field("name", "-n")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="NAME=VALUE", help="An option of the task; VALUE is YAML. Repeatable."),
    ] = None,
    steps: Annotated[int | None, _field("steps")] = None,
    epochs: Annotated[int | None, _field("epochs")] = None,
    global_batch: Annotated[int | None, _field("global_batch")] = None,
    shards: Annotated[int | None, _field("shards")] = None,
    micro_batch: Annotated[int | None, _field("micro_batch")] = None,
    seed: Annotated[int | None, _field("seed")] = None,
    min_workers: Annotated[int | None, _field("min_workers")] = None,
    max_workers: Annotated[int | None, _field("max_workers")] = None,
    evaluate_every: Annotated[int | None, _field("evaluate_every")] = None,
    checkpoint_every: Annotated[int | None, _field("checkpoint_every")] = None,
    keep_last: Annotated[int | None, _field("keep_last")] = None,
    keep_best: Annotated[int | None, _field("keep_best")] = None,
    step_timeout: Annotated[float | None, _field("step_timeout")] = None,
    max_restarts: Annotated[int | None, _field("max_restarts")] = None,
    begin_from: Annotated[
        str | None,
        typer.Option(metavar="JOB[@STEP]", help="Go on from another job's checkpoint; default: the newest it keeps."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", "--follow", "-w", help="Watch the job until it ends.")] = False,
    as_json: AsJson = False,
) -> None:
    """Submit a job, from options, a YAML file, or both."""
    if task and task_option and task != task_option:
        terminal.give_up(f"the task is given twice: {task} and {task_option}", terminal.USAGE)
    given = {
        "task": task or task_option,
        "name": name,
        "steps": steps,
        "epochs": epochs,
        "global_batch": global_batch,
        "shards": shards,
        "micro_batch": micro_batch,
        "seed": seed,
        "min_workers": min_workers,
        "max_workers": max_workers,
        "evaluate_every": evaluate_every,
        "checkpoint_every": checkpoint_every,
        "keep_last": keep_last,
        "keep_best": keep_best,
        "step_timeout": step_timeout,
        "max_restarts": max_restarts,
    }
    fields = from_file(file) if file else {}
    fields |= {name: value for name, value in given.items() if value is not None}
    if option:
        kept = fields.get("options") or {}
        if not isinstance(kept, dict):
            terminal.give_up(f"{file}: options must be a mapping", terminal.USAGE)
        fields["options"] = kept | dict(map(named_value, option))
    if "task" not in fields:
        terminal.give_up("name a task, such as `regroup submit digits --steps 200`, or a file with -f", terminal.USAGE)
    with terminal.connected(context) as client:
        if begin_from is not None:
            fields["begin_from"] = source(client, begin_from)
        job = client.submit(**fields)
        if not wait:
            terminal.write_json(job) if as_json else terminal.write(job.id)
            return
        if not as_json:
            terminal.write(f"submitted {job.id}; Ctrl-C ends the watching, not the job")
        ended = watch(client, job.id, quiet=as_json)
    if as_json:
        terminal.write_json(ended)
    raise typer.Exit(exit_code(ended, JobPhase.COMPLETED))


def source(client: Client, given: str) -> dict[str, Any]:
    """`JOB` or `JOB@STEP` as a field of a job. Ends the command if it is neither."""
    name, at, step = given.partition("@")
    if not name or (at and not (step.isascii() and step.isdecimal())):
        terminal.give_up(f"--begin-from {given}: write JOB or JOB@STEP, such as j-k3v7p2mxda@200", terminal.USAGE)
    return {"job": terminal.job_id(client, name), **({"step": int(step)} if at else {})}


def from_file(file: Path) -> dict[str, Any]:
    """The fields in a YAML file; `-` is standard input. Ends the command if it holds no mapping."""
    try:
        fields = read_yaml(sys.stdin.read() if str(file) == "-" else file.read_text())
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        terminal.give_up(f"cannot read {file}: {why}", terminal.USAGE)
    except BadYaml as error:
        terminal.give_up(f"{file}: {error}", terminal.USAGE)
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        terminal.give_up(f"{file} must hold the fields of a job, as `name: value` lines", terminal.USAGE)
    return fields


def named_value(given: str) -> tuple[str, Any]:
    """`lr=1e-3` as its name and its YAML value. Ends the command if there is no name."""
    name, equals, text = given.partition("=")
    if not name or not equals:
        terminal.give_up(f"--option {given}: write NAME=VALUE", terminal.USAGE)
    try:
        return name, read_yaml(text)
    except BadYaml as error:
        terminal.give_up(f"--option {given}: {error}", terminal.USAGE)
