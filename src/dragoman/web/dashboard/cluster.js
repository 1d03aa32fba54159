// The cluster: its nodes, as each answers; and the brokers of the mesh.

import { get } from "./api.js";
import { count, empty, fill, h, head, link, loading, panel, plural, table, tag, trouble } from "./dom.js";

const TONE = { leader: "ready", standby: "running", silent: "failed" };
const NODES = [
  { name: "Node", of: (r) => r.node || "(no answer)" },
  { name: "Role", of: (r) => tag(TONE[r.role] ?? "pending", r.role) },
  { name: "Follows", of: (r) => (r.role === "standby" ? r.leader || "nobody" : "") },
  { name: "Term", num: true, of: (r) => (r.epoch ? count(r.epoch) : "") },
  { name: "Last record", num: true, of: (r) => (r.last ? link("/events", { after: r.last - 1 }, count(r.last)) : "") },
  { name: "Behind", num: true, of: (r) => (r.role === "standby" ? count(r.lag) : "") },
];
const NEIGHBOURS = [
  { name: "Broker", of: (r) => r.broker || "(unknown)" },
  { name: "State", of: (r) => tag(r.state === "linked" ? "ready" : "pending", r.state || "away") },
  { name: "Address", of: (r) => (r.url ? h("code", {}, r.url) : "connects to us") },
  { name: "Gives us", clip: true, title: (r) => (r.offers ?? []).join(", "), of: (r) => ((r.offers ?? []).length ? r.offers.map((s, i) => [i ? ", " : "", link("/workers", { service: s }, s)]) : "nothing") },
  { name: "Gets from us", num: true, of: (r) => plural(r.offered ?? 0, "service") },
  { name: "Its jobs here", num: true, of: (r) => count(r.jobs) },
  { name: "Note", of: (r) => r.detail },
];

function judge(nodes) {
  const leaders = nodes.filter((n) => n.role === "leader").length, silent = nodes.filter((n) => n.role === "silent").length;
  if (leaders !== 1) return ["bad", `${leaders ? count(leaders) : "No"} nodes lead; there should be one.`];
  if (silent) return ["warn", `${plural(silent, "node does", "nodes do")} not answer. Work goes on while more than half of the nodes are up.`];
  return ["good", "One node leads, and every node answers."];
}

export async function clusterPage({ root, signal, onNews }) {
  const nodes = h("div", { id: "cluster" }, loading()), mesh = h("div", { id: "mesh" }, loading());
  fill(root, head("Cluster", "Brokers that share one ledger, and brokers of a mesh that work for each other."), panel("Nodes of the cluster", nodes), panel("Brokers of the mesh", mesh));
  const load = async () => {
    try {
      const found = await get("/v1/cluster", {}, signal), [css, words] = judge(found.nodes);
      fill(nodes, found.nodes.length ? [h("div", { class: `callout ${css}` }, words), table("Nodes of the cluster", NODES, found.nodes)]
        : found.own ? table("Nodes of the cluster", NODES, [found.own])
        : empty("This broker is alone", "Three brokers with one ledger survive the loss of one: ", h("code", {}, "dragoman up --cluster NAME"), "; the page about clusters in the documentation says how."));
      const { broker, neighbours } = found.mesh;
      fill(mesh, neighbours.length ? [h("div", { class: "callout" }, `In the mesh this broker is ${broker}.`), table("Brokers of the mesh", NEIGHBOURS, neighbours)]
        : empty("No neighbours", "Brokers of a mesh use each other's services: ", h("code", {}, "[mesh]"), " in the settings names them."));
    } catch (error) { if (error.name !== "AbortError") { fill(nodes, trouble(error, load)); fill(mesh); } }
  };
  await load();
  onNews(load);
}
