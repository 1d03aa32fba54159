// Small charts of our own: lines over time as SVG, drawn at their real width, and bars.

import { h } from "./dom.js";

const NS = "http://www.w3.org/2000/svg";
function s(name, attributes = {}, ...children) {
  const made = document.createElementNS(NS, name);
  for (const [key, given] of Object.entries(attributes)) made.setAttribute(key, given);
  made.append(...children);
  return made;
}

/** Round a maximum up to 1, 2 or 5 times a power of ten, so that the rules have round numbers. */
export function roundUp(n) {
  if (n <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= n * 0.999);
}

const pad = (n) => String(n).padStart(2, "0");
function moment(at, span) {
  const d = new Date(at * 1000), minute = `${pad(d.getHours())}:${pad(d.getMinutes())}`;
  const day = `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())}`.slice(5);
  if (span > 2 * 86400) return day;
  return span > 12 * 3600 ? `${day} ${minute}` : span < 900 ? `${minute}:${pad(d.getSeconds())}` : minute;
}

const HEIGHT = 190, LEFT = 56, RIGHT = 10, TOP = 10, BOTTOM = 24;

function plot({ from, step, series, label, format }, width) {
  const highest = roundUp(Math.max(0, ...series.flatMap((each) => each.values)));
  const number = series[0].values.length, span = step * number;
  const x = (i) => LEFT + (i / Math.max(1, number - 1)) * (width - LEFT - RIGHT);
  const y = (v) => TOP + (1 - v / highest) * (HEIGHT - TOP - BOTTOM);
  const chart = s("svg", { class: "chart", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const at = y(highest * share);
    chart.append(s("line", { class: share ? "rule" : "rule base", x1: LEFT, x2: width - RIGHT, y1: at, y2: at }));
    if (share * 2 % 1 === 0) chart.append(s("text", { x: LEFT - 8, y: at + 4, "text-anchor": "end" }, format(highest * share)));
  }
  const marks = Math.max(2, Math.min(6, Math.floor(width / 110)));
  for (let k = 0; k <= marks; k++) {
    const i = Math.round((k / marks) * (number - 1)), anchor = k === 0 ? "start" : k === marks ? "end" : "middle";
    chart.append(s("text", { x: x(i), y: HEIGHT - 6, "text-anchor": anchor }, moment(from + i * step, span)));
  }
  for (const { values, css, filled } of series) {
    const points = values.map((v, i) => `${x(i).toFixed(1)},${y(v).toFixed(1)}`);
    if (filled) chart.append(s("path", { class: `area ${css}`, d: `M${LEFT},${y(0)}L${points.join("L")}L${x(number - 1)},${y(0)}Z` }));
    chart.append(s("path", { class: css, d: `M${points.join("L")}` }));
  }
  const cursor = s("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, x1: -9, x2: -9 });
  chart.append(cursor);
  return { chart, cursor, x, index: (px) => Math.max(0, Math.min(number - 1, Math.round(((px - LEFT) / (width - LEFT - RIGHT)) * (number - 1)))) };
}

/** Lines over time. series: [{name, values, css, filled}]; label says it all for screen readers. */
export function lines({ format = String, ...given }) {
  const wanted = { format, ...given }, read = h("div", { class: "readout", "aria-hidden": "true" });
  const box = h("div", { class: "chart-box" }, read);
  let drawn = null, width = 0;
  const draw = () => {
    const found = Math.max(220, Math.round(box.clientWidth));
    if (found === width) return;
    width = found;
    drawn?.chart.remove();
    drawn = plot(wanted, width);
    box.append(drawn.chart);
  };
  new ResizeObserver(draw).observe(box);
  box.addEventListener("pointermove", (event) => {
    if (!drawn) return;
    const i = drawn.index(event.clientX - box.getBoundingClientRect().left), at = drawn.x(i);
    drawn.cursor.setAttribute("x1", at);
    drawn.cursor.setAttribute("x2", at);
    read.textContent = [moment(wanted.from + i * wanted.step, Math.min(86400, wanted.step * 1e4)), ...wanted.series.map((each) => `${each.name} ${format(each.values[i])}`)].join(" · ");
  });
  box.addEventListener("pointerleave", () => { read.textContent = ""; drawn?.cursor.setAttribute("x1", -9); drawn?.cursor.setAttribute("x2", -9); });
  return box;
}

/** A bar of a share between 0 and 1. */
export function bar(share, label, warnAbove = 2) {
  const box = document.createElement("div");
  box.className = share > warnAbove ? "bar warn" : "bar";
  box.append(s("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("rect", { width: Math.max(0, Math.min(1, share)) * 100, height: 8 })));
  return box;
}
