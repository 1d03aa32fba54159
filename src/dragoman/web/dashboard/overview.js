// Is it well? Rates, queue, errors, times, workers, ledger and disk: now, and the last hour.

import { get } from "./api.js";
import { judge } from "./app.js";
import { bar, lines } from "./charts.js";
import { bytes, count, duration, facts, fill, h, head, href, instant, link, loading, panel, table, tag } from "./dom.js";

const card = (label, value, note, to, css = "") => h(to ? "a" : "div", { class: `card ${css}`, href: to },
  h("div", { class: "label" }, label), h("div", { class: "value" }, value), h("div", { class: "note" }, note));

function cards(d) {
  const ended = d.totals;
  const workers = Object.values(d.workers).reduce((a, b) => a + b, 0);
  const unwell = workers - (d.workers.alive || 0);
  return [
    card("Jobs a second", ((d.now.submitted || 0) / 10).toFixed(1), "taken, last 10 s", href("/jobs")),
    card("Running", count(d.running), "at a worker", href("/jobs", { state: "running" })),
    card("Waiting", count(d.queued), d.oldest_age ? `oldest ${duration(d.oldest_age)}` : "nobody waits", href("/jobs", { state: "queued" }), d.oldest_age > 60 ? "warn" : ""),
    card("Typical time", duration(d.latency.p50), `95 %: ${duration(d.latency.p95)} · 99 %: ${duration(d.latency.p99)}`, href("/jobs", { state: "succeeded" })),
    card("Failed", count(ended.failed), "in this ledger", href("/jobs", { state: "failed" }), d.now.failed ? "bad" : ""),
    card("Dead", count(ended.dead), "every attempt lost", href("/dead"), ended.dead ? "bad" : ""),
    card("Expired", count(ended.expired), "a deadline passed", href("/jobs", { state: "expired" })),
    card("Refused", count(ended.refused), "never became jobs", href("/audit", { kind: "refused" })),
    card("Workers", count(workers), unwell ? `${count(unwell)} not ready` : "all ready", href("/workers"), unwell ? "warn" : ""),
    card("Clients", count(d.clients), "seen lately", href("/clients")),
  ];
}

function ledger(d) {
  const used = d.ledger.disk_total ? 1 - d.ledger.disk_free / d.ledger.disk_total : 0;
  return facts([
    ["State", tag(...judge(d))],
    ["Version", `${d.version}, up ${duration(d.at - d.started_at)}`],
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
  if (!rows.length) return h("p", { class: "soft" }, "No job has failed since the broker started.");
  return table("Faults since the start", [
    { name: "Fault", of: ([code]) => link("/jobs", { fault: code }, code) },
    { name: "Jobs", num: true, of: ([, n]) => count(n) },
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

export async function overviewPage({ root, signal, onLive, onNews }) {
  fill(root, head("Overview"), panel("", loading()));
  const top = h("div", { class: "cards" }), charts = h("div", { class: "grid" }), rest = h("div", { class: "grid" });
  const state = { document: null };
  const draw = (d) => {
    fill(top, cards(d));
    fill(rest, panel("Broker and ledger", h("div", { class: "body" }, ledger(d))),
      panel("Faults", h("div", { class: "body" }, faults(d))), panel("Links", table("Links", LINKS, d.links)), ...cluster(d));
  };
  const load = async () => {
    const d = await get("/v1/overview", {}, signal);
    const { series } = d, per = (values) => values.map((n) => n / series.step);
    const range = { from: series.from, step: series.step };
    fill(charts,
      panel("Jobs a second, last hour", h("div", { class: "body" }, lines({ ...range, label: `Jobs a second in the last hour; now ${(d.now.submitted / 10).toFixed(1)} taken`, format: (n) => (n < 10 ? n.toFixed(1) : count(n)),
        series: [{ values: per(series.submitted), css: "s1", filled: true }, { values: per(series.failed), css: "s2" }] })),
      h("div", { class: "legend" }, h("span", { class: "key" }, "taken"), h("span", { class: "key k2" }, "not succeeded"))),
      panel("Time of a job, last hour", h("div", { class: "body" }, lines({ ...range, label: `Time from submission to end; now half are within ${duration(d.latency.p50)}`, format: duration,
        series: [{ values: series.p95, css: "s3", filled: true }, { values: series.p50, css: "s1" }] })),
      h("div", { class: "legend" }, h("span", { class: "key" }, "half"), h("span", { class: "key k3" }, "95 %"))));
    draw(d);
    state.document = d;
  };
  await load();
  fill(root, head("Overview", `Counts are of this ledger, times of the last five minutes. Up since ${instant(state.document.started_at)}.`), top, charts, rest);
  onLive(draw);
  let drawn = Date.now();
  onNews(async () => { if (Date.now() - drawn > 9000) { drawn = Date.now(); await load(); } });
}
