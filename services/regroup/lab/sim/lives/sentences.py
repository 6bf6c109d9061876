"""Sentences in source code: how a text becomes what somebody reads.

Owns: which texts of a module are sentences. One that is said in several ways (a verb, a clause that may be missing)
counts once for each of them, whatever its other parts say then: not for each of their products. Separators and
patterns without a word of their own are none; a command that is refused is one.
Refuses to know: who says them, and whether anybody does.
Does not guarantee: that texts are followed further than through names of the same function, conditions, sums, tables
and functions that give a text; whatever else stands in a sentence counts as a value.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from regroup.core import cluster as core_cluster
from regroup.core.cluster import Refusal

# Functions whose texts are no reasons: what is wrong with a request is told before anything is decided.
NO_DECISION = frozenset({"problems"})
WORD = re.compile(r"[^\W\d_]{3,}")


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
