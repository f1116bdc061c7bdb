# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/trace with dumps that each say one thing."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "trace"
MS = 1000  # microseconds


def metadata(name: str, pid: int, tid: int, value: str) -> dict:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": {"name": value}}


def held(
    name: str, begin: float, length: float, pid: int = 7, tid: int = 8, **more: object
) -> dict:
    return {
        "ph": "X",
        "name": name,
        "cat": "loop",
        "pid": pid,
        "tid": tid,
        "ts": begin,
        "dur": length,
        "args": {"kind": name.split()[0], **more},
    }


def wait(name: str, category: str, number: int, begin: float, end: float | None) -> list[dict]:
    common = {"name": name, "cat": category, "pid": 7, "tid": 8, "id": hex(number)}
    events = [{"ph": "b", "ts": begin, "args": {"kind": name}, **common}]
    if end is not None:
        events.append({"ph": "e", "ts": end, **common})
    return events


class Trace(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="gyre_")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def dump(
        self, *events: dict, name: str = "one.json", pid: int = 7, process: str = "shop"
    ) -> str:
        content = {
            "traceEvents": [
                metadata("process_name", pid, 0, process),
                metadata("thread_name", pid, 8, "loop-0"),
                *events,
            ],
            "otherData": {"producer": "gyre", "pid": pid, "taken_us": 10_000 * MS},
        }
        path = self.folder / name
        path.write_text(json.dumps(content), encoding="utf-8")
        return str(path)

    def run_tool(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, str(TOOL), *arguments], capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_names_what_held_a_thread(self) -> None:
        text = self.run_tool(
            "report",
            self.dump(
                held("handler GET /report", 0, 20 * MS),
                held("handler GET /report", 50 * MS, 312 * MS),
                held("handler GET /fast", 900 * MS, 1 * MS),
                held("sleep", 0, 5000 * MS),
            ),
        )
        self.assertIn(
            "thread 'loop-0' (8) of shop was held 312 ms by handler GET /report, 2 times\n", text
        )
        self.assertNotIn("/fast", text)
        self.assertNotIn("sleep", text)

    def test_names_the_inner_slice(self) -> None:
        text = self.run_tool(
            "report", self.dump(held("io", 0, 101 * MS), held("handler GET /slow", 0, 100 * MS))
        )
        self.assertIn("held 100 ms by handler GET /slow", text)
        self.assertNotIn("by io", text)

    def test_names_a_function_that_took_all_of_its_phase(self) -> None:
        text = self.run_tool(
            "report", self.dump(held("io", 0, 100 * MS), held("handler GET /slow", 0, 100 * MS))
        )
        self.assertIn("held 100 ms by handler GET /slow", text)
        self.assertNotIn("by io", text)

    def test_says_that_a_function_still_runs(self) -> None:
        text = self.run_tool("report", self.dump(held("task work", 0, 40 * MS, running=True)))
        self.assertIn("by task work, still running", text)

    def test_lists_waits_with_what_happened_meanwhile(self) -> None:
        text = self.run_tool(
            "report",
            self.dump(
                *wait("request GET /report", "http", 1, 0, 100 * MS),
                *wait("statement select 1", "postgres", 2, 10 * MS, 90 * MS),
                *wait("span resize", "span", 3, 9_000 * MS, None),
            ),
        )
        self.assertIn("request GET /report [http]: 100 ms, thread 'loop-0' (8) of shop\n", text)
        self.assertIn("    statement select 1 [postgres]: 80 ms\n", text)
        self.assertIn("span resize (running) [span]: 1 s", text)

    def test_lists_waits_of_one_name_together(self) -> None:
        text = self.run_tool(
            "report",
            self.dump(
                *wait("lock wait book", "sync", 1, 0, 10 * MS),
                *wait("lock wait book", "sync", 2, 0, 50 * MS),
                *wait("request GET /account", "http", 3, 0, 60 * MS),
                *wait("request GET /other", "http", 4, 0, 60 * MS),
            ),
        )
        self.assertIn("  lock wait book [sync]: 50 ms, 2 times, 60 ms in total, thread ", text)
        # No wait and no request is a part of another request, or of a wait of the same name.
        self.assertEqual(text.count("request GET /other"), 1)
        self.assertNotIn("    request ", text)
        self.assertEqual(text.count("    lock wait book [sync]: 60 ms\n"), 2)

    def test_prints_names_within_one_line(self) -> None:
        path = self.dump(
            held("handler GET /\x1b[31m\n", 0, 20 * MS),
            *wait("resolve \x9b\ud800.example", "net", 1, 0, 100 * MS),
            process="shop\r",
        )
        text = self.run_tool("report", path)
        self.assertIn(r"of shop\r was held 20 ms by handler GET /\x1b[31m\n" "\n", text)
        self.assertIn(r"  resolve \x9b\ud800.example [net]: 100 ms", text)

    def test_limits_the_report(self) -> None:
        path = self.dump(*(held(f"task t{n}", n * 100 * MS, (n + 1) * MS) for n in range(9)))
        text = self.run_tool("report", path, "--slow", "3", "--top", "2")
        self.assertIn("by task t8\n", text)
        self.assertIn("by task t7\n", text)
        self.assertNotIn("by task t6\n", text)
        self.assertIn("  5 more: see --top\n", text)
        text = self.run_tool("report", path, "--slow", "3", "--top", "7")
        self.assertNotIn("see --top", text)

    def test_joins_the_records_of_the_scheduler(self) -> None:
        sched = self.folder / "sched.txt"
        sched.write_text(
            "loop-0  8 [000] 0.001000: sched:sched_switch: prev_comm=loop-0 prev_pid=8 "
            "prev_prio=120 prev_state=R+ ==> next_comm=other next_pid=9 next_prio=120\n"
            "other  9 [000] 0.019000: sched:sched_switch: other:9 [120] S ==> loop-0:8 [120]\n"
        )
        text = self.run_tool(
            "report", self.dump(held("task work", 0, 20 * MS)), "--sched", str(sched)
        )
        self.assertIn("    waits for a processor 18 ms of it\n", text)

    def test_merges_processes(self) -> None:
        output = self.folder / "both.json"
        self.run_tool(
            "merge",
            self.dump(*wait("span a", "span", 1, 0, 5 * MS)),
            self.dump(
                {**held("task b", 0, 6 * MS), "pid": 9}, name="two.json", pid=9, process="backend"
            ),
            "--output",
            str(output),
        )
        merged = json.loads(output.read_text())["traceEvents"]
        self.assertEqual({each["pid"] for each in merged}, {7, 9})
        self.assertEqual({each["id"] for each in merged if "id" in each}, {"7.0x1"})

    def test_refuses_a_file_that_is_no_dump(self) -> None:
        other = self.folder / "other.json"
        other.write_text("{}")
        self.assertIn("not a dump", self.run_tool("report", str(other), code=1))
        self.assertIn("No such file", self.run_tool("report", str(self.folder / "no"), code=1))
        self.run_tool("explain", code=2)


if __name__ == "__main__":
    unittest.main()
