"""Checks that dependencies point one way: check_dependencies.py [--build BUILD]

The table of docs/architecture.md says which folders a folder links; it may include what it
links, directly or not. Third-party headers stay in the folders that own them. With --build the
static libraries and programs of that build folder are checked too: the runtime must not refer
to the search, the verifier or the code generator, and nothing may be linked against the CUDA
driver, NVRTC or cuBLASLt, which are opened at run time.
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Header (a regular expression over the included path) -> the folders that may include it.
OWNED_HEADERS = {
    r"z3(\+\+)?\.h": {"verifier"},
    r"nvrtc\.h": {"codegen"},
    r"(cuda|cublasLt|cuda_runtime|cuda_runtime_api)\.h": {"runtime"},
    r"(sqlite3\.h|SQLiteCpp/.*)": {"cache"},
    r"CLI/.*": {"cli"},
}
# Undefined symbols that a library must not have: what it would then have to be linked with.
FORBIDDEN_SYMBOLS = {
    "ir": r"Z3_|nvrtc|cublas|cu[A-Z]|sqlite3_|_ZNK?5tenon(6search|8verifier|7codegen|5cache|7runtime)",
    "cache": r"Z3_|nvrtc|cublas|cu[A-Z]|_ZNK?5tenon(6search|8verifier|7codegen|7runtime|7measure)",
    "runtime": r"Z3_|nvrtc|cublas|cu[A-Z]|_ZNK?5tenon(6search|8verifier|7codegen|7measure|9optimizer)",
}
FORBIDDEN_NEEDED = re.compile(r"lib(cuda|nvrtc|cublas|cublasLt|cudart)\.so")


def read_table():
    """folder -> folders it may include, from the table of docs/architecture.md."""
    rows = []
    for line in (ROOT / "docs/architecture.md").read_text(encoding="utf-8").splitlines():
        match = re.match(r"\|\s*`([a-z]+)/`\s*\|([^|]*)\|", line)
        if match:
            rows.append((match[1], match[2]))
    names = [name for name, _ in rows]
    links = {}
    for index, (name, cell) in enumerate(rows):
        if "all of the above" in cell:
            links[name] = set(names[:index])
        else:
            # What is in brackets is opened at run time, not linked.
            links[name] = set(re.findall(r"[a-z]+", re.sub(r"\(.*?\)", "", cell))) & set(names)
    return links


def closure(links):
    reached = {name: set(direct) for name, direct in links.items()}
    changed = True
    while changed:
        changed = False
        for name, direct in reached.items():
            more = set().union(*(reached[other] for other in direct)) - direct if direct else set()
            if more:
                direct |= more
                changed = True
    return reached


def check_table(links, problems):
    if not links:
        problems.append("docs/architecture.md: the table of folders is missing")
    for name, reached in closure(links).items():
        if name in reached:
            problems.append(f"docs/architecture.md: {name}/ depends on itself")
        if not (ROOT / name).is_dir():
            problems.append(f"docs/architecture.md: {name}/ does not exist")


def sources():
    listing = subprocess.run([ROOT / "scripts/sources.sh"], check=True, capture_output=True, text=True)
    return listing.stdout.split("\n")[:-1]


def check_includes(links, problems):
    allowed = closure(links)
    include = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]')
    checked = 0
    for name in sources():
        folder = name.split("/")[0]
        text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), 1):
            match = include.match(line)
            if not match:
                continue
            checked += 1
            target = match[1]
            target_folder = target.split("/")[0]
            if folder in links and target_folder in links and "/" in target:
                if target_folder != folder and target_folder not in allowed[folder]:
                    problems.append(f"{name}:{number}: {folder}/ may not include {target}")
            if folder in links:
                for pattern, owners in OWNED_HEADERS.items():
                    if re.fullmatch(pattern, target) and folder not in owners:
                        problems.append(f"{name}:{number}: only {', '.join(sorted(owners))}/ may include {target}")
    return checked


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def check_links(build, problems):
    checked = 0
    for folder, pattern in FORBIDDEN_SYMBOLS.items():
        library = build / folder / f"libtenon_{folder}.a"
        if not library.exists():
            problems.append(f"{library}: not built")
            continue
        checked += 1
        symbols = {line.split()[-1] for line in run("nm", "--undefined-only", library).splitlines() if " U " in line}
        for symbol in sorted(symbols):
            if re.match(pattern, symbol):
                problems.append(f"{library}: refers to {symbol}")
    for path in sorted(build.rglob("*")):
        if "CMakeFiles" in path.parts or not path.is_file() or not path.stat().st_mode & 0o100:
            continue
        with open(path, "rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
        checked += 1
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "--dynamic", path))
        for library in needed:
            if FORBIDDEN_NEEDED.match(library) or (
                    path.name == "libtenon_runtime.so" and library.startswith("libz3")):
                problems.append(f"{path}: is linked against {library}")
    return checked


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path)
    arguments = parser.parse_args()
    problems = []
    links = read_table()
    check_table(links, problems)
    includes = check_includes(links, problems)
    binaries = check_links(arguments.build, problems) if arguments.build else 0
    for problem in problems:
        print(problem)
    if problems or not includes:
        print(f"check_dependencies: {len(problems)} problems in {includes} includes and {binaries} binaries")
        return 1
    print(f"check_dependencies: {includes} includes and {binaries} binaries are in order")
    return 0


if __name__ == "__main__":
    sys.exit(main())
