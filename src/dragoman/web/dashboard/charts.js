// Small charts of our own: lines over time as SVG, and bars.

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
const minute = (at) => { const d = new Date(at * 1000); return `${pad(d.getHours())}:${pad(d.getMinutes())}`; };

/** Lines over time. series: [{name, values, css, filled}]; label says it all for screen readers. */
export function lines({ from, step, series, label, format = String }) {
  const width = 720, height = 180, left = 52, right = 8, top = 8, bottom = 22;
  const highest = roundUp(Math.max(0, ...series.flatMap((each) => each.values)));
  const number = series[0].values.length;
  const x = (i) => left + (i / Math.max(1, number - 1)) * (width - left - right);
  const y = (v) => top + (1 - v / highest) * (height - top - bottom);
  const chart = s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const share of [0, 0.5, 1]) {
    const at = y(highest * share);
    chart.append(s("line", { class: "rule", x1: left, x2: width - right, y1: at, y2: at }));
    chart.append(s("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, format(highest * share)));
  }
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const i = Math.round(share * (number - 1));
    const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
    chart.append(s("text", { x: x(i), y: height - 4, "text-anchor": anchor }, minute(from + i * step)));
  }
  for (const { values, css, filled } of series) {
    const points = values.map((v, i) => `${x(i).toFixed(1)},${y(v).toFixed(1)}`);
    if (filled) chart.append(s("path", { class: `area ${css}`, d: `M${left},${y(0)}L${points.join("L")}L${x(number - 1)},${y(0)}Z` }));
    chart.append(s("path", { class: css, d: `M${points.join("L")}` }));
  }
  return chart;
}

/** A bar of a share between 0 and 1. */
export function bar(share, label, warnAbove = 2) {
  const box = document.createElement("div");
  box.className = share > warnAbove ? "bar warn" : "bar";
  box.append(s("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("rect", { width: Math.max(0, Math.min(1, share)) * 100, height: 8 })));
  return box;
}
