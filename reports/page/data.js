// The cases, as the page was given them: one object a row, its axes taken from its id.

const page = JSON.parse(byId("data").textContent);
const AXES = Object.keys(page.axes);
const KINDS = page.kinds.map(([kind]) => kind);

const cases = page.rows.map((row, index) => {
  const item = { index };
  page.columns.forEach((column, position) => { item[column] = row[position]; });
  item.kindName = KINDS[item.kind];
  const [model, ...values] = item.case.split("-");
  item.model = model;
  AXES.forEach((axis, position) => { item[axis] = values[position] ?? "whole"; });
  item.setting = values.join("-");
  item.text = `${item.case} ${item.reason}`.toLowerCase();
  return item;
});
const caseByName = new Map(cases.map((item) => [item.case, item]));

let chunks = null;
const inflated = new Map();

/** What the page holds of a case besides: inflated when it is asked for. */
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
