// Bridges: jobs whose client speaks one dialect and whose worker speaks another.

import { get } from "./api.js";
import { count, empty, fill, h, head, href, loading, panel, trouble } from "./dom.js";

export async function bridgesPage({ root, signal, onNews }) {
  const place = h("div", {}, loading());
  fill(root, head("Bridges", "Ended jobs since the broker started: rows are clients, columns are workers."), panel("", place));
  const load = async () => {
    try {
      const { bridges } = await get("/v1/overview/bridges", {}, signal);
      fill(place, bridges.length ? matrix(bridges) : empty("No jobs have ended yet", "Each ended job counts in the cell of its two dialects."));
    } catch (error) { if (error.name !== "AbortError") fill(place, trouble(error, load)); }
  };
  await load();
  onNews(load);
}

// ZSS has two links: one for clients, one for workers.
const spoken = (link) => link.replace("_backend", "");

function matrix(rows) {
  const clients = [...new Set(rows.map((r) => r.client))].sort(), workers = [...new Set(rows.map((r) => r.worker))].sort();
  const cell = (client, worker) => {
    const found = rows.find((r) => r.client === client && r.worker === worker);
    if (!found) return h("td", { class: "soft" }, "–");
    const { succeeded = 0, client: _c, worker: _w, ...others } = found;
    const bad = Object.values(others).reduce((a, b) => a + b, 0);
    return h("td", { class: "cell" }, h("a", { href: href("/jobs", { dialect: client, worker_link: worker }), title: `${count(succeeded)} succeeded, ${count(bad)} did not` }, count(succeeded + bad), bad ? h("span", { class: "hidden" }, `, ${bad} did not succeed`) : ""),
      bad ? h("a", { class: "tag bad", href: href("/jobs", { dialect: client, worker_link: worker, state: others.failed ? "failed" : "" }) }, count(bad)) : "");
  };
  return h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Jobs by dialect of client and worker" }, h("table", { class: "matrix" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Client \\ worker"), workers.map((w) => h("th", { scope: "col", class: "num" }, spoken(w))))),
    h("tbody", {}, clients.map((c) => h("tr", {}, h("th", { scope: "row" }, spoken(c)), workers.map((w) => cell(c, w)))))));
}
