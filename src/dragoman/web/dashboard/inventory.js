// The inventory and the pipeline's reports, read-only; the shared files, writable where broker and policy allow it.

import { get, manage, may } from "./api.js";
import { toast } from "./app.js";
import { ask } from "./dialog.js";
import { bytes, count, empty, facts, field, fill, h, head, href, loading, panel, table, time, trouble } from "./dom.js";

const INVENTORY = "sid.service.broker", FILES = "fss.service.broker";

export async function inventoryPage({ root, query, go }) {
  const place = h("div", {}, loading()), one = h("div", {});
  const form = h("form", { class: "filters", role: "search", "aria-label": "A worker's inventory" },
    field("Worker", h("input", { type: "search", name: "worker", value: query.worker || "" }), true), h("button", { type: "submit", class: "primary" }, "Show"));
  form.addEventListener("submit", (event) => { event.preventDefault(); go(href("/inventory", Object.fromEntries(new FormData(form)))); });
  fill(root, head("Inventory", "What workers are configured with. Secrets are masked."), h("section", { class: "panel" }, form, one), panel("Files and patterns", h("div", { class: "body" }, place)));
  try {
    const found = await manage("show", {}, INVENTORY);
    const patterns = Array.isArray(found.patterns) ? found.patterns : Object.keys(found.patterns || {});
    fill(place, facts([["Version", count(found.version)], ["Trouble", found.trouble || "none"], ["Patterns", patterns.length ? h("pre", {}, JSON.stringify(found.patterns, null, 2)) : "none; the broker has no inventory"]]));
    if (query.worker) {
      const own = await manage("get_inventory", { name: query.worker }, INVENTORY);
      fill(one, own ? h("div", { class: "body" }, h("pre", {}, JSON.stringify(own, null, 2))) : empty(`${query.worker} has no inventory`, "No pattern matches this name."));
    }
  } catch (error) { fill(place, trouble(error)); }
}

const PIECE = 256 * 1024;
const inside = (url, name) => `${url.replace(/\/+$/, url.endsWith("//") ? "//" : "")}${url.endsWith("/") ? "" : "/"}${name}`;
const hexOf = (raw) => [...new Uint8Array(raw)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const base64 = (raw) => { let text = ""; for (const byte of raw) text += String.fromCharCode(byte); return btoa(text); };

/** Send a file in pieces; it appears when the last one has arrived and its digest is right. */
async function upload(url, file, told) {
  if (!globalThis.crypto?.subtle) throw new Error("Uploads need HTTPS: without it the browser makes no digest. Use `dragoman files put`.");
  const raw = new Uint8Array(await file.arrayBuffer()), sha256 = hexOf(await crypto.subtle.digest("SHA-256", raw));
  for (let offset = 0; offset === 0 || offset < raw.length; offset += PIECE) {
    await manage("put_file", { url, offset, data: { $bytes: base64(raw.subarray(offset, offset + PIECE)) }, size: raw.length, sha256 }, FILES);
    told(`${bytes(Math.min(raw.length, offset + PIECE))} of ${bytes(raw.length)}`);
  }
}

function uploadForm(url, names, load) {
  const file = h("input", { type: "file", name: "file", id: "upload", required: true }), note = h("span", { class: "soft", role: "status" });
  const button = h("button", { type: "submit", class: "primary" }, "Upload"), form = h("form", { class: "filters", "aria-label": "Upload a file" }, field("New file", file, true), button, note);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const [chosen] = file.files, isThere = names.includes(chosen.name);
    if (!(await ask({ title: `Upload ${chosen.name}?`, text: `${bytes(chosen.size)}, to ${url}.${isThere ? " A file of this name is replaced." : ""} It passes through the ledger.`, yes: "Upload", danger: isThere }))) return;
    button.disabled = true;
    try { await upload(inside(url, chosen.name), chosen, (text) => fill(note, text)); toast(`${chosen.name} is there.`); await load(); } catch (error) { toast(error.message, true); } finally { button.disabled = false; }
  });
  return form;
}

function fileDetails(url, found, canRemove, go) {
  const remove = async () => {
    if (!(await ask({ title: `Remove ${url}?`, text: "Workers can fetch it no more. There is no way back.", yes: "Remove", danger: true }))) return;
    try { await manage("remove_file", { url }, FILES); toast(`${url} is removed.`); go(href("/files", { url: url.replace(/[^/]+$/, "") })); } catch (error) { toast(error.message, true); }
  };
  return h("div", { class: "body" }, facts(Object.entries(found).map(([k, v]) => [k, typeof v === "object" ? JSON.stringify(v) : String(v)])),
    canRemove ? h("p", {}, h("button", { type: "button", class: "danger", onclick: remove }, "Remove")) : null);
}

/** The root of a URL: the one with the longest address that the URL begins with. */
const rootOf = (url, roots) => roots.filter((r) => r.url === "nf://" || url === r.url || url.startsWith(`${r.url}/`)).sort((a, b) => b.url.length - a.url.length)[0];

export async function filesPage({ root, query, go }) {
  const url = query.url || "nf://", place = h("div", {}, loading()), form = h("div", {});
  fill(root, head("Files", "Files that workers fetch from the broker."), h("section", { class: "panel" }, h("header", {}, h("h2", {}, url)), form, place));
  const roots = await manage("list_roots", {}, FILES).catch(() => []), own = rootOf(url, roots);
  const load = async () => {
    const named = url === "nf://" ? roots.map((r) => r.url).filter((u) => u !== "nf://") : [];
    const names = named.length && !roots.some((r) => r.url === "nf://") ? [] : await manage("list_files", { url }, FILES);
    const rows = [...named.map((u) => ({ name: u, url: u })), ...names.map((name) => ({ name, url: inside(url, name) }))];
    fill(form, own?.is_writable && may("put_file") ? uploadForm(url, names, load) : null);
    fill(place, rows.length ? table("Files", [{ name: "Name", of: (r) => h("a", { href: href("/files", { url: r.url }) }, r.name) }], rows) : empty("This folder is empty", ""));
  };
  try { await load(); } catch (error) {
    try {
      const found = await manage("file_details", { url }, FILES);
      fill(place, fileDetails(url, found, own?.is_writable && may("remove_file"), go));
    } catch { fill(place, query.url ? trouble(error) : empty("No files are shared", error.message)); }
  }
}

export async function reportsPage({ root, signal }) {
  const place = h("div", {}, loading());
  fill(root, head("Reports", "Reports of the pipeline over the exported ledger."), panel("", place));
  const { reports } = await get("/v1/reports", {}, signal);
  fill(place, reports.length ? table("Reports", [
    { name: "Report", of: (r) => h("a", { href: `/v1/reports/${encodeURIComponent(r.name)}`, target: "_blank", rel: "noopener" }, r.name) },
    { name: "Written", of: (r) => time(r.at) }, { name: "Size", num: true, of: (r) => bytes(r.bytes) },
  ], reports) : empty("No reports yet", "Put one into the broker's data folder: ", h("code", {}, "dragoman pipeline report --out DATA/reports/today.html"), "."));
}
