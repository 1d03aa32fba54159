// Requests to the broker: JSON, problems as errors, CSRF, and server-sent events.

export const session = { principal: "", secured: false, csrf: "", may: {} };

export class ApiError extends Error {
  constructor(status, message, code = "") {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function problem(response) {
  let document = {};
  try { document = await response.json(); } catch { /* not a problem document */ }
  if (response.status === 401) location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search + location.hash)}`);
  return new ApiError(response.status, document.detail || `the broker answered ${response.status}`, document.code);
}

export async function api(path, { method = "GET", body, signal } = {}) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET" && session.csrf) headers["Dragoman-CSRF"] = session.csrf;
  let response;
  try {
    response = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body), credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The broker does not answer. The page tries again by itself.");
  }
  if (!response.ok) throw await problem(response);
  const text = await response.text();
  return text ? JSON.parse(text) : {};
}

export const get = (path, query = {}, signal) => {
  const given = Object.entries(query).filter(([, text]) => text !== "" && text !== undefined && text !== null);
  const search = new URLSearchParams(given).toString();
  return api(search ? `${path}?${search}` : path, { signal });
};

/** Call a task of the broker's management; it is an ordinary job, on record. */
export async function manage(task, kwargs = {}, service = "mmi.service.broker") {
  const answer = await api("/v1/call", { method: "POST", body: { service, task, kwargs, timeout: 30 } });
  return answer.value;
}

export const may = (what) => session.may[what] !== false;

export async function loadSession() {
  Object.assign(session, { csrf: "" }, await api("/session"));
  return session;
}

/** Read a stream of events until it ends: onEvent({id, event, data}). Throws if it cannot open. */
export async function stream(path, onEvent, signal, onOpen = () => {}) {
  const response = await fetch(path, { signal, headers: { Accept: "text/event-stream" }, credentials: "same-origin", cache: "no-store" });
  if (!response.ok) throw await problem(response);
  onOpen();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = { id: "", event: "message", data: "" };
      for (const line of block.split("\n")) {
        const at = line.indexOf(": ");
        if (at > 0) event[line.slice(0, at)] = line.slice(at + 2);
      }
      if (event.data) onEvent({ ...event, data: JSON.parse(event.data) });
    }
  }
}

export const pause = (ms, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms);
  signal?.addEventListener("abort", () => { clearTimeout(timer); resolve(); });
});
