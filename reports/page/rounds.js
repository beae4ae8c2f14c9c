// Paired rounds: each round times eager and compiled back to back.

const SVG = "http://www.w3.org/2000/svg";

function draw(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** The rounds of one side; both sides share `range`, so that they can be compared. */
function plotRounds(side, range) {
  const width = page.compared || innerWidth < 800 ? 460 : 1000, height = 200, box = { left: 58, right: width - 8, top: 24, bottom: height - 22 };
  const [low, high] = range;
  const y = (value) => box.bottom - (Math.log(value / low) / Math.log(high / low)) * (box.bottom - box.top);
  const count = side.eager_ns.length;
  const x = (round) => box.left + ((round + 0.5) / count) * (box.right - box.left);
  const plot = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "time per call by round" });
  for (const value of ticks(low, high)) {
    plot.append(draw("line", { class: "grid", x1: box.left, x2: box.right, y1: y(value), y2: y(value) }));
    plot.append(draw("text", { x: box.left - 6, y: y(value) + 4, "text-anchor": "end" }, format.time(value)));
  }
  for (const name of ["eager", "compiled"]) {
    const values = side[`${name}_ns`];
    const path = values.map((value, round) => `${round ? "L" : "M"}${x(round).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    plot.append(draw("path", { class: name, d: path, "stroke-width": 1, "stroke-opacity": 0.35 }));
    values.forEach((value, round) => {
      const dot = draw("circle", { class: name, cx: x(round), cy: y(value), r: 2.6 });
      dot.append(draw("title", {}, `round ${round + 1}, ${name}: ${value} ns`));
      plot.append(dot);
    });
  }
  plot.append(draw("text", { x: 4, y: 12 }, "time of a call"));
  const legend = [["eager", box.left], ["compiled", box.left + 70]];
  for (const [name, left] of legend) {
    plot.append(draw("circle", { class: name, cx: left + 4, cy: height - 8, r: 3 }));
    plot.append(draw("text", { x: left + 12, y: height - 4 }, name));
  }
  plot.append(draw("text", { x: box.right, y: height - 4, "text-anchor": "end" }, `${count} rounds`));
  return plot;
}

function rangeOfRounds(sides) {
  const values = sides.flatMap((side) => [...(side.eager_ns ?? []), ...(side.compiled_ns ?? [])]).filter((v) => v > 0);
  const [low, high] = extentOf(values);
  return [low / 1.08, high * 1.08];
}
