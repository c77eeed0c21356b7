"""Makes the fake templates importable here and in child processes."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
