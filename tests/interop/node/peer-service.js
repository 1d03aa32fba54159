// A service on the published library: node peer-service.js BACKEND SID [HEARTBEAT_MS]
//
// Ends on SIGTERM, which it only can when the broker has answered its DOWN.
'use strict';

const Service = require('zmq-service-suite-service');

const [broker, sid, heartbeat = '1000'] = process.argv.slice(2);
const service = new Service({ broker, sid, heartbeat: Number(heartbeat) });

const verbs = {
  echo: (payload, message, reply) => reply(null, payload),
  who: (payload, message, reply) => reply(null, { pid: process.pid, client: message.client }),
  headers: (payload, message, reply) => reply(null, message.headers),
  fail: (payload, message, reply) =>
    reply({ code: 409, userMessage: 'it is taken', developerMessage: 'somebody was faster' }),
  throw: () => {
    throw new Error('thrown on purpose');
  },
  slow: (payload, message, reply) => setTimeout(() => reply(null, { waited: payload }), payload),
  never: () => {},
};

for (const [verb, handler] of Object.entries(verbs)) {
  service.addVerb(verb, handler);
}
service.run();
process.on('SIGTERM', () => service.stop());
console.log(`up ${process.pid}`);
