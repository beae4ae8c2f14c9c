// Every case in a row, sorted by any column.

const FIGURES = page.columns.flatMap((column) => [
  { key: column.name, name: column.name, title: column.about, show: format[column.unit], figure: true },
  ...(CHANGES.includes(column) ? [{ key: `${column.name}_change`, name: `${column.name} Δ`, figure: true,
    title: `change of ${column.name} from the baseline to the candidate, in per cent`, show: format.change }] : []),
]);
const hasReasons = cases.some((item) => item.reason);
/** The width of a column that shows `length` characters; a heading also needs room for its arrow. */
const widthFor = (length) => Math.ceil(7 * length + 26);
/** The least width of a column without a width of its own. Such columns share the rest of the table. */
const LEAST = 230;
const COLUMNS = [
  { key: "kind", name: "class", width: widthFor(cases.reduce((most, item) => Math.max(most, item.kindName.length), 8) + 3) },
  { key: "case", name: "case" },
  ...FIGURES.filter((column) => cases.some((item) => item[column.key] !== null))
    .map((column) => ({ ...column, width: widthFor(Math.max(6, column.name.length)) })),
  ...(hasReasons ? [{ key: "reason", name: "what", css: "why" }] : []),
];

const narrow = matchMedia("(max-width: 720px)");

/** The height of a row: two lines, and on a narrow screen further lines for the figures. */
function rowHeight() {
  if (!narrow.matches) return 44;
  const characters = COLUMNS.reduce((sum, { figure, name }) => sum + (figure ? name.length + 9 : 0), 0);
  return 80 + 18 * Math.ceil((6.4 * characters) / (innerWidth - 64));
}
const table = { sorted: "kind", direction: 1, rows: [], heads: new Map(), drawn: "" };

function valueFor(item, key) {
  const value = item[key];
  return value === null || value === "" ? undefined : value;
}

function sortRows() {
  const { sorted, direction } = table;
  table.rows = [...view].sort((a, b) => {
    const [x, y] = [valueFor(a, sorted), valueFor(b, sorted)];
    if (x === y) return a.index - b.index;
    if (x === undefined) return 1;  // missing values stay at the end in both directions
    if (y === undefined) return -1;
    const [n, m] = [typeof x === "number", typeof y === "number"];
    if (n !== m) return n ? 1 : -1;  // NaN and infinities are text, and come first
    return (x < y ? -1 : 1) * direction;
  });
}

function tableRow(index) {
  const item = table.rows[index];
  const cells = COLUMNS.map((column) => {
    if (column.key === "kind") {
      return make("td", { role: "cell", class: "kindcell" },
        make("span", { class: "chip kind", "data-kind": item.kindName }, format.name(item.kindName)));
    }
    if (column.key === "case") {
      return make("th", { scope: "row", role: "rowheader" },
        make("button", { type: "button", class: "id", title: item.case }, ...breakable(item.case)));
    }
    if (column.key === "reason") return make("td", { role: "cell", class: "why", title: item.reason }, make("span", {}, item.reason));
    return make("td", { role: "cell", class: "num", "data-name": column.name }, column.show(item[column.key]));
  });
  return make("tr", { role: "row", "aria-rowindex": index + 2, "data-case": item.case }, ...cells);
}

/** The parts of a case id, with a place after each dash where a line may break. */
function breakable(id) {
  return id.split(/(?<=[-_])/).flatMap((part) => [part, make("wbr")]);
}

/** Draw the rows in sight; two empty rows keep the place of the others. */
function drawVisibleRows() {
  const height = rowHeight(), count = table.rows.length, { box } = table;
  const first = Math.max(0, Math.floor(box.scrollTop / height) - 6);
  const last = Math.min(count, first + Math.ceil(innerHeight / height) + 12);  // the box is never taller
  const drawn = `${first} ${last} ${height}`;
  if (drawn === table.drawn) return;
  table.drawn = drawn;
  table.box.style.setProperty("--row", `${height}px`);
  const space = (rows) => make("tr", { "aria-hidden": "true", class: "space" },
    make("td", { colspan: COLUMNS.length, height: rows * height }));
  table.body.replaceChildren(
    ...(first ? [space(first)] : []),
    ...Array.from({ length: last - first }, (_, offset) => tableRow(first + offset)),
    ...(last < count ? [space(count - last)] : []),
  );
}

function drawTable() {
  sortRows();
  for (const [key, head] of table.heads) {
    const direction = table.direction === 1 ? "ascending" : "descending";
    if (key === table.sorted) head.setAttribute("aria-sort", direction);
    else head.removeAttribute("aria-sort");
  }
  byId("sort").value = table.sorted;
  byId("direction").textContent = table.direction === 1 ? "↑" : "↓";
  table.element.setAttribute("aria-rowcount", table.rows.length + 1);
  table.empty.hidden = table.rows.length > 0;
  table.box.scrollTop = 0;
  table.drawn = "";
  drawVisibleRows();
}

function sortBy(key, direction) {
  table.sorted = key;
  table.direction = direction;
  drawTable();
}

/** The menu that sorts where a narrow screen has no room for headings. */
function makeSortMenu() {
  byId("sort").append(...COLUMNS.map(({ key, name }) => make("option", { value: key }, name)));
  byId("sort").addEventListener("change", (event) => sortBy(event.target.value, 1));
  byId("direction").addEventListener("click", () => sortBy(table.sorted, -table.direction));
}

function makeTable() {
  makeSortMenu();
  const heads = COLUMNS.map((column) => {
    const sort = () => {
      sortBy(column.key, table.sorted === column.key ? -table.direction : 1);
    };
    const button = make("button", { type: "button", "data-sort": column.key, title: column.title, onclick: sort }, column.name);
    const css = column.figure ? "num" : column.css ?? null;
    const head = make("th", { scope: "col", role: "columnheader", class: css }, button);
    table.heads.set(column.key, head);
    return head;
  });
  const widths = COLUMNS.map(({ width }) => make("col", { width: width ?? null }));
  table.body = make("tbody", { role: "rowgroup" });
  table.element = make("table", { role: "table" },
    make("caption", { class: "unseen" }, "Cases, sortable by each column"),
    make("colgroup", {}, ...widths),
    make("thead", { role: "rowgroup" }, make("tr", { role: "row", "aria-rowindex": 1 }, ...heads)), table.body);
  const least = COLUMNS.reduce((sum, { width }) => sum + (width ?? LEAST), 0);
  table.element.style.setProperty("--least", `${least}px`);
  table.empty = make("p", { class: "empty" }, "No case matches these filters.");
  table.box = byId("table");
  table.box.append(table.element, table.empty);
  let pending = false;
  const later = () => { if (!pending) { pending = true; requestAnimationFrame(() => { pending = false; drawVisibleRows(); }); } };
  table.box.addEventListener("scroll", later, { passive: true });
  addEventListener("resize", later);
  table.body.addEventListener("click", (event) => {
    const row = event.target.closest("[data-case]");
    if (row) openCase(row.dataset.case);
  });
  narrow.addEventListener("change", drawTable);
  listeners.push(drawTable);
}
