// Which cases are shown: by class, by words, by the values of axes.

const filters = { kinds: new Set(), words: [], axes: {} };
let view = cases;
const listeners = [];

function pattern(word) {
  const escaped = word.replace(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".");
  return new RegExp(escaped);
}

function applyFilters() {
  const { kinds, words, axes } = filters;
  const patterns = words.map(pattern);
  view = cases.filter((item) =>
    (!kinds.size || kinds.has(item.kindName))
    && Object.entries(axes).every(([axis, value]) => item[axis] === value)
    && patterns.every((found) => found.test(item.text)));
  const narrowed = view.length < cases.length;
  byId("shown").textContent = narrowed
    ? `${view.length.toLocaleString("en")} of ${format.many(cases.length, "case")}`
    : format.many(cases.length, "case");
  byId("clear").hidden = !kinds.size && !words.length && !Object.keys(axes).length;
  for (const listener of listeners) listener();
}

function makeFilters() {
  const counts = new Map();
  for (const item of cases) counts.set(item.kindName, (counts.get(item.kindName) ?? 0) + 1);
  for (const [kind, meaning] of page.kinds) {
    if (!counts.has(kind)) continue;
    const toggle = (event) => {
      if (!filters.kinds.delete(kind)) filters.kinds.add(kind);
      event.currentTarget.setAttribute("aria-pressed", filters.kinds.has(kind));
      applyFilters();
    };
    byId("kinds").append(make("button",
      { type: "button", "data-kind": kind, "aria-pressed": "false", title: meaning, onclick: toggle },
      make("b", {}, counts.get(kind).toLocaleString("en")), format.name(kind)));
  }
  for (const axis of AXES) {
    const values = page.axes[axis].filter((value) => cases.some((item) => item[axis] === value));
    if (values.length < 2) continue;
    const select = make("select", { "aria-label": axis, "data-axis": axis, onchange: () => {
      if (select.value) filters.axes[axis] = select.value;
      else delete filters.axes[axis];
      applyFilters();
    } }, make("option", { value: "" }, `any ${axis}`), ...values.map((value) => make("option", { value }, value)));
    byId("axes").append(select);
  }
  let pending = 0;
  byId("search").addEventListener("input", (event) => {
    clearTimeout(pending);
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    pending = setTimeout(() => { filters.words = words; applyFilters(); }, 80);
  });
  byId("clear").addEventListener("click", () => {
    filters.kinds.clear();
    filters.words = [];
    filters.axes = {};
    byId("search").value = "";
    for (const select of byId("axes").children) select.value = "";
    for (const chip of byId("kinds").children) chip.setAttribute("aria-pressed", "false");
    applyFilters();
  });
}

/** Rows of one height of which only those in sight exist. */
function virtualRows(container, render) {
  const layer = make("div", { class: "layer" });
  const spacer = make("div", { class: "spacer" }, layer);
  container.append(spacer);
  let count = 0, height = 1, first = -1, last = -1, pending = false;
  const draw = () => {
    pending = false;
    const start = Math.max(0, Math.floor((container.scrollTop - spacer.offsetTop) / height) - 6);
    const end = Math.min(count, start + Math.ceil(container.clientHeight / height) + 16);
    if (start === first && end === last) return;
    [first, last] = [start, end];
    layer.style.transform = `translateY(${start * height}px)`;
    layer.replaceChildren(...Array.from({ length: end - start }, (_, offset) => render(start + offset)));
  };
  const later = () => { if (!pending) { pending = true; requestAnimationFrame(draw); } };
  container.addEventListener("scroll", later, { passive: true });
  addEventListener("resize", () => { first = -1; later(); });
  return (rows, rowHeight, width = "") => {
    [count, height, first] = [rows, rowHeight, -1];
    spacer.style.height = `${rows * rowHeight}px`;
    spacer.style.width = width;
    if (container.scrollTop > rows * rowHeight) container.scrollTop = 0;
    draw();
  };
}
