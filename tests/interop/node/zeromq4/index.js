// The suite pins zeromq 4.2.1. Version 6 has a compatibility interface that lacks two habits of the
// old one: parts that are no buffers become text, and a handler that throws does not end the process
// but makes the socket say `error`. Both matter on the wire, so both are put back here.
'use strict';

const compat = require('zeromq-v6/v5-compat');

function asBuffer(part) {
  return Buffer.isBuffer(part) ? part : Buffer.from(String(part));
}

function guarded(socket, handler) {
  return (...frames) => {
    try {
      handler(...frames);
    } catch (error) {
      socket.emit('error', error);
    }
  };
}

exports.socket = (type) => {
  const socket = compat.socket(type);
  const send = socket.send.bind(socket);
  const listen = socket.on.bind(socket);

  socket.send = (message, flags, done) => {
    const parts = Array.isArray(message) ? message : [message];
    return send(parts.map(asBuffer), flags, done);
  };
  socket.on = (event, handler) =>
    listen(event, event === 'message' ? guarded(socket, handler) : handler);
  return socket;
};
