"""Sums up a ctest run: test_summary.py RESULTS.xml GPU_TESTS.json

RESULTS.xml is what `ctest --output-junit` wrote, GPU_TESTS.json what `ctest
--show-only=json-v1 -L gpu` printed. Exits 1 when a test failed or none passed.
"""

import json
import sys
import xml.etree.ElementTree as xml

with open(sys.argv[2], encoding="utf-8") as file:
    gpu_tests = {test["name"] for test in json.load(file)["tests"]}

outcomes = {"passed": [], "failed": [], "skipped": []}
for case in xml.parse(sys.argv[1]).getroot().iter("testcase"):
    # ctest: "run" passed, "fail" failed, "notrun" skipped (GTEST_SKIP), "disabled".
    # A test whose program is missing is "notrun" too, but with another message.
    status = case.get("status")
    skipped = case.find("skipped")
    message = (skipped.get("message") or "") if skipped is not None else ""
    if status == "run":
        outcome = "passed"
    elif status == "disabled" or (status == "notrun" and message.startswith("SKIP")):
        outcome = "skipped"
    else:
        outcome = "failed"
    outcomes[outcome].append(case.get("name"))

skipped_gpu = sum(name in gpu_tests for name in outcomes["skipped"])
reason = "no device" if skipped_gpu else "there is a device"
print(f"GPU tests: {len(gpu_tests)}, of which {skipped_gpu} skipped ({reason})"
      if gpu_tests else "GPU tests: none built")
print(", ".join(f"{len(names)} {outcome}" for outcome, names in outcomes.items()))
sys.exit(1 if outcomes["failed"] or not outcomes["passed"] else 0)
