"""Checks README.md and docs/*.md against the project: check_docs.py [--tenon PROGRAM]

Every path, make target, TENON_ variable and relative link that the pages name must exist, and
with --tenon every `tenon` subcommand and flag must be in that program's --help.
"""

import argparse
import functools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Made by commands, not part of the checkout.
GENERATED = ("build", ".deps", ".bundle", "dist")


def pages():
    candidates = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [page for page in candidates if page.exists()]


def code_spans(text):
    """(line number, code) of each `span` and of each line of a fenced block or an indented one."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced:
            yield number, line.strip(), True
        else:
            for span in re.findall(r"`([^`]+)`", line):
                yield number, span, False


def looks_like_path(token):
    if not re.fullmatch(r"[\w.\-/*{},+]+", token) or "//" in token or token.startswith("/"):
        return False
    first = token.split("/")[0]
    if first in GENERATED:
        return False
    if "/" in token:
        return (ROOT / first).exists()
    return bool(re.fullmatch(r"[\w\-]+\.(md|h|cpp|cu|cuh|sh|py|cmake|txt|def)", token)) and "*" not in token


def expand_braces(token):
    match = re.search(r"\{([^{}]*)\}", token)
    if not match:
        return [token]
    return [path for choice in match[1].split(",")
            for path in expand_braces(token[:match.start()] + choice + token[match.end():])]


def path_exists(token):
    for path in expand_braces(token.rstrip("/.,:")):
        if "*" in path:
            if not any(ROOT.glob(path)):
                return False
        elif "/" not in path:
            # A bare file name: anywhere in the project.
            if not (ROOT / path).exists() and not any(
                    found for found in ROOT.rglob(path) if found.relative_to(ROOT).parts[0] not in GENERATED):
                return False
        elif not (ROOT / path).exists():
            return False
    return True


@functools.lru_cache
def make_targets():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE))


@functools.lru_cache
def help_text(tenon, *words):
    result = subprocess.run([tenon, *words, "--help"], capture_output=True, text=True, check=False)
    return result.stdout + result.stderr if result.returncode == 0 else None


@functools.lru_cache
def environment_names():
    """TENON_ names that the project's own sources and scripts use."""
    names = set()
    listing = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                             check=True, capture_output=True, text=True)
    for name in listing.stdout.splitlines():
        path = ROOT / name
        if path.is_file() and path.suffix != ".md":
            names |= set(re.findall(r"TENON_[A-Z0-9_]+", path.read_text(encoding="utf-8", errors="replace")))
    return names


def check_command(tenon, command):
    """Problems with one `tenon …` command line: its subcommands and flags."""
    words = command.split("#")[0].split("|")[0].split()[1:]
    subcommands = []
    while words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        # A word is a subcommand as long as the program takes it as one.
        if subcommands and not re.search(rf"^\s+{re.escape(words[0])}(\s|$)",
                                         help_text(tenon, *subcommands) or "", re.MULTILINE):
            break
        subcommands.append(words.pop(0))
        if help_text(tenon, *subcommands) is None:
            return [f"tenon {' '.join(subcommands)} is no command"]
    text = help_text(tenon, *subcommands) or ""
    flags = re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]*)", " ".join(words))
    return [f"tenon {' '.join(subcommands)} has no flag {flag}" for flag in flags
            if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", text)]


def check_page(page, tenon, problems):
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT)
    checked = 0

    def report(number, problem):
        problems.append(f"{name}:{number}: {problem}")

    for number, line in enumerate(text.splitlines(), 1):
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", line):
            if "://" not in link:
                checked += 1
                if not (page.parent / link).exists():
                    report(number, f"links to {link}, which does not exist")
    for number, code, block in code_spans(text):
        command = re.sub(r"^\$ ", "", code)
        for target in re.findall(r"(?:^|&& )make ((?:[a-z][a-z-]*(?: |$))+)", command):
            for word in target.split():
                checked += 1
                if word not in make_targets():
                    report(number, f"make {word} is no target")
        for variable in re.findall(r"\bTENON_[A-Z0-9_]+", code):
            checked += 1
            if variable not in environment_names():
                report(number, f"{variable} is used nowhere")
        # In a block only command lines speak of files here; other lines are output and examples.
        if not block or re.match(r"(\.?/?scripts/|\.ci/|bash |python3 )", command):
            for token in command.split():
                if looks_like_path(token):
                    checked += 1
                    if not path_exists(token):
                        report(number, f"{token} does not exist")
        command = re.sub(r"^(?:[A-Z_]+=\S+ )*(?:\./)?(?:build/cli/)?tenon ", "tenon ", command)
        if tenon and command.startswith("tenon ") and re.match(r"tenon [a-z-]", command):
            checked += 1
            for problem in check_command(tenon, command):
                report(number, problem)
    return checked


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", help="the built command, whose --help is compared")
    arguments = parser.parse_args()
    tenon = arguments.tenon and str(pathlib.Path(arguments.tenon).resolve())
    if tenon and not pathlib.Path(tenon).exists():
        sys.exit(f"check_docs: {arguments.tenon} does not exist; run make build")
    problems = []
    checked = sum(check_page(page, tenon, problems) for page in pages())
    for problem in problems:
        print(problem)
    print(f"check_docs: {len(problems)} problems in {checked} references")
    return 1 if problems or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
