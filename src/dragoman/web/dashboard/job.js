// One job: what happened, record by record; why; input and result; what can be done about it.

import { api, get, may, session, stream } from "./api.js";
import { toast } from "./app.js";
import { ask } from "./dialog.js";
import { bytes, clock, duration, empty, facts, fill, h, head, href, instant, jobLink, link, loading, panel, tag, time, trouble } from "./dom.js";

const FINAL = ["succeeded", "failed", "expired", "cancelled", "dead"];
const SAYS = {
  submitted: (r) => ["info", "Taken", `from ${r.client}${r.principal ? `, principal ${r.principal}` : ""}, for ${r.target || "any worker"}`],
  bound: (r) => ["", "Divided", `for ${(r.detail || "").split("\n").length} workers`],
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
  late: (r) => ["warn", "Late result", "recorded, not applied"],
  adopted: (r) => ["", "Submitted again", `answers go to ${r.client}`],
  allowed: (r) => ["", "Access allowed", `${r.principal}: ${r.detail}`],
  denied: (r) => ["bad", "Access denied", `${r.principal}: ${r.detail}`],
};

// The children of a job: how many in which state, and links to those that matter most.
function tree(why) {
  const states = Object.entries(why.child_states || {});
  if (!states.length) return "";
  return h("div", { id: "children" }, states.map(([state, count]) => `${count} ${state}`).join(", "), h("ul", {}, why.children.map((c) =>
    h("li", {}, `${c.position}. `, h("a", { href: `#/job/${encodeURIComponent(c.job)}`, title: c.job }, [c.service, c.task].filter(Boolean).join(".")), " ", tag(c.state)))));
}

function timeline(records) {
  const start = records[0].at;
  return h("ol", { class: "timeline" }, records.map((r) => {
    const [css, title, detail] = (SAYS[r.kind] || (() => ["", r.kind, r.detail || ""]))(r);
    const lines = detail.includes("\n") ? h("pre", {}, detail) : h("div", { class: "soft" }, detail);
    return h("li", {}, h("time", { title: `${instant(r.at)} · record ${r.seq}` }, r === records[0] ? clock(r.at) : `+${duration(r.at - start)}`),
      h("span", { class: `dot ${css}` }), h("div", {}, h("strong", {}, title), " ", link("/events", { after: r.seq - 1 }, h("span", { class: "soft" }, `#${r.seq}`)), lines));
  }));
}

/** A body as JSON, text or hex, with a download. */
function content(body, job) {
  const download = h("a", { href: `/v1/jobs/${encodeURIComponent(job)}/bodies/${body.seq}?download`, download: "" }, `Download ${bytes(body.bytes)}`);
  const foot = h("p", { class: "soft" }, `${body.dialect} body, `, download, body.note ? ` · ${body.note}` : "");
  if (body.call) return h("div", {}, h("pre", {}, JSON.stringify(body.call, null, 2)), foot);
  if (body.fault) return h("div", {}, h("pre", {}, `${body.fault.code}: ${body.fault.message}`), foot);
  if (body.raw !== undefined) return h("div", {}, h("pre", {}, text(body.raw)), foot);
  return h("div", {}, h("pre", {}, JSON.stringify(body.value, null, 2)), foot);
}
function text(base64) {
  const raw = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  try {
    const found = new TextDecoder("utf-8", { fatal: true }).decode(raw);
    if (!/[\u0000-\u0008\u000e-\u001f]/.test(found)) return found;
  } catch { /* not text */ }
  const rows = [];
  for (let at = 0; at < Math.min(raw.length, 4096); at += 16) {
    const part = [...raw.slice(at, at + 16)];
    rows.push(`${at.toString(16).padStart(6, "0")}  ${part.map((b) => b.toString(16).padStart(2, "0")).join(" ").padEnd(48)}  ${part.map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : ".")).join("")}`);
  }
  return rows.join("\n");
}

async function bodies(place, job, records, signal) {
  const wanted = records.filter((r) => r.nbytes && ["submitted", "ended", "gathered", "progress", "input_asked", "input_given", "forwarded"].includes(r.kind));
  const parts = await Promise.all(wanted.slice(0, 20).map(async (r) => {
    const name = r.kind === "submitted" ? "Input" : r.kind === "ended" || r.kind === "gathered" ? `Result${r.worker ? ` of ${r.worker}` : ""}` : (SAYS[r.kind]?.(r)[1] ?? r.kind);
    try {
      return panel(name, h("div", { class: "body" }, content(await get(`/v1/jobs/${encodeURIComponent(job)}/bodies/${r.seq}`, {}, signal), job)));
    } catch (error) {
      if (error.name === "AbortError") throw error;
      return panel(name, trouble(error));
    }
  }));
  fill(place, parts.length ? parts : panel("Input and result", empty("No bodies", "The job was sent without content.")));
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
  return panel(`${asked.worker || "The worker"} asks for input`, h("div", { class: "body" }, form));
}

export async function jobPage({ root, query, signal, onNews, go }) {
  const job = query.name, place = h("div", {}), more = h("div", { class: "grid" }), input = h("div", {});
  const state = { records: [], children: "" };
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
    const { records } = state, first = records[0];
    const end = records.findLast((r) => r.kind === "ended"), last = records.findLast((r) => r.kind === "dispatched");
    const now = end ? end.state : records.findLast((r) => r.state)?.state || "queued";
    const actions = [];
    if (!end) actions.push(h("button", { type: "button", class: "danger", id: "cancel", onclick: () => cancel(job) }, "Cancel"));
    if (end && may("submit")) actions.push(h("button", { type: "button", id: "retry", onclick: () => retry(job, first, go) }, "Run again"));
    fill(place, head(job, "", [tag(now), ...actions]), h("div", { class: "grid" },
      panel("What is known", h("div", { class: "body" }, facts([
        ["Service", link("/jobs", { service: first.service }, first.service)], ["Task", first.task],
        ["Asked by", link("/jobs", { client: first.client }, first.client)],
        ["Principal", link("/jobs", { principal: first.principal }, first.principal)],
        ["Target", first.target], ["Worker", last ? link("/workers", { text: last.worker }, last.worker) : ""],
        ["Attempts", last?.attempt], ["Priority", first.priority], ["Idempotency key", first.key],
        ["Taken", time(first.at)], ["Ended", end ? time(end.at) : ""], ["Took", end ? duration(end.at - first.at) : ""],
        ["Deadline", first.deadline_at ? instant(first.deadline_at) : "none"], ["Durability", first.strict ? "strict: on disk before it is acknowledged" : "relaxed"],
        ["Why", h("span", {}, h("strong", {}, why.reason), `: ${why.words}`)],
        ["Parent", first.parent ? h("span", {}, jobLink(first.parent), `, child ${first.position}`) : ""],
        ["Children", tree(why)],
        ["Candidates", why.candidates?.length ? h("ul", {}, why.candidates.map((c) => h("li", {}, `${c.worker}: ${c.standing}${c.detail ? `, ${c.detail}` : ""}`))) : ""],
      ]))),
      panel("Timeline", h("div", { class: "body", id: "timeline" }, timeline(records)))));
    const asked = records.findLast((r) => r.kind === "input_asked"), given = records.findLast((r) => r.kind === "input_given");
    const waits = asked && !end && (!given || given.seq < asked.seq);
    if (!waits) fill(input);
    else if (!input.firstChild) {
      get(`/v1/jobs/${encodeURIComponent(job)}/bodies/${asked.seq}`).catch(() => ({})).then((body) => fill(input, inputForm(job, asked, body.value)));
    }
    bodies(more, job, records, signal).catch(() => {});
  };
  try { await load(); } catch (error) {
    if (error.name === "AbortError") throw error;
    fill(root, head(job), h("section", { class: "panel" }, trouble(error, () => location.reload())));
    return;
  }
  fill(root, place, input, more);
  onNews(load);
}
