"""The world and its driver are modules beside the tests; nothing else of `tests` can be imported."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
