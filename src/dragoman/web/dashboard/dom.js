// Elements and the words on them. Text is always set as text, never as HTML.

/** Make an element: h("a", {href, onclick, class}, child, [children], "text"). */
export function h(name, props = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, given] of Object.entries(props)) {
    if (given === null || given === undefined || given === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), given);
    else if (key in made && !key.startsWith("aria") && key !== "list") {
      if (key === "class") made.className = given; else made[key] = given;
    } else made.setAttribute(key === "class" ? "class" : key, given === true ? "" : given);
  }
  add(made, children);
  return made;
}

function add(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : String(child));
  }
}

/** Replace the children of an element, keeping the focus of a control with the same id. */
export function fill(parent, ...children) {
  const focused = document.activeElement?.id;
  parent.replaceChildren();
  add(parent, children);
  if (focused && parent.querySelector(`#${CSS.escape(focused)}`)) document.getElementById(focused).focus();
  return parent;
}

// --- words -------------------------------------------------------------------------------------

const whole = new Intl.NumberFormat("en");
export const count = (n) => whole.format(Math.round(n ?? 0));
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

export function bytes(n) {
  let unit = 0;
  for (n = n || 0; n >= 1024 && unit < 4; unit++) n /= 1024;
  return `${unit && n < 100 ? n.toFixed(1) : Math.round(n)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

function parts(seconds, large, largeName, small, smallName) {
  const rest = Math.floor((seconds % large) / small);
  return `${Math.floor(seconds / large)} ${largeName}${rest ? ` ${rest} ${smallName}` : ""}`;
}
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 0.0005) return "0 ms";
  if (seconds < 1) return `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return parts(seconds, 60, "min", 1, "s");
  if (seconds < 86400) return parts(seconds, 3600, "h", 60, "min");
  return parts(seconds, 86400, "d", 3600, "h");
}

const pad = (n, width = 2) => String(n).padStart(width, "0");
export function clock(at, withMillis = false) {
  const d = new Date(at * 1000);
  const text = `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
  return withMillis ? `${text}.${pad(d.getMilliseconds(), 3)}` : text;
}
export function instant(at) {
  if (!at) return "";
  const d = new Date(at * 1000);
  const day = `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())}`;
  const isToday = new Date().toDateString() === d.toDateString();
  return isToday ? clock(at) : `${day} ${clock(at)}`;
}
export const time = (at) => h("time", { dateTime: new Date(at * 1000).toISOString(), title: new Date(at * 1000).toString() }, instant(at));
export const ago = (at) => (at ? `${duration(Math.max(0, Date.now() / 1000 - at))} ago` : "");

// --- small pieces --------------------------------------------------------------------------------

const TONES = {
  succeeded: "good", alive: "good", allowed: "good", approved: "good", connected: "good", ready: "good",
  running: "info", queued: "info", pending: "warn", draining: "warn", drained: "warn", blocked: "warn", away: "warn",
  failed: "bad", dead: "bad", expired: "bad", denied: "bad", rejected: "bad", revoked: "bad", cancelled: "",
};
export const tone = (state) => TONES[String(state).toLowerCase()] ?? "";
export const tag = (state, text = state) => h("span", { class: `tag ${tone(state)}` }, text);

/** A link inside the dashboard, with its query. */
export function href(path, query = {}) {
  const given = Object.entries(query).filter(([, text]) => text !== "" && text !== null && text !== undefined);
  const search = new URLSearchParams(given).toString();
  return `#${path}${search ? `?${search}` : ""}`;
}
export const link = (path, query, ...children) => h("a", { href: href(path, query) }, ...children);
export const jobLink = (job) => h("a", { class: "mono", href: `#/job/${encodeURIComponent(job)}`, title: job }, job.length > 14 ? `${job.slice(0, 12)}…` : job);

export function panel(title, content, extra = []) {
  return h("section", { class: "panel" }, title ? h("header", {}, h("h2", {}, title), extra) : null, content);
}
export function facts(rows) {
  const list = h("dl", { class: "facts" });
  for (const [name, shown] of rows) {
    if (shown === "" || shown === null || shown === undefined) continue;
    list.append(h("dt", {}, name), h("dd", {}, shown));
  }
  return list;
}
export function head(title, sub = "", actions = []) {
  return h("div", { class: "page-head" }, h("h1", { tabIndex: -1 }, title), h("div", { class: "actions" }, actions), sub ? h("p", { class: "sub" }, sub) : null);
}

// --- states of a page ------------------------------------------------------------------------------

export const loading = () => h("div", { "aria-busy": "true" }, h("p", { class: "hidden" }, "Loading"), [70, 90, 80].map(() => h("div", { class: "skeleton" })));
export const empty = (title, ...hint) => h("div", { class: "state-box" }, h("h2", {}, title), h("p", {}, hint));
export function trouble(error, again) {
  const denied = error.status === 403;
  return h("div", { class: `state-box ${denied ? "" : "bad"}` },
    h("h2", {}, denied ? "You may not see this" : "This could not be loaded"),
    h("p", {}, error.message),
    denied ? h("p", {}, "An administrator can give your principal a role that allows it.") : again ? h("button", { type: "button", onclick: again }, "Try again") : null);
}

/** A table. Columns: {name, of(row), num, head}. Rows are identified for the eye by their first cell. */
export function table(label, columns, rows) {
  return h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": label },
    h("table", {},
      h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", class: c.num ? "num" : null, title: c.about ?? null }, c.name || h("span", { class: "hidden" }, "Actions"))))),
      h("tbody", {}, rows.map((row) => h("tr", {}, columns.map((c, i) => h(i ? "td" : "th", { scope: i ? null : "row", class: [c.num ? "num" : "", c.clip ? "clip" : ""].join(" ").trim() || null, title: c.clip ? c.title?.(row) ?? null : null }, c.of(row))))))));
}

export function field(label, control, wide = false) {
  return h("label", { class: wide ? "wide" : null }, label, control);
}
export function choice(name, options, chosen = "") {
  return h("select", { name }, options.map((each) => {
    const [text, shown] = Array.isArray(each) ? each : [each, each || "any"];
    return h("option", { value: text, selected: text === chosen }, shown);
  }));
}
