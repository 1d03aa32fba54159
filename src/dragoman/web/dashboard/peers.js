// Workers, compute nodes, clients, resources.

import { get, manage, may } from "./api.js";
import { toast } from "./app.js";
import { bar } from "./charts.js";
import { ask } from "./dialog.js";
import { ago, choice, count, duration, empty, field, fill, h, head, href, link, loading, panel, table, tag, time, trouble } from "./dom.js";

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

const workerActions = (row, load) => h("div", { class: "row-actions" },
  h("button", { type: "button", class: "small", onclick: () => act({ title: `Drain ${row.name}?`, text: "It gets no more jobs, ends those it holds, and leaves.", yes: "Drain" }, "disconnect", { worker: row.name }, `${row.name} drains.`, load) }, "Drain"),
  h("button", { type: "button", class: "small danger", onclick: () => act({ title: `Disconnect ${row.name}?`, text: "It leaves at once. Jobs that it holds go to other workers.", yes: "Disconnect", danger: true }, "disconnect", { worker: row.name, at_once: true }, `${row.name} is told to leave.`, load) }, "Disconnect"));

const labels = (row) => Object.entries(row.labels ?? {}).map(([name, text]) => `${name}=${text}`).join(", ");

export const workersPage = (context) => listPage(context, {
  title: "Workers", sub: "Who does the work, and how busy each is.", path: "/v1/overview/workers", key: "workers",
  none: empty("No workers", "Start one: ", h("code", {}, "dragoman worker MODULE:OBJECT --url nfp://HOST:5555 --service NAME"), "."),
  paged: true,
  filters: (q) => search("/workers", q, context.go, [
    field("State", choice("status", ["", "alive", "draining", "blocked", "away"], q.status)),
    field("Service", h("input", { name: "service", value: q.service || "" })),
    field("Dialect", choice("dialect", ["", "nfp", "dcp", "zss", "memo", "ncl", "mdp", "http"], q.dialect))]),
  columns: (load) => [
    { name: "Worker", of: (r) => h("span", { title: r.peer }, r.name) },
    { name: "State", of: (r) => tag(r.status) },
    { name: "Services", clip: true, title: (r) => r.services.join(", "), of: (r) => r.services.map((s, i) => [i ? ", " : "", link("/services", {}, s)]) },
    { name: "Dialect", of: (r) => r.dialect },
    { name: "Labels", clip: true, title: (r) => labels(r), of: (r) => labels(r) },
    { name: "Holds", num: true, of: (r) => link("/jobs", { worker: r.name }, `${count(r.holding)}${r.credit === null ? "" : ` of ${count(r.holding + r.credit)}`}`) },
    { name: "Busy", of: (r) => (r.credit === null ? "" : bar(r.holding / Math.max(1, r.holding + r.credit), `${r.holding} of ${r.holding + r.credit}`)) },
    { name: "Beats", num: true, of: (r) => count(r.beats) },
    { name: "Silent for", num: true, of: (r) => duration(r.silent_for) },
    { name: "Here for", num: true, of: (r) => duration(r.alive_for) },
    { name: "Principal", of: (r) => r.principal },
    ...(may("disconnect") ? [{ name: "", of: (r) => (r.status === "away" ? "" : workerActions(r, load)) }] : []),
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

const shown = (given) => (given && typeof given === "object" ? JSON.stringify(given) : String(given ?? ""));
const nodeActions = (row, load) => {
  const name = row.node ?? row.name ?? row.id;
  return h("div", { class: "row-actions" },
    h("button", { type: "button", class: "small", onclick: () => act({ title: `Approve ${name}?`, text: "It may run jobs from now on.", yes: "Approve" }, "approve_node", { node: name }, `${name} is approved.`, load) }, "Approve"),
    h("button", { type: "button", class: "small danger", onclick: () => act({ title: `Reject ${name}?`, text: "It is disconnected and gets no jobs.", yes: "Reject", danger: true }, "reject_node", { node: name }, `${name} is rejected.`, load) }, "Reject"));
};

export const nodesPage = (context) => listPage(context, {
  title: "Nodes", sub: "Compute nodes that speak NCL: capacity, and whether they are approved.", path: "/v1/nodes", key: "nodes",
  none: empty("No compute nodes", "A node that connects over NATS appears here and may wait for approval."),
  columns: (load) => [
    { name: "Node", of: (r) => shown(r.node ?? r.name ?? r.id) },
    { name: "Membership", of: (r) => tag(String(r.membership ?? "").toLowerCase()) },
    { name: "Connected", of: (r) => shown(r.connected ?? r.connection ?? r.state) },
    { name: "The rest", clip: true, title: shown, of: (r) => h("code", {}, shown(Object.fromEntries(Object.entries(r).filter(([k]) => !["node", "name", "id", "membership", "connected", "connection", "state"].includes(k))))) },
    ...(may("approve_node") ? [{ name: "", of: (r) => nodeActions(r, load) }] : []),
  ],
});

export const resourcesPage = (context) => listPage(context, {
  title: "Resources", sub: "What workers manage, such as devices or data sets, and who has each.", path: "/v1/resources", key: "resources",
  none: empty("No resources", "Workers declare theirs when they register; the inventory may declare more."),
  keep: (r, q) => !q.text || `${r.resource} ${r.workers.join(" ")}`.toLowerCase().includes(q.text.toLowerCase()),
  filters: (q) => search("/resources", q, context.go),
  columns: () => [
    { name: "Resource", of: (r) => r.resource },
    { name: "Workers", of: (r) => (r.workers.length ? r.workers.map((w, i) => [i ? ", " : "", link("/workers", { text: w }, w)]) : tag("blocked", "no owner")) },
  ],
});
