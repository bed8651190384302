#!/usr/bin/env python3
"""full_disk_test.py TENON FOLDER: every command that writes, on a file system that is full or becomes so at another place each
time: one sentence that says so, exit code 2, what was there before still there, no half-written file, and the same
command goes through once there is room. The file system is a small tmpfs of this process alone, which takes root."""
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

SKIP = 77
SHAPE = "rmsnorm_linear --m 3 --k 100 --n 7 --dtype fp32 --device host --force"
OTHER = "rmsnorm_linear --m 2 --k 16 --n 8 --dtype fp32 --device host --force"
SIZE = 4 << 20
KIB = 1024
failures = []


def expect(good, what):
    if not good:
        failures.append(what)
        print("FAILED:", what)


def run(tenon, arguments, stdout=subprocess.PIPE):
    done = subprocess.run([tenon] + arguments.split(), stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    return done.returncode, done.stderr


def rows(database):
    """How many rows each table has, by another reader than Tenon."""
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        tables = [name for name, in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
        return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}
    finally:
        connection.close()


class Disk:
    """A tmpfs on `folder`, with a file that takes all but `free` bytes."""

    def __init__(self, folder):
        self.folder, self.filler = folder, folder / "filler"
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tenon", str(folder)], check=True)

    def fill(self, free):
        size = 0
        with open(self.filler, "wb", buffering=0) as file:
            try:
                while True:
                    size += file.write(bytes(4 * KIB))
            except OSError:
                pass
            file.truncate(max(0, size - free))

    def room(self):
        self.filler.unlink()

    def names(self):
        return sorted(p.name for p in self.folder.iterdir() if p != self.filler)

    def close(self):
        subprocess.run(["umount", str(self.folder)], check=True)


def sentence(what, code, err):
    """A refusal: exit code 2, and the last line (progress may stand before it) says why."""
    last = (err.strip().splitlines() or [""])[-1]
    expect(code == 2, f"{what}: exit code {code}: {err}")
    expect(last.startswith("tenon: ") and ("disk is full" in last or "No space left" in last), f"{what}: {err}")
    expect("internal error" not in err and err.count("tenon: ") == 1, f"{what}: {err}")


def try_with(tenon, folder, command, frees, database, target=None, grows=False):
    """`command` with t.db a copy of `database` (None: not there) and each of `frees` bytes left. `target`: a file it makes.
    `grows`: it commits on the way."""
    failed = 0
    for free in frees:
        what = f"{command.split(' --')[0]} with {free // KIB} KiB left"
        disk = Disk(folder)
        try:
            if database:
                shutil.copy(database, folder / "t.db")
            before = disk.names()
            count = rows(folder / "t.db") if database else None
            disk.fill(free)
            code, err = run(tenon, command)
            refused = code != 0
            if refused:
                failed += 1
                sentence(what, code, err)
                expect(target is None or not (folder / target).exists(), f"{what}: {target} was left behind")
                if not grows:
                    expect(disk.names() == before, f"{what}: {disk.names()} instead of {before}")
            disk.room()
            if (folder / "t.db").exists():
                code, err = run(tenon, f"db check --db {folder}/t.db")
                expect(code == 0, f"{what}: check: {err}")
                if count:
                    now = rows(folder / "t.db")
                    kept = now == count if refused and not grows else all(now[table] >= n for table, n in count.items())
                    expect(kept, f"{what}: {now} after {count}")
            code, err = run(tenon, command)
            expect(code == 0, f"{what}, then with room: {code} {err}")
        finally:
            disk.close()
    expect(failed > 0, f"{command}: never ran out of room")
    print(f"{command.split(' --')[0].replace(str(folder), 'DISK')}: {failed} of {len(frees)} times out of room")


def inside(tenon, work):
    disk = work / "disk"
    disk.mkdir()
    a, b, export = work / "a.db", work / "b.db", work / "a.export"
    for database, shape in ((a, SHAPE), (b, OTHER)):
        code, err = run(tenon, f"optimize {shape} --budget 3s --schedules 1 --strategy estimate --db {database}")
        expect(code == 0, err)
    code, err = run(tenon, f"db export {export} --db {a}")
    expect(code == 0, err)
    # A whole number of pages: from nothing to almost enough.
    few = [0, 4 * KIB, 36 * KIB, 100 * KIB]
    t = f"{disk}/t.db"
    try_with(tenon, disk, f"db export {disk}/out --db {a}", [0, 4 * KIB, 40 * KIB], None, "out")
    try_with(tenon, disk, f"db pack {disk}/out --db {a}", [0, 4 * KIB, 40 * KIB], None, "out")
    try_with(tenon, disk, f"db report --html {disk}/out --db {a}", [0, 4 * KIB, 100 * KIB], None, "out")
    try_with(tenon, disk, f"db import {export} --db {t}", few, b)
    try_with(tenon, disk, f"db import {export} --db {t}", [0, 40 * KIB], None)
    try_with(tenon, disk, f"db merge {a} --db {t}", few, b)
    optimize = f"optimize {SHAPE} --budget 3s --schedules 1 --strategy estimate --db {t}"
    try_with(tenon, disk, optimize, few, b, grows=True)
    try_with(tenon, disk, optimize, [0, 40 * KIB], None, grows=True)
    # What is printed is written too.
    with open("/dev/full", "w", encoding="ascii") as full:
        for command in (f"db ls --all --json --db {a}", "programs", "version"):
            sentence(command, *run(tenon, command, stdout=full))


def main():
    if sys.argv[1] != "--inside":
        # A mount namespace of its own: nothing is mounted for anyone else, and all goes with this process.
        probe = ["unshare", "--mount", "--propagation", "private"]
        if os.geteuid() != 0 or shutil.which("unshare") is None or subprocess.run(
                probe + ["mount", "-t", "tmpfs", "tenon", "/mnt"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            print("skipped: mounting a small file system takes root")
            return SKIP
        return subprocess.run(probe + [sys.executable, __file__, "--inside"] + sys.argv[1:], check=False).returncode
    tenon, work = sys.argv[2], Path(sys.argv[3])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    inside(tenon, work)
    shutil.rmtree(work)
    print(f"{len(failures)} failed" if failures else "holds")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
