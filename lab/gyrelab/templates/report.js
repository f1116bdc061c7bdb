// Draws the charts, redraws them when the colour scheme changes, and makes the legend toggle lines.
const dark = matchMedia("(prefers-color-scheme: dark)");
const views = {};

function hidden(section) {
  return new Set([...section.querySelectorAll('.legend [aria-pressed="false"]')].map((b) => b.dataset.contender));
}

function theme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const narrow = innerWidth < 600;
  return {
    background: null,
    font: getComputedStyle(document.body).fontFamily,
    axis: {
      labelColor: colour("--soft"), titleColor: colour("--soft"), labelFontSize: narrow ? 11 : 12.5,
      titleFontSize: narrow ? 11.5 : 12.5, titleFontWeight: "normal", titlePadding: 10,
      gridColor: colour("--grid"), domainColor: colour("--axis"), tickColor: colour("--axis"),
    },
    text: { color: colour("--ink") },
    rule: { color: colour("--ink") },
    view: { stroke: null },
  };
}

function themed(specification) {
  if (!dark.matches) return specification;
  const text = JSON.stringify(specification);
  return JSON.parse(text.replace(/#[0-9a-f]{6}/g, (light) => darkColours[light] ?? light));
}

// Vega-Lite reads "container" sizes once; the page chooses the element's height.
async function draw(id) {
  const element = document.getElementById(id);
  const specification = { ...themed(specifications[id]), height: "container" };
  views[id]?.finalize();
  const result = await vegaEmbed(element, specification, { actions: false, renderer: "svg", config: theme() });
  views[id] = result.view;
  await show(element.closest("section"), id);
}

async function show(section, id) {
  const off = hidden(section);
  const shown = specifications[id].params.find((each) => each.name === "shown").value;
  await views[id].signal("shown", shown.filter((name) => !off.has(name))).runAsync();
}

async function drawAll() {
  await Promise.all(Object.keys(specifications).map(draw));
  document.documentElement.dataset.drawn = dark.matches ? "dark" : "light";
}

for (const button of document.querySelectorAll(".legend button")) {
  button.addEventListener("click", async () => {
    button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");
    const section = button.closest("section");
    const ids = [...section.querySelectorAll(".chart")].map((chart) => chart.id);
    await Promise.all(ids.map((id) => show(section, id)));
  });
}

// A chart in closed details has no width, so it is drawn anew when they open.
for (const details of document.querySelectorAll("details.charts")) {
  details.addEventListener("toggle", () => details.open && details.querySelectorAll(".chart").forEach((chart) => draw(chart.id)));
}

dark.addEventListener("change", drawAll);
drawAll();

// The filter shows rows, cards and sections of the chosen experiments. Without this script all show.
const filter = document.querySelector(".filter");

function applyFilter() {
  const wanted = document.getElementById("filter-name").value.trim().toLowerCase();
  const verdicts = new Set([...filter.querySelectorAll("input:checked")].map((box) => box.value));
  let shown = 0;
  for (const row of document.querySelectorAll(".overview-table tbody tr")) {
    const text = `${row.dataset.name} ${row.querySelector("th").textContent}`.toLowerCase();
    const visible = text.includes(wanted) && verdicts.has(row.dataset.verdict);
    for (const each of document.querySelectorAll(`[data-name="${row.dataset.name}"]`)) each.hidden = !visible;
    shown += visible;
  }
  const all = document.querySelectorAll(".overview-table tbody tr").length;
  document.getElementById("filter-count").textContent = shown === all ? "" : `${shown} of ${all} experiments`;
}

if (filter) {
  filter.hidden = false;
  filter.addEventListener("input", applyFilter);
}
