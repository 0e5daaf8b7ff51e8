"""What the failpoint suite has done so far, for its last test and for the summary."""

from collections import Counter


class Tally:
    def __init__(self):
        self.reached = set()
        self.kills = Counter()  # (operation, failpoint): times

    def __str__(self):
        points = len({name for _, name in self.kills})
        operations = len({operation for operation, _ in self.kills})
        return f"killed {points} failpoints × {operations} operations = {sum(self.kills.values())} kills"


TALLY = Tally()
