// Workers, compute nodes, clients, resources.

import { get, manage, may, session } from "./api.js";
import { toast } from "./app.js";
import { bar } from "./charts.js";
import { ask } from "./dialog.js";
import { ago, bytes, choice, count, duration, empty, field, fill, h, head, href, jobLink, link, loading, panel, table, tag, time, trouble } from "./dom.js";

const PAGE = 100;

/** A list that is filtered here and shown a page at a time. */
async function listPage(context, { title, sub, path, key, columns, none, keep = () => true, filters = () => null, paged = false }) {
  const { root, query, signal, onNews } = context, list = h("div", { id: key }, loading());
  fill(root, head(title, sub), h("section", { class: "panel" }, filters(query), list));
  const load = async () => {
    try {
      const from = Number(query.from || 0);
      const found = await get(path, paged ? { ...query, from, limit: PAGE } : {}, signal);
      const rows = found[key].filter((row) => keep(row, query)), total = paged ? found.total : rows.length;
      fill(list, total ? table(title, columns(load), paged ? rows : rows.slice(from, from + PAGE)) : none,
        total > PAGE ? h("div", { class: "pager" }, h("span", {}, `${count(from + 1)} to ${count(Math.min(total, from + PAGE))} of ${count(total)}`), h("span", { class: "grow" }),
          from ? h("a", { href: href(`/${key}`, { ...query, from: Math.max(0, from - PAGE) }) }, "Back") : null,
          from + PAGE < total ? h("a", { href: href(`/${key}`, { ...query, from: from + PAGE }) }, "Next") : null) : null);
    } catch (error) { if (error.name !== "AbortError") fill(list, trouble(error, load)); }
  };
  await load();
  onNews(load);
}

function search(path, query, go, more = []) {
  const form = h("form", { class: "filters", role: "search", "aria-label": "Filter" },
    field("Text", h("input", { type: "search", name: "text", value: query.text || "", autocomplete: "off" }), true), more, h("button", { type: "submit" }, "Search"));
  const apply = (event) => { event?.preventDefault(); go(href(path, Object.fromEntries(new FormData(form)))); };
  form.addEventListener("submit", apply);
  for (const each of form.querySelectorAll("select")) each.addEventListener("change", apply);
  return form;
}

async function act(question, task, kwargs, done, load) {
  if (!(await ask(question))) return;
  try { await manage(task, kwargs); toast(done); await load(); } catch (error) { toast(error.message, true); }
}

const drainButton = (row, load) => h("button", { type: "button", class: "small", onclick: () => (row.status === "drained"
  ? act({ title: `Undrain ${row.name}?`, text: "It gets jobs again.", yes: "Undrain" }, "undrain_worker", { worker: row.name }, `${row.name} gets jobs again.`, load)
  : act({ title: `Drain ${row.name}?`, text: "It gets no more jobs, and ends those it holds. It stays drained, also if it or the broker starts again, until you undrain it.", yes: "Drain" }, "drain_worker", { worker: row.name }, `${row.name} drains.`, load)) }, row.status === "drained" ? "Undrain" : "Drain");

const workerActions = (row, load) => h("div", { class: "row-actions" }, may("drain_worker") ? drainButton(row, load) : null,
  !may("disconnect") ? null : h("button", { type: "button", class: "small danger", onclick: () => act({ title: `Disconnect ${row.name}?`, text: "It leaves at once, and jobs that it holds go to other workers. If its process still runs, it joins again by itself.", yes: "Disconnect", danger: true }, "disconnect", { worker: row.name, at_once: true }, `${row.name} is told to leave.`, load) }, "Disconnect"));

// Every worker of our SDK says which one it is: no news.
const labels = (row) => Object.entries(row.labels ?? {}).filter(([name]) => name !== "agent").map(([name, text]) => `${name}=${text}`).join(", ");

export const workersPage = (context) => listPage(context, {
  title: "Workers", sub: "Who does the work, and how busy each is.", path: "/v1/overview/workers", key: "workers",
  none: empty("No workers", "Start one: ", h("code", {}, "dragoman worker MODULE:OBJECT --url nfp://HOST:5555 --service NAME"), "."),
  paged: true,
  filters: (q) => search("/workers", q, context.go, [
    field("State", choice("status", ["", "alive", "draining", "drained", "blocked", "away"], q.status)),
    field("Service", h("input", { name: "service", value: q.service || "" })),
    field("Dialect", choice("dialect", ["", "nfp", "dcp", "zss", "memo", "ncl", "mdp", "http"], q.dialect))]),
  columns: (load) => [
    { name: "Worker", clip: true, title: (r) => r.peer, of: (r) => link("/jobs", { worker: r.name }, r.name) },
    { name: "State", of: (r) => tag(r.status) },
    { name: "Services", clip: true, title: (r) => r.services.join(", "), of: (r) => r.services.map((s, i) => [i ? ", " : "", link(`/call/${encodeURIComponent(s)}`, {}, s)]) },
    { name: "Dialect", of: (r) => r.dialect },
    { name: "Holds", about: "Jobs that it has now, of those that it takes", of: (r) => h("div", { class: "meter" }, link("/jobs", { worker: r.name, state: "running" }, `${count(r.holding)}${r.credit === null ? "" : ` of ${count(r.holding + r.credit)}`}`),
      r.credit === null ? "" : bar(r.holding / Math.max(1, r.holding + r.credit), `${r.holding} of ${r.holding + r.credit}`)) },
    { name: "Labels", clip: true, title: (r) => labels(r), of: (r) => labels(r) },
    { name: "Heard", num: true, about: "Since its last message; the number of its heartbeats", of: (r) => [`${duration(r.silent_for)} ago`, h("span", { class: "soft" }, ` · ${count(r.beats)}`)] },
    { name: "Here for", num: true, of: (r) => duration(r.alive_for) },
    ...(session.secured ? [{ name: "Principal", of: (r) => (r.principal ? link("/audit", { principal: r.principal }, r.principal) : "") }] : []),
    ...(may("disconnect") || may("drain_worker") ? [{ name: "", of: (r) => (r.status === "away" ? "" : workerActions(r, load)) }] : []),
  ],
});

export const clientsPage = (context) => listPage(context, {
  title: "Clients", sub: "Who asked lately, the most recent first.", path: "/v1/clients", key: "clients",
  none: empty("No clients yet", "A client is known from its first request on."),
  keep: (r, q) => !q.text || r.peer.toLowerCase().includes(q.text.toLowerCase()),
  filters: (q) => search("/clients", q, context.go),
  columns: () => [
    { name: "Client", of: (r) => link("/jobs", { client: r.peer }, r.peer) },
    { name: "Jobs", num: true, of: (r) => link("/jobs", { client: r.peer }, count(r.jobs)) },
    { name: "First seen", of: (r) => time(r.first_seen_at) },
    { name: "Last seen", of: (r) => ago(r.seen_at) },
  ],
});

const nodeActions = (row, load) => h("div", { class: "row-actions" },
  row.membership === "approved" ? null : h("button", { type: "button", class: "small primary", onclick: () => act({ title: `Approve ${row.node}?`, text: "It may run jobs from now on.", yes: "Approve" }, "approve_node", { node: row.node }, `${row.node} is approved.`, load) }, "Approve"),
  row.membership === "rejected" ? null : h("button", { type: "button", class: "small danger", onclick: () => act({ title: `Reject ${row.node}?`, text: "It is disconnected and gets no jobs.", yes: "Reject", danger: true }, "reject_node", { node: row.node }, `${row.node} is rejected.`, load) }, "Reject"));

const capacity = (free, all, format) => (all ? h("div", { class: "meter" }, `${format(free)} of ${format(all)}`, bar(1 - free / all, `${format(free)} free of ${format(all)}`, 0.95)) : "unknown");
const cores = (n) => String(Math.round(n * 10) / 10);

export const nodesPage = (context) => listPage(context, {
  title: "Nodes", sub: "Compute nodes that speak NCL: capacity, and whether they are approved.", path: "/v1/nodes", key: "nodes",
  none: empty("No compute nodes", "A node that connects over NATS appears here and may wait for approval."),
  columns: (load) => [
    { name: "Node", of: (r) => link("/workers", { text: r.node }, r.node) },
    { name: "Membership", of: (r) => tag(r.membership) },
    { name: "State", of: (r) => tag(r.status) },
    { name: "Services", clip: true, title: (r) => r.services.join(", "), of: (r) => r.services.map((s, i) => [i ? ", " : "", link(`/call/${encodeURIComponent(s)}`, {}, s)]) },
    { name: "Running", num: true, about: "Executions now, of the node's slots", of: (r) => link("/jobs", { worker: r.node, state: "running" }, r.slots ? `${count(r.running)} of ${count(r.slots)}` : count(r.running)) },
    { name: "Cores free", of: (r) => capacity(r.free_cpu, r.cpu, cores) },
    { name: "Memory free", of: (r) => capacity(r.free_memory, r.memory, bytes) },
    { name: "GPUs", num: true, of: (r) => count(r.gpu) },
    { name: "Labels", clip: true, title: labels, of: labels },
    { name: "Silent", num: true, of: (r) => (r.silent_for === null ? "never heard" : duration(r.silent_for)) },
    { name: "Last error", clip: true, title: (r) => r.last_error, of: (r) => r.last_error },
    ...(may("approve_node") ? [{ name: "", of: (r) => nodeActions(r, load) }] : []),
  ],
});

// Moves: which worker said that it has which resources, and queued work that followed them.
const MOVES = [
  { name: "Record", num: true, of: (r) => link("/events", { after: r.seq - 1 }, count(r.seq)) },
  { name: "At", of: (r) => time(r.at) },
  { name: "What", of: (r) => (r.kind === "moved" ? "a job follows" : r.kind === "left" ? "left" : "has now") },
  { name: "Worker", of: (r) => link("/workers", { text: r.worker || r.detail }, r.worker || r.detail) },
  { name: "Resources", clip: true, title: (r) => r.detail, of: (r) => (r.kind === "owns" ? (r.detail || "none").split("\n").join(", ") : r.target || "") },
  { name: "Job", of: (r) => (r.job ? jobLink(r.job) : "") },
];

async function moves({ root, signal, onNews }) {
  const place = h("div", { id: "moves" }, loading());
  root.append(panel("Moves, newest first", place));
  const load = async () => {
    try {
      const { rows } = await get("/v1/history/records?kind=owns&kind=moved&builtin=1&limit=50", {}, signal);
      fill(place, rows.length ? table("Moves", MOVES, rows) : empty("No moves", "Workers have declared no resources lately."));
    } catch (error) { if (error.name !== "AbortError") fill(place, trouble(error, load)); }
  };
  await load();
  onNews(load);
}

export async function resourcesPage(context) {
  await listResources(context);
  if (may("records")) await moves(context);
}

const listResources = (context) => listPage(context, {
  title: "Resources", sub: "What workers manage, such as devices or data sets, and who has each.", path: "/v1/resources", key: "resources",
  none: empty("No resources", "Workers declare theirs when they register; the inventory may declare more."),
  keep: (r, q) => !q.text || `${r.resource} ${r.workers.join(" ")}`.toLowerCase().includes(q.text.toLowerCase()),
  filters: (q) => search("/resources", q, context.go),
  columns: () => [
    { name: "Resource", of: (r) => r.resource },
    { name: "Workers", of: (r) => (r.workers.length ? r.workers.map((w, i) => [i ? ", " : "", link("/workers", { text: w }, w)]) : tag("blocked", "no owner")) },
  ],
});
