// The published client, kept for a whole matrix: node matrix-client.js FRONTEND
//
// Reads one JSON line per batch, a list of [sid, verb, payload, timeout in ms]; makes all calls of a
// batch at once; prints one JSON line with what became of each, in their order: `status` and `ok`, or
// `error`. JSON has no bytes, so a Buffer is `{"$bytes": base64}` both ways.
'use strict';

const readline = require('readline');
const createClient = require('zmq-service-suite-client');

const client = createClient({ broker: process.argv[2], identity: 'matrix' });

const mapped = (value, each) => {
  if (Array.isArray(value)) {
    return value.map(each);
  }
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, each(one)]));
};

function revive(value) {
  if (value === null || typeof value !== 'object') {
    return value;
  }
  return typeof value.$bytes === 'string' ? Buffer.from(value.$bytes, 'base64') : mapped(value, revive);
}

function plain(value) {
  if (Buffer.isBuffer(value)) {
    return { $bytes: value.toString('base64') };
  }
  return value === null || typeof value !== 'object' ? value : mapped(value, plain);
}

function settle([sid, verb, payload, timeout]) {
  return client.call(verb, revive(payload), { sid, timeout }).then(
    (told) => ({ status: told.status, ok: plain(told.payload) }),
    (error) => ({ error }),
  );
}

readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  console.log(JSON.stringify(await Promise.all(JSON.parse(line).map(settle))));
});
