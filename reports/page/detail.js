// All that is known of one case, inflated and drawn when it is opened.

const GROUP_NAMES = { outputs: "output", gradients: "gradient", state: "state" };

function rows(heads, body) {
  const cell = (tag) => ([text, css]) => make(tag, { class: css ?? null }, text);
  return make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, ...heads.map(cell("th")))),
    make("tbody", {}, ...body.map((line) => make("tr", {}, ...line.map(cell("td")))))));
}

function part(title, ...children) {
  return [make("h3", {}, title), ...children];
}

function tellChanges(told) {
  const lines = told.changes.map(([effect, aspect, text, more]) => make("div", { class: "change" },
    make("span", { class: `effect ${effect}` }, effect), ` ${aspect ? `${aspect}: ` : ""}${text}`,
    ...(more.length ? [make("pre", {}, more.join("\n"))] : [])));
  if (told.proposals.length) lines.push(...part("Budgets that would hold it", make("pre", {}, told.proposals.join("\n"))));
  return lines.length ? lines : [make("p", { class: "soft" }, "Nothing changed.")];
}

function tellFailure(failure, status) {
  const kind = failure.kind ? `${failure.kind}: ` : "";
  const parts = part("How it ended", make("p", {}, `${format.name(status)} in stage ${failure.stage}: ${kind}${failure.message}`));
  if (failure.traceback) parts.push(make("pre", {}, failure.traceback));
  if (failure.output) parts.push(make("p", { class: "soft" }, "last output"), make("pre", {}, failure.output));
  return parts;
}

function tellCapture(capture) {
  const parts = [];
  const breaks = capture.breaks.map(([reason, id, place, owner]) => [[`${reason}${id ? ` [${id}]` : ""}`, "long"], [`${place}${owner ? ` (${owner})` : ""}`, "long mono"]]);
  const graphs = format.many(capture.graphs, "graph");
  parts.push(...part(`Graph breaks: ${breaks.length}, ${graphs}`, ...(breaks.length ? [rows([["reason"], ["where"]], breaks)] : [])));
  const again = capture.recompiles.map(([call, code, reason]) => [[String(call), "num"], [code, "long mono"], [reason, "long"]]);
  parts.push(...part(`Recompilations: ${again.length}`, ...(again.length ? [rows([["call", "num"], ["code"], ["because"]], again)] : [])));
  for (const limit of capture.limits) parts.push(make("pre", {}, limit));
  if (capture.cudagraph_skips.length) parts.push(...part("CUDA graphs skipped", make("pre", {}, capture.cudagraph_skips.join("\n"))));
  return parts;
}

function tellTensors(side) {
  const body = side.tensors.map(([group, call, name, dtype, scale, ...errors]) => [
    [name, "mono"], [GROUP_NAMES[group]], [String(call), "num"], [dtype],
    [format.exact(scale), "num"], ...errors.map((error) => [format.exact(error), "num"])]);
  const heads = [["tensor"], ["is"], ["call", "num"], ["dtype"], ["scale", "num"],
    ["eager rms", "num"], ["compiled rms", "num"], ["eager max", "num"], ["compiled max", "num"]];
  const rest = side.tensor_count - side.tensors.length;
  const title = rest > 0 ? `Numeric errors, the ${side.tensors.length} of ${side.tensor_count} furthest beyond eager's own` : "Numeric errors";
  return part(title, rows(heads, body));
}

function tellTimes(side, range) {
  const [value, low, high] = side.speedup ?? [];
  const title = side.speedup ? `Speedup ${value}, 99% interval ${low} to ${high}` : "Times";
  return part(title, plotRounds(side, range));
}

function tellCommand(command) {
  const copy = make("button", { type: "button", onclick: async () => {
    await navigator.clipboard.writeText(command);
    copy.textContent = "Copied";
  } }, "Copy");
  return part("See it again", make("div", { class: "command" }, make("pre", {}, command), copy));
}

function tellSide(side, range) {
  const box = make("div", { class: "side" });
  if (page.compared) box.append(make("h2", {}, `torch ${side.torch}`));
  if (!side.status) {
    box.append(make("p", { class: "soft" }, side.planned ? "Planned, but not observed." : "Not in this run."));
    return box;
  }
  if (side.failure) box.append(...tellFailure(side.failure, side.status));
  if (side.verdicts.length) {
    const body = side.verdicts.map(([aspect, outcome, summary]) => [[format.name(aspect)], [format.name(outcome), `o-${outcome}`], [summary, "long"]]);
    box.append(...part("Verdicts", rows([["aspect"], ["outcome"], ["seen"]], body)));
  }
  if (side.eager_ns?.length) box.append(...tellTimes(side, range));
  if (side.compile_s) {
    const [total, ...phases] = side.compile_s;
    const body = ["dynamo", "aot", "inductor", "codegen"].map((phase, i) => [[phase], [`${phases[i]} s`, "num"]]);
    box.append(...part(`Compile time ${total} s`, rows([["phase"], ["time", "num"]], body)));
  }
  if (side.memory_bytes) {
    const [eager, compiled] = side.memory_bytes;
    const body = [["eager", eager], ["compiled", compiled]].map(([name, bytes]) => [[name], [format.bytes(bytes), "num"], [`${bytes} bytes`, "num"]]);
    box.append(...part("Peak memory", rows([["side"], ["peak", "num"], ["", "num"]], body)));
  }
  if (side.energy_j) box.append(...part("Energy a call", make("p", {}, `eager ${side.energy_j[0]} J, compiled ${side.energy_j[1]} J`)));
  if (side.capture) box.append(...tellCapture(side.capture));
  if (side.tensors.length) box.append(...tellTensors(side));
  const facts = side.facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)));
  box.append(...part("Observed with", make("dl", {}, ...facts)), ...tellCommand(side.command));
  return box;
}

let wanted = null;

async function openCase(name) {
  const item = caseByName.get(name);
  if (!item) return;
  wanted = item;
  const told = await detailsOf(item);
  if (wanted !== item) return;  // another was opened meanwhile
  const title = byId("detail-title");
  title.replaceChildren(`${item.case} `, make("span", { class: "chip kind", "data-kind": item.kindName }, format.name(item.kindName)));
  const body = byId("detail-body");
  body.replaceChildren();
  if (told.changes) body.append(...part("What changed", ...tellChanges(told)));
  const range = rangeOfRounds(told.sides);
  body.append(make("div", { class: "sides" }, ...told.sides.map((side) => tellSide(side, range))));
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
