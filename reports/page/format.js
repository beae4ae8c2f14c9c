"use strict";
// How values are shown. Details show the digits of the run file.

const format = {
  ratio: (value) => (value === null ? "" : typeof value === "string" ? value : `${value.toFixed(2)}×`),
  seconds: (value) => (value === null ? "" : `${value.toFixed(1)} s`),
  count: (value) => (value === null ? "" : String(value)),
  error: (value) => (value === null ? "" : typeof value === "string" ? value : value.toExponential(0)),
  change: (value) => (value === null ? "" : `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(1)} %`),
  exact: (value) => (value === null || value === undefined ? "" : String(value)),
  bytes: (value) => `${(value / 2 ** 20).toFixed(1)} MiB`,
  time: (ns) => (ns < 1e3 ? `${ns} ns` : ns < 1e6 ? `${+(ns / 1e3).toPrecision(3)} µs`
    : ns < 1e9 ? `${+(ns / 1e6).toPrecision(3)} ms` : `${+(ns / 1e9).toPrecision(3)} s`),
  name: (text) => text.replaceAll("_", " "),
  many: (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`,
};

/** An element with attributes and children; text is only ever set as text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const byId = (id) => document.getElementById(id);

/** The value of a colour that the style sheet names, in the light or the dark scheme. */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
