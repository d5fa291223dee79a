"""The web page of a sweep in a real browser: headless Chromium, where there is one."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import records
from stored import report_of

from normexp.report import sweep_page
from normexp.report.html import html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HOSTILE = "<img src=http://127.0.0.1:9/x onerror=alert(1)></script><script>document.title='taken'</script>"
PLAN = records.plan({"position": ["pre", "post"], "lr": [1e-3, 1e-2, 0.1]}, title=HOSTILE)
ENDS = """
const tables = [...document.querySelectorAll("table.sorts")];
const table = tables[tables.length - 1];
const shown = () => [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.cells[1]?.textContent);
const column = (name) => [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent === name);
const cells = (name) => [...table.tBodies[0].rows].map((row) => row.cells[column(name)].textContent);
const press = (name) => table.tHead.rows[0].cells[column(name)].querySelector("button").click();
const input = table.parentElement.previousElementSibling.querySelector("input");
const filter = (words) => { input.value = words; input.dispatchEvent(new Event("input")); };
const seen = { title: document.title, first: shown(), images: document.images.length };
press("final loss"); seen.up = cells("final loss");
press("final loss"); seen.down = cells("final loss");
filter("post nonfinite"); seen.filtered = shown();
seen.count = table.parentElement.previousElementSibling.querySelector("output").textContent;
filter(""); seen.all = shown().length;
const button = table.querySelector("tr.nonfinite button.run"); button.click();
const opened = table.querySelector("tr.opened");
seen.curve = opened.querySelectorAll("svg path.train").length;
seen.death = opened.querySelectorAll("svg path.death").length;
seen.story = opened.querySelector("p").textContent;
press("outcome"); seen.closed = table.querySelectorAll("tr.opened").length;
button.click(); button.click(); seen.twice = table.querySelectorAll("tr.opened").length;
const told = document.createElement("pre");
told.id = "seen"; told.textContent = JSON.stringify(seen); document.body.append(told);
"""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium")


def page() -> str:
    a, b, c, d, e, f = PLAN.configs.values()
    ended = [
        records.done(a, 1.9),
        records.done(b, 10.5),
        records.done(c, 4.06),
        records.dead(d, 12),
        replace(records.failed(e), error=f"RuntimeError: {HOSTILE}"),
        records.done(f, 2.2),
    ]
    by_id = {record.run_id: record for record in ended}
    report = report_of(PLAN, by_id, HOSTILE)
    return html(sweep_page.page(report, lambda run_id: by_id[run_id].traces, {}, Path(HOSTILE)))


def browse(path: Path, tmp_path: Path) -> tuple[str, str]:
    """The document as it is after its scripts, and what the browser's console said."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    flags += ["--disable-background-networking", "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", f"--log-net-log={tmp_path / 'net.json'}"]
    done = subprocess.run(
        [str(CHROMIUM), *flags, "--enable-logging=stderr", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "HOME": str(tmp_path)},
        check=True,
    )
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


def asked_for(tmp_path: Path) -> list[str]:
    """Addresses that the page asked for; what the browser asks for by itself has no origin."""
    events = json.loads((tmp_path / "net.json").read_text())["events"]
    parameters = [event.get("params", {}) for event in events]
    return [
        params.get("url", "") for params in parameters if params.get("initiator", "not an origin") != "not an origin"
    ]


def test_it_sorts_filters_and_draws_and_no_text_of_a_user_becomes_an_element(tmp_path: Path) -> None:
    text = page()
    policy, rest = re.split(r"(?=<meta name=\"viewport)", text, maxsplit=1)
    opened = policy[: policy.index("<meta http-equiv")] + rest
    path = tmp_path / "report.html"
    path.write_text(opened.replace("</body>", f"<script>{ENDS}</script></body>"), "utf-8")
    document, console = browse(path, tmp_path)
    assert console == ""
    found = re.search(r'<pre id="seen">(.*?)</pre>', document, re.DOTALL)
    assert found is not None, document[-2000:]
    seen = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert seen["title"] == HOSTILE
    assert seen["images"] == 0
    assert seen["first"] == ["failed", "nonfinite", "diverged", "plateau", "learned", "learned"]
    assert seen["up"] == ["1.900", "2.200", "4.060", "10.500", "", ""]
    assert seen["down"] == ["10.500", "4.060", "2.200", "1.900", "", ""]
    assert seen["filtered"] == ["nonfinite"]
    assert seen["count"] == "1 of 6 rows"
    assert seen["all"] == 6
    assert (seen["curve"], seen["death"]) == (1, 1)
    assert "step 12" in seen["story"]
    assert (seen["closed"], seen["twice"]) == (0, 0)


def test_it_runs_under_its_own_policy_and_asks_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page(), "utf-8")
    document, console = browse(path, tmp_path)
    assert console == ""
    assert document.count('type="search"') == len(re.findall(r'<table class="sorts"', document)) >= 2
    assert re.findall(r"<(img|script)\b", document) == ["script", "script"], "its own data and its own script"
    assert asked_for(tmp_path) == []
