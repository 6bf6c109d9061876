"""Holding a trainer in a phase: this end of the folder that the task `held` looks into.

Owns: the files' names and that whoever reads one sees all of it. Refuses to know: what is done to whom is held.
"""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HeldTrainer:
    worker: str
    pid: int
    step: int  # committed, of the state that it held


class Hold:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder

    def start(self) -> None:
        self._write("start", "")

    def finish(self) -> None:
        self._write("finish", "")

    def arm(self, places: dict[str, str], step: int = 0) -> None:
        """Who ("*": whoever comes first) is to be held where, once its state has so many steps."""
        self._write("arm", json.dumps({**places, "step": step}))

    def watched(self) -> bool:
        """Whether who is to be held in an exchange will notice that it waits in one."""
        return (self.folder / "watching").exists()

    def held(self, worker: str) -> HeldTrainer | None:
        """The worker's trainer, once it is held; of "*" whoever is."""
        for path in self.folder.glob(f"held-{worker}"):
            return HeldTrainer(**json.loads(path.read_text()))
        return None

    def say(self, word: str) -> None:
        self._write("word", word)

    def release(self) -> None:
        """Leave nobody waiting, whatever happened."""
        for let in (self.start, self.finish):
            let()
        if not (self.folder / "word").exists():
            self.say("go")

    def _write(self, name: str, text: str) -> None:
        half = self.folder / f".{name}"
        half.write_text(text)
        half.replace(self.folder / name)
