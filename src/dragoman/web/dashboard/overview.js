// Is it well? Rates, queue, errors, times, workers, ledger and disk: now, and over a range of time.

import { get } from "./api.js";
import { judge } from "./app.js";
import { bar, lines } from "./charts.js";
import { bytes, count, duration, empty, facts, fill, h, head, href, instant, link, loading, panel, table, tag } from "./dom.js";
import { isLive, rangeChoice, rangeName, rangeSeries } from "./ranges.js";

const card = (label, value, note, to, css = "") => h(to ? "a" : "div", { class: `card ${css}`, href: to },
  h("div", { class: "label" }, label), h("div", { class: "value" }, value), h("div", { class: "note" }, note));

function cards(d) {
  const ended = d.totals;
  const workers = Object.values(d.workers).reduce((a, b) => a + b, 0);
  const unwell = workers - (d.workers.alive || 0), status = Object.keys(d.workers).find((s) => s !== "alive");
  return [
    card("Jobs a second", ((d.now.submitted || 0) / 10).toFixed(1), "taken, last 10 s", href("/jobs")),
    card("Running", count(d.running), "at a worker", href("/jobs", { state: "running" })),
    card("Waiting", count(d.queued), d.oldest_age ? `oldest ${duration(d.oldest_age)}` : "none waits", href("/jobs", { state: "queued" }), d.oldest_age > 60 ? "warn" : ""),
    card("Time of a job", duration(d.latency.p50), `p95 ${duration(d.latency.p95)} · p99 ${duration(d.latency.p99)}`, href("/jobs", { state: "succeeded" })),
    card("Succeeded", count(ended.succeeded), "in this ledger", href("/jobs", { state: "succeeded" })),
    card("Failed", count(ended.failed), "in this ledger", href("/jobs", { state: "failed" }), d.now.failed ? "bad" : ""),
    card("Expired", count(ended.expired), "a deadline passed", href("/jobs", { state: "expired" })),
    card("Dead letters", count(d.dead), "to retry or drop", href("/dead"), d.dead ? "bad" : ""),
    card("Refused", count(ended.refused), "never became jobs", href("/audit", { kind: "refused" })),
    card("Workers", count(workers), unwell ? `${count(unwell)} not ready` : "all ready", unwell ? href("/workers", { status }) : href("/workers"), unwell ? "warn" : ""),
  ];
}

function broker(d) {
  const used = d.ledger.disk_total ? 1 - d.ledger.disk_free / d.ledger.disk_total : 0;
  return facts([
    ["State", tag(...judge(d))],
    ["Version", `${d.version}, up ${duration(d.at - d.started_at)}`],
    ["Role", d.cluster ? link("/cluster", {}, `${d.cluster.role} ${d.cluster.node}, term ${count(d.cluster.epoch)}`) : link("/cluster", {}, "alone, no cluster")],
    ["Clients", link("/clients", {}, `${count(d.clients)} seen lately`)],
    ["Records", link("/audit", {}, `${count(d.ledger.first_seq)} to ${count(d.ledger.last_seq)}`)],
    ["Ledger", bytes(d.ledger.bytes)],
    ["Disk", h("div", {}, bar(used, `${Math.round(used * 100)} % of the disk is used`, 0.9), h("span", { class: "soft" }, `${bytes(d.ledger.disk_free)} free of ${bytes(d.ledger.disk_total)}`))],
    ["Not exported", d.ledger.unexported === null ? "export is off or starting" : `${count(d.ledger.unexported)} records`],
    ["Memory", bytes(d.memory)],
    ["CPU", `${duration(d.cpu_seconds)} since the start`],
    ["Loop", `${duration(d.loop_lag)} behind`],
  ]);
}

const LINKS = [
  { name: "Link", of: (r) => r.name },
  { name: "Endpoint", of: (r) => h("code", {}, r.endpoint) },
  { name: "In", num: true, of: (r) => count(r.received) },
  { name: "Out", num: true, of: (r) => count(r.sent) },
  { name: "Refused", num: true, of: (r) => (r.refused ? link("/audit", { kind: "rejected" }, count(r.refused)) : "0") },
];

function faults(d) {
  const rows = Object.entries(d.faults);
  if (!rows.length) return empty("No faults", "No job has failed since the broker started.");
  return table("Faults since the start", [
    { name: "Fault", of: ([code]) => link("/jobs", { fault: code }, code) },
    { name: "Jobs", num: true, of: ([code, n]) => link("/jobs", { fault: code }, count(n)) },
  ], rows);
}

const NODES = [
  { name: "Node", of: (n) => n.node },
  { name: "Role", of: (n) => n.role },
  { name: "Last record", num: true, of: (n) => count(n.last) },
  { name: "Behind", num: true, of: (n) => count(n.lag) },
];

function cluster(d) {
  if (!d.cluster) return [];
  const { state } = d.cluster, missing = state.size - state.members.length;
  const copies = state.stream_behind.length ? `copies behind or offline: ${state.stream_behind.join(", ")}` : `complete copies: ${state.stream_current.join(", ")}`;
  const text = `Term ${d.cluster.epoch}. The stream is led by ${state.stream_leader || "no server"}; ${copies}.${missing > 0 ? ` ${missing} of ${state.size} nodes do not answer.` : ""}${d.cluster.has_quorum ? "" : " There is no majority of complete copies."}`;
  return [panel("Cluster", table("Nodes of the cluster", NODES, state.members), h("div", { class: "body" }, text))];
}

const troubles = (d) => d.troubles.map((each) => h("div", { class: "callout bad", role: "alert" }, h("strong", {}, `${each.part}: `), each.reason));

const legend = (...names) => h("div", { class: "legend" }, names.map(([css, name]) => h("span", { class: `key ${css}` }, name)));
const chart = (title, keys, options) => panel(title, h("div", { class: "body" }, lines(options), legend(...keys)));
const rate = (n) => (n < 10 ? n.toFixed(1) : count(n));

function charts(s, high) {
  const range = { from: s.from, step: s.step };
  return [
    chart("Jobs a second", [["", "taken"], ["k2", "not succeeded"]], { ...range, label: "Jobs a second: taken, and not succeeded", format: rate,
      series: [{ name: "taken", values: s.submitted, css: "s1", filled: true }, { name: "not succeeded", values: s.failed, css: "s2" }] }),
    chart("Time of a job", [["", "median"], ["k3", high]], { ...range, label: `Time from submission to end: median, and ${high}`, format: (n) => duration(n) || "0",
      series: [{ name: high, values: s.p95, css: "s3", filled: true }, { name: "median", values: s.p50, css: "s1" }] }),
    chart("Waiting and running", [["k4", "waiting"], ["", "running"]], { ...range, label: "Jobs that wait for a worker, and jobs at a worker", format: (n) => (n < 10 && n % 1 ? n.toFixed(1) : count(n)),
      series: [{ name: "waiting", values: s.waiting, css: "s4", filled: true }, { name: "running", values: s.running, css: "s1" }] }),
  ];
}

export async function overviewPage({ root, query, signal, onLive, onNews }) {
  fill(root, head("Overview"), panel("", loading()));
  const top = h("div", { class: "cards" }), places = { charts: h("div", { class: "grid thirds" }), rest: h("div", { class: "grid" }), bad: h("div") };
  const draw = (d) => {
    fill(places.bad, troubles(d));
    fill(top, cards(d));
    fill(places.rest, panel("Broker and ledger", h("div", { class: "body" }, broker(d))), h("div", {}, panel("Links", table("Links", LINKS, d.links)), panel("Faults since the start", faults(d)), ...cluster(d)));
  };
  const load = async () => {
    const d = await get("/v1/overview", {}, signal), s = await rangeSeries(query, d, signal);
    fill(places.charts, s.trouble ? panel("", empty("No data for this range", s.trouble)) : charts(s, isLive(query) ? "95 %" : "90 %"));
    draw(d);
    return { d, s };
  };
  const { d, s } = await load(), up = d.at - d.started_at;
  const until = s.horizon ? `. The tables go to ${instant(s.horizon)}` : "";
  fill(root, head("Overview", `Counts are of this ledger, times of the last five minutes. Up since ${instant(d.started_at)}.`), places.bad, top,
    h("div", { class: "section-head" }, h("h2", {}, `Charts, ${rangeName(query, up)}${until}`), rangeChoice(query, d.has_tables, up)), places.charts, places.rest);
  onLive(draw);
  let drawn = Date.now();
  onNews(async () => { if (isLive(query) && Date.now() - drawn > 9000) { drawn = Date.now(); await load(); } });
}
