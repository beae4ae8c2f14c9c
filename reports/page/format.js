"use strict";
// How values are shown.

/** Digits that are significant, without trailing zeros. */
const significant = (value, digits) => String(+value.toPrecision(digits));

const format = {
  ratio: (value) => (value === null ? "" : typeof value === "string" ? value : `${value.toFixed(value < 100 ? 2 : 0)}×`),
  seconds: (value) => (value === null ? "" : `${value.toFixed(value < 100 ? 1 : 0)} s`),
  count: (value) => (value === null ? "" : String(value)),
  /** An error: one digit, or more where a reader compares tensors. */
  error: (value, digits = 1) => {
    if (value === null || value === undefined) return "";
    if (typeof value === "string" || value === 0) return String(value);
    return value >= 1e-3 && value < 1e4 ? significant(value, digits) : value.toExponential(digits - 1);
  },
  change: (value) => (value === null ? "" : `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(1)}%`),
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
