// Loaded before a suite (NODE_OPTIONS=--require) so that it speaks TLS unchanged: the authority of
// AMQP_CA, and the client's certificate of AMQP_CERT and AMQP_KEY if they are given.

'use strict';

const fs = require('node:fs');
const tls = require('node:tls');

const given = {};
for (const [option, name] of [['ca', 'AMQP_CA'], ['cert', 'AMQP_CERT'], ['key', 'AMQP_KEY']]) {
  if (process.env[name]) given[option] = fs.readFileSync(process.env[name]);
}
const connect = tls.connect;
tls.connect = (options, ...rest) => connect({ ...options, ...given }, ...rest);
