"""Golden files: what was agreed on once. WEFT_GOLDEN_REWRITE=1 writes them anew; look at the diff before it is committed."""

import json
import os

from .weft import SOURCE

FOLDER = SOURCE / "tests/golden"


def check(kind, name, value):
    path = FOLDER / kind / f"{name}.json"
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("WEFT_GOLDEN_REWRITE"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"no golden file {path}; WEFT_GOLDEN_REWRITE=1 writes it"
    assert text == path.read_text(encoding="utf-8"), f"differs from {path}"


def names(kind):
    return {path.stem for path in (FOLDER / kind).glob("*.json")}
