"""Every reason that a decision can have, found in the source of `core`, and which of them a simulation reached.

Owns: how text in the code becomes a sentence as somebody reads it. One that is said in several ways (a verb, a clause
that may be missing) counts once for each of them, whatever its other parts say then: not for each of their products.
Separators and patterns without a word of their own are no reasons; what `core` refuses is one.
Refuses to know: what is decided for which reason.
Does not guarantee: that texts are followed further than through names of the same function, conditions, sums, tables
and functions that give a text; whatever else stands in a sentence counts as a value.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

import regroup.core
from regroup.core import cluster as core_cluster
from regroup.core.cluster import Cluster, Refusal
from regroup.core.messages.orders import Kill
from regroup.core.orders import due
from regroup.lab.sim.model.world import changes

# Functions whose texts are no reasons: what is wrong with a request is told before anything is decided.
NO_DECISION = frozenset({"problems"})
WORD = re.compile(r"[^\W\d_]{3,}")

# Reached by none of the simulator's worlds, and why. A life that reaches one all the same is told as a contradiction.
EXPLAINED: Mapping[str, str] = {
    "stopped at once, before its first step": "a job that has no checkpoint is stopped in other words",
    "rests before its first step: all that hold it leave": (
        "whoever holds a state holds that of a generation, and it is saved, even if no step was done"
    ),
    "{} saves the state of step {}, to hold": "what is held is saved only where all that have it go",
    "waiting for its turn behind {} and {} more": "lives have up to three jobs, and so many are named",
    "the task failed {} on {}: without a word{}": (
        "every report of a failure has a traceback or a cause; this is for one that has neither"
    ),
    "without a word, {}": "likewise",
    "{} knows generation {}, above the coordinator's": (
        "a number is asked for only once it is durable; this is for a store that loses what it confirmed"
    ),
    "from step {}, the most advanced state left, on {}": (
        "it is written only where the last generation is lost, which then stands before it"
    ),
    "{} had a {} of {} bytes to tell, more than its link carries: it is lost": (
        "messages of lives have no size, and what is reported is cut where it is made"
    ),
}


def told(before: Cluster, after: Cluster) -> Iterator[str]:
    """What a decision gives as reasons beside its notes: of jobs, workers, orders, the dead and those that failed."""
    for _, old, job in changes(before.jobs, after.jobs):
        yield job.reason
        if old is None or job.failures is not old.failures:
            yield from (failure.error for failure in job.failures)
    for _, _, worker in changes(before.workers, after.workers):
        yield worker.reason
    for _, known, watch in changes(before.watches, after.watches):
        if known is None or watch.dead is not known.dead:
            yield from watch.dead.values()
        if watch.broken is not None and (known is None or watch.broken != known.broken):
            yield watch.broken
        if known is not None and watch.evicted is not known.evicted:
            orders = chain.from_iterable(due(after, member.worker) for member in watch.evicted)
            yield from (order.reason for order in orders if isinstance(order, Kill))


@dataclass(frozen=True, slots=True)
class Sentence:
    """One way in which a reason is said: its texts, with None for each value between them."""

    parts: tuple[str | None, ...]
    line: int
    choice: int  # ways of one choice have one number: a reason is said in the way that explains most of it

    @property
    def shown(self) -> str:
        return "".join("{}" if part is None else part for part in self.parts)

    @property
    def weight(self) -> int:
        return sum(map(len, filter(None, self.parts)))

    @property
    def pattern(self) -> re.Pattern[str]:
        """It stands alone, or is a clause of a longer one; it may begin with what parts it from the one before."""
        inner = "".join(".*?" if part is None else re.escape(part) for part in self.parts)
        inner = inner.removeprefix(re.escape("; "))
        return re.compile(rf"(?:^|[:;,] ){inner}(?:$|[:;] )", re.DOTALL)


@cache
def sentences() -> dict[str, Sentence]:
    """module:line and the sentence -> what it is made of."""
    folder = Path(regroup.core.__file__).parent
    trees = {path.stem: ast.parse(path.read_text()) for path in sorted(folder.glob("*.py"))}
    texts = Texts(trees.values())
    found: dict[str, tuple[str, Sentence]] = {}  # what reads alike is one reason, wherever it is given
    for module, tree in trees.items():
        for sentence in texts.sentences(tree):
            found.setdefault(sentence.shown, (f"core/{module}.py:{sentence.line}  {sentence.shown}", sentence))
    return dict(found.values())


def unreached(reasons: Iterable[str]) -> list[str]:
    """The names of the sentences that none of these reasons says."""
    known = sentences()
    patterns = {name: (sentence, sentence.pattern) for name, sentence in known.items()}
    rivals = defaultdict(list)
    for sentence, pattern in patterns.values():
        rivals[sentence.choice].append((sentence.weight, pattern))
    missing = dict(patterns)
    longest = {name: max(filter(None, sentence.parts), key=len) for name, sentence in known.items()}
    for reason in reasons:
        for name, (sentence, pattern) in list(missing.items()):
            if longest[name] not in reason or not pattern.search(reason):
                continue
            if not any(weight > sentence.weight and other.search(reason) for weight, other in rivals[sentence.choice]):
                del missing[name]
    return list(missing)


def explanation(name: str) -> str | None:
    """Why no life reaches a reason, which is named as `unreached` does."""
    return EXPLAINED.get(name.partition("  ")[2])


# --- texts in the code


@dataclass(slots=True)
class _Choice:
    """Where a sentence says one of several things. None among them: a value, which nobody can name here."""

    ways: list["list[str | _Choice | None]"]
    line: int


_Template = list[str | _Choice | None]


_Names = dict[str, list[ast.expr]]  # what names may stand for at one place of a function


class Texts:
    """The texts of all modules, where one is part of another by a name, a table or a function."""

    def __init__(self, trees: Iterable[ast.Module]) -> None:
        self._functions: dict[str, ast.FunctionDef] = {}  # those that give a text
        self._tables: dict[str, ast.Dict] = {}
        self._used: set[int] = set()  # nodes that are parts of a sentence, and none by themselves
        self._choices = 0
        trees = list(trees)
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef) and ast.unparse(node.returns or ast.Constant(None)) == "str":
                    self._functions[node.name] = node
            for statement in tree.body:
                if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Dict):
                    self._tables |= {one.id: statement.value for one in statement.targets if isinstance(one, ast.Name)}
        # Of all modules, before any text is said to be none: it may be a part of a sentence elsewhere.
        self._found = {id(tree): list(self._in_block(tree.body, {})) for tree in trees}

    def sentences(self, tree: ast.Module) -> Iterator[Sentence]:
        for node, template in self._found[id(tree)]:
            if id(node) not in self._used:
                yield from (one for one in self._spread(template, node.lineno) if " " in one.shown and _has_word(one))

    def _in_block(self, body: Iterable[ast.stmt], names: _Names) -> Iterator[tuple[ast.expr, _Template]]:
        """The texts of these statements, one after the other; `names` becomes what holds after them."""
        for statement in body:
            match statement:
                case ast.FunctionDef(name=name) if name in NO_DECISION:
                    continue
                case ast.FunctionDef(args=given):
                    yield from self._in_node(given, names)
                    yield from self._in_block(statement.body, {})
                case ast.ClassDef():
                    yield from self._in_block([one for one in statement.body if isinstance(one, ast.FunctionDef)], {})
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value)
                ):
                    yield from self._in_node(value, names)
                    if isinstance(statement, ast.AugAssign):  # what was given, where nothing is known of it
                        before = names.get(name, [ast.Name(name)])
                        names[name] = [ast.BinOp(one, ast.Add(), value, lineno=value.lineno) for one in before]
                    else:
                        names[name] = [value]
                case _:
                    yield from self._in_node(statement, names)
                    yield from self._in_branches(statement, names)

    def _in_branches(self, statement: ast.stmt, names: _Names) -> Iterator[tuple[ast.expr, _Template]]:
        """Whichever branch was taken, and goes on below: a name stands for what it stands for in any of them."""
        ends = []
        for body in _branches(statement):
            mine = names.copy()
            yield from self._in_block(body, mine)
            if not isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break):
                ends.append(mine)
        if isinstance(statement, ast.If) and statement.orelse and ends:
            names.clear()
        elif isinstance(statement, ast.If):  # not taken: what was given stays as it was
            names.update({name: [ast.Name(name)] for mine in ends for name in mine if name not in names})
        for mine in ends:
            for name, values in mine.items():
                names[name] = list(dict.fromkeys((*names.get(name, ()), *values)))

    def _in_node(self, node: ast.AST, names: _Names) -> Iterator[tuple[ast.expr, _Template]]:
        """The texts of a statement, without those within it, or of an expression."""
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.Compare() | ast.arg():
                return
            case ast.Raise() if not _refuses(node):
                return
            case ast.AnnAssign(value=value):  # not its annotation
                yield from self._in_node(value, names) if value is not None else ()
                return
            case ast.Call(func=ast.Attribute(attr="join"), args=given):  # not what stands between them
                for one in given:
                    yield from self._in_node(one, names)
                return
            case ast.JoinedStr() | ast.Constant() | ast.BinOp(op=ast.Add()):
                template = self._template(node, names)
                if template is not None:
                    yield node, template
                    return
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.stmt | ast.match_case | ast.ExceptHandler):
                yield from self._in_node(child, names)

    # --- what an expression says

    def _template(self, node: ast.expr, names: _Names) -> _Template | None:
        """The text of an expression, or None if it is none."""
        match node:
            case ast.Constant(value=str(text)):  # also of a format that is filled in later
                first, *others = text.split("{}")
                return [first, *chain.from_iterable((None, other) for other in others)]
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                if self._template(left, names) is None and self._template(right, names) is None:
                    return None
                return [*self._said(left, names), *self._said(right, names)]
            case ast.JoinedStr(values=values):
                found: _Template = []
                for value in values:
                    match value:
                        case ast.Constant(value=str(text)):
                            found.append(text)
                        case ast.FormattedValue(value=inner):
                            found += self._said(inner, names)
                return found
        return None

    def _said(self, node: ast.expr, names: _Names) -> _Template:
        """What stands in a sentence where this expression is."""
        ways = list(self._ways(node, names))
        if not any(part for way in ways for part in way):
            return [None]
        return ways[0] if len(ways) == 1 else [_Choice(ways, node.lineno)]

    def _ways(self, node: ast.expr, names: _Names) -> Iterator[_Template]:
        template = self._template(node, names)
        if template is not None:
            self._used.add(id(node))
            yield template
            return
        match node:
            case ast.IfExp(body=one, orelse=other):
                yield from chain(self._ways(one, names), self._ways(other, names))
            case ast.BoolOp(values=values):
                for value in values:
                    yield from self._ways(value, names)
            case ast.Name(id=name) if name in names:
                before = {one: values for one, values in names.items() if one != name}  # it may be made of itself
                for value in names[name]:
                    yield from self._ways(value, before)
            case ast.Subscript(value=ast.Name(id=name)) if name in self._tables:
                for value in self._tables[name].values:
                    yield from self._ways(value, names)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=[_, *default]) if (
                name in self._tables
            ):
                for value in (*self._tables[name].values, *default):
                    yield from self._ways(value, names)
            case ast.Call(func=ast.Name(id=name)) if name in self._functions:
                given = [each for each in ast.walk(self._functions[name]) if isinstance(each, ast.Return)]
                for each in sorted(given, key=lambda each: each.lineno):
                    yield from self._ways(each.value, {}) if each.value is not None else ()
            case ast.Call(func=ast.Attribute(attr="join")):
                yield [None]
            case ast.Call(func=ast.Attribute(value=value)) | ast.Subscript(value=value):
                yield from self._ways(value, names)
            case _:
                yield [None]

    # --- the ways in which a sentence is said

    def _spread(self, template: _Template, line: int) -> Iterator[Sentence]:
        """Each way of each choice once, within what is a value otherwise. A way says something, or it is left out."""
        plain = [None if isinstance(part, _Choice) else part for part in template]
        said = False
        for place, choice in enumerate(template):
            if not isinstance(choice, _Choice):
                continue
            self._choices += 1
            mine = self._choices
            for way in choice.ways:
                for one in self._spread(way, choice.line):
                    if one.parts in ((), (None,)) or _has_word(one):
                        said = True
                        yield Sentence(_tidy([*plain[:place], *one.parts, *plain[place + 1 :]]), line, mine)
        if not said:
            self._choices += 1
            yield Sentence(_tidy(plain), line, self._choices)


def _branches(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for child in (statement, *ast.iter_child_nodes(statement)):
        if child is statement or isinstance(child, ast.match_case | ast.ExceptHandler):
            for name in ("body", "orelse", "finalbody"):
                if body := getattr(child, name, None):
                    yield body


def _refuses(node: ast.Raise) -> bool:
    """Whether it is a command that is refused; whatever else raises is a bug."""
    name = node.exc.func.id if isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name) else ""
    kind = getattr(core_cluster, name, None)
    return isinstance(kind, type) and issubclass(kind, Refusal)


def _tidy(parts: Iterable[str | None]) -> tuple[str | None, ...]:
    """Values that touch are one, and so are texts; an empty text is nothing."""
    tidy: list[str | None] = []
    for part in parts:
        if part == "" or (part is None and tidy and tidy[-1] is None):
            continue
        if part is not None and tidy and tidy[-1] is not None:
            tidy[-1] += part
        else:
            tidy.append(part)
    return tuple(tidy)


def _has_word(sentence: Sentence) -> bool:
    return any(WORD.search(part) for part in sentence.parts if part is not None)
