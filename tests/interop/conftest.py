"""Prints what each file counted, and how far apart the outputs were at most."""

import collections

from interop_cases import LARGEST


def pytest_terminal_summary(terminalreporter):
    counts = collections.defaultdict(collections.Counter)
    for outcome in ("passed", "failed", "skipped"):
        for report in terminalreporter.getreports(outcome):
            counts[report.nodeid.split("::")[0].split("/")[-1]][outcome] += 1
    terminalreporter.section("conversions")
    for file, outcomes in sorted(counts.items()):
        text = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
        terminalreporter.write_line(f"{file}: {text}; largest difference {LARGEST.get(file, 0):.1e}")
    for report in terminalreporter.getreports("skipped"):
        terminalreporter.write_line(f"skipped {report.nodeid}: {report.longrepr[2]}")
