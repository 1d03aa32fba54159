// Keys, roles and the policy; and the audit: who did what, who was refused.

import { get, manage, may, session } from "./api.js";
import { toast } from "./app.js";
import { ask } from "./dialog.js";
import { choice, count, empty, field, fill, h, head, href, instant, jobLink, link, loading, panel, table, tag, time, trouble } from "./dom.js";

const VERBS = ["submit", "read-own", "read-others", "events", "cancel", "cancel-others", "manage", "inventory", "inventory-own", "files", "register"];

async function approve(row, roles, load) {
  const form = await ask({ title: "Approve this key?", text: row.key, yes: "Approve", fields: [
    field("Principal (its name from now on)", h("input", { name: "name", required: true, value: row.principal || "" })),
    field("Role", choice("role", [["", "none"], ...roles.map((r) => r.role)]))] });
  if (!form) return;
  try {
    const done = await manage("approve_key", { key: row.key, name: form.name, roles: form.role ? [form.role] : [] });
    toast(`Approved for ${done.principal}.`);
    await load();
  } catch (error) { toast(error.message, true); }
}

async function revoke(row, load) {
  if (!(await ask({ title: "Revoke this key for good?", text: `${row.brief} of ${row.principal || "nobody yet"}. Its connections close at once; a revoked key never comes back.`, yes: "Revoke", danger: true }))) return;
  try { await manage("revoke_key", { key: row.key }); toast("Revoked."); await load(); } catch (error) { toast(error.message, true); }
}

const keyActions = (row, roles, load) => h("div", { class: "row-actions" },
  row.state === "pending" && may("approve_key") ? h("button", { type: "button", class: "small primary", onclick: () => approve(row, roles, load) }, "Approve") : null,
  row.state !== "revoked" && may("revoke_key") ? h("button", { type: "button", class: "small danger", onclick: () => revoke(row, load) }, "Revoke") : null);

function tryPolicy() {
  const out = h("div", { id: "decision", "aria-live": "polite" });
  const form = h("form", { class: "form" },
    h("label", {}, "May this principal", h("input", { name: "principal", id: "try-principal", required: true })),
    h("label", {}, "do this", choice("verb", VERBS)), h("label", {}, "with this service (any if empty)", h("input", { name: "service", id: "try-service" })),
    h("label", {}, "and this task (any if empty)", h("input", { name: "task", id: "try-task" })),
    h("div", {}, h("button", { type: "submit", class: "primary" }, "Ask the policy")), out);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const found = await manage("show_decision", Object.fromEntries(new FormData(form)));
      fill(out, h("p", {}, tag(found.allowed ? "allowed" : "denied"), ` ${found.reason}`), h("p", { class: "soft" }, `Roles: ${found.roles.join(", ") || "none"}.`));
    } catch (error) { fill(out, h("p", {}, tag("failed"), ` ${error.message}`)); }
  });
  return h("div", { class: "body" }, form);
}

/** Connections and requests that were refused lately. */
async function knocks(place, signal) {
  try {
    const { rows } = await get("/v1/history/records?kind=rejected&kind=denied&builtin=1&limit=20", {}, signal);
    fill(place, rows.length ? table("Refused lately", [
      { name: "At", of: (r) => time(r.at) },
      { name: "What", of: (r) => tag(r.kind) },
      { name: "Principal", of: (r) => (r.principal ? link("/audit", { principal: r.principal }, r.principal) : "unknown") },
      { name: "From", of: (r) => r.peer || r.client || "" },
      { name: "Why", of: (r) => r.detail || r.fault },
    ], rows) : empty("Nobody was refused", "A peer whose key is unknown, or who may not do what it asks, appears here."));
  } catch (error) { if (error.name !== "AbortError") fill(place, trouble(error)); }
}

export async function securityPage({ root, signal }) {
  if (!session.secured) {
    fill(root, head("Security"), panel("", empty("Security is off", "Everybody who reaches a port may do everything. ", h("code", {}, "dragoman init --secure"), " makes keys and a policy.")));
    return;
  }
  if (!may("keys")) { fill(root, head("Security"), panel("", trouble({ status: 403, message: `Your principal ${session.principal} may not list keys.` }))); return; }
  const keys = h("div", { id: "keys" }, loading()), rolesPlace = h("div", {}, loading()), knocked = h("div", { id: "knocked" }, loading());
  fill(root, head("Security", "Who may connect, as whom, and what they may do."), panel("Keys", keys), h("div", { class: "grid" }, panel("May X do Y?", tryPolicy()), panel("Roles", rolesPlace)), may("records") ? panel("Who knocked", knocked) : "");
  if (may("records")) knocks(knocked, signal);
  const load = async () => {
    try {
      const [rows, roles] = [await manage("list_keys"), await manage("list_roles")];
      const order = { pending: 0, allowed: 1, expired: 2, revoked: 3 };
      rows.sort((a, b) => (order[a.state] ?? 9) - (order[b.state] ?? 9) || a.principal.localeCompare(b.principal));
      fill(keys, rows.length ? table("Keys", [
        { name: "Key", of: (r) => h("code", { title: r.key }, r.brief) },
        { name: "State", of: (r) => tag(r.state) },
        { name: "Principal", of: (r) => (r.principal ? link("/audit", { principal: r.principal }, r.principal) : "") },
        { name: "Roles", of: (r) => r.roles.join(", ") },
        { name: "Expires", of: (r) => (r.expires_at ? time(r.expires_at) : "never") },
        { name: "Note", of: (r) => r.note },
        { name: "", of: (r) => keyActions(r, roles, load) },
      ], rows) : empty("No keys", "Make one: ", h("code", {}, "dragoman keys new NAME --role submitter"), "."));
      fill(rolesPlace, table("Roles", [{ name: "Role", of: (r) => r.role }, { name: "Verbs", of: (r) => r.verbs.join(", ") }, { name: "Services", of: (r) => r.services.join(", ") }], roles));
    } catch (error) { fill(keys, trouble(error, load)); fill(rolesPlace); }
  };
  await load();
}

// --- audit -----------------------------------------------------------------------------------------

const KINDS = ["denied", "rejected", "allowed", "changed", "paused", "resumed", "drained", "undrained", "joined", "left", "refused", "undelivered", "late", "requeued", "cancel_asked", "started", "stopped", "submitted", "dispatched", "ended", "published"];
const AUDITED = ["denied", "rejected", "changed", "paused", "resumed", "drained", "undrained", "joined", "left", "refused", "cancel_asked", "started", "stopped", "allowed"];

// What an operator stopped or let go on.
const OBJECTS = { paused: (r) => r.service, resumed: (r) => r.service, drained: (r) => r.worker, undrained: (r) => r.worker };

export async function auditPage({ root, query, signal, go, onNews }) {
  const list = h("div", { id: "audit" }, loading());
  const form = h("form", { class: "filters", role: "search", "aria-label": "Filter records" },
    field("Text", h("input", { type: "search", name: "text", value: query.text || "" }), true),
    field("Kind", choice("kind", [["", "audited"], ...KINDS], query.kind)),
    field("Principal", h("input", { name: "principal", value: query.principal || "" })), field("Service", h("input", { name: "service", value: query.service || "" })),
    h("button", { type: "submit", class: "primary" }, "Search"));
  const apply = (event) => { event.preventDefault(); go(href("/audit", Object.fromEntries(new FormData(form)))); };
  form.addEventListener("submit", apply);
  form.elements.kind.addEventListener("change", apply);
  fill(root, head("Audit", "Who did what, who was refused, what changed. Newest first."), h("section", { class: "panel" }, form, list));
  const load = async () => {
    const wanted = new URLSearchParams(Object.entries({ text: query.text, principal: query.principal, service: query.service, before: query.before }).filter(([, v]) => v));
    for (const kind of query.kind ? [query.kind] : AUDITED) wanted.append("kind", kind);
    wanted.append("builtin", "1");
    try {
      const page = await get(`/v1/history/records?${wanted}`, {}, signal);
      fill(list, page.rows.length ? table("Records", [
        { name: "Record", num: true, of: (r) => link("/events", { after: r.seq - 1 }, count(r.seq)) },
        { name: "At", of: (r) => time(r.at) },
        { name: "Kind", of: (r) => tag(r.kind) },
        { name: "Principal", of: (r) => (r.principal ? link("/audit", { principal: r.principal }, r.principal) : "") },
        { name: "Peer", of: (r) => r.peer || r.client || "" },
        { name: "Job", of: (r) => (r.job ? jobLink(r.job) : "") },
        { name: "What", of: (r) => [OBJECTS[r.kind]?.(r), r.fault, r.detail].filter(Boolean).join(": ") || r.service || "" },
      ], page.rows) : empty("Nothing found", "No record matches; change the filter."),
      h("div", { class: "pager" }, h("span", {}, page.before ? `Searched back to ${instant(page.looked_back_to)}.` : "This is all."), h("span", { class: "grow" }),
        query.before ? h("a", { href: href("/audit", { ...query, before: "" }) }, "Newest") : null, page.before ? h("a", { href: href("/audit", { ...query, before: page.before }) }, "Older") : null));
    } catch (error) { if (error.name !== "AbortError") fill(list, trouble(error, load)); }
  };
  await load();
  if (!query.before) onNews(load);
}
