// The details of one case, drawn when it is opened.

const GROUP_NAMES = { outputs: "output", gradients: "gradient", state: "state" };

function rows(title, heads, body) {
  const cell = ([text, css, exact]) => make("td", { class: css ?? null, title: exact }, text);
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, make("table", { class: body.some((line) => line.some(([, css]) => css?.includes("long"))) ? null : "compact" }, make("caption", { class: "unseen" }, title),
    make("thead", {}, make("tr", {}, ...heads.map(([text, css]) => make("th", { scope: "col", class: css ?? null }, text)))),
    make("tbody", {}, ...body.map((line) => make("tr", {}, ...line.map(cell))))));
}

function part(title, ...children) {
  return [make("h3", {}, title), ...children];
}

function showChanges(details) {
  const lines = details.changes.map(([effect, aspect, text, more]) => make("div", { class: "change" },
    make("span", { class: `effect ${effect}` }, effect), ` ${aspect ? `${aspect}: ` : ""}${text}`,
    ...(more.length ? [make("pre", {}, more.join("\n"))] : [])));
  if (details.proposals.length) lines.push(...part("Budgets that would keep the improvement", make("pre", {}, details.proposals.join("\n"))));
  return lines.length ? lines : [make("p", { class: "soft" }, "Nothing changed.")];
}

function showFailure(failure, status) {
  const kind = failure.kind ? `${failure.kind}: ` : "";
  const parts = part("How it ended", make("p", {}, `${format.name(status)} in stage ${failure.stage}: ${kind}${failure.message}`));
  if (failure.traceback) parts.push(make("pre", {}, failure.traceback));
  if (failure.output) parts.push(make("p", { class: "soft" }, "last output"), make("pre", {}, failure.output));
  return parts;
}

function showCapture(capture) {
  const parts = [];
  const breaks = capture.breaks.map(([reason, id, place, owner]) => [[`${reason}${id ? ` [${id}]` : ""}`, "long"], [`${place}${owner ? ` (${owner})` : ""}`, "long mono"]]);
  const graphs = format.many(capture.graphs, "graph");
  parts.push(...part(`Graph breaks: ${breaks.length}, ${graphs}`, ...(breaks.length ? [rows("Graph breaks", [["reason"], ["where"]], breaks)] : [])));
  const again = capture.recompiles.map(([call, code, reason]) => [[String(call), "num"], [code, "long mono"], [reason, "long"]]);
  parts.push(...part(`Recompilations: ${again.length}`, ...(again.length ? [rows("Recompilations", [["call", "num"], ["code"], ["because"]], again)] : [])));
  for (const limit of capture.limits) parts.push(make("pre", {}, limit));
  if (capture.cudagraph_skips.length) parts.push(...part("CUDA graphs skipped", make("pre", {}, capture.cudagraph_skips.join("\n"))));
  return parts;
}

function showTensors(side) {
  const body = side.tensors.map(([group, call, name, dtype, scale, ...errors]) => [
    [name, "mono"], [GROUP_NAMES[group]], [String(call), "num"], [dtype],
    ...[scale, ...errors].map((figure) => [format.error(figure, 3), "num", String(figure ?? "")])]);
  const heads = [["tensor"], ["kind"], ["call", "num"], ["dtype"], ["scale", "num"],
    ["eager rms", "num"], ["compiled rms", "num"], ["eager max", "num"], ["compiled max", "num"]];
  const rest = side.tensor_count - side.tensors.length;
  const title = rest > 0 ? `Numeric errors: the ${side.tensors.length} of ${side.tensor_count} tensors furthest beyond eager's error` : "Numeric errors";
  return part(title, rows(title, heads, body));
}

function showTimes(side, range) {
  const [value, low, high] = side.speedup ?? [];
  const bound = (limit) => format.ratio(limit).replace("×", "");
  const title = side.speedup ? `Speedup ${format.ratio(value)} [${bound(low)}, ${bound(high)}], the 99% interval` : "Times";
  return part(title, plotRounds(side, range));
}

function showCommand(command) {
  const copy = make("button", { type: "button", onclick: async () => {
    await navigator.clipboard.writeText(command);
    copy.textContent = "Copied";
  } }, "Copy");
  return part("Reproduce", make("div", { class: "command" }, make("pre", {}, command), copy));
}

function showSide(side, name, range) {
  const box = make("div", { class: "side" });
  if (page.compared) box.append(make("h2", {}, `${name}: torch ${side.torch}`));
  if (!side.status) {
    box.append(make("p", { class: "soft" }, side.planned ? "Planned, but not observed." : "Not in this run."));
    return box;
  }
  if (side.failure) box.append(...showFailure(side.failure, side.status));
  if (side.verdicts.length) {
    const body = side.verdicts.map(([aspect, outcome, summary]) => [[format.name(aspect)], [format.name(outcome), `o-${outcome}`], [summary, "long"]]);
    box.append(...part("Verdicts", rows("Verdicts", [["aspect"], ["outcome"], ["summary"]], body)));
  }
  if (side.eager_ns?.length) box.append(...showTimes(side, range));
  if (side.compile_s) {
    const [total, ...phases] = side.compile_s;
    const body = ["dynamo", "aot", "inductor", "codegen"].map((phase, i) => [[phase], [`${phases[i].toFixed(2)} s`, "num", `${phases[i]} s`]]);
    box.append(...part(`Compile time ${total.toFixed(2)} s`, rows("Compile time by phase", [["phase"], ["time", "num"]], body)));
  }
  if (side.memory_bytes) {
    const [eager, compiled] = side.memory_bytes;
    const body = [["eager", eager], ["compiled", compiled]].map(([name, bytes]) => [[name], [format.bytes(bytes), "num"], [`${bytes} bytes`, "num"]]);
    box.append(...part("Peak memory", rows("Peak memory", [["side"], ["peak", "num"], ["", "num"]], body)));
  }
  if (side.energy_j) box.append(...part("Energy a call", make("p", {}, `eager ${significant(side.energy_j[0], 3)} J, compiled ${significant(side.energy_j[1], 3)} J`)));
  if (side.capture) box.append(...showCapture(side.capture));
  if (side.tensors.length) box.append(...showTensors(side));
  const facts = side.facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)));
  box.append(...part("Observed with", make("dl", {}, ...facts)), ...showCommand(side.command));
  return box;
}

let wanted = null;

async function openCase(name) {
  const item = caseByName.get(name);
  if (!item) return;
  wanted = item;
  const details = await detailsOf(item);
  if (wanted !== item) return;  // the reader has opened another one
  const title = byId("detail-title");
  title.replaceChildren(`${item.case} `, make("span", { class: "chip kind", "data-kind": item.kindName }, format.name(item.kindName)));
  const body = byId("detail-body");
  body.replaceChildren();
  if (details.changes) body.append(...part("What changed", ...showChanges(details)));
  const range = rangeOfRounds(details.sides);
  body.append(make("div", { class: "sides" }, ...details.sides.map((side, index) => showSide(side, index ? "candidate" : "baseline", range))));
  const dialog = byId("detail");
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  history.replaceState(null, "", `#${encodeURIComponent(item.case)}`);
}

function makeDetail() {
  const dialog = byId("detail");
  byId("close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => history.replaceState(null, "", location.pathname + location.search));
  for (const link of document.querySelectorAll(".first a[data-case]")) {
    link.addEventListener("click", (event) => { event.preventDefault(); openCase(link.dataset.case); });
  }
  const openLinked = () => { if (location.hash.length > 1) openCase(decodeURIComponent(location.hash.slice(1))); };
  addEventListener("hashchange", openLinked);
  openLinked();
}
