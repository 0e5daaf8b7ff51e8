"""Whose a host is: compared and set by the hook, by one at a time, whoever is killed on the way."""

import contextlib
import fcntl
import threading

import pytest
from host import NETWORK, domain, network

SITE, OTHER, HERE, THERE, RUN, LATER = (f"0{letter * 11}" for letter in "abcdef")


def ask(host, claim, take=False, name="weft-owner-1", former=()):
    """What the hook answers: the verdict, and whose the host was."""
    known, taking = " ".join(former), " take='yes'" if take else ""
    mark = f"<weft:owner xmlns:weft='{NETWORK}' claim='{claim}' former='{known}'{taking}/>"
    answer = host.hook("network", name, "start", f"<hookData><network><name>{name}</name><metadata>{mark}</metadata></network></hookData>")
    assert answer.returncode != 0, "no network comes up"
    found = [line for line in answer.stderr.splitlines() if line.startswith("weft-hook: owner ")]
    return tuple(found[0].removeprefix("weft-hook: owner ").split(" ", 1)) if found else answer.stderr


def claim(site=SITE, instance=HERE, epoch=1, run=RUN):
    return f"{site} {instance} {epoch} {run}"


def record(host):
    return (host.root / "var/lib/weft/owner").read_text(encoding="utf-8").strip()


def test_the_first_has_it_and_a_restart_takes_over(make):
    host = make()
    assert ask(host, claim()) == ("granted", "-")
    assert ask(host, claim()) == ("granted", claim())
    assert ask(host, claim(epoch=2, run=LATER), former=[OTHER, RUN]) == ("granted", claim())
    assert record(host) == claim(epoch=2, run=LATER)
    assert ask(host, claim(instance=THERE, epoch=9, run=RUN), former=[LATER])[0] == "granted", "a store that was moved knows its runs"


def test_others_are_told_whose_it_is_and_change_nothing(make):
    host = make()
    ask(host, claim(epoch=5))
    for wrong, verdict in ((claim(epoch=4, run=LATER), "stale"), (claim(epoch=9, run=LATER), "stale"),
                           (claim(instance=THERE, epoch=9, run=LATER), "foreign"), (claim(site=OTHER, epoch=9), "foreign")):
        assert ask(host, wrong, former=[OTHER]) == (verdict, claim(epoch=5)), wrong
        assert record(host) == claim(epoch=5)
    assert ask(host, claim(site=OTHER, epoch=1), take=True) == ("granted", claim(epoch=5))
    assert ask(host, claim(epoch=6)) == ("foreign", claim(site=OTHER))


def test_what_is_damaged_is_nobodys_word(make):
    host = make()
    ask(host, claim())
    (host.root / "var/lib/weft/owner").write_text("garbage\n", encoding="utf-8")
    assert "is damaged" in ask(host, claim(epoch=2))
    assert ask(host, claim(epoch=2), take=True) == ("granted", "-")
    assert "no owner with a claim" in ask(host, "x y z")


def made_by(run):
    """What names the run that has it made: a node, and a network, as the hook's arguments."""
    owner = f"<weft:owner run='{run}'/>"
    return {"node": ("qemu", "weft-4k2m-1", "prepare", domain("4k2m-1", extra=owner)),
            "network": ("network", "weft-10001", "start", network(10001).replace("</weft:network>", f"{owner}</weft:network>"))}


@pytest.mark.parametrize("what", ["node", "network"])
def test_only_the_run_that_has_it_makes_something(make, what):
    host = make()
    nobodys = host.hook(*made_by(RUN)[what])
    assert nobodys.returncode == 1 and "weft-hook: owner other -: " in nobodys.stderr, "a claim has to come first"
    ask(host, claim())
    ask(host, claim(epoch=2, run=LATER), former=[RUN])
    refused = host.hook(*made_by(RUN)[what])
    assert refused.returncode == 1 and refused.stderr.startswith(f"weft-hook: owner other {claim(epoch=2, run=LATER)}: ")
    assert host.links() == [] and not host.records() and not host.records("networks")
    assert record(host) == claim(epoch=2, run=LATER), "it changes nothing"
    taken = host.hook(*made_by(LATER)[what])
    assert (taken.returncode, taken.stderr) == (0, "") and host.links() == ["weft10001", "wefv10001"]


@pytest.mark.parametrize("op", ["migrate", "restore", "start", "started", "reconnect", "release"])
def test_what_runs_goes_on_under_another_run(make, op):
    """weftd has started again since, or an operator has had the host taken."""
    host = make()
    ask(host, claim())
    assert host.hook(*made_by(RUN)["node"]).returncode == 0
    ask(host, claim(site=OTHER, run=LATER), take=True)
    kind, name, _, text = made_by(RUN)["node"]
    with host.running(name):
        done = host.hook(kind, name, op, text)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("what", ["node", "network"])
def test_what_names_no_run_is_not_asked(make, what):
    """weftd has claimed the host before; and nodes of an earlier weft."""
    host = make()
    ask(host, claim())
    kind, name, op, text = made_by(LATER)[what]
    assert host.hook(kind, name, op, text.replace(f"<weft:owner run='{LATER}'/>", "")).returncode == 0


@contextlib.contextmanager
def waiting_for_the_lock(host, act):
    """Somebody holds the lock of the owner's record, and act waits for it until this ends; yields the list that gets its answer."""
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(act()))
    with (host.root / "var/lib/weft/owner.lock").open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting.start()
        waiting.join(0.3)
        assert not answers, "nobody passes while it is held"
        yield answers
    waiting.join(30)


def test_whoever_makes_something_waits_for_a_claim(make):
    """Under the same lock: what is made and who has the host come in one order."""
    host = make()
    ask(host, claim())
    with waiting_for_the_lock(host, lambda: host.hook(*made_by(RUN)["network"]).returncode) as answers:
        assert host.links() == []
        (host.root / "var/lib/weft/owner").write_text(claim(run=LATER), encoding="utf-8")
    assert answers == [1] and host.links() == []


def test_of_two_at_once_one_has_it(make):
    host = make()
    claims = [claim(instance=f"0{number:011d}", run=f"0{number:011d}") for number in range(8)]
    answers = {}

    def run(number):
        answers[number] = ask(host, claims[number], name=f"weft-owner-{number}")

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(claims))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    granted = [number for number, answer in answers.items() if answer[0] == "granted"]
    assert len(granted) == 1 and record(host) == claims[granted[0]]
    assert all(answers[number] == ("foreign", claims[granted[0]]) for number in answers if number != granted[0])


def test_one_that_was_killed_holds_up_nobody(make):
    """Its lock goes with it, and the file is replaced whole or not at all."""
    host = make()
    ask(host, claim())
    with waiting_for_the_lock(host, lambda: ask(host, claim(epoch=2))) as answers:
        assert record(host) == claim(), "nobody passes while it is held"
    assert answers == [("granted", claim())] and record(host) == claim(epoch=2)
