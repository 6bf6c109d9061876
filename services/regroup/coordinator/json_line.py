"""JSON as every answer carries it.

Owns: that an answer ends its line, so that a shell's prompt after `curl` begins on one of its own.
Refuses to know: what is answered.
"""

from typing import Any

from fastapi.responses import JSONResponse


class JsonLine(JSONResponse):
    def render(self, content: Any) -> bytes:
        return super().render(content) + b"\n"
