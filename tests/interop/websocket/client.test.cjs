// amqp-client.js, the AMQP client for browsers, over WebSocket.

'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');

globalThis.WebSocket ??= require('ws');

const { AMQPWebSocketClient } = require('@cloudamqp/amqp-client');

const URL = process.env.WEBSOCKET_URL;

async function connect(t, options = {}) {
  const client = new AMQPWebSocketClient({ url: URL, username: 'guest', password: 'guest', ...options });
  const connection = await client.connect();
  t.after(() => connection.close().catch(() => {}));
  return connection;
}

async function privateQueue(channel) {
  return (await channel.queueDeclare('', { exclusive: true })).name;
}

function numbered(size) {
  return Uint8Array.from({ length: size }, (_, i) => i % 251);
}

test('a message comes as it went, with its properties', async (t) => {
  const channel = await (await connect(t)).channel();
  const queue = await privateQueue(channel);
  const properties = { contentType: 'text/plain', headers: { n: 7, s: 'x' }, messageId: 'm' };
  await channel.basicPublish('', queue, 'hello', properties);
  const message = await channel.basicGet(queue, { noAck: true });
  assert.equal(message.bodyString(), 'hello');
  assert.equal(message.properties.contentType, 'text/plain');
  assert.deepEqual({ ...message.properties.headers }, { n: 7, s: 'x' });
});

test('a large message of many frames comes whole', async (t) => {
  const channel = await (await connect(t)).channel(); // frames of 4096 or 8192 octets
  await channel.confirmSelect();
  const queue = await privateQueue(channel);
  const body = numbered(3_000_000);
  await channel.basicPublish('', queue, body);
  const message = await channel.basicGet(queue, { noAck: true });
  assert.equal(Buffer.compare(Buffer.from(message.body), Buffer.from(body)), 0);
});

test('publishes are confirmed and deliveries come in order', async (t) => {
  const channel = await (await connect(t, { frameMax: 131072 })).channel();
  await channel.confirmSelect();
  const queue = await privateQueue(channel);
  const count = 2000;
  const received = [];
  const all = new Promise((resolve) => {
    channel.basicConsume(queue, { noAck: false }, (message) => {
      received.push(Number(message.bodyString()));
      message.ack();
      if (received.length === count) resolve();
    });
  });
  const confirms = [];
  for (let i = 0; i < count; i += 1) confirms.push(channel.basicPublish('', queue, String(i)));
  await Promise.all(confirms);
  await all;
  assert.deepEqual(received, Array.from({ length: count }, (_, i) => i));
});

test('an error of a channel is told, and the connection goes on', async (t) => {
  const connection = await connect(t);
  const channel = await connection.channel();
  await assert.rejects(channel.queueDeclare('no such queue', { passive: true }), /NOT_FOUND/);
  const other = await connection.channel();
  assert.ok(await privateQueue(other));
});

test('a wrong password is refused', async (t) => {
  await assert.rejects(connect(t, { password: 'wrong' }), /ACCESS_REFUSED|Login was refused|closed/i);
});

test('a virtual host other than the default is entered', async (t) => {
  const connection = await connect(t, { vhost: 'other' });
  assert.ok(await privateQueue(await connection.channel()));
});

test('close is answered', async (t) => {
  const connection = await connect(t);
  await connection.close();
  assert.ok(connection.closed);
});
