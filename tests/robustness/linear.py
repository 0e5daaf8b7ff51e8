"""Is a history of concurrent calls linearizable? A checker after Wing and Gong, with Lowe's memory of what was tried.

A history is a list of calls. Each has an interval in which it took effect at one instant, if its answer is known; a call whose answer was
lost may take effect at any time after it began, or never. The history is linearizable if there is an order of such instants in which
every answer is what a single, sequential weftd would have said (`step` below). Clusters of different names have nothing to do with each
other here, so each name is checked by itself.

The checker shares no code with weftd and knows of it only what docs/api.md promises."""

import math
from dataclasses import dataclass, field, replace
from typing import Optional

LOST = math.inf  # the end of a call whose answer never came


@dataclass(frozen=True)
class Cluster:
    """What a sequential weftd would know of one name. An id or ETag of None is not known yet: the call that made it was not answered."""

    id: Optional[str]
    count: int
    etag: Optional[str]
    deleting: bool = False


@dataclass(frozen=True)
class Call:
    """verb: create, read, scale or delete. status: None where the answer was lost."""

    name: str
    verb: str
    begin: float
    end: float
    status: Optional[int] = None
    count: Optional[int] = None  # asked for
    match: Optional[Cluster] = None  # If-Match: the cluster whose ETag was sent
    seen: Optional[Cluster] = None  # in the answer
    client: int = field(default=0, compare=False)

    def __str__(self):
        asked = "" if self.count is None else f" {self.count}"
        on = f" if {self.match.etag}" if self.match else ""
        end = "…" if self.end == LOST else f"{self.end:.6f}"
        return f"[{self.begin:.6f} {end}] {self.client}: {self.verb} {self.name}{asked}{on} -> {self.status} {self.seen or ''}"


def same(known, seen):
    """Whether the answer shows this cluster; what was not known of it may be anything."""
    return (known.id in (None, seen.id) and known.etag in (None, seen.etag) and known.count == seen.count
            and known.deleting == seen.deleting)


def matches(state, tag):
    if state.etag is None:
        return state.id in (None, tag.id) and (state.count, state.deleting) == (tag.count, tag.deleting)
    return state.etag == tag.etag


def changed(state, call, after):
    """The cluster after a change: as answered, if that is what it should be."""
    if call.status is None:
        return after
    seen = call.seen
    fits = state.id in (None, seen.id) if state else True
    return seen if fits and (after.count, after.deleting) == (seen.count, seen.deleting) else False


def step_create(state, call):
    if call.status in (None, 201) and state is None:
        return changed(None, call, Cluster(None, call.count, None))
    if call.status in (None, 409) and state is not None:
        return state
    return False


def step_read(state, call):
    if call.status is None:
        return state
    if call.status == 404:
        return None if state is None else False
    return call.seen if state is not None and same(state, call.seen) else False


def step_scale(state, call):
    if state is None:
        return None if call.status in (None, 404) else False
    if call.match and not matches(state, call.match):
        return state if call.status in (None, 412) else False
    if state.deleting:
        return state if call.status in (None, 409) else False
    if call.status not in (None, 200):
        # An unknown ETag may be another than the one that was sent.
        return state if call.status == 412 and call.match and state.etag is None else False
    same_count = state.count == call.count
    return changed(state, call, replace(state, count=call.count, etag=state.etag if same_count else None))


def step_delete(state, call):
    if state is None:
        return None if call.status in (None, 404) else False
    if call.match and not matches(state, call.match):
        return state if call.status in (None, 412) else False
    if call.status not in (None, 202):
        return state if call.status == 412 and call.match and state.etag is None else False
    return changed(state, call, replace(state, deleting=True, etag=state.etag if state.deleting else None))


STEPS = {"create": step_create, "read": step_read, "scale": step_scale, "delete": step_delete}


def step(state, call):
    """All states in which a sequential weftd may be after it answered so; none: it would not have. A cluster that is being deleted is
    gone at some time of weftd's choosing."""
    before = (state, None) if state is not None and state.deleting else (state,)
    after = [STEPS[call.verb](each, call) for each in before]
    return {each for each in after if each is not False}


def find_order(calls):
    """An order of the calls of one name in which each answer is right, without those lost ones that never took effect; None: there is
    none."""
    calls = sorted(calls, key=lambda call: (call.begin, call.end))
    answered = sum(1 << i for i, call in enumerate(calls) if call.end != LOST)
    tried = set()
    stack = [(0, None, ())]
    while stack:
        done, state, order = stack.pop()
        if done & answered == answered:
            return unwind(order)
        # The next to take effect began before every other one that has not yet taken effect had ended.
        horizon = min(call.end for i, call in enumerate(calls) if not done >> i & 1)
        for i, call in enumerate(calls):
            if call.begin > horizon:
                break
            if done >> i & 1:
                continue
            for after in step(state, call):
                key = (done | 1 << i, after)
                if key not in tried:
                    tried.add(key)
                    stack.append((*key, (call, order)))
    return None


def unwind(order):
    calls = []
    while order:
        call, order = order
        calls.append(call)
    return calls[::-1]


def check(history):
    """Names whose calls have no such order, with their calls; empty: the history is linearizable."""
    names = {}
    for call in history:
        names.setdefault(call.name, []).append(call)
    return {name: calls for name, calls in names.items() if find_order(calls) is None}
