// The tasks of the matrix on the published library: node matrix-service.js BACKEND SID [HEARTBEAT_MS]
//
// A ZSS payload is one value: no argument is nil, one is itself, several are a map of `args` and `kwargs`.
'use strict';

const fs = require('fs');
const Service = require('zmq-service-suite-service');

const [broker, sid, heartbeat = '500'] = process.argv.slice(2);
const service = new Service({ broker, sid, heartbeat: Number(heartbeat) });

service.addVerb('echo', (payload, message, reply) => reply(null, payload));
service.addVerb('refuse', (payload, message, reply) =>
  reply({ code: 409, userMessage: 'refused, as asked', developerMessage: 'refused, as asked' }));
service.addVerb('slow', (seconds, message, reply) =>
  setTimeout(() => reply(null, 'slept'), seconds * 1000));
// Leaves a trace that it has begun, and says who did it; the first process takes long.
service.addVerb('noted', (payload, message, reply) => {
  const [path, seconds] = payload.args;
  fs.appendFileSync(path, `${process.pid}\n`);
  const first = fs.readFileSync(path, 'utf8').split('\n')[0];
  setTimeout(() => reply(null, process.pid), first === String(process.pid) ? seconds * 1000 : 0);
});
service.run();
