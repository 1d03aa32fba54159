// Events as they are recorded, or again from a position of the ledger.

import { pause, stream } from "./api.js";
import { clock, count, empty, field, fill, h, head, href, jobLink, panel, trouble } from "./dom.js";

const MOST = 500;

function line({ id, event, data }) {
  const record = data.event && typeof data.event === "object" ? data.event : {};
  const about = record.kind ? Object.entries(record).filter(([k, v]) => !["seq", "at", "kind", "job", "version", "strict", "digest", "submitted_at", "deadline_at", "terms", "peer"].includes(k) && v !== "anonymous") : [["event", JSON.stringify(data.event)]];
  return h("tr", {}, h("th", { scope: "row", class: "num" }, id), h("td", { class: "nowrap" }, clock(data.at, true)), h("td", { class: "nowrap" }, event),
    h("td", {}, record.job ? jobLink(record.job) : ""), h("td", { class: "soft" }, about.map(([k, v]) => `${k}=${v}`).join("  ")));
}

export async function eventsPage({ root, query, signal, go }) {
  const rows = h("tbody"), state = h("span", { class: "soft", role: "status" }), waiting = [];
  let isPaused = false, seen = 0, last = query.after === undefined || query.after === "" ? -1 : Number(query.after);
  const hold = h("button", { type: "button", onclick: () => { isPaused = !isPaused; hold.textContent = isPaused ? "Go on" : "Hold"; if (!isPaused) flush(); } }, "Hold");
  const form = h("form", { class: "filters", role: "search", "aria-label": "Events to show" },
    field("Topic, with * for anything", h("input", { type: "search", name: "topic", value: query.topic || "*" }), true),
    field("From record (0: all)", h("input", { name: "after", inputMode: "numeric", value: query.after ?? "", placeholder: "now" })),
    h("button", { type: "submit", class: "primary" }, "Show"), hold);
  form.addEventListener("submit", (event) => { event.preventDefault(); go(href("/events", Object.fromEntries(new FormData(form)))); });
  const none = empty("Waiting for the next event", "Everything that the broker records appears here. Choose a record to start from to see the past.");
  fill(root, head("Events", "Live from the ledger: every record in order, none twice.", [state]), h("section", { class: "panel" }, form, none,
    h("div", { class: "scroll log", tabIndex: 0, role: "region", "aria-label": "Events" }, h("table", {},
      h("thead", {}, h("tr", {}, ["Record", "At", "Topic", "Job", "Content"].map((name, i) => h("th", { scope: "col", class: i ? null : "num" }, name)))), rows))));
  const flush = () => {
    if (isPaused || !waiting.length) return;
    none.hidden = true;
    rows.prepend(...waiting.splice(0).slice(-MOST).reverse().map(line));
    while (rows.children.length > MOST) rows.lastChild.remove();
    state.textContent = `${count(seen)} events`;
  };
  const take = (event) => { seen += 1; last = Number(event.id); waiting.push(event); if (waiting.length > MOST) waiting.shift(); };
  const timer = setInterval(flush, 200);
  signal.addEventListener("abort", () => clearInterval(timer));
  const topics = (query.topic || "*").split(/[\s,]+/).filter(Boolean);
  const read = async () => {
    while (!signal.aborted) {
      const search = new URLSearchParams([...topics.map((t) => ["topic", t]), ["after", String(last)]]);
      try { await stream(`/v1/events?${search}`, take, signal); } catch (error) {
        if (signal.aborted || error.name === "AbortError") return;
        if (error.status) { fill(root, head("Events"), panel("", trouble(error))); return; }
      }
      await pause(1000, signal);
    }
  };
  read();
}
