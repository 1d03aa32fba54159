// Schedules, and dead letters with bulk retry.

import { get, manage, may } from "./api.js";
import { toast } from "./app.js";
import { ask } from "./dialog.js";
import { count, duration, empty, field, fill, h, head, href, jobLink, link, loading, panel, plural, table, tag, time, trouble } from "./dom.js";

async function act(question, task, kwargs, done, load) {
  if (!(await ask(question))) return;
  try { await manage(task, kwargs); toast(done); await load(); } catch (error) { toast(error.message, true); }
}
const button = (text, css, onclick) => h("button", { type: "button", class: `small ${css}`, onclick }, text);

function scheduleActions(row, load) {
  const paused = row.is_paused, verb = paused ? "Resume" : "Pause";
  return h("div", { class: "row-actions" },
    button("Run now", "", () => act({ title: `Run ${row.name} now?`, text: "One job beside its ticks.", yes: "Run now" }, "run_schedule", { name: row.name }, `${row.name} is submitted.`, load)),
    button(verb, "", () => act({ title: `${verb} ${row.name}?`, text: paused ? "It makes jobs again." : "It makes no jobs until it is resumed.", yes: verb }, paused ? "resume_schedule" : "pause_schedule", { name: row.name }, `${row.name}: done.`, load)),
    button("Remove", "danger", () => act({ title: `Remove ${row.name}?`, text: "Its jobs go on.", yes: "Remove", danger: true }, "remove_schedule", { name: row.name }, `${row.name} is removed.`, load)));
}

async function listed(context, title, sub, path, key, columns, none, extra = () => null, { filters = () => null, wanted = () => ({}) } = {}) {
  const { root, signal, onNews } = context, list = h("div", { id: key }, loading());
  fill(root, head(title, sub), h("section", { class: "panel" }, filters(context), list));
  const load = async () => {
    try {
      const rows = (await get(path, wanted(context.query), signal))[key];
      fill(list, rows.length ? table(title, columns(load), rows) : none, rows.length ? extra(rows, load) : null);
    } catch (error) { if (error.name !== "AbortError") fill(list, trouble(error, load)); }
  };
  await load();
  onNews(load);
}

export const schedulesPage = (context) => listed(context, "Schedules", "Jobs that the broker makes by itself, at their times.", "/v1/schedules", "schedules", (load) => [
  { name: "Schedule", of: (r) => r.name },
  { name: "State", of: (r) => (r.is_paused ? tag("blocked", "paused") : tag("ready", "on")) },
  { name: "When", of: (r) => (r.cron ? h("span", {}, h("code", { class: "nowrap" }, r.cron), r.zone === "UTC" ? "" : ` ${r.zone}`) : h("span", { class: "nowrap" }, `every ${duration(r.every)}`)) },
  { name: "Job", of: (r) => link("/jobs", { service: r.service, task: r.task }, [r.service, r.task].filter(Boolean).join(".")) },
  { name: "Last", of: (r) => (r.last_tick ? time(r.last_tick) : "never") },
  { name: "Last job", of: (r) => (r.last_job ? h("span", { class: "nowrap" }, h("a", { href: `#/job/${encodeURIComponent(r.last_job)}`, title: r.last_job }, r.last_state ? tag(r.last_state) : "open it")) : "") },
  { name: "Next", of: (r) => (r.next_tick ? time(r.next_tick) : "") },
  { name: "Skipped", about: "Ticks without a job: the last one had not ended", num: true, of: (r) => count(r.skipped) },
  ...(may("disconnect") ? [{ name: "", of: (r) => scheduleActions(r, load) }] : []),
], empty("No schedules", "Make one: ", h("code", {}, "dragoman schedule add"), "."));

const MOST = 1000;
async function retryAll(rows, load) {
  if (!(await ask({ title: `Retry ${plural(rows.length, "dead letter")}?`, text: "Each becomes a new job, linked to the old one. Those that the filter leaves out stay.", yes: "Retry all" }))) return;
  let failed = 0, reason = "";
  for (const row of rows) { try { await manage("retry_dead", { job: row.job }); } catch (error) { failed += 1; reason = error.message; } }
  toast(failed ? `${plural(rows.length - failed, "job")} submitted, ${count(failed)} not: ${reason}` : `${plural(rows.length, "job")} submitted.`, failed > 0);
  await load();
}

function deadFilter({ query, go }) {
  const form = h("form", { class: "filters", role: "search", "aria-label": "Filter dead letters" },
    field("Service", h("input", { name: "service", value: query.service || "", autocomplete: "off" })), field("Fault", h("input", { name: "fault", value: query.fault || "", autocomplete: "off" })),
    h("button", { type: "submit" }, "Search"), h("a", { class: "button-link", href: "#/dead" }, "Clear"));
  form.addEventListener("submit", (event) => { event.preventDefault(); go(href("/dead", Object.fromEntries(new FormData(form)))); });
  return form;
}

export const deadPage = (context) => listed(context, "Dead letters", "Jobs that failed although they were tried again, or whose every attempt was lost. Each is kept until it is retried or dropped.", "/v1/dead", "dead", (load) => [
  { name: "Job", of: (r) => jobLink(r.job) },
  { name: "State", of: (r) => tag(r.state) },
  { name: "Service", of: (r) => link("/dead", { service: r.service }, r.service) },
  { name: "Task", of: (r) => r.task ?? "" },
  { name: "Fault", of: (r) => link("/dead", { fault: r.fault }, r.fault) },
  { name: "Attempts", num: true, of: (r) => count(r.attempts) },
  { name: "Ended", of: (r) => time(r.ended_at) },
  { name: "What happened", clip: true, title: (r) => r.detail, of: (r) => r.detail },
  ...(may("disconnect") ? [{ name: "", of: (r) => h("div", { class: "row-actions" },
    button("Retry", "", () => act({ title: "Retry this job?", text: "A new job with the same request, linked to this one.", yes: "Retry" }, "retry_dead", { job: r.job }, "Submitted again.", load)),
    button("Drop", "danger", () => act({ title: "Drop this dead letter?", text: "The ledger keeps its history.", yes: "Drop", danger: true }, "drop_dead", { job: r.job }, "Dropped.", load))) }] : []),
], Object.values(context.query).some(Boolean) ? empty("No dead letter matches", "Change the filter, or clear it.") : empty("No dead letters", "Every job ended by itself."),
(rows, load) => h("div", { class: "pager" }, h("span", {}, `${plural(rows.length, "dead letter")}${rows.length === MOST ? ", and perhaps older ones" : ""}.`), h("span", { class: "grow" }),
  may("disconnect") ? h("button", { type: "button", onclick: () => retryAll(rows, load) }, `Retry all ${count(rows.length)}`) : null),
{ filters: deadFilter, wanted: (query) => ({ service: query.service, fault: query.fault, limit: MOST }) });
