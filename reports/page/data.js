// The cases: one object for each row, with the axes of its id.

const page = JSON.parse(byId("data").textContent);
const AXES = Object.keys(page.axes);
const KINDS = page.kinds.map(([kind]) => kind);
/** The columns whose change between two runs is shown. */
const CHANGES = page.compared ? page.columns.filter((column) => column.hasChange) : [];

const finite = (value) => typeof value === "number" && Number.isFinite(value);

/** By how many per cent a value changed; null where one of the two is missing. */
const change = (now, before) => (finite(now) && finite(before) && before > 0 ? 100 * (now / before - 1) : null);

const cases = page.rows.map((row, index) => {
  const item = { index };
  page.fields.forEach((field, position) => { item[field] = row[position]; });
  for (const { name } of CHANGES) item[`${name}_change`] = change(item[name], item[`${name}_before`]);
  item.kindName = KINDS[item.kind];
  const [model, ...values] = item.case.split("-");
  item.model = model;
  AXES.forEach((axis, position) => {
    item[axis] = page.leftOut[axis] ? values.find((value) => page.axes[axis].includes(value)) : values[position];
    item[axis] ??= page.leftOut[axis];
  });
  item.setting = values.join("-");
  item.text = `${item.case} ${item.reason}`.toLowerCase();
  return item;
});
const caseByName = new Map(cases.map((item) => [item.case, item]));

let chunks = null;
const inflated = new Map();

/** The details of a case; its chunk is inflated when the first of its cases is opened. */
async function detailsOf(item) {
  chunks ??= byId("chunks").textContent.trim().split("\n");
  const number = Math.floor(item.index / page.chunk);
  if (!inflated.has(number)) {
    const bytes = Uint8Array.from(atob(chunks[number]), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    inflated.set(number, JSON.parse(await new Response(stream).text()));
  }
  return inflated.get(number)[item.index % page.chunk];
}
