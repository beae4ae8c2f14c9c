// Models × settings. A cell is a case; its colour shows its class or one of its figures.

const METRICS = { class: { name: "class" } };
for (const column of page.columns) {
  METRICS[column.name] = {
    name: column.name, of: (item) => item[column.name], show: format[column.unit], about: column.about,
    betterIsMore: column.moreIsBetter, counts: column.unit === "count", centre: column.unit === "ratio",
  };
}
for (const column of CHANGES) {
  METRICS[`${column.name}_change`] = {
    name: `change of ${column.name}`, centre: true, betterIsMore: column.moreIsBetter,
    of: (item) => (item[`${column.name}_change`] === null ? null : 1 + item[`${column.name}_change`] / 100),
    show: (value) => format.change(100 * (value - 1)), about: `${column.name} of the candidate against the baseline's`,
  };
}
const LETTERS = { broken: "F", failed: "F", regressed: "R", "eager regressed": "E", gone: "–", "not observed": "–", inconclusive: "?",
  "not comparable": "≠", fixed: "✓", improved: "↑", accepted: "x", new: "+", expected_failure: "x" };

const blend = (from, to, share) => `color-mix(in oklab, ${from}, ${to} ${Math.round(100 * share)}%)`;

/** Where a value lies on the scale of a metric: -1 … 1 around a centre, else 0 … 1. */
function scaleOf(metric, items) {
  const values = items.map(metric.of).filter((value) => finite(value) && (metric.counts || value > 0));
  if (!values.length) return null;
  const transform = metric.counts ? (value) => value : Math.log;
  let low = Math.min(...extent(values, transform)), high = Math.max(...extent(values, transform));
  if (metric.centre) {
    high = Math.max(Math.abs(low), Math.abs(high), Math.log(1.05));
    return { place: (value) => Math.max(-1, Math.min(1, transform(value) / high)), ends: [Math.exp(-high), Math.exp(high)] };
  }
  if (metric.counts) low = 0;
  const span = high - low || 1;
  const back = metric.counts ? (value) => value : Math.exp;
  return { place: (value) => (transform(value) - low) / span, ends: [back(low), back(high)] };
}

/** The range of all but the outermost values, so that one odd case does not bleach the others. */
function extent(values, transform) {
  const sorted = values.map(transform).sort((a, b) => a - b);
  const cut = Math.floor(sorted.length * 0.01);
  return [sorted[cut], sorted[sorted.length - 1 - cut]];
}

function shade(metric, place) {
  if (!metric.centre) return blend("var(--k-passed)", metric.counts ? "var(--k-regressed)" : "var(--accent)", place);
  const good = metric.betterIsMore ? place > 0 : place < 0;
  return blend("var(--hover)", good ? "var(--k-fixed)" : "var(--k-regressed)", Math.min(1, Math.abs(place) * 1.1 + 0.08));
}

const heatmap = { draw: null, models: [], settings: [], cells: new Map() };

function arrange() {
  const settings = new Map(), models = new Map();
  for (const item of view) {
    settings.set(item.setting, item);
    if (!models.has(item.model)) models.set(item.model, []);
    models.get(item.model).push(item);
  }
  const rank = (item) => AXES.map((axis) => page.axes[axis].indexOf(item[axis]));
  const compare = (a, b) => { const [x, y] = [rank(a), rank(b)]; const i = x.findIndex((v, n) => v !== y[n]); return i < 0 ? 0 : x[i] - y[i]; };
  heatmap.settings = [...settings.values()].sort(compare);
  const metric = METRICS[byId("metric").value];
  const order = byId("model-order").value;
  const keys = new Map();
  for (const [model, items] of models) {
    const values = metric.of ? items.map(metric.of).filter(finite).sort((a, b) => a - b) : [];
    const median = values.length ? values[values.length >> 1] : Infinity;
    const worst = Math.min(...items.map((item) => item.kind));
    const many = -items.filter((item) => item.kind === worst).length;
    keys.set(model, order === "worst" ? [worst, many] : order === "value" && metric.of ? [median] : []);
  }
  heatmap.models = [...models.keys()].sort((a, b) => {
    const [x, y] = [keys.get(a), keys.get(b)];
    for (let i = 0; i < x.length; i++) if (x[i] !== y[i]) return x[i] - y[i];
    return a < b ? -1 : 1;
  });
  heatmap.cells = new Map(view.map((item) => [`${item.model} ${item.setting}`, item]));
  heatmap.metric = metric;
  heatmap.scale = metric.of ? scaleOf(metric, view) : null;
}

function drawHead() {
  const varying = AXES.filter((axis) => new Set(heatmap.settings.map((item) => item[axis])).size > 1);
  const fixed = AXES.filter((axis) => !varying.includes(axis));
  const [any] = heatmap.settings;
  const common = any ? fixed.map((axis) => any[axis]).filter((value) => value !== "whole") : [];
  byId("common").textContent = common.length ? `all: ${common.join(", ")}` : "";
  const labels = heatmap.settings.map((item) =>
    make("span", { title: item.setting }, varying.map((axis) => item[axis]).filter((v) => v !== "whole").join(" ") || item.setting));
  const map = byId("map");
  map.querySelector(".head")?.remove();
  map.prepend(make("div", { class: "head" }, make("div", { class: "corner" }), ...labels));
}

function drawLegend() {
  const { metric, scale } = heatmap, legend = byId("legend");
  legend.replaceChildren();
  if (!metric.of) return;
  if (!scale) { legend.append("not measured"); return; }
  const stops = Array.from({ length: 9 }, (_, i) => shade(metric, metric.centre ? i / 4 - 1 : i / 8));
  const bar = make("span", { class: "scale" });
  bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  legend.append(metric.show(scale.ends[0]), bar, metric.show(scale.ends[1]), make("span", {}, metric.about));
}

function drawRow(index) {
  const model = heatmap.models[index], { metric, scale } = heatmap;
  const cells = heatmap.settings.map((setting) => {
    const item = heatmap.cells.get(`${model} ${setting.setting}`);
    if (!item) return make("div", { class: "none" });
    const cell = make("div", { class: "cell", "data-case": item.case, "data-kind": item.kindName });
    if (!metric.of) {
      cell.textContent = LETTERS[item.kindName] ?? "";
      cell.title = `${item.case}: ${format.name(item.kindName)}`;
    } else {
      const value = metric.of(item);
      cell.style.background = finite(value) && scale ? shade(metric, scale.place(value)) : "transparent";
      cell.title = `${item.case}: ${finite(value) ? metric.show(value) : "not measured"}`;
    }
    return cell;
  });
  return make("div", { class: "row" }, make("div", { class: "name", title: model }, model), ...cells);
}

function drawHeatmap() {
  arrange();
  drawHead();
  drawLegend();
  heatmap.draw(heatmap.models.length, 21);
}

function makeHeatmap() {
  for (const [key, metric] of Object.entries(METRICS)) {
    if (!metric.of || cases.some((item) => finite(metric.of(item)))) {
      byId("metric").append(make("option", { value: key }, metric.name));
    }
  }
  byId("map").style.setProperty("--longest", cases.reduce((most, item) => Math.max(most, item.model.length), 0));
  heatmap.draw = virtualRows(byId("map"), drawRow);
  byId("map").addEventListener("click", (event) => {
    const cell = event.target.closest("[data-case]");
    if (cell) openCase(cell.dataset.case);
  });
  for (const id of ["metric", "model-order"]) byId(id).addEventListener("change", drawHeatmap);
  listeners.push(drawHeatmap);
}
