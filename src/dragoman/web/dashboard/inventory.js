// The inventory, the shared files and the pipeline's reports, all read-only.

import { get, manage } from "./api.js";
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

export async function filesPage({ root, query }) {
  const url = query.url || "nf://", place = h("div", {}, loading());
  fill(root, head("Files", "Files that workers fetch from the broker."), panel(url, place));
  try {
    const names = await manage("list_files", { url }, FILES);
    const inside = (name) => `${url.replace(/\/+$/, url.endsWith("//") ? "//" : "")}${url.endsWith("/") ? "" : "/"}${name}`;
    fill(place, names.length ? table("Files", [
      { name: "Name", of: (name) => h("a", { href: href("/files", { url: inside(name) }) }, name) },
    ], names) : empty("This folder is empty", ""));
  } catch (error) {
    try {
      const found = await manage("file_details", { url }, FILES);
      fill(place, h("div", { class: "body" }, facts(Object.entries(found).map(([k, v]) => [k, typeof v === "object" ? JSON.stringify(v) : String(v)]))));
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
