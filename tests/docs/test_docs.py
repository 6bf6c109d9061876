"""The documents against the code: what they name exists, and what exists is named."""

import re
import runpy
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from fastapi.routing import APIRoute
from typer.main import get_command

from regroup.client import cli
from regroup.coordinator import event_routes, exposition, job_routes, worker_routes
from regroup.coordinator.api import open_routes
from regroup.coordinator.metrics import WorkerState, of_cluster, of_coordinator
from regroup.coordinator.problems import KINDS
from regroup.coordinator.settings import Settings
from regroup.core.cluster import Cluster, Policy
from regroup.core.jobs import JobPhase
from regroup.core.phases import JOB_ARROWS, TRAINER_ARROWS
from regroup.core.spec import JobSpec
from regroup.lab.chaos.cells import FAULTS
from regroup.lab.sim.diagram import diagram
from regroup.lab.sim.lives.ledger import UNDER_TEST
from regroup.tasks import Task
from regroup.tasks.digits import DigitsOptions
from regroup.tasks.gpt import GptOptions
from regroup.worker.settings import AgentSettings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def text(name: str) -> str:
    return (DOCS / name).read_text()


def rows(page: str) -> list[str]:
    """The lines of a page's tables."""
    return [line for line in page.splitlines() if line.startswith("| ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(page):
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()) if "://" not in link]
    for link in links:
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^a-z0-9 -]", "", each.lower()).replace(" ", "-") for each in headings}, link


def test_every_page_is_in_the_index():
    index = text("README.md")
    assert all(f"({page.name})" in index for page in DOCS.glob("*.md") if page.name != "README.md")
    decisions = text("decisions/README.md")
    assert all(f"({page.name})" in decisions for page in (DOCS / "decisions").glob("[0-9]*.md"))


def test_every_route_is_documented_and_no_other():
    routers = (open_routes, exposition.router, job_routes.router, event_routes.router, worker_routes.router)
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    served = {f"{method} {route.path}" for route in routes if route.include_in_schema for method in route.methods}
    assert set(re.findall(r"^\| `((?:GET|POST|PUT|DELETE|PATCH) [^`]+)`", text("rest.md"), re.MULTILINE)) == served


def test_every_kind_of_problem_is_documented_with_its_status():
    told = dict(re.findall(r"^\| `/problems/([a-z-]+)` \| (\d+) \|", text("rest.md"), re.MULTILINE))
    assert told == {kind.slug: str(kind.status) for kind in KINDS.values()}


def test_every_field_of_a_job_and_every_phase_is_documented():
    page = text("rest.md")
    named = {name for row in rows(page) for name in re.findall(r"`([a-z_]+)`", row.split("|")[1])}
    assert {field.name for field in fields(JobSpec)} <= named
    assert all(phase.value in page for phase in JobPhase)


def test_every_command_and_each_of_its_options_is_documented():
    page = text("cli.md")
    commands = get_command(cli.app)
    context = commands.make_context("regroup", ["jobs"], resilient_parsing=True)
    missing = [option for each in commands.params for option in each.opts if f"`{option}`" not in page]
    left = [(name, commands.get_command(context, name)) for name in commands.list_commands(context)]
    while left:
        name, command = left.pop()
        if hasattr(command, "commands"):
            left += [(f"{name} {inner}", each) for inner, each in command.commands.items()]
            continue
        if not any(f"`regroup {name}" in row for row in rows(page)):
            missing.append(name)
        for each in command.params:
            options = [option for option in each.opts if option.startswith("-") and option not in ("--help", "-h")]
            missing += [f"{name} {option}" for option in options if f"`{option}`" not in page]
    assert missing == []


def test_the_exit_codes_are_the_ones_of_the_help():
    told = set(re.findall(r"^\| (\d+) \|", text("cli.md"), re.MULTILINE))
    assert told == set(re.findall(r"^  (\d+) ", cli._EXIT_CODES, re.MULTILINE))


def test_every_variable_is_documented_with_its_default():
    page = text("cli.md")
    told = {name: row.split("|")[2] for row in rows(page) for name in re.findall(r"`(REGROUP_[A-Z_]+)`", row)}
    settings = {**Settings.model_fields, **AgentSettings.model_fields}
    assert {f"REGROUP_{name.upper()}" for name in settings} <= told.keys()
    for name, field in settings.items():
        if isinstance(field.default, int | float) and field.default is not None:
            assert f"{field.default:g}" in told[f"REGROUP_{name.upper()}"]


def test_every_metric_is_documented_and_no_other():
    suffixes = {"counter": "_total", "info": "_info"}
    families = [*of_coordinator("0", leading=True, reachable=True), *of_cluster(Cluster(started=0.0), Policy(), 0.0)]
    page = text("metrics.md")
    told = {name for row in rows(page) for name in re.findall(r"`(regroup_[a-z_]+)`", row.split("|")[1])}
    assert told == {family.name + suffixes.get(family.type, "") for family in families}
    assert all(state.value in page for state in WorkerState)


def test_every_method_of_a_task_and_every_built_in_option_is_documented():
    page = text("tasks.md")
    methods = [name for name, value in vars(Task).items() if callable(value) and not name.startswith("_")]
    assert [name for name in methods if f"`{name}(" not in page] == []
    options = {field.name for kind in (DigitsOptions, GptOptions) for field in fields(kind)}
    assert [name for name in options if f"`{name}`" not in page] == []


def test_the_task_in_the_documentation_learns(tmp_path):
    source = re.search(r"```python\n(.+?)```", text("tasks.md"), re.DOTALL)
    assert source is not None
    (tmp_path / "lines.py").write_text(source.group(1))
    task = runpy.run_path(str(tmp_path / "lines.py"))["Line"](learning_rate=0.5)
    dataset, model = task.dataset(), task.model()
    optimizer = task.optimizer(model)
    batch = task.collate([dataset[index] for index in range(len(dataset))])
    for _ in range(200):
        optimizer.zero_grad()
        summed, weight = task.loss(model, batch)
        (summed / weight).backward()
        optimizer.step()
    told = task.report(model)
    torch.testing.assert_close([told["slope"], told["offset"]], [3.0, -1.0], atol=0.05, rtol=0)


def test_the_readme_names_every_folder_of_the_source():
    folders = {path.name for path in (ROOT / "services/regroup").iterdir() if path.is_dir()} - {"__pycache__"}
    tree = re.search(r"```\nservices/regroup/\n(.+?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert tree is not None
    assert set(re.findall(r"^  ([a-z]+)/", tree.group(1), re.MULTILINE)) == folders


def test_make_help_lists_the_targets_that_the_documents_use():
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    used = {
        target
        for page in PAGES
        for target in re.findall(r"(?:^|`)make ([a-z0-9]+)", code(page.read_text()), re.MULTILINE)
    }
    assert used
    assert [target for target in used if f"make {target} " not in listed] == []


def code(page: str) -> str:
    """What a page shows as code."""
    return "\n".join(re.findall(r"```.+?```|`[^`\n]+`", page, re.DOTALL))


@pytest.mark.parametrize("arrows", [JOB_ARROWS, TRAINER_ARROWS], ids=["job", "trainer"])
def test_the_diagrams_of_the_protocol_are_those_of_the_phase_tables(arrows):
    assert f"```mermaid\n{diagram(arrows)}\n```" in text("protocol.md")


def test_every_module_that_the_protocol_names_exists_and_each_with_rules_is_named():
    page, source = text("protocol.md"), ROOT / "services/regroup"
    named = set(re.findall(r"`((?:core|coordinator|worker|lives|search|lab)/[a-z_/]+\.py)`", page))
    assert named
    assert [name for name in named if not any((place / name).exists() for place in (source, source / "lab/sim"))] == []
    rules = {path.stem for path in (source / "lab/sim/model").glob("*_rules.py")}
    assert set(re.findall(r"^\| `([a-z]+_rules)` \|", page, re.MULTILINE)) == rules
    over_lives = page.partition("Rules that need to know a whole life")[2].partition("What they say")[0]
    assert set(re.findall(r"`([a-z]+)`\s\(", over_lives)) == {
        path.stem for path in with_rules(source / "lab/sim/lives")
    }


def with_rules(folder: Path) -> list[Path]:
    """The modules in which an assertion says in words what is wrong."""
    return [
        path for path in folder.glob("*.py") if re.search(r'^ +assert .+, (f?"|\($)', path.read_text(), re.MULTILINE)
    ]


def test_every_module_of_what_is_under_test_is_somewhere_in_the_protocol():
    page, source = text("protocol.md"), ROOT / "services/regroup"
    under_test = {str(path.relative_to(source)) for pattern in UNDER_TEST for path in source.glob(pattern)}
    there = {name for name in under_test if "messages/" not in name and not name.endswith("__init__.py")}
    assert [name for name in sorted(there) if f"`{name}`" not in page] == []


def test_every_fault_of_chaos_is_a_failure_mode_and_each_of_them_is_a_fault():
    told = re.findall(r"\| `([a-z][a-z-]+)` \|$", text("failure-modes.md"), re.MULTILINE)
    assert sorted(told) == sorted(fault.name for fault in FAULTS)


def test_every_test_that_the_failure_modes_name_exists():
    named = set(re.findall(r"(?:tests/)?((?:[\w.-]+/)*test_\w+\.py)", text("failure-modes.md")))
    assert {"e2e", "integration", "worker"} <= {name.partition("/")[0] for name in named}
    assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []


def test_each_row_of_the_failure_modes_says_how_fast_what_it_costs_and_what_proves_it():
    rows = [line for line in text("failure-modes.md").splitlines() if line.startswith("| ")]
    told = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    heads = [row for row in told if row[0] == "failure"]
    assert len(heads) == 3
    assert all(row.count("what it costs") == 1 for row in heads)
    assert [row[0] for row in told if len(row) not in (5, 6) or not all(row)] == []
    proved = [row[-1] for row in told if row not in heads]
    assert [last for last in proved if not re.search(r"test_\w+\.py`|^`[a-z-]+`$", last)] == []
