// Speedup and compile time of the cases that are shown: sorted, or the baseline against the candidate.

/** Round numbers that divide a range on a logarithmic scale: four to eight of them. */
function ticks(low, high) {
  for (const digits of [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 5, 7]]) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      for (const digit of digits) {
        const value = +(digit * 10 ** power).toPrecision(3);
        if (value >= low && value <= high) found.push(value);
      }
    }
    if (found.length >= 4) return found;
  }
  const step = 10 ** Math.floor(Math.log10((high - low) / 3));
  const size = [5, 2, 1].map((times) => times * step).find((each) => (high - low) / each >= 3);
  const found = [];
  for (let value = Math.ceil(low / size) * size; value <= high; value += size) found.push(+value.toPrecision(6));
  return found;
}

const CHARTS = {
  speedup: { now: "speedup", before: "speedup_before", show: (v) => `${v}×`, line: 1,
    axis: "speedup (×)", about: "eager time divided by compiled time, with its 99% interval" },
  compile: { now: "compile", before: "compile_before", show: (v) => `${v} s`,
    axis: "compile time (s)", about: "filled where the cache was empty" },
};

function drawChart(name) {
  const chart = CHARTS[name], canvas = byId(`${name}-chart`), note = byId(`${name}-note`);
  const has = (item) => finite(item[chart.now]) && item[chart.now] > 0;
  const paired = page.compared && view.some((item) => has(item) && item[chart.before] > 0);
  const shown = view.filter((item) => has(item) && (!paired || item[chart.before] > 0));
  chart.points = [];
  canvas.closest("figure").hidden = !shown.length;
  if (!shown.length) return;
  chart.text = paired ? "a point for each case: above the line, the candidate has more" : chart.about;
  note.textContent = chart.text;
  const width = canvas.clientWidth, height = canvas.clientHeight, scale = devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.font = "11px system-ui, sans-serif";
  const soft = colour("--soft"), line = colour("--line");
  const values = shown.flatMap((item) => (paired ? [item[chart.now], item[chart.before]] : [item[chart.now]]));
  if (chart.line) values.push(chart.line);
  const bounds = extentOf(values);
  const low = bounds[0] / 1.12, high = bounds[1] * 1.12;
  const box = { left: 52, right: width - 14, top: 28, bottom: height - (paired ? 40 : 26) };
  const y = (value) => box.bottom - (Math.log(value / low) / Math.log(high / low)) * (box.bottom - box.top);
  const x = paired
    ? (value) => box.left + (Math.log(value / low) / Math.log(high / low)) * (box.right - box.left)
    : (rank) => box.left + ((rank + 0.5) / shown.length) * (box.right - box.left);
  pen.fillStyle = soft;
  pen.lineWidth = 1;
  pen.fillText(paired ? `candidate: ${chart.axis}` : chart.axis, 8, 16);
  pen.textAlign = "right";
  pen.fillText(paired ? `baseline: ${chart.axis}` : `${format.many(shown.length, "case")}, sorted`, box.right, height - 8);
  for (const value of ticks(low, high)) {
    pen.strokeStyle = value === chart.line ? soft : line;
    segment(pen, box.left, y(value), box.right, y(value));
    pen.textAlign = "right";
    pen.fillText(chart.show(value), box.left - 6, y(value) + 4);
    if (paired) {
      segment(pen, x(value), box.top, x(value), box.bottom);
      pen.textAlign = "center";
      pen.fillText(chart.show(value), x(value), box.bottom + 16);
    }
  }
  if (paired) { pen.strokeStyle = soft; segment(pen, x(low), y(low), x(high), y(high)); }
  const order = paired ? [...shown].sort((a, b) => b.kind - a.kind) : [...shown].sort((a, b) => a[chart.now] - b[chart.now]);
  const radius = shown.length > 1500 ? 1.8 : shown.length > 300 ? 2.5 : 3.5;
  const neutral = colour("--compiled"), notable = new Map();
  order.forEach((item, rank) => {
    if (!notable.has(item.kindName)) {
      const quiet = ["unchanged", "passed", "skipped", "not judged"].includes(item.kindName);
      notable.set(item.kindName, quiet ? neutral : colour(`--k-${item.kindName.replace(/[ _]/g, "-")}`));
    }
    const tint = notable.get(item.kindName);
    const at = [x(paired ? item[chart.before] : rank), y(item[chart.now])];
    pen.fillStyle = pen.strokeStyle = tint;
    if (!paired && name === "speedup" && shown.length < 400 && finite(item.low)) {
      pen.globalAlpha = 0.45;
      segment(pen, at[0], y(Math.max(item.low, low)), at[0], y(Math.min(item.high, high)));
      pen.globalAlpha = 1;
    }
    pen.beginPath();
    pen.arc(at[0], at[1], radius, 0, 2 * Math.PI);
    if (name === "compile" && !item.cold) pen.stroke(); else pen.fill();
    chart.points.push([...at, item]);
  });
}

function extentOf(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) { if (value < low) low = value; if (value > high) high = value; }
  return [low, high];
}

function segment(pen, x1, y1, x2, y2) {
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}

function nearest(chart, event) {
  let best = null, least = 400;
  for (const [x, y, item] of chart.points ?? []) {
    const distance = (x - event.offsetX) ** 2 + (y - event.offsetY) ** 2;
    if (distance < least) [best, least] = [item, distance];
  }
  return best;
}

function makeCharts() {
  const drawAll = () => { for (const name of Object.keys(CHARTS)) drawChart(name); };
  for (const [name, chart] of Object.entries(CHARTS)) {
    const canvas = byId(`${name}-chart`);
    canvas.addEventListener("pointermove", (event) => {
      const item = nearest(chart, event);
      canvas.style.cursor = item ? "pointer" : "";
      const before = item && item[chart.before] ? `${chart.show(item[chart.before])} → ` : "";
      byId(`${name}-note`).textContent = item ? `${item.case}: ${before}${chart.show(item[chart.now])}` : chart.text;
    });
    canvas.addEventListener("click", (event) => { const item = nearest(chart, event); if (item) openCase(item.case); });
  }
  new ResizeObserver(drawAll).observe(document.querySelector(".charts"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  listeners.push(drawAll);
}
