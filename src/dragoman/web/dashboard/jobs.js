// The list of jobs: filters in the address, pages back through the ledger.

import { get } from "./api.js";
import { choice, clock, count, duration, empty, field, fill, h, head, href, instant, jobLink, link, loading, panel, table, tag, time, trouble } from "./dom.js";

const STATES = ["", "queued", "running", "succeeded", "failed", "expired", "cancelled", "dead"];
const DIALECTS = ["", "nfp", "dcp", "zss", "memo", "ncl", "mdp", "http"];
const FILTERS = ["state", "service", "task", "client", "worker", "principal", "dialect", "worker_link", "fault", "text"];

export const JOB_COLUMNS = [
  { name: "Job", of: (r) => jobLink(r.job) },
  { name: "State", of: (r) => tag(r.state) },
  { name: "Service", of: (r) => link("/jobs", { service: r.service }, r.service) },
  { name: "Task", of: (r) => r.task },
  { name: "Client", clip: true, title: (r) => r.client, of: (r) => link("/jobs", { client: r.client }, r.client) },
  { name: "Worker", clip: true, title: (r) => r.worker, of: (r) => (r.worker ? link("/workers", { text: r.worker }, r.worker) : "") },
  { name: "Taken", of: (r) => time(r.submitted_at) },
  { name: "Time", num: true, of: (r) => duration(r.ended_at ? r.ended_at - r.submitted_at : Date.now() / 1000 - r.submitted_at) },
  { name: "Attempts", num: true, of: (r) => r.attempts || "" },
  { name: "Fault", of: (r) => (r.fault ? link("/jobs", { fault: r.fault }, r.fault) : "") },
];

const stamp = (at) => (at ? new Date(at * 1000 - new Date().getTimezoneOffset() * 60000).toISOString().slice(0, 16) : "");

function filters(query, go) {
  const input = (name, label) => field(label, h("input", { name, value: query[name] || "", autocomplete: "off" }));
  const form = h("form", { class: "filters", role: "search", "aria-label": "Filter jobs" },
    field("Text", h("input", { type: "search", name: "text", value: query.text || "", placeholder: "job, task, client, worker, message", autocomplete: "off" }), true),
    field("State", choice("state", STATES, query.state)), input("service", "Service"), input("client", "Client"),
    input("worker", "Worker"), input("principal", "Principal"), field("Dialect", choice("dialect", DIALECTS, query.dialect)), input("fault", "Fault"),
    field("From", h("input", { type: "datetime-local", name: "since", value: stamp(Number(query.since)) })),
    field("Until", h("input", { type: "datetime-local", name: "until", value: stamp(Number(query.until)) })),
    h("button", { type: "submit", class: "primary" }, "Search"), h("a", { class: "button-link", href: "#/jobs" }, "Clear"));
  const apply = () => {
    const wanted = { ...(query.worker_link ? { worker_link: query.worker_link } : {}), ...(query.task ? { task: query.task } : {}), ...Object.fromEntries(new FormData(form)) };
    for (const name of ["since", "until"]) wanted[name] = wanted[name] ? String(new Date(wanted[name]).getTime() / 1000) : "";
    go(href("/jobs", wanted));
  };
  form.addEventListener("submit", (event) => { event.preventDefault(); apply(); });
  for (const each of form.querySelectorAll("select")) each.addEventListener("change", apply);
  return form;
}

function pager(page, query) {
  const searched = page.looked_back_to ? `Searched back to ${instant(page.looked_back_to)}.` : "";
  return h("div", { class: "pager" },
    h("span", {}, `${count(page.rows.length)} ${page.rows.length === 1 ? "job" : "jobs"}. ${page.before ? searched : ""}`),
    h("span", { class: "grow" }),
    query.before ? h("a", { href: href("/jobs", { ...query, before: "" }) }, "Newest") : null,
    page.before ? h("a", { id: "older", href: href("/jobs", { ...query, before: page.before }) }, "Older") : null);
}

export async function jobsPage({ root, query, signal, onNews, go }) {
  const wanted = Object.fromEntries([...FILTERS, "since", "until", "before"].map((name) => [name, query[name] || ""]));
  const list = h("div", { id: "jobs" }, loading());
  fill(root, head("Jobs", "Newest first, from the ledger. Jobs of the broker's own services are left out."), h("section", { class: "panel" }, filters(query, go), list));
  const load = async () => {
    try {
      const page = await get("/v1/history/jobs", { ...wanted, limit: 50 }, signal);
      const none = Object.values(wanted).some(Boolean)
        ? empty("No job matches", page.before ? `Searched back to ${instant(page.looked_back_to)}; older records are left.` : "Change the filter, or clear it.")
        : empty("No jobs yet", "The first one: ", h("code", {}, "dragoman call SERVICE TASK"), ", or a service's form on the page ", link("/services", {}, "Services"), ".");
      fill(list, page.rows.length ? table("Jobs", JOB_COLUMNS, page.rows) : none, pager(page, wanted));
    } catch (error) {
      if (error.name !== "AbortError") fill(list, trouble(error, load));
    }
  };
  await load();
  if (!wanted.before) onNews(load);
}
