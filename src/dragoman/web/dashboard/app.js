// The frame of the dashboard: who is logged in, which page is shown, the live connection.

import { ApiError, api, loadSession, may, pause, session, stream } from "./api.js";
import { count, duration, fill, h, tag, trouble } from "./dom.js";
import { bridgesPage } from "./bridges.js";
import { clusterPage } from "./cluster.js";
import { eventsPage } from "./events.js";
import { filesPage, inventoryPage, reportsPage } from "./inventory.js";
import { jobPage } from "./job.js";
import { jobsPage } from "./jobs.js";
import { overviewPage } from "./overview.js";
import { clientsPage, nodesPage, resourcesPage, workersPage } from "./peers.js";
import { deadPage, schedulesPage } from "./queue.js";
import { auditPage, securityPage } from "./security.js";
import { callPage, servicesPage } from "./services.js";

// path, name, page, ability, count of the live document
const PAGES = [
  [null, "Work"],
  ["/", "Overview", overviewPage, "overview"],
  ["/jobs", "Jobs", jobsPage, "jobs", (d) => d.queued + d.running],
  ["/services", "Services", servicesPage, "services", (d) => d.services],
  ["/schedules", "Schedules", schedulesPage, "services"],
  ["/dead", "Dead letters", deadPage, "jobs", (d) => d.dead],
  [null, "Peers"],
  ["/workers", "Workers", workersPage, "workers", (d) => Object.values(d.workers).reduce((a, b) => a + b, 0)],
  ["/nodes", "Nodes", nodesPage, "nodes"],
  ["/clients", "Clients", clientsPage, "clients", (d) => d.clients],
  ["/resources", "Resources", resourcesPage, "resources"],
  ["/bridges", "Bridges", bridgesPage, "overview"],
  [null, "Record"],
  ["/events", "Events", eventsPage, "events"],
  ["/audit", "Audit", auditPage, "records"],
  ["/reports", "Reports", reportsPage, "overview"],
  [null, "Broker"],
  ["/cluster", "Cluster", clusterPage, "overview"],
  ["/inventory", "Inventory", inventoryPage, "inventory"],
  ["/files", "Files", filesPage, "files"],
  ["/security", "Security", securityPage, "overview"],
];
const HIDDEN_PAGES = [["/job/", jobPage, "jobs", "Job"], ["/call/", callPage, "submit", "Call"]];

const main = document.getElementById("content");
const nav = document.getElementById("nav");
const banner = document.getElementById("banner");
let current = null;
export const live = { document: null, listeners: new Set() };

// --- pages ---------------------------------------------------------------------------------------

function route() {
  const [path, search] = (location.hash.slice(1) || "/").split("?");
  const query = Object.fromEntries(new URLSearchParams(search || ""));
  const exact = PAGES.find((page) => page[0] === path);
  if (exact) return { path, query, page: exact[2], ability: exact[3], title: exact[1] };
  const below = HIDDEN_PAGES.find(([start]) => path.startsWith(start));
  if (below) return { path, query: { ...query, name: decodeURIComponent(path.slice(below[0].length)) }, page: below[1], ability: below[2], title: below[3] };
  return { path, query, page: null, title: "Not found" };
}

async function show(keepFocus = false) {
  current?.abort.abort();
  const found = route();
  const abort = new AbortController();
  const refreshers = [];
  const context = {
    root: main, query: found.query, signal: abort.signal, live, keepFocus,
    go: (hash) => { location.hash = hash; },
    /** Call again whenever the broker has recorded something new, at most every three seconds. */
    onNews: (refresh) => refreshers.push({ refresh, at: Date.now(), seq: live.document?.totals.records ?? 0, busy: false }),
    onLive: (listener) => { live.listeners.add(listener); abort.signal.addEventListener("abort", () => live.listeners.delete(listener)); },
  };
  current = { abort, refreshers, ...found };
  document.title = `${found.title} · Dragoman`;
  markCurrent(found.path);
  nav.classList.remove("open");
  document.getElementById("menu").setAttribute("aria-expanded", "false");
  try {
    if (!found.page) throw new ApiError(404, `There is no page ${found.path}.`);
    if (!may(found.ability)) throw new ApiError(403, `Your principal ${session.principal || "anonymous"} has no right to see ${found.title.toLowerCase()}.`);
    await found.page(context);
  } catch (error) {
    if (error.name === "AbortError") return;
    fill(main, h("div", { class: "page-head" }, h("h1", { tabIndex: -1 }, found.title)), h("section", { class: "panel" }, trouble(error, () => show())));
  }
  if (!keepFocus && current.abort === abort) main.querySelector("h1")?.focus({ preventScroll: true });
}

function news() {
  if (document.hidden || !current) return;
  const seq = live.document.totals.records;
  for (const each of current.refreshers) {
    if (each.busy || seq === each.seq || Date.now() - each.at < 3000) continue;
    Object.assign(each, { busy: true, at: Date.now(), seq });
    Promise.resolve(each.refresh()).catch(() => {}).finally(() => { each.busy = false; });
  }
}

// --- navigation ------------------------------------------------------------------------------------

function drawNav() {
  const inner = h("div", { class: "inner" });
  for (const [path, name, , ability, number] of PAGES) {
    if (path === null) { inner.append(h("div", { class: "group" }, name)); continue; }
    // A link that is only hidden would still hold its count.
    if (!may(ability)) continue;
    inner.append(h("a", { href: `#${path}`, "data-path": path }, name, number ? h("span", { class: "count", "data-count": path }) : null));
  }
  fill(nav, inner);
}
function markCurrent(path) {
  for (const each of nav.querySelectorAll("a")) {
    const own = each.dataset.path;
    const is = own === path || (own === "/jobs" && path.startsWith("/job/")) || (own === "/services" && path.startsWith("/call/"));
    if (is) each.setAttribute("aria-current", "page"); else each.removeAttribute("aria-current");
  }
}
function drawLive(document_) {
  for (const [path, , , , number] of PAGES) {
    const place = number && nav.querySelector(`[data-count="${path}"]`);
    if (place) place.textContent = count(number(document_)) === "0" ? "" : count(number(document_));
  }
  const health = document.getElementById("health");
  const [state, text] = judge(document_);
  if (health.dataset.text !== text) { health.dataset.text = text; fill(health, tag(state, text)); }
}

/** Is it well? The first thing that is not, in words. */
export function judge(d) {
  const free = d.ledger.disk_total ? d.ledger.disk_free / d.ledger.disk_total : 1;
  if (d.totals.is_draining) return ["draining", "Stopping"];
  if (d.troubles?.length) return ["failed", `${d.troubles[0].part}: ${d.troubles[0].reason}`];
  if (free < 0.05) return ["failed", "Disk almost full"];
  if (d.loop_lag > 0.5) return ["pending", `Slow: ${duration(d.loop_lag)} behind`];
  if (d.oldest_age > 60) return ["pending", `Oldest job waits ${duration(d.oldest_age)}`];
  return ["ready", "Well"];
}

// --- the live connection -----------------------------------------------------------------------------

export function toast(text, bad = false) {
  const made = h("div", { class: bad ? "toast bad" : "toast" }, text);
  document.getElementById("toasts").append(made);
  setTimeout(() => made.remove(), bad ? 9000 : 5000);
}

function say(text, good = false) {
  banner.hidden = !text;
  banner.className = good ? "banner good" : "banner";
  banner.textContent = text;
}

async function follow() {
  let lostAt = 0;
  for (;;) {
    try {
      await stream("/v1/overview/live", (event) => {
        live.document = event.data;
        drawLive(event.data);
        for (const each of live.listeners) each(event.data);
        news();
      }, undefined, async () => {
        if (!lostAt) return;
        say(`The broker answers again after ${duration((Date.now() - lostAt) / 1000)}.`, true);
        lostAt = 0;
        setTimeout(() => say(""), 4000);
        await loadSession();
        show(true);
      });
    } catch (error) {
      if (error.status === 401) return;
      if (error.status === 403) { say(""); return; }
    }
    lostAt ||= Date.now();
    say("The broker does not answer. It may be restarting; this page tries again every second.");
    await pause(1000);
  }
}

// --- start --------------------------------------------------------------------------------------------

function theme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => { document.documentElement.dataset.theme = localStorage.getItem("theme") || (system.matches ? "dark" : "light"); };
  system.addEventListener("change", apply);
  document.getElementById("theme").addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    if ((next === "dark") === system.matches) localStorage.removeItem("theme"); else localStorage.setItem("theme", next);
    apply();
  });
  apply();
}

function drawWho() {
  const place = document.getElementById("who");
  if (!session.secured) return fill(place, h("a", { href: "#/security", class: "tag warn" }, "No login"));
  return fill(place, h("span", { class: "name" }, session.principal), session.csrf ? h("button", { type: "button", class: "small", onclick: async () => { await api("/logout", { method: "POST" }); location.assign("/login"); } }, "Log out") : null);
}

async function start() {
  theme();
  document.getElementById("menu").addEventListener("click", (event) => {
    const open = nav.classList.toggle("open");
    event.currentTarget.setAttribute("aria-expanded", String(open));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) {
      const search = main.querySelector("input[type=search]");
      if (search) { event.preventDefault(); search.focus(); }
    }
  });
  try { await loadSession(); } catch (error) {
    if (error.status === 401) return;
    fill(main, h("section", { class: "panel" }, trouble(error, () => location.reload())));
    return;
  }
  drawWho();
  drawNav();
  addEventListener("hashchange", () => show());
  show(true);
  if (may("overview")) follow();
}

start();
