// Calls on the published client: node peer-client.js FRONTEND SID CALLS [together]
//
// CALLS is a JSON list of [verb], [verb, payload] or [verb, payload, options]. Prints one JSON line
// per call as it settles: its number, how long it took, and `ok` or `error`. One after the other, or
// all `together`.
'use strict';

const createClient = require('zmq-service-suite-client');

const [broker, sid, calls, together] = process.argv.slice(2);
const client = createClient({ broker, sid, timeout: 5000 });

async function settle(call, number) {
  const began = Date.now();
  const told = await client.call(...call).then((ok) => ({ ok }), (error) => ({ error }));
  console.log(JSON.stringify({ number, took: Date.now() - began, ...told }));
}

async function run() {
  const list = JSON.parse(calls);
  if (together) {
    await Promise.all(list.map(settle));
  } else {
    for (const [number, call] of list.entries()) {
      await settle(call, number);
    }
  }
  process.exit(0);
}

run();
