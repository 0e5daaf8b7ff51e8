"""Processes that a test looks at from outside: each may end at any moment, also between two steps of looking."""

from pathlib import Path


def text_of(path):
    """Of a file in /proc; nothing where its process has ended, which open() and read() tell by different errors."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def is_running(pid):
    """A zombie, which nobody but the machine's init is to reap, is not."""
    return text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] not in ([], ["Z"])
