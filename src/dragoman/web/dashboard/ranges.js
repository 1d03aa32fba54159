// The range of the charts: the last minutes live, any longer one from the pipeline's tables.

import { get } from "./api.js";
import { field, h, href, instant } from "./dom.js";

const LIVE = { "10m": 600, "1h": 3600 };
const PAST = { "24h": 86400, "7d": 7 * 86400, "30d": 30 * 86400 };
const NAMES = { "10m": "10 minutes", "1h": "1 hour", "24h": "24 hours", "7d": "7 days", "30d": "30 days" };
const COUNTS = ["submitted", "succeeded", "failed", "refused"];

export const isLive = (query) => !query.since && !PAST[query.range];

/** The chosen range, in words: it follows "Jobs a second, ". */
export function rangeName(query, upSeconds) {
  if (query.since) return `${instant(Number(query.since))} to ${instant(Number(query.until))}`;
  return `last ${NAMES[chosen(query, upSeconds)]}`;
}
const chosen = (query, upSeconds) => (NAMES[query.range] ? query.range : upSeconds < 600 ? "10m" : "1h");

/** Links to choose a range; longer ones only if there are tables. */
export function rangeChoice(query, hasTables, upSeconds) {
  const now = query.since ? "" : chosen(query, upSeconds);
  const pick = (range) => h("a", { href: href("/", { range }), "aria-current": range === now ? "true" : null }, NAMES[range]);
  return h("div", { class: "ranges", role: "group", "aria-label": "Range of the charts" }, Object.keys(LIVE).map(pick),
    hasTables ? [Object.keys(PAST).map(pick), custom(query)] : h("span", { class: "soft", title: "dragoman pipeline run --source DATA/segments --tables DATA/tables" }, "Longer ranges: run the pipeline"));
}

const local = (at) => new Date(at * 1000 - new Date().getTimezoneOffset() * 60000).toISOString().slice(0, 16);
function custom(query) {
  const now = Date.now() / 1000, since = Number(query.since) || now - 86400, until = Number(query.until) || now;
  const form = h("form", { class: "range-form" }, field("From", h("input", { type: "datetime-local", name: "since", value: local(since), required: true })),
    field("Until", h("input", { type: "datetime-local", name: "until", value: local(until), required: true })), h("button", { type: "submit", class: "small" }, "Show"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const [a, b] = ["since", "until"].map((name) => new Date(form.elements[name].value).getTime() / 1000);
    location.hash = href("/", { since: Math.min(a, b), until: Math.max(a, b) });
  });
  return h("details", { class: "custom", open: Boolean(query.since) }, h("summary", {}, "Other range"), form);
}

/** The series to draw: counts are per second. Returns {from, step, trouble, ...series}. */
export async function rangeSeries(query, document, signal) {
  if (isLive(query)) return perSecond(tail(document.series, LIVE[chosen(query, document.at - document.started_at)]));
  const until = query.since ? Number(query.until) : Math.floor(Date.now() / 10000) * 10;
  const since = query.since ? Number(query.since) : until - PAST[query.range];
  const found = await get("/v1/history/series", { since, until }, signal);
  return found.trouble ? found : perSecond({ ...found, p95: found.p90 });
}
// The newest step has not ended: it is left out, or each line would seem to fall.
function tail(series, seconds) {
  const number = Math.round(seconds / series.step), all = series.submitted.length - 1, cut = Math.max(0, all - number);
  const kept = Object.fromEntries(Object.entries(series).filter(([, v]) => Array.isArray(v)).map(([name, values]) => [name, values.slice(cut, all)]));
  return { ...kept, step: series.step, from: series.from + cut * series.step };
}
function perSecond(series) {
  const rates = Object.fromEntries(COUNTS.map((name) => [name, series[name].map((n) => n / series.step)]));
  return { ...series, ...rates };
}
