"""Lets the tests of this folder import the small models in training_doubles.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
