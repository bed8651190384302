#!/usr/bin/env python3
"""The report's page in headless Chromium: report_test.py TENON DATABASE_SQL OUT.

Makes a database from a dump, has the page written, looks at what the page drew, in a light and a dark
theme, and leaves a screenshot of each in OUT. Ends with 77, which is a skip, where Chromium is missing.
"""
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from html.parser import HTMLParser

APPLICATION_ID = 0x54656E6E
PLOTS = ["roofline", "distribution", "speedup", "funnel", "history"]
EVIL = "</script><script>document.title='owned'</script><b>"


class Page(HTMLParser):
    """Canvases and cells of the page as the browser left it."""

    def __init__(self):
        super().__init__()
        self.canvases, self.cells, self.root, self.title = [], [], {}, ""
        self.inside = None

    def handle_starttag(self, tag, attributes):
        if tag == "html":
            self.root = dict(attributes)
        if tag == "canvas":
            self.canvases.append(dict(attributes))
        if tag in ("td", "title"):
            self.inside = tag
            if tag == "td":
                self.cells.append("")

    def handle_endtag(self, tag):
        if tag == self.inside:
            self.inside = None

    def handle_data(self, data):
        if self.inside == "td":
            self.cells[-1] += data
        if self.inside == "title":
            self.title += data


def main():
    tenon, dump, out = sys.argv[1:4]
    chromium = shutil.which("chromium")
    os.makedirs(out, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        database, page = os.path.join(folder, "a.db"), os.path.join(folder, "report.html")
        connection = sqlite3.connect(database)
        with open(dump) as file:
            connection.executescript(file.read())
        connection.execute("UPDATE mugraph SET label = ?", (EVIL,))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 2")
        connection.commit()
        connection.close()
        # Brings it up to date, should the dump be of an earlier version.
        subprocess.run([tenon, "db", "merge", database, "--db", database + ".new"], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run([tenon, "db", "report", "--html", page, "--db", database + ".new"], check=True)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        assert not re.search(r'(src|href)\s*=\s*["\']', text), "the page loads something"
        assert "</script><script>document.title" not in text, "text of the database is markup"
        if chromium is None:
            print("chromium is not here (make deps does not need it; scripts/deps.sh build browser): "
                  "the page was written, not looked at")
            return 77
        command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                   f"--user-data-dir={folder}/profile", "--window-size=1200,1600",
                   "--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=4000"]
        for theme, flags in (("light", []), ("dark", ["--blink-settings=preferredColorScheme=0"])):
            dom = subprocess.run(command + flags + ["--dump-dom", "file://" + page], check=True,
                                 capture_output=True, text=True, timeout=120).stdout
            parsed = Page()
            parsed.feed(dom)
            assert parsed.title == "Tenon tuning report", parsed.title
            assert parsed.root.get("data-drawn") == str(len(PLOTS)), parsed.root
            drawn = {c.get("data-plot"): int(c.get("data-points", 0)) for c in parsed.canvases}
            assert list(drawn) == PLOTS, drawn
            # One candidate, timed once: its time on the roof (3 points) and in the distribution.
            assert drawn["roofline"] >= 4 and drawn["distribution"] >= 1, drawn
            assert drawn["speedup"] >= 1 and drawn["history"] >= 0, drawn
            assert EVIL in parsed.cells, parsed.cells
            assert "10.00" in parsed.cells, parsed.cells
            for canvas in parsed.canvases:
                assert int(canvas["width"]) > 100 and int(canvas["height"]) > 100, canvas
            picture = os.path.join(out, f"report-{theme}.png")
            subprocess.run(command + flags + [f"--screenshot={picture}", "file://" + page],
                           check=True, capture_output=True, timeout=120)
            assert os.path.getsize(picture) > 10000, picture
            print(f"{theme}: {drawn}, {picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
