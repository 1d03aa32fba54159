// Bodies of a job: as JSON, text or hex, with a download; and what a job reports while it runs.

import { get } from "./api.js";
import { bytes, clock, duration, empty, fill, h, panel, trouble } from "./dom.js";

const LONGEST = 64 * 1024, MOST = 30;
const url = (job, seq) => `/v1/jobs/${encodeURIComponent(job)}/bodies/${seq}`;
const json = (given) => JSON.stringify(given, null, 2);

/** Bodies never change: each is fetched once. */
export class Bodies {
  constructor(job, signal) { Object.assign(this, { job, signal, found: new Map(), raws: new Map() }); }

  get(seq) {
    if (!this.found.has(seq)) this.found.set(seq, get(url(this.job, seq), {}, this.signal));
    return this.found.get(seq);
  }

  raw(seq) {
    if (!this.raws.has(seq)) this.raws.set(seq, fetch(`${url(this.job, seq)}?download`, { credentials: "same-origin", signal: this.signal }).then((r) => r.arrayBuffer()).then((b) => new Uint8Array(b)));
    return this.raws.get(seq);
  }
}

/** The value of a body in words: what people want to see first. */
function shown(body) {
  if (body.call) return json(body.call);
  if (body.fault) return `${body.fault.code}: ${body.fault.message}`;
  if (body.raw === undefined) return json(body.value);
  return asText(fromBase64(body.raw)) ?? hex(fromBase64(body.raw));
}
const fromBase64 = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

function asText(raw) {
  try {
    const found = new TextDecoder("utf-8", { fatal: true }).decode(raw);
    return /[\u0000-\u0008\u000e-\u001f]/.test(found) ? null : found;
  } catch { return null; }
}
function hex(raw) {
  const rows = [];
  for (let at = 0; at < Math.min(raw.length, LONGEST / 4); at += 16) {
    const part = [...raw.slice(at, at + 16)];
    rows.push(`${at.toString(16).padStart(6, "0")}  ${part.map((b) => b.toString(16).padStart(2, "0")).join(" ").padEnd(48)}  ${part.map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : ".")).join("")}`);
  }
  return rows.join("\n") || "(empty)";
}
const readable = (raw) => new TextDecoder().decode(raw.slice(0, LONGEST)).replace(/[\u0000-\u0008\u000e-\u001f]/g, "·") || "(empty)";

/** A panel with one body and the buttons that choose its form. */
export async function bodyPanel(name, bodies, record) {
  const out = h("pre", { tabIndex: 0 }), note = h("p", { class: "soft" });
  let body;
  try { body = await bodies.get(record.seq); } catch (error) {
    if (error.name === "AbortError") throw error;
    return panel(name, error.status === 403 ? empty("Hidden", "Your principal may not read the content of this job. ", error.message) : trouble(error));
  }
  const forms = { JSON: async () => shown(body), Text: async () => readable(await bodies.raw(record.seq)), Hex: async () => hex(await bodies.raw(record.seq)) };
  const pick = (form) => h("button", { type: "button", class: "small", "aria-pressed": "false", onclick: (event) => choose(form, event.currentTarget) }, form);
  const buttons = Object.keys(forms).map(pick);
  const choose = async (form, button) => {
    for (const each of buttons) each.setAttribute("aria-pressed", String(each === button));
    out.textContent = await forms[form]().catch((error) => error.message);
  };
  buttons[0].setAttribute("aria-pressed", "true");
  out.textContent = shown(body);
  fill(note, `${bytes(body.bytes)} in ${body.dialect}'s form`, body.note ? ` · ${body.note}` : "");
  return panel(name, h("div", { class: "body" }, out, note), [h("div", { class: "segments", role: "group", "aria-label": `Form of ${name}` }, buttons),
    h("a", { class: "push", href: `${url(bodies.job, record.seq)}?download`, download: "" }, "Download")]);
}

/** The words of a report: log lines as they were printed, other values as JSON. */
const words = (value) => (typeof value === "string" ? value : typeof value?.log === "string" ? value.log : JSON.stringify(value));

/** What the job reported while it runs, the newest last; earlier lines stay as they are. */
export function outputPanel(bodies) {
  const log = h("ol", { class: "output", tabIndex: 0, role: "log", "aria-label": "Progress and log lines" }), state = h("span", { class: "soft push" }), seen = new Set();
  const place = panel("Progress and log lines, live", h("div", { class: "body" }, log), [state]);
  place.hidden = true;
  const update = async (records) => {
    const wanted = records.filter((r) => r.kind === "progress"), start = records[0]?.at ?? 0;
    place.hidden = !wanted.length;
    state.textContent = wanted.length > MOST ? `the newest ${MOST} of ${wanted.length}` : `${wanted.length} reports`;
    for (const record of wanted.slice(-MOST)) {
      if (seen.has(record.seq)) continue;
      seen.add(record.seq);
      const text = h("span", {}, record.nbytes ? "…" : "still works"), isAtEnd = !log.children.length || log.scrollHeight - log.scrollTop - log.clientHeight < 40;
      log.append(h("li", {}, h("time", { title: clock(record.at, true) }, `+${duration(record.at - start)}`), h("span", { class: "soft" }, record.worker), text));
      while (log.children.length > MOST) log.firstChild.remove();
      if (isAtEnd) requestAnimationFrame(() => { log.scrollTop = log.scrollHeight; });
      if (record.nbytes) bodies.get(record.seq).then((body) => { text.textContent = body.value === undefined ? shown(body) : words(body.value); }).catch((error) => { text.textContent = error.message; });
    }
  };
  return { place, update };
}
