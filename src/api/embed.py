"""Writes a text file as a C string: embed.py NAME INPUT OUTPUT."""

import sys
from pathlib import Path

name, source, target = sys.argv[1:]
data = Path(source).read_bytes() + b"\0"
rows = [", ".join(map(str, data[i : i + 24])) for i in range(0, len(data), 24)]
Path(target).write_text(f'#include "openapi.h"\n\nconst char {name}[] = {{\n' + ",\n".join(rows) + "\n};\n", encoding="ascii")
