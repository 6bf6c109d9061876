"""A bug, and how it is put in: a text of the code and another one that takes its place in this process.

Owns: the import of one module from the changed text. A bug whose text is not in the code exactly once is no bug any
more, and is refused.
Refuses to know: which bugs there are (`bugs`), and how one is found.
Does not guarantee: anything about a module that was imported before.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    module: str
    old: str
    new: str
    among: str | None = None  # the name of a kind of fault without which it cannot show, or of a sequence of faults
    rule: int | None = None  # of the protocol, whose part this leaves out

    def __str__(self) -> str:
        return self.name if self.rule is None else f"{self.name} (rule {self.rule})"


def plant(bug: Bug) -> None:
    """From now on, this process imports the module with the bug in it. It must not have been imported before."""
    assert bug.module not in sys.modules, f"{bug.module} is imported already"
    sys.meta_path.insert(0, _Planter(bug))


class _Planter(MetaPathFinder):
    def __init__(self, bug: Bug) -> None:
        self._bug = bug

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._bug.module:
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Changed(fullname, spec.origin, self._bug)
        return spec


class _Changed(SourceFileLoader):
    def __init__(self, name: str, path: str, bug: Bug) -> None:
        super().__init__(name, path)
        self._bug = bug

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path).decode()
        assert source.count(self._bug.old) == 1, f"{self._bug.name}: its text is not in {fullname} once"
        return compile(source.replace(self._bug.old, self._bug.new), self.path, "exec", dont_inherit=True)
