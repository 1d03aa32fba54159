// Services: their queues and workers; the tasks of one service, and a form to call one.

import { api, get, manage, may } from "./api.js";
import { toast } from "./app.js";
import { ask } from "./dialog.js";
import { count, duration, bytes, empty, fill, h, head, href, jobLink, link, loading, panel, table, tag, trouble } from "./dom.js";

const COLUMNS = [
  { name: "Service", of: (r) => (may("submit") ? h("a", { href: `#/call/${encodeURIComponent(r.name)}` }, r.name) : r.name) },
  { name: "Workers", num: true, of: (r) => link("/workers", { service: r.name }, count(r.workers)) },
  { name: "Free", num: true, of: (r) => link("/workers", { service: r.name }, count(r.free)) },
  { name: "Running", num: true, of: (r) => link("/jobs", { service: r.name, state: "running" }, count(r.running)) },
  { name: "Waiting", num: true, of: (r) => link("/jobs", { service: r.name, state: "queued" }, count(r.queued)) },
  { name: "Delayed", num: true, about: "Jobs that may not start yet", of: (r) => (r.delayed ? link("/jobs", { service: r.name, state: "queued" }, count(r.delayed)) : "") },
  { name: "Oldest waits", num: true, of: (r) => (r.oldest_age ? duration(r.oldest_age) : "") },
  { name: "Queue size", num: true, of: (r) => (r.queued_bytes ? bytes(r.queued_bytes) : "") },
  { name: "Limits", of: (r) => r.limits.map((l) => h("div", {}, l.task ? `${l.task}: ${l.limit}` : l.limit)) },
  { name: "State", of: (r) => (r.is_paused ? tag("blocked", "paused") : !r.workers ? tag("blocked", "no worker") : r.queued && !r.free ? tag("running", "busy") : tag("ready", "ready")) },
];

async function flow(row, load) {
  const verb = row.is_paused ? "Resume" : "Pause";
  if (!(await ask({ title: `${verb} ${row.name}?`, text: row.is_paused ? "Its jobs are dispatched again." : "Its jobs wait until it is resumed. Running jobs go on.", yes: verb }))) return;
  try { await manage(row.is_paused ? "resume_service" : "pause_service", { service: row.name }); toast(`${row.name}: done.`); await load(); } catch (error) { toast(error.message, true); }
}
const flowColumn = (load) => (may("disconnect") ? [{ name: "", of: (r) => h("div", { class: "row-actions" }, h("button", { type: "button", class: "small", onclick: () => flow(r, load) }, r.is_paused ? "Resume" : "Pause")) }] : []);

export async function servicesPage({ root, signal, onNews }) {
  const list = h("div", { id: "services" }, loading());
  fill(root, head("Services", "A name that work is asked by. Open one to see its tasks and to call it."), panel("", list));
  const load = async () => {
    try {
      const { services } = await get("/v1/overview/services", {}, signal);
      fill(list, services.length ? table("Services", [...COLUMNS, ...flowColumn(load)], services) : empty("No services yet", "A worker that connects offers its services: ", h("code", {}, "dragoman worker MODULE:OBJECT --service NAME"), "."));
    } catch (error) { if (error.name !== "AbortError") fill(list, trouble(error, load)); }
  };
  await load();
  onNews(load);
}

// --- a form from a task's schema -------------------------------------------------------------------

function control(parameter) {
  const { schema = {}, name } = parameter, id = `arg-${name}`;
  const first = parameter.default === undefined || parameter.default === null ? "" : parameter.default;
  if (schema.enum) return h("select", { id, name }, schema.enum.map((v) => h("option", { value: JSON.stringify(v), selected: v === first }, String(v))));
  if (schema.type === "boolean") return h("select", { id, name }, ["true", "false"].map((v) => h("option", { value: v, selected: String(first) === v }, v)));
  if (schema.type === "integer" || schema.type === "number") return h("input", { id, name, type: "number", step: schema.type === "integer" ? 1 : "any", value: String(first), required: parameter.required });
  if (schema.type === "string") return h("input", { id, name, value: String(first), required: parameter.required, "data-kind": "text" });
  return h("textarea", { id, name, rows: 2, required: parameter.required, value: first === "" ? "" : JSON.stringify(first), placeholder: "JSON" });
}

function read(form, parameters) {
  const kwargs = {};
  for (const { name, schema = {}, required } of parameters) {
    const given = form.elements[name].value;
    if (given === "" && !required) continue;
    try { kwargs[name] = schema.type === "string" && !schema.enum ? given : JSON.parse(given); } catch { throw new Error(`${name}: this is not JSON`); }
  }
  return kwargs;
}

function generic() {
  return h("label", {}, "Arguments as a JSON object", h("textarea", { name: "kwargs", id: "kwargs", rows: 4, value: "{}" }));
}

function callForm(service, task) {
  const known = Boolean(task);
  const result = h("div", { id: "call-result", "aria-live": "polite" });
  const form = h("form", { class: "form" },
    known ? null : h("label", {}, "Task", h("input", { name: "task", id: "task" })),
    known ? task.parameters.map((p) => h("label", {}, `${p.name}${p.required ? "" : " (optional)"}${p.schema?.type ? `, ${p.schema.type}` : ""}`, control(p))) : generic(),
    h("label", {}, "Target", h("input", { name: "target", id: "target", value: "any" })),
    h("div", {}, h("button", { type: "submit", class: "primary" }, known ? `Call ${task.task}` : "Call")), result);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    fill(result, h("p", { class: "soft" }, "Waiting for the answer…"));
    try {
      const kwargs = known ? read(form, task.parameters) : JSON.parse(form.elements.kwargs.value || "{}");
      const body = { service, task: known ? task.task : form.elements.task.value, kwargs, target: form.elements.target.value || "any", timeout: 60 };
      const answer = await api("/v1/call", { method: "POST", body });
      fill(result, h("p", {}, tag(answer.state || "succeeded"), " ", answer.job ? jobLink(answer.job) : ""), h("pre", {}, JSON.stringify(answer.value ?? answer, null, 2)));
    } catch (error) { fill(result, h("p", {}, tag("failed"), ` ${error.message}`)); }
  });
  return form;
}

export async function callPage({ root, query, signal }) {
  const service = query.name;
  fill(root, head(service), panel("", loading()));
  const { workers: own, total } = await get("/v1/workers", { service, limit: 5 }, signal);
  let tasks = [];
  try {
    const found = own.length ? await manage("show_tasks", { worker: own[0].name }, "mmi.service.worker") : {};
    const rows = Object.values(found)[0];
    if (Array.isArray(rows)) tasks = rows;
  } catch { /* a worker without schemas: the plain form */ }
  const chosen = tasks.find((t) => t.task === query.task) || tasks[0];
  const list = tasks.length ? h("div", { class: "body" }, table("Tasks", [
    { name: "Task", of: (t) => h("a", { href: href(`/call/${encodeURIComponent(service)}`, { task: t.task }), "aria-current": t === chosen ? "true" : null }, t.task) },
    { name: "Arguments", of: (t) => t.parameters.map((p) => p.name).join(", ") },
    { name: "What it does", of: (t) => t.doc.split("\n")[0] },
  ], tasks)) : empty("No schemas", own.length ? "These workers do not describe their tasks; the form takes any JSON." : "No worker offers this service now; a call would wait for one.");
  fill(root, head(service, "", [link("/jobs", { service }, "Its jobs"), link("/workers", { service }, total === 1 ? "Its worker" : `Its ${count(total)} workers`)]),
    h("div", { class: "grid" }, panel("Tasks", list), panel(chosen ? `Call ${chosen.task}` : "Call", h("div", { class: "body" }, chosen?.doc ? h("p", { class: "soft" }, chosen.doc) : null, callForm(service, chosen)))));
}
