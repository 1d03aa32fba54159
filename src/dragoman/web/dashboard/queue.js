// Schedules, and dead letters with bulk retry.

import { get, manage, may } from "./api.js";
import { toast } from "./app.js";
import { ask } from "./dialog.js";
import { count, empty, fill, h, head, jobLink, link, loading, panel, plural, table, tag, time, trouble } from "./dom.js";

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

async function listed(context, title, sub, path, key, columns, none, extra = () => null) {
  const { root, signal, onNews } = context, list = h("div", { id: key }, loading());
  fill(root, head(title, sub), panel("", list));
  const load = async () => {
    try {
      const rows = (await get(path, {}, signal))[key];
      fill(list, rows.length ? table(title, columns(load), rows) : none, rows.length ? extra(rows, load) : null);
    } catch (error) { if (error.name !== "AbortError") fill(list, trouble(error, load)); }
  };
  await load();
  onNews(load);
}

export const schedulesPage = (context) => listed(context, "Schedules", "Jobs that the broker makes by itself, at their times.", "/v1/schedules", "schedules", (load) => [
  { name: "Schedule", of: (r) => r.name },
  { name: "State", of: (r) => (r.is_paused ? tag("blocked", "paused") : tag("ready", "on")) },
  { name: "Service", of: (r) => link("/jobs", { service: r.service }, r.service) },
  { name: "Task", of: (r) => r.task },
  { name: "Last", of: (r) => (r.last_tick ? time(r.last_tick) : "never") },
  { name: "Last job", of: (r) => (r.last_job ? [jobLink(r.last_job), " ", r.last_state ? tag(r.last_state) : ""] : "") },
  { name: "Next", of: (r) => (r.next_tick ? time(r.next_tick) : "") },
  { name: "Skipped", num: true, of: (r) => count(r.skipped) },
  ...(may("disconnect") ? [{ name: "", of: (r) => scheduleActions(r, load) }] : []),
], empty("No schedules", "Make one: ", h("code", {}, "dragoman schedule add"), "."));

async function retryAll(rows, load) {
  if (!(await ask({ title: `Retry ${plural(rows.length, "dead letter")}?`, text: "Each becomes a new job, linked to the old one.", yes: "Retry all" }))) return;
  let failed = 0;
  for (const row of rows) { try { await manage("retry_dead", { job: row.job }); } catch { failed += 1; } }
  toast(failed ? `${plural(rows.length - failed, "job")} submitted, ${count(failed)} not.` : `${plural(rows.length, "job")} submitted.`, failed > 0);
  await load();
}

export const deadPage = (context) => listed(context, "Dead letters", "Jobs whose every attempt was lost. Each is kept until it is retried or dropped.", "/v1/dead", "dead", (load) => [
  { name: "Job", of: (r) => jobLink(r.job) },
  { name: "Service", of: (r) => link("/jobs", { service: r.service, state: "dead" }, r.service) },
  { name: "Task", of: (r) => r.task ?? "" },
  { name: "Fault", of: (r) => r.fault },
  { name: "Ended", of: (r) => time(r.ended_at) },
  ...(may("disconnect") ? [{ name: "", of: (r) => h("div", { class: "row-actions" },
    button("Retry", "", () => act({ title: "Retry this job?", text: "A new job with the same request, linked to this one.", yes: "Retry" }, "retry_dead", { job: r.job }, "Submitted again.", load)),
    button("Drop", "danger", () => act({ title: "Drop this dead letter?", text: "The ledger keeps its history.", yes: "Drop", danger: true }, "drop_dead", { job: r.job }, "Dropped.", load))) }] : []),
], empty("No dead letters", "Every job ended by itself."), (rows, load) => (may("disconnect") ? h("div", { class: "pager" }, h("span", {}, `${plural(rows.length, "dead letter")}.`), h("span", { class: "grow" }), h("button", { type: "button", onclick: () => retryAll(rows, load) }, "Retry all")) : null));
