# SPDX-License-Identifier: Apache-2.0
"""Lets a real Prometheus scrape an example, and answer the queries of the alert rules.

    python3 observed.py NAME PROGRAM

Fails by an exception, as talk.py does.
"""

import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
from http.client import HTTPConnection
from pathlib import Path

from talk import PATIENCE, Program

ROOT = Path(__file__).resolve().parents[2]
OPERATE = ROOT / "docs" / "operate"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
METRIC = re.compile(r"\bgyre_[a-z0-9_]+\b")


def get(address: tuple[str, int], target: str, **fields: str) -> tuple[int, str, str]:
    """Returns the status, the media type and the body."""
    with contextlib.closing(HTTPConnection(*address, timeout=PATIENCE)) as client:
        client.request("GET", target, headers=fields)
        answer = client.getresponse()
        return answer.status, answer.headers.get("Content-Type", ""), answer.read().decode()


def run_promtool(*arguments: str, text: str | None = None) -> None:
    done = subprocess.run(
        ["promtool", *arguments],
        cwd=OPERATE,
        input=text,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0 and not done.stderr.strip(), (arguments, done.stdout, done.stderr)


def report_of(dump: str) -> str:
    """The report of tools/trace about a dump in JSON, with all that took 1 µs or longer."""
    with tempfile.NamedTemporaryFile("w", prefix="gyre_", suffix=".json") as file:
        file.write(dump)
        file.flush()
        return subprocess.run(
            [sys.executable, ROOT / "tools" / "trace", "report", file.name, "--slow", "0.001"],
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        ).stdout


def rule_queries() -> list[str]:
    """The expressions of the rules file, which folds long ones by `>-`."""
    queries = []
    lines = (OPERATE / "gyre.rules.yml").read_text().splitlines()
    for number, line in enumerate(lines):
        if match := re.match(r"( *)expr: (.*)", line):
            query = match[2]
            if query == ">-":
                query = ""
                for more in lines[number + 1 :]:
                    if not more.startswith(match[1] + "  "):
                        break
                    query += " " + more.strip()
            queries.append(query.strip())
    return queries


class Prometheus:
    """A Prometheus that scrapes one address each 200 ms, in a temporary folder."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="gyre_")
        config = Path(self.folder.name, "prometheus.yml")
        config.write_text(
            "global: {scrape_interval: 200ms, evaluation_interval: 200ms}\n"
            f"rule_files: ['{OPERATE / 'gyre.rules.yml'}']\n"
            "scrape_configs:\n"
            "  - job_name: service\n"
            f"    static_configs: [{{targets: ['{target[0]}:{target[1]}']}}]\n"
        )
        # Prometheus does not tell which port the kernel has chosen for port 0, so a port may be
        # taken by another program before Prometheus binds it. Then it ends, and is started again.
        for _ in range(20):
            with socket.create_server(("127.0.0.1", 0)) as probe:
                self.address = probe.getsockname()
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={config}",
                    f"--storage.tsdb.path={self.folder.name}/data",
                    f"--web.listen-address=127.0.0.1:{self.address[1]}",
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            if self.is_ready():
                return
        raise AssertionError("prometheus did not begin to listen")

    def is_ready(self) -> bool:
        ends_at = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < ends_at:
            with contextlib.suppress(OSError):
                # Another program at the port would know no such page, or not know this folder.
                status, _, text = get(self.address, "/api/v1/status/flags")
                if status == 200 and self.folder.name in text:
                    return True
            time.sleep(0.05)
        self.end()
        return False

    def __enter__(self) -> "Prometheus":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self.folder.cleanup()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

    def query(self, expression: str) -> list[dict]:
        target = "/api/v1/query?query=" + urllib.parse.quote(expression)
        _, _, text = get(self.address, target)
        answer = json.loads(text)
        assert answer["status"] == "success", (expression, answer)
        return answer["data"]["result"]

    def wait_for(self, expression: str) -> list[dict]:
        ends_at = time.monotonic() + PATIENCE
        while not (result := self.query(expression)):
            assert time.monotonic() < ends_at, f"no result of {expression}"
            time.sleep(0.05)
        return result


def observed_service(program: str) -> None:
    for tool in ("prometheus", "promtool"):
        assert shutil.which(tool), f"{tool} is missing: run tools/setup all"
    with Program(program, "127.0.0.1:0", "127.0.0.1:0") as service:
        server, inspector = service.addresses
        for number in range(1, 21):
            assert get(server, f"/steps/{number}")[0] == 200
        assert get(server, "/steps/27")[2] == "111\n"
        assert get(server, "/steps/none")[0] == 400

        status, kind, text = get(inspector, "/metrics")
        assert status == 200 and kind.startswith("text/plain; version=0.0.4"), kind
        run_promtool("check", "metrics", text=text)
        assert 'service_sequences_total{parity="odd"} 11\n' in text, text
        assert "service_sequence_seconds_count 21\n" in text, text
        status, kind, text = get(inspector, "/metrics", Accept=OPEN_METRICS)
        assert status == 200 and kind.startswith(OPEN_METRICS) and text.endswith("# EOF\n"), kind
        tasks = json.loads(get(inspector, "/tasks?format=json")[2])
        assert tasks["recorded"] and tasks["tasks"], tasks
        with socket.create_connection(server, timeout=PATIENCE) as idle:
            connections = json.loads(get(inspector, "/connections?format=json")[2])
            own = "{}:{}".format(*idle.getsockname())
            assert own in [each["peer"] for each in connections["connections"]], connections
        assert get(inspector, "/metrics", Host="evil.example")[0] == 421
        report = report_of(get(inspector, "/trace?format=json")[2])
        assert "request GET /steps/{n} [http]" in report, report

        with Prometheus(inspector) as prometheus:
            up = prometheus.wait_for('up{job="service"} == 1')
            assert len(up) == 1, up
            answer = prometheus.wait_for('service_sequences_total{parity="even"}')
            assert answer[0]["value"][1] == "10", answer
            # Two scrapes at least, so that rates exist.
            prometheus.wait_for("rate(gyre_loop_turns_total[1m])")
            prometheus.wait_for(
                "histogram_quantile(0.99, sum by (route, le) "
                '(gyre_http_route_response_seconds_bucket{route="/steps/{n}"}))'
            )
            sources = " ".join(
                path.read_text() for path in (ROOT / "gyre").rglob("*.cpp") if path.is_file()
            )
            exported = set(METRIC.findall(text))
            for query in rule_queries():
                prometheus.query(query)
                for metric in METRIC.findall(query):
                    name = re.sub(r"_(bucket|sum|count)$", "", metric)
                    route_name = name.replace("gyre_http_route", "")
                    assert f'"{name}"' in sources or f'"{route_name}"' in sources, metric
                    if not re.match("gyre_(postgres|nats|queue|worker)", name):
                        assert metric in exported, f"the example does not export {metric}"
                        assert prometheus.wait_for(metric), metric
            loops = prometheus.query("gyre_executor_up == 1")
            assert {each["metric"]["name"] for each in loops} >= {"loop 0", "pool"}, loops


if __name__ == "__main__":
    {each.__name__: each for each in (observed_service,)}[sys.argv[1]](sys.argv[2])
