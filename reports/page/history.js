"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const PAGE_ROWS = 60;
const byId = (id) => document.getElementById(id);
const figures = new Map(data.figures.map((figure) => [figure.name, figure]));
let limit = PAGE_ROWS;

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function drawn(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function percent(share) {
  if (typeof share !== "number") return "from 0";
  const text = Math.abs(share * 100).toFixed(Math.abs(share) < 0.0995 ? 1 : 0);
  return `${share < 0 ? "−" : "+"}${text}%`;
}

function show(series, value) {
  const figure = figures.get(series.figure);
  if (!series.case) return percent(value - 1);
  const shown = value / figure.divisor;
  const digits = figure.exact || shown >= 1000 ? 0 : shown >= 100 ? 1 : shown >= 1 ? 2 : 3;
  const text = shown !== 0 && shown < 0.001
    ? shown.toExponential(1)
    : shown.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return figure.unit === "×" ? `${text}×` : `${text} ${figure.unit}`.trim();
}

// Of several changes, the newest counts.
const newest = (series) => series.changes.at(-1);
const size = (series, isWorse) => {
  const change = newest(series);
  if (!change || change[2] !== isWorse) return -1;
  return typeof change[1] === "number" ? Math.abs(change[1]) : Infinity;
};
const noise = (series) => {
  const [, , value, low, high] = series.levels.at(-1);
  return value ? (high - low) / value : 0;
};
const ORDERS = {
  worst: (a, b) => size(b, true) - size(a, true),
  best: (a, b) => size(b, false) - size(a, false),
  newest: (a, b) => changedOn(b) - changedOn(a),
  noise: (a, b) => noise(b) - noise(a),
  name: () => 0,
};
const changedOn = (series) => (newest(series) ? series.nights[newest(series)[0]] : -1);

function chosen() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const tests = words.map((word) => {
    const parts = word.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
    return new RegExp(parts.join(".*"));
  });
  const place = Number(byId("place").value);
  return data.series
    .filter((series) => series.place === place && series.figure === byId("figure").value)
    .filter((series) => tests.every((test) => test.test(series.case)))
    .sort((a, b) => (a.case < b.case ? -1 : 1))
    .sort(ORDERS[byId("order").value])
    .sort((a, b) => Boolean(a.case) - Boolean(b.case));
}

function plot(series, height, isLarge) {
  const width = isLarge ? 1000 : 640, left = isLarge ? 64 : 4, bottom = isLarge ? 22 : 4;
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: isLarge ? "xMidYMid meet" : "none",
    role: "img", "aria-label": `${series.figure} of ${series.case || "all cases"} over ${series.nights.length} nights` });
  const first = axis(series)[0], last = axis(series)[1];
  const limits = [...series.values, ...series.levels.flatMap((level) => [level[3], level[4]])].filter(Number.isFinite);
  let low = Math.min(...limits), high = Math.max(...limits);
  const room = (high - low) * 0.08 || Math.abs(high) * 0.05 || 1;
  low -= room; high += room;
  const x = (night) => left + ((night - first) / Math.max(last - first, 1)) * (width - left - 8);
  const y = (value) => height - bottom - ((value - low) / (high - low)) * (height - bottom - 6);
  for (const [start, end, value, bandLow, bandHigh] of series.levels) {
    const from = x(series.nights[start]), to = x(series.nights[end - 1]);
    svg.append(drawn("rect", { class: "band", x: from - 2, width: to - from + 4, y: y(bandHigh),
      height: Math.max(y(bandLow) - y(bandHigh), 1) }));
    svg.append(drawn("line", { class: "level", x1: from, x2: to, y1: y(value), y2: y(value) }));
  }
  for (const [at, , isWorse] of series.changes) {
    const where = (x(series.nights[at]) + x(series.nights[at - 1])) / 2;
    svg.append(drawn("line", { class: `at ${isWorse ? "worse" : "better"}`, x1: where, x2: where, y1: 0, y2: height - bottom }));
  }
  for (const [night, text] of data.places[series.place].changes) {
    const line = drawn("line", { class: "env", x1: x(night - 0.5), x2: x(night - 0.5), y1: 0, y2: height - bottom });
    line.append(drawn("title", {}, `${data.nights[night][0]}: ${text}`));
    svg.append(line);
  }
  const points = series.nights.map((night, index) => `${x(night)},${y(series.values[index])}`);
  svg.append(drawn("polyline", { class: "line", points: points.join(" ") }));
  if (isLarge) {
    series.nights.forEach((night, index) => {
      const dot = drawn("circle", { class: "dot", cx: x(night), cy: y(series.values[index]), r: 3 });
      const [date, run, versions] = data.nights[night];
      dot.append(drawn("title", {}, `${date}: ${show(series, series.values[index])}\n${run}\n${versions}`));
      svg.append(dot);
    });
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const value = low + room + (high - low - 2 * room) * share;
      svg.append(drawn("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, show(series, value)));
      const night = Math.round(first + (last - first) * share);
      const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
      svg.append(drawn("text", { x: x(night), y: height - 4, "text-anchor": anchor }, data.nights[night][0]));
    }
  }
  return svg;
}

// All series of a machine have one axis, so that their changes stand above each other.
function axis(series) {
  const here = data.places[series.place];
  here.axis ??= data.series.filter((one) => data.places[one.place] === here).reduce(
    ([low, high], one) => [Math.min(low, one.nights[0]), Math.max(high, one.nights.at(-1))], [Infinity, -Infinity]);
  return here.axis;
}

function row(series) {
  const change = newest(series);
  const kind = change ? (change[2] ? "worse" : "better") : "";
  const made = element("div", { className: `trend${series.case ? "" : " mean"}` });
  const id = element("button", { type: "button", className: "id", textContent: series.case || `Mean of ${series.cases} cases` });
  id.setAttribute("aria-expanded", "false");
  const figure = element("div", { className: "plot" }, plot(series, 54, false));
  const last = element("div", { className: "last", textContent: show(series, series.values.at(-1)) });
  const text = element("div", { className: `change ${kind}` });
  if (change) {
    text.append(element("b", { textContent: percent(change[1]) }), element("br"),
      data.nights[series.nights[change[0]]][0]);
  }
  const facts = element("div", { className: "facts", hidden: true });
  for (const [at, share, isWorse, cause] of series.changes) {
    facts.append(element("p", { textContent: `${data.nights[series.nights[at]][0]}: ${percent(share)}, `
      + `${isWorse ? "worse" : "better"}, with ${cause || "nothing that is recorded"}` }));
  }
  made.append(id, figure, last, text, facts);
  made.addEventListener("click", () => {
    const isOpen = made.classList.toggle("open");
    id.setAttribute("aria-expanded", String(isOpen));
    facts.hidden = !isOpen;
    figure.replaceChildren(plot(series, isOpen ? 240 : 54, isOpen));
  });
  return made;
}

function render() {
  const found = chosen();
  byId("trends").replaceChildren(...found.slice(0, limit).map(row));
  if (!found.length) byId("trends").append(element("p", { className: "none", textContent: "No case has this figure here." }));
  const cases = found.filter((series) => series.case);
  const changed = cases.filter(newest).length;
  byId("shown").textContent = `${cases.length} cases, ${changed} changed`;
  byId("about").textContent = figures.get(byId("figure").value).about;
  byId("more").hidden = found.length <= limit;
  byId("more").textContent = `Show ${Math.min(PAGE_ROWS, found.length - limit)} more`;
}

function begin() {
  data.places.forEach((place, index) => byId("place").append(element("option", { value: index, textContent: place.name })));
  const worst = (name) => data.series.filter((series) => series.case && series.figure === name && size(series, true) > 0).length;
  for (const { name } of data.figures) {
    const count = worst(name);
    byId("figure").append(element("option", { value: name, textContent: count ? `${name} (${count} worse)` : name }));
  }
  const first = data.figures.find(({ name }) => worst(name));
  if (first) byId("figure").value = first.name;
  for (const id of ["search", "figure", "place", "order"]) {
    byId(id).addEventListener("input", () => { limit = PAGE_ROWS; render(); });
  }
  byId("more").addEventListener("click", () => { limit += PAGE_ROWS; render(); });
  byId("all-events")?.addEventListener("click", (event) => {
    document.querySelectorAll(".events li[hidden]").forEach((item) => { item.hidden = false; });
    event.target.remove();
  });
  if (data.figures.length) render();
}
begin();
