# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser without a network: charts, legend, tooltips, phone, dark."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from gyrelab import report
from gyrelab.tests import synthetic

CHROMIUM = Path("/usr/bin/chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="needs /usr/bin/chromium")
PATIENCE = 100_000  # milliseconds: a busy machine may take long to draw
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with a failed run and a contender that was not built."""
    measured = synthetic.results(absent=("boost_lockfree",))
    for run in measured.document["runs"]:
        if run["contender"] == "moodycamel" and run["cell"].get("producers") == 4:
            run.update(status="crashed", reason="killed by SIGSEGV <script>", metrics={})
        if run["contender"] == "libuv" and run["experiment"] == "hop" and run["cell"]["loops"] == 8:
            run.update(status="out_of_memory", reason="out of memory after 2.00 s", metrics={})
        if run["contender"] == "libevent" and run["experiment"] == "timers":
            run.update(status="refused", reason="too few open files", metrics={})
    out = tmp_path_factory.mktemp("report") / "index.html"
    return report.write(dict.fromkeys(measured.experiments, measured), out)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, without a window."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox"], timeout=PATIENCE
        )
        yield started
        started.close()


def visit(browser: Browser, file: Path, width: int = 1200, scheme: str = "light") -> Page:
    """The drawn page in a browser without a network; `page.said` has the console's messages."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.said = []
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on(
        "request",
        lambda request: request.url.startswith(("file:", "data:")) or page.said.append(request.url),
    )
    page.goto(file.as_uri())
    page.wait_for_selector(f"html[data-drawn={scheme}]")
    return page


def test_opens_without_network_and_without_complaint(browser: Browser, page_file: Path) -> None:
    page = visit(browser, page_file)
    assert page.said == []
    assert page.locator(".chart svg").count() == page.locator(".chart").count() == 15
    for name in ("post_task", "hop", "timers", "machine"):
        assert page.locator(f"section#{name} h2").count() == 1


def test_answers_the_first_question_at_the_top(browser: Browser, page_file: Path) -> None:
    page = visit(browser, page_file)
    expect(page.locator("#answer h2")).to_contain_text("Use gyre sharded: 7.")
    expect(page.locator(".bars li").first).to_contain_text("gyre sharded")


def test_overview_has_a_row_for_each_experiment_with_its_verdict(
    browser: Browser, page_file: Path
) -> None:
    page = visit(browser, page_file)
    rows = page.locator(".overview-table tbody tr")
    assert rows.count() == 3
    expect(page.locator("#overview h2")).to_have_text(
        "gyre is ahead in 3 of 3 experiments on this machine."
    )
    row = page.locator('.overview-table tr[data-name="post_task"]')
    expect(row.locator("a")).to_have_attribute("href", "#post_task")
    expect(row).to_contain_text("Which cross-thread queue should an event loop use")
    expect(row).to_contain_text("▲ ahead")
    expect(row).to_contain_text(re.compile(r"\d\.\d\d× \(\d\.\d\d to \d\.\d\d\)"))
    row.locator("summary").click()
    expect(row).to_contain_text("gyre sharded: ")


def test_filter_leaves_the_chosen_experiments(browser: Browser, page_file: Path) -> None:
    page = visit(browser, page_file)
    page.fill("#filter-name", "timers")
    expect(page.locator("#filter-count")).to_have_text("1 of 3 experiments")
    assert page.locator(".overview-table tbody tr:visible").count() == 1
    assert page.locator("section.experiment:visible").count() == 1
    assert page.locator(".card:visible").count() == 1
    page.fill("#filter-name", "")
    page.uncheck("input[value=ahead]")
    assert page.locator("section.experiment:visible").count() == 0
    page.check("input[value=ahead]")
    assert page.locator("section.experiment:visible").count() == 3


def test_page_begins_with_the_published_conclusions(browser: Browser, page_file: Path) -> None:
    page = visit(browser, page_file)
    first = page.locator("main > section").first
    expect(first.locator("h1")).to_contain_text("of 7 hold on this machine")
    row = first.locator("tbody tr", has_text="With several producers, boost's queue")
    expect(row).to_contain_text("75 to 150 %")
    expect(row).to_contain_text("+100 % in its figures")
    expect(row).to_contain_text("not measured: boost_lockfree")
    expect(row.locator(".badge")).to_have_text("? undecided")


def test_page_without_scripts_shows_everything_but_the_filter(
    browser: Browser, page_file: Path
) -> None:
    page = browser.new_context(java_script_enabled=False, offline=True).new_page()
    page.goto(page_file.as_uri())
    assert page.locator(".filter").is_hidden()
    assert page.locator("section.experiment").count() == 3
    page.locator("#post_task details.figures summary").first.click()
    assert page.locator("#post_task table.matrix").first.is_visible()


def test_figures_are_folded_and_links_are_not(browser: Browser, page_file: Path) -> None:
    page = visit(browser, page_file, width=400)
    assert page.locator("table.matrix").count() > 0
    assert page.locator("table.matrix:visible, table.plain:visible").count() == 0
    inside = "e => { const r = e.getBoundingClientRect(); return r.left >= 0 && r.right <= 400; }"
    links = page.locator("header a, .overview-table a").all()
    assert len(links) >= 6
    assert all(link.evaluate(inside) for link in links)


@pytest.fixture(scope="module")
def network_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of bars with long labels and long whiskers."""
    measured = synthetic.results(("latency",), noise=0.5)
    out = tmp_path_factory.mktemp("network") / "index.html"
    return report.write(dict.fromkeys(measured.experiments, measured), out)


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("fixture", ["page_file", "network_page"])
def test_no_label_of_a_chart_is_cut(
    browser: Browser, request: pytest.FixtureRequest, fixture: str, width: int
) -> None:
    page = visit(browser, request.getfixturevalue(fixture), width=width)
    cut = page.evaluate(
        """() => [...document.querySelectorAll(".chart svg text")].filter((text) => {
          if (!text.textContent.trim() || getComputedStyle(text).opacity === "0") return false;
          const label = text.getBoundingClientRect();
          const chart = text.ownerSVGElement.getBoundingClientRect();
          return text.textContent.endsWith("…") || label.left < chart.left - 1 ||
            label.right > chart.right + 1 || label.top < chart.top - 1 ||
            label.bottom > chart.bottom + 1;
        }).map((text) => text.textContent)"""
    )
    assert cut == []


def test_memory_is_told_as_times_as_much(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    forms = ("gyre_epoll", "gyre_epoll_coroutine", "gyre_uring_coroutine")
    measured = synthetic.results(("connections",), faster=dict.fromkeys(forms, 4))
    out = tmp_path_factory.mktemp("memory") / "index.html"
    page = visit(browser, report.write({"connections": measured}, out))
    half = re.compile(r"0\.5\d× \(0\.[45]\d to 0\.5\d\) as much memory")
    quarter = re.compile(r"0\.2\d× \(0\.2\d to 0\.2\d\) as much memory")
    expect(page.locator(".overview-table tbody tr")).to_contain_text(half)  # of libuv
    expect(page.locator(".card-figure")).to_have_text(re.compile(r"0\.5\d×"))
    claim = page.locator(".claim", has_text="With coroutines, an idle connection")
    expect(claim).to_contain_text("Goal: at most 1")
    expect(claim).to_contain_text(quarter)  # of asio and libevent
    page.locator("#connections details.figures summary").first.click()
    table = page.locator("#connections table.matrix").first
    expect(table).to_contain_text(re.compile(r"0\.2\d×"))


def test_growth_is_told_in_words(browser: Browser, page_file: Path) -> None:
    page = visit(browser, page_file)
    first = page.locator("#post_task .growth > li").first
    expect(first).to_contain_text(
        "Time per task by producer threads, 1 to 20 (Wake-ups coalesced, 16 bytes, Alone): gyre fifo grows as"
    )
    expect(page.locator("#timers")).to_contain_text("Growth: this grid has no two cells")


def test_legend_toggles_a_contender_in_every_chart_of_the_experiment(
    browser: Browser, page_file: Path
) -> None:
    page = visit(browser, page_file)
    button = page.locator("#post_task .legend button", has_text="mutex")
    lines = page.locator("#post_task-wake-ups-coalesced-16-bytes-alone g.mark-line path")
    other = page.locator("#hop-callable-hop g.mark-line path")
    before, elsewhere = lines.count(), other.count()
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(lines).to_have_count(before - 1)
    expect(other).to_have_count(elsewhere)
    button.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(lines).to_have_count(before)


def test_hovering_tells_the_figure_and_the_ratio(browser: Browser, page_file: Path) -> None:
    page = visit(browser, page_file)
    point = page.locator(
        '#post_task-wake-ups-coalesced-16-bytes-alone path[aria-roledescription="circle"]'
    ).first
    point.scroll_into_view_if_needed()
    point.hover(force=True)
    tooltip = page.locator("#vg-tooltip-element.visible")
    expect(tooltip).to_contain_text("Producer threads")
    expect(tooltip).to_contain_text(re.compile(r"\d ns"))


@pytest.mark.parametrize("width", [390, 320, 768, 1200])
def test_page_never_scrolls_sideways(browser: Browser, page_file: Path, width: int) -> None:
    page = visit(browser, page_file, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width == 390:
        page.locator("#post_task details.figures summary").first.click()
        wide = page.locator("#post_task .scroll").first
        assert wide.evaluate("e => e.scrollWidth > e.clientWidth")


def test_follows_the_dark_scheme_and_turns_while_open(browser: Browser, page_file: Path) -> None:
    page = visit(browser, page_file, scheme="dark")
    colour = "() => getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(colour)
    line = page.locator("#post_task-wake-ups-coalesced-16-bytes-alone g.mark-line path").first
    dark_line = line.get_attribute("stroke")
    page.emulate_media(color_scheme="light")
    page.wait_for_selector("html[data-drawn=light]")
    assert page.evaluate(colour) != dark
    assert line.get_attribute("stroke") != dark_line


def test_contenders_differ_without_colour(browser: Browser, page_file: Path) -> None:
    page = visit(browser, page_file)
    lines = page.locator("#post_task-wake-ups-coalesced-16-bytes-alone g.mark-line path").all()
    dashes = [line.get_attribute("stroke-dasharray") for line in lines]
    assert len(set(dashes)) == len(dashes)
    marks = page.locator("#post_task .legend path[fill=currentColor]").all()
    shapes = [mark.get_attribute("d") for mark in marks]
    assert len(set(shapes)) == len(shapes)


def test_tells_failures_and_what_was_not_built(browser: Browser, page_file: Path) -> None:
    page = visit(browser, page_file)
    expect(page.locator("#post_task .alert")).to_contain_text("killed by SIGSEGV <script>")
    expect(page.locator("#post_task")).to_contain_text("not measured: boost_lockfree")
    expect(page.locator("#post_task table.matrix").first).to_contain_text("5 of 5 runs crashed")


def test_tells_a_death_of_the_memory_limit_as_a_result(browser: Browser, page_file: Path) -> None:
    page = visit(browser, page_file)
    expect(page.locator("#hop table.matrix").first).to_contain_text("out of memory")
    expect(page.locator("#hop table.matrix").first).to_contain_text("5 of 5 runs out of memory")
    expect(page.locator("#hop details").last).to_contain_text("out of memory after 2.00 s (6 runs)")
    assert page.locator("#hop .alert").count() == 0


def test_tells_what_the_machine_could_not_run(browser: Browser, page_file: Path) -> None:
    page = visit(browser, page_file)
    expect(page.locator("#timers table.matrix").first).to_contain_text("not run")
    expect(page.locator("#timers details").last).to_contain_text("too few open files")
    assert page.locator("#timers .alert").count() == 0


def test_charts_are_also_files(page_file: Path) -> None:
    folder = page_file.parent / "charts"
    pictures = sorted(file.name for file in folder.iterdir())
    assert "post_task-wake-ups-coalesced-16-bytes-alone.svg" in pictures
    assert (
        (folder / "post_task-wake-ups-coalesced-16-bytes-alone.svg").read_text().startswith("<svg")
    )
    assert (folder / "timers-start-and-fire.png").read_bytes().startswith(b"\x89PNG")
    assert len(pictures) == 30
