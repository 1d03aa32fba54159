// One job: what happened, record by record; why; input and result; what can be done about it.

import { api, get, may } from "./api.js";
import { toast } from "./app.js";
import { Bodies, bodyPanel, outputPanel } from "./bodies.js";
import { ask } from "./dialog.js";
import { clock, count, duration, empty, facts, fill, h, head, href, instant, jobLink, link, loading, panel, plural, table, tag, time, trouble } from "./dom.js";

const SAYS = {
  submitted: (r) => ["info", "Taken", `from ${r.client}${r.principal ? `, principal ${r.principal}` : ""}, for ${r.target || "any worker"}`],
  bound: (r) => ["", "Divided", `for ${plural((r.detail || "").split("\n").length, "worker")}`],
  moved: (r) => ["", "Follows its resources", `now for ${r.detail}`],
  dispatched: (r) => ["info", `Sent to ${r.worker}`, `attempt ${r.attempt}${r.part ? `, part ${r.part}` : ""}, over ${r.dialect}`],
  accepted: (r) => ["", "Accepted", `${r.worker} has it`],
  progress: (r) => ["", "Progress", `from ${r.worker}`],
  input_asked: (r) => ["warn", "Asks for input", `${r.worker} waits for an answer`],
  input_given: () => ["", "Input given", ""],
  requeued: (r) => ["warn", "Attempt ended without a result", [r.fault, r.detail].filter(Boolean).join(": ")],
  forwarded: (r) => ["", `Forwarded to ${r.service}`, `by ${r.worker}`],
  gathered: (r) => [r.state === "succeeded" ? "good" : "bad", `Part ${r.part || 0} ${r.state}`, r.worker],
  ended: (r) => [r.state === "succeeded" ? "good" : r.state === "cancelled" ? "" : "bad", r.state[0].toUpperCase() + r.state.slice(1), [r.fault, r.detail].filter(Boolean).join(": ")],
  cancel_asked: (r) => ["warn", "Cancel asked", r.detail || ""],
  late: () => ["warn", "Late result", "recorded, not applied"],
  adopted: (r) => ["", "Submitted again", `answers go to ${r.client}`],
  dropped: (r) => ["", "Dead letter closed", r.detail || ""],
  allowed: (r) => ["", "Access allowed", `${r.principal}: ${r.detail}`],
  denied: (r) => ["bad", "Access denied", `${r.principal}: ${r.detail}`],
};
const INPUTS = ["submitted", "forwarded"], RESULTS = ["ended", "gathered"];

// The children of a job: how many in which state, and links to those that matter most.
function tree(why) {
  const states = Object.entries(why.child_states || {});
  if (!states.length) return "";
  return h("div", { id: "children" }, states.map(([state, n]) => `${n} ${state}`).join(", "), h("ul", {}, why.children.map((c) =>
    h("li", {}, `${c.position}. `, h("a", { href: `#/job/${encodeURIComponent(c.job)}`, title: c.job }, [c.service, c.task].filter(Boolean).join(".")), " ", tag(c.state)))));
}

/** Leave out the middle of long runs of the same kind: [record, how many like it are left out]. */
function shortened(records) {
  const found = [];
  records.forEach((record, i) => {
    const inside = record.kind === "progress" && records[i - 1]?.kind === "progress" && records[i + 1]?.kind === "progress";
    if (inside) found[found.length - 1][1] += 1; else found.push([record, 0]);
  });
  return found;
}

function timeline(records) {
  const start = records[0].at;
  return h("ol", { class: "timeline" }, shortened(records).map(([r, more]) => {
    const [css, title, detail] = (SAYS[r.kind] || (() => ["", r.kind, r.detail || ""]))(r);
    const words = detail.includes("\n") ? h("pre", {}, detail) : h("div", { class: "soft" }, detail);
    return h("li", {}, h("time", { title: `${instant(r.at)} · record ${r.seq}` }, r === records[0] ? clock(r.at) : `+${duration(r.at - start)}`),
      h("span", { class: `dot ${css}` }), h("div", {}, h("strong", {}, title), " ", link("/events", { after: r.seq - 1 }, h("span", { class: "soft" }, `#${r.seq}`)), words,
        more ? h("div", { class: "soft" }, `and ${count(more)} more`) : null));
  }));
}

/** The attempts: who had the job, for how long, and how that ended. */
function attempts(records) {
  const rows = [];
  for (const r of records) {
    if (r.kind === "dispatched") rows.push({ attempt: r.attempt, part: r.part, worker: r.worker, dialect: r.dialect, from: r.at, until: 0, end: "running" });
    if (!["requeued", "gathered", "ended"].includes(r.kind)) continue;
    const open = rows.findLast((each) => !each.until && (!r.worker || each.worker === r.worker) && (r.kind === "ended" || (each.part || 0) === (r.part || 0)));
    if (open) Object.assign(open, { until: r.at, end: r.kind === "requeued" ? r.fault || "requeued" : r.state });
  }
  if (!rows.length) return empty("No attempt yet", "The job has not been sent to a worker.");
  return table("Attempts", [
    { name: "Attempt", of: (r) => `${r.attempt}${r.part ? `, part ${r.part}` : ""}` },
    { name: "Worker", of: (r) => link("/workers", { text: r.worker }, r.worker) },
    { name: "Dialect", of: (r) => r.dialect },
    { name: "Began", of: (r) => time(r.from) },
    { name: "Took", num: true, of: (r) => duration((r.until || Date.now() / 1000) - r.from) },
    { name: "Outcome", of: (r) => tag(["succeeded", "running", "cancelled"].includes(r.end) ? r.end : "failed", r.end) },
  ], rows);
}

async function cancel(job) {
  if (!(await ask({ title: "Cancel this job?", text: "A queued job never starts. A running one is told to stop; its worker may not be able to.", yes: "Cancel the job", danger: true }))) return;
  try {
    const done = await api(`/v1/jobs/${encodeURIComponent(job)}`, { method: "DELETE" });
    toast(done.cancelled ? (done.confirmed ? "Cancelled; confirmed." : "Cancelled; its worker cannot confirm and may still run it.") : `The job is already ${done.state}.`, !done.cancelled);
  } catch (error) { toast(error.message, true); }
}

async function retry(job, first, go) {
  try {
    const body = await get(`/v1/jobs/${encodeURIComponent(job)}/bodies/${first.seq}`);
    if (!body.call) { toast("This job was sent as bytes: send it again with its own client.", true); return; }
    if (!(await ask({ title: "Run it again?", text: `A new job with the same task and arguments, for ${first.target || "any"} of ${first.service}. The old job stays as it is.`, yes: "Run it again" }))) return;
    const { task, args, kwargs } = body.call;
    const made = await api("/v1/jobs", { method: "POST", body: { service: first.service, task, args, kwargs, target: first.target || "any", priority: first.priority || 0 } });
    toast("Submitted again.");
    go(href(`/job/${encodeURIComponent(made.job)}`));
  } catch (error) { toast(error.message, true); }
}

function inputForm(job, asked, question) {
  const answer = h("textarea", { name: "value", id: "answer", rows: 3, required: true, placeholder: "text, or JSON" });
  const form = h("form", { class: "form", id: "input-form" }, question ? h("p", {}, typeof question === "string" ? question : JSON.stringify(question)) : null,
    h("label", {}, "Your answer", answer), h("div", {}, h("button", { type: "submit", class: "primary" }, "Send the answer")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    let value = answer.value;
    try { value = JSON.parse(value); } catch { /* plain text */ }
    try {
      await api(`/v1/jobs/${encodeURIComponent(job)}/input`, { method: "POST", body: { value, worker: asked.worker || "" } });
      toast("The answer is sent.");
    } catch (error) { toast(error.message, true); }
  });
  return h("section", { class: "panel asks" }, h("header", {}, h("h2", {}, `${asked.worker || "The worker"} asks for input`)), h("div", { class: "body" }, form));
}

const stat = (label, ...shown) => h("div", { class: "stat" }, h("div", { class: "label" }, label), h("div", { class: "value" }, shown));
function summary(now, first, last, end) {
  const begun = last?.at, until = end?.at ?? Date.now() / 1000;
  return h("div", { class: "stats" }, stat("State", tag(now)), stat(end ? "Took" : "Open for", duration(until - first.at)),
    stat("Last worker", last ? link("/workers", { text: last.worker }, last.worker) : "none yet"), stat("Last attempt", begun ? duration(until - begun) : "not begun"),
    stat("Attempts", last ? count(last.attempt) : "0"), stat("Taken", time(first.at)), stat("Asked by", link("/jobs", { client: first.client }, first.client)));
}

function details(first, why) {
  return facts([
    ["Service", link("/jobs", { service: first.service }, first.service)], ["Task", first.task],
    ["Principal", link("/jobs", { principal: first.principal }, first.principal)],
    ["Target", first.target], ["Priority", first.priority], ["Idempotency key", first.key],
    ["Deadline", first.deadline_at ? instant(first.deadline_at) : "none"], ["Durability", first.strict ? "strict: on disk before it is acknowledged" : "relaxed"],
    ["Parent", first.parent ? h("span", {}, jobLink(first.parent), `, child ${first.position}`) : ""],
    ["Children", tree(why)],
    ["Candidates", why.candidates?.length ? h("ul", {}, why.candidates.map((c) => h("li", {}, link("/workers", { text: c.worker }, c.worker), `: ${c.standing}${c.detail ? `, ${c.detail}` : ""}`))) : ""],
  ]);
}

export async function jobPage({ root, query, signal, onNews, go }) {
  const job = query.name, bodies = new Bodies(job, signal), output = outputPanel(bodies);
  const place = { top: h("div"), input: h("div"), bodies: h("div", { class: "grid" }), rest: h("div", { class: "grid" }) };
  const state = { records: [], children: "", bodies: "" };
  fill(root, head("Job"), panel("", loading()));
  const load = async () => {
    const [{ records }, why] = await Promise.all([
      get(`/v1/jobs/${encodeURIComponent(job)}/records`, {}, signal), get(`/v1/jobs/${encodeURIComponent(job)}/why`, {}, signal)]);
    const children = JSON.stringify(why.child_states || {});
    if (records.length === state.records.length && children === state.children) return;
    Object.assign(state, { records, children });
    draw(why);
  };
  const draw = (why) => {
    const { records } = state, first = records.find((r) => r.kind === "submitted") ?? records[0];
    const end = records.findLast((r) => r.kind === "ended"), last = records.findLast((r) => r.kind === "dispatched");
    const now = end ? end.state : records.findLast((r) => r.state)?.state || "queued";
    const actions = [];
    if (!end) actions.push(h("button", { type: "button", class: "danger", id: "cancel", onclick: () => cancel(job) }, "Cancel"));
    if (end && may("submit")) actions.push(h("button", { type: "button", id: "retry", onclick: () => retry(job, first, go) }, "Run again"));
    fill(place.top, head([first.service, first.task].filter(Boolean).join("."), h("span", { class: "mono", id: "job-id" }, job), actions), summary(now, first, last, end),
      h("div", { class: `callout ${end && now !== "succeeded" ? "bad" : ""}`, id: "why" }, h("strong", {}, "Why: "), why.words || why.reason));
    fill(place.rest, panel("Timeline", h("div", { class: "body", id: "timeline" }, timeline(records))),
      h("div", {}, panel("Attempts", attempts(records)), panel("Details", h("div", { class: "body" }, details(first, why)))));
    const asked = records.findLast((r) => r.kind === "input_asked");
    const waits = asked && !end && !records.some((r) => r.kind === "input_given" && r.seq > asked.seq);
    if (!waits) fill(place.input);
    else if (!place.input.firstChild) bodies.get(asked.seq).catch(() => ({})).then((body) => fill(place.input, inputForm(job, asked, body.value)));
    drawBodies(records).catch(() => {});
    output.update(records);
  };
  const drawBodies = async (records) => {
    const wanted = records.filter((r) => r.nbytes && [...INPUTS, ...RESULTS, "input_asked", "input_given"].includes(r.kind)).slice(0, 20), key = wanted.map((r) => r.seq).join();
    if (key === state.bodies && place.bodies.firstChild) return;
    state.bodies = key;
    const name = (r) => (r.kind === "submitted" ? "Input" : RESULTS.includes(r.kind) ? `Result${r.worker ? ` of ${r.worker}` : ""}` : SAYS[r.kind](r)[1]);
    const panels = await Promise.all(wanted.map((r) => bodyPanel(name(r), bodies, r)));
    if (!records.some((r) => r.kind === "ended")) panels.push(panel("Result", empty("Not yet", "The result appears here when the job ends.")));
    fill(place.bodies, panels);
  };
  try { await load(); } catch (error) {
    if (error.name === "AbortError") throw error;
    fill(root, head(job), h("section", { class: "panel" }, trouble(error, () => location.reload())));
    return;
  }
  fill(root, place.top, place.input, place.bodies, output.place, place.rest);
  onNews(load);
}
