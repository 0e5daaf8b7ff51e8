import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "robustness"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
