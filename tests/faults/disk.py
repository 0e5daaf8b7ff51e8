"""A disk that fails and loses power: faultfs around a folder, and what could be left of the folder after a power cut.

What was synced is left. Of the rest any part may be: each block of 4 KiB that was written since the file was synced last, each change of
names since the folder was. A file system promises no more than that."""

import os
import random
import shutil
import subprocess
from dataclasses import dataclass, field

from harness.wait import PATIENCE, until
from harness.weft import build_folder

BLOCK = 4096


class Disk:
    """The folder at path, from now on behind faultfs; its own files are beside it."""

    def __init__(self, path):
        self.path = path
        self.real = path.with_name(path.name + ".real")
        self.base = path.with_name(path.name + ".base")  # as it was when it was mounted
        self.log = path.with_name(path.name + ".log")
        self.rules = path.with_name(path.name + ".rules")
        self.process = None
        path.rename(self.real)
        path.mkdir()
        self.mount()

    def mount(self):
        shutil.rmtree(self.base, ignore_errors=True)
        shutil.copytree(self.real, self.base)
        self.rules.unlink(missing_ok=True)
        self.process = subprocess.Popen([build_folder() / "tests/faults/faultfs", self.real, self.path, self.log, self.rules],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        until(lambda: os.path.ismount(self.path), f"{self.path} is mounted")

    def unmount(self):
        """Somebody who took a copy of all mounts meanwhile, such as a lab's host, keeps it mounted for itself: faultfs ends all the same."""
        subprocess.run(["umount", self.path], check=True, timeout=PATIENCE)
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.process = None

    def remove(self):
        if self.process:
            subprocess.run(["umount", "--lazy", self.path], check=False, timeout=PATIENCE)
            self.process.kill()
            self.process.wait(PATIENCE)
            self.process.stdout.close()
            self.process = None

    def rule(self, *lines):
        """In place of those before; they count from now."""
        new = self.rules.with_name("rules.new")  # beside the old one, so that it is another file
        new.write_text("\n".join(lines) + "\n", encoding="ascii")
        new.rename(self.rules)

    def was_cut(self):
        """Nothing is logged after it, and it is written at once."""
        return self.log.read_bytes().endswith(b"cut\n")

    def entries(self):
        return list(read_log(self.log.read_bytes()))

    def lose_power(self, keep, seed):
        """Leaves what a power cut could have left, and has the disk back. keep: the chance of each thing that was not synced."""
        self.unmount()
        left = Remains(self.base, random.Random(seed), keep)
        left.replay(self.entries())
        shutil.rmtree(self.real)
        left.save(self.real)
        self.mount()


def read_log(data):
    """(word, fields…); of a write the last field is its bytes."""
    at = 0
    while at < len(data):
        end = data.index(b"\n", at)
        word, *fields = data[at:end].decode().split("\t")
        at = end + 1
        if word == "write":
            length = int(fields[2])
            fields[2] = data[at:at + length]
            at += length
        yield word, *fields


@dataclass
class File:
    data: bytearray = field(default_factory=bytearray)
    mode: int = 0o600
    pending: list = field(default_factory=list)  # (whether it is left, change of data), not synced


class Remains:
    """What is left: names, changes of names that wait for their folder to be synced, and files."""

    def __init__(self, base, rng, keep):
        self.random, self.keep = rng, keep
        self.files = {}  # number: File
        self.durable = {}  # path: File, or None for a folder
        self.pending = []  # (folders, change)
        for path in sorted(base.rglob("*")):
            name = "/" + str(path.relative_to(base))
            self.durable[name] = None if path.is_dir() else File(bytearray(path.read_bytes()), path.stat().st_mode & 0o777)

    def chance(self):
        return self.random.random() < self.keep

    def replay(self, entries):
        for word, *fields in entries:
            getattr(self, word.replace("-", "_"))(*fields)
        for _, change in self.pending:
            if self.chance():
                change()
        for file in {id(file): file for file in self.durable.values() if file}.values():
            for left, change in file.pending:
                if left:
                    change(file.data)

    # --- files: a change is cut into blocks, each of which may be left or not ---

    def file(self, path, number):
        """One that was there before."""
        self.files[number] = self.durable[path]

    def write(self, number, offset, data):
        offset = int(offset)
        at = offset
        while at < offset + len(data):
            end = min((at // BLOCK + 1) * BLOCK, offset + len(data))
            self.change_file(number, lambda content, at=at, piece=data[at - offset:end - offset]: put(content, at, piece))
            at = end

    def truncate(self, number, size):
        self.change_file(number, lambda content: resize(content, int(size)))

    def change_file(self, number, change):
        self.files[number].pending.append((self.chance(), change))

    def sync(self, number):
        file = self.files[number]
        for _, change in file.pending:
            change(file.data)
        file.pending.clear()

    # --- names ---

    def change_name(self, change, *paths):
        self.pending.append(({os.path.dirname(path) for path in paths}, change))

    def create(self, path, number):
        self.files[number] = File()
        self.change_name(lambda: self.durable.__setitem__(path, self.files[number]), path)

    def mkdir(self, path):
        self.change_name(lambda: self.durable.__setitem__(path, None), path)

    def unlink(self, path):
        self.change_name(lambda: self.durable.pop(path, None), path)

    rmdir = unlink

    def rename(self, old, new):
        def change():
            if old in self.durable:
                self.durable[new] = self.durable.pop(old)

        self.change_name(change, old, new)

    def link(self, old, new):
        def change():
            if old in self.durable:
                self.durable[new] = self.durable[old]

        self.change_name(change, old, new)

    def sync_folder(self, path):
        for folders, change in self.pending:
            if path in folders:
                change()
        self.pending = [(folders, change) for folders, change in self.pending if path not in folders]

    def cut(self):
        pass

    # --- the folder ---

    def save(self, folder):
        folder.mkdir()
        for name, file in sorted(self.durable.items()):
            path = folder / name[1:]
            if not path.parent.is_dir():
                continue  # its folder was never synced: nothing leads there
            if file is None:
                path.mkdir(exist_ok=True)
            else:
                path.write_bytes(file.data)
                path.chmod(file.mode)


def put(content, at, piece):
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    content[at:at + len(piece)] = piece


def resize(content, size):
    del content[size:]
    content.extend(bytes(size - len(content)))
