// Every case in a row, sorted by any column.

const COLUMNS = [
  { key: "kind", name: "class", css: "kindhead", width: "124px" },
  { key: "case", name: "case", width: "minmax(220px, 3fr)" },
  { key: "speedup", name: "speedup", show: format.ratio, width: "70px", wide: true },
  { key: "compile_s", name: "compile", show: format.seconds, width: "70px", wide: true },
  { key: "memory", name: "memory", show: format.ratio, width: "68px", wide: true },
  { key: "breaks", name: "breaks", show: format.count, width: "52px", wide: true },
  { key: "recompiles", name: "recompiles", show: format.count, width: "76px", wide: true },
  { key: "forward", name: "forward", show: format.error, width: "62px", wide: true },
  { key: "gradients", name: "gradients", show: format.error, width: "70px", wide: true },
  { key: "reason", name: "what", css: "why", width: "minmax(0, 2fr)" },
].filter((column) => column.key === "kind" || cases.some((item) => item[column.key] !== null && item[column.key] !== ""));

const narrow = matchMedia("(max-width: 720px)");
const table = { sorted: "kind", direction: 1, rows: [], draw: null, heads: new Map() };

function valueFor(item, key) {
  const value = item[key];
  return value === null || value === "" ? undefined : value;
}

function sortRows() {
  const { sorted, direction } = table;
  table.rows = [...view].sort((a, b) => {
    const [x, y] = [valueFor(a, sorted), valueFor(b, sorted)];
    if (x === y) return a.index - b.index;
    if (x === undefined) return 1;  // what is missing stays at the end, whichever way
    if (y === undefined) return -1;
    const [n, m] = [typeof x === "number", typeof y === "number"];
    if (n !== m) return n ? 1 : -1;  // NaN and infinities are text, and come first
    return (x < y ? -1 : 1) * direction;
  });
}

function drawTableRow(index) {
  const item = table.rows[index];
  const cells = COLUMNS.map((column) => {
    if (column.key === "kind") return make("span", { class: "chip kind", "data-kind": item.kindName }, format.name(item.kindName));
    if (column.key === "case") return make("button", { type: "button", class: "id", title: item.case }, item.case);
    if (column.key === "reason") return make("span", { class: "why", title: item.reason }, item.reason);
    return make("span", { class: "num wide" }, column.show(item[column.key]));
  });
  return make("div", { class: "tr", role: "row", "data-case": item.case }, ...cells);
}

function drawTable() {
  sortRows();
  for (const [key, head] of table.heads) {
    if (key === table.sorted) head.dataset.sorted = table.direction;
    else delete head.dataset.sorted;
  }
  const columns = narrow.matches ? "max-content minmax(0, 1fr)" : COLUMNS.map((column) => column.width).join(" ");
  byId("table").style.setProperty("--columns", columns);
  table.empty.hidden = table.rows.length > 0;
  table.draw(table.rows.length, narrow.matches ? 58 : 34);
}

function makeTable() {
  const heads = COLUMNS.map((column) => {
    const sort = () => {
      table.direction = table.sorted === column.key ? -table.direction : 1;
      table.sorted = column.key;
      drawTable();
    };
    const button = make("button", { type: "button", "data-sort": column.key, onclick: sort }, column.name);
    table.heads.set(column.key, button);
    const css = column.show ? "num wide" : column.css ?? "";
    return make("span", { class: css, role: "columnheader" }, button);
  });
  const body = make("div", { class: "body" });
  table.empty = make("p", { class: "empty" }, "No case matches these filters.");
  byId("table").append(make("div", { class: "tr thead", role: "row" }, ...heads), body, table.empty);
  table.draw = virtualRows(body, drawTableRow);
  body.addEventListener("click", (event) => {
    const row = event.target.closest("[data-case]");
    if (row) openCase(row.dataset.case);
  });
  narrow.addEventListener("change", drawTable);
  listeners.push(drawTable);
}
