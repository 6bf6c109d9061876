"""The words by which rules know a reason, and the kinds by which they know a note: core says them.

Were one of them said in another way, its rule would hold whatever happens.
"""

import ast
import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import regroup.core
from regroup.core.jobs import JobPhase
from regroup.lab.sim.lives import calm, errors
from regroup.lab.sim.lives.ledger import ROOT
from regroup.lab.sim.lives.plan import Kind
from regroup.lab.sim.lives.reasons import sentences
from regroup.lab.sim.model import asking_rules

# What workers say of themselves, and core only hands on.
WORKERS = re.compile(
    r"killed by SIG|a neighbour is gone|replicas differed$|the group broke$|it will not do$|E: no$|gone$"
    r"|is not the sound one$"
)

NAMED = {"why", "reason", "error"}  # whatever a rule calls the words that it looks at


def texts_of(value):
    """All texts of a value of a module: words, or a table of them."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, dict):
        value = value.values()
    return set().union(*map(texts_of, value)) if isinstance(value, Iterable) else set()


class Module:
    """A module of the simulator, and what its expressions may stand for."""

    def __init__(self, path):
        self.tree = ast.parse(path.read_text())
        name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        self.names = vars(import_module(name))
        # A variable of a comprehension stands for what it goes through.
        loops = (each for node in ast.walk(self.tree) for each in getattr(node, "generators", ()))
        self.loops = [(each.target.id, each.iter) for each in loops if isinstance(each.target, ast.Name)]

    def texts(self, node):
        """Every text that stands in it, by itself or by a name."""
        match node:
            case ast.Constant(value=str(text)):
                return {text}
            case ast.Name(id=name) if name in self.names:
                return texts_of(self.names[name])
            case ast.Name(id=name):
                return set().union(*(self.texts(each) for one, each in self.loops if one == name))
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                return texts_of(getattr(self.names.get(name), attribute, ()))
        return set().union(*map(self.texts, ast.iter_child_nodes(node)))

    def words_looked_for(self):
        """In `"..." in reason`, `reason.startswith("...")`, and `any(words in why for words in WORDS)`."""
        found = set()
        for node in ast.walk(self.tree):
            match node:
                case ast.Compare(left=words, ops=[ast.In() | ast.NotIn()], comparators=[ast.Name(id=name)]):
                    pass
                case ast.Compare(left=words, ops=[ast.In() | ast.NotIn()], comparators=[ast.Attribute(attr=name)]):
                    pass
                case ast.Call(
                    func=ast.Attribute(
                        value=ast.Name(id=name) | ast.Attribute(attr=name), attr="startswith" | "endswith"
                    ),
                    args=[words],
                ):
                    pass
                case _:
                    continue
            found |= self.texts(words) if name in NAMED else set()
        return found

    def kinds_looked_for(self):
        """In `note.kind == "..."`, `Note(kind="...")`, and where the kinds of notes were gathered before."""
        found = set()
        for function in [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)]:
            assigned = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
            said = {node.targets[0].id for node in assigned if gathers_kinds(node)}
            for node in ast.walk(function):
                match node:
                    case ast.Compare(left=ast.Attribute(attr="kind"), comparators=[kinds]):
                        found |= self.texts(kinds)
                    case ast.MatchClass(cls=ast.Name(id="Note"), kwd_attrs=["kind", *_], kwd_patterns=[kinds, *_]):
                        found |= self.texts(kinds)
                    case ast.Call(func=ast.Name(id="Note"), args=[kinds, *_]):
                        found |= self.texts(kinds)
                    case ast.Compare(left=kinds, comparators=[ast.Name(id=name)]) if name in said:
                        found |= self.texts(kinds.elts[0] if isinstance(kinds, ast.Tuple) else kinds)
                    case ast.BinOp(left=ast.Name(id=name), op=ast.BitAnd(), right=ast.Subscript(value=kinds)) if (
                        name in said
                    ):
                        found |= self.texts(kinds)
        return {one for one in found if not isinstance(one, Kind)}  # of faults


def gathers_kinds(node):
    """Whether it is `said = {note.kind for note in ...}`, or such a list, also of pairs."""
    element = getattr(node.value, "elt", None)
    first = element.elts[0] if isinstance(element, ast.Tuple) else element
    return isinstance(first, ast.Attribute) and first.attr == "kind" and isinstance(node.targets[0], ast.Name)


def modules():
    return [Module(path) for part in ("lives", "model") for path in sorted((ROOT / "lab" / "sim" / part).glob("*.py"))]


def kinds_noted():
    """By core: what is given to `note`, or was called `kind` before; and each phase of a job, once it is there."""
    found = set(JobPhase)
    for path in Path(regroup.core.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(attr="note"), args=[kind, *_]):
                    found |= constants(kind)
                case ast.Assign(targets=[ast.Name(id="kind")], value=kind):
                    found |= constants(kind)
                case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id="kind"), *_])], value=ast.Tuple(elts=[kind, *_])):
                    found |= constants(kind)
    return found


def constants(node):
    return {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def test_the_words_by_which_rules_know_a_reason_are_said_by_core():
    words = set().union(*(module.words_looked_for() for module in modules()))
    said = [one.shown for one in sentences().values()]
    assert len(words) > 30
    assert words >= {*calm.UNANSWERED, *errors.SUSPECTED}, "words that are looked for one after the other"
    assert {one for one in words if not (WORKERS.search(one) or any(one in shown for shown in said))} == set()


def test_the_kinds_by_which_rules_know_a_note_are_noted_by_core():
    kinds = set().union(*(module.kinds_looked_for() for module in modules()))
    assert len(kinds) > 15
    assert kinds >= {"evicted", "replicas_differed", "resumed", "readmitted"}
    assert kinds >= set().union(*asking_rules.SAID.values())
    assert kinds - kinds_noted() == set()
