"""Waiting for something that another process does: bounded, and telling what did not happen."""

import time

PATIENCE = 30.0
INTERVAL = 0.01


def until(check, what, timeout=PATIENCE):
    """Calls check() until it gives something true, and returns that."""
    end = time.monotonic() + timeout
    while True:
        result = check()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout:g} s: {what() if callable(what) else what}")
        time.sleep(INTERVAL)
