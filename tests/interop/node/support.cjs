// What every suite in this directory needs: which amqplib to load, where the broker is, and how to
// wait for something without sleeping. Environment, set by test_node_amqplib.py:
//   AMQPLIB   the package to test, `amqplib` or `amqplib-legacy` (resolved through NODE_PATH)
//   AMQP_URL  the broker
// Invariant: whatever a case opens through `connect` or `channel` is closed when the case ends.

'use strict';

const assert = require('node:assert/strict');
const { randomUUID } = require('node:crypto');

const packageName = process.env.AMQPLIB || 'amqplib';
const amqplib = require(packageName);
const callbackApi = require(`${packageName}/callback_api`);
const url = process.env.AMQP_URL;
if (!url) throw new Error('AMQP_URL names no broker');

const PATIENCE_MS = 10_000;

function uniqueName(prefix) {
  return `interop-node-${prefix}-${randomUUID()}`;
}

/** Reject after PATIENCE_MS, naming what did not come. */
function within(promise, what) {
  let timer;
  const deadline = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${PATIENCE_MS} ms for ${what}`)), PATIENCE_MS);
  });
  return Promise.race([promise, deadline]).finally(() => clearTimeout(timer));
}

/** The first argument of the next `name` event of `emitter`. */
function nextEvent(emitter, name) {
  return within(new Promise((resolve) => emitter.once(name, resolve)), `event '${name}'`);
}

/** Repeat an asynchronous look until it answers something truthy, and return that answer. */
async function until(look, what) {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const answer = await look();
    if (answer) return answer;
    if (Date.now() > deadline) throw new Error(`waited ${PATIENCE_MS} ms until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Query parameters added to the broker's URL, as amqplib reads its tune options from there. */
function urlWith(parameters) {
  const changed = new URL(url);
  for (const [key, value] of Object.entries(parameters)) changed.searchParams.set(key, value);
  return changed.href;
}

async function connect(t, target = url, options = {}) {
  const connection = await within(amqplib.connect(target, options), 'a connection');
  const state = { isClosed: false };
  connection.on('close', () => {
    state.isClosed = true;
  });
  connection.on('error', () => {}); // cases look at errors through nextEvent or a rejection
  t.after(async () => {
    if (!state.isClosed) await within(connection.close(), 'the connection to close');
  });
  return connection;
}

async function channel(t, connection) {
  const opened = await (connection || (await connect(t))).createChannel();
  opened.on('error', () => {});
  return opened;
}

async function confirmChannel(t, connection) {
  const opened = await (connection || (await connect(t))).createConfirmChannel();
  opened.on('error', () => {});
  return opened;
}

/** Clean up after the case, on a connection that lives for this alone. */
function afterwards(t, cleanUp) {
  t.after(async () => {
    const connection = await within(amqplib.connect(url), 'a connection');
    await cleanUp(await connection.createChannel());
    await connection.close();
  });
}

/** An exclusive server-named queue on this channel's connection. */
async function privateQueue(ch, options = {}) {
  const { queue } = await ch.assertQueue('', { exclusive: true, ...options });
  return queue;
}

/** Start a consumer that files its deliveries; `take(n)` waits for the next n of them. */
async function inbox(ch, queue, options = {}) {
  const waiting = [];
  const messages = [];
  let wake = () => {};
  const { consumerTag } = await ch.consume(
    queue,
    (message) => {
      messages.push(message);
      waiting.push(message);
      wake();
    },
    options,
  );
  async function take(count = 1) {
    const filled = new Promise((resolve) => {
      wake = () => waiting.length >= count && resolve();
      wake();
    });
    await within(filled, `${count} deliveries from '${queue}'; ${waiting.length} came`);
    return waiting.splice(0, count);
  }
  return { consumerTag, messages, take, waiting };
}

function texts(messages) {
  return messages.map((message) => message.content.toString());
}

/** How many messages are ready, by a passive declare. */
async function readyCount(ch, queue) {
  return (await ch.checkQueue(queue)).messageCount;
}

/** The operation must close its channel with `code`; the error's text must match `pattern`. */
async function channelClosesWith(ch, code, pattern, operation) {
  const closed = nextEvent(ch, 'error');
  try {
    await operation();
  } catch (failure) {
    // Before 1.0.6, get rejects with the close frame itself.
    assert.equal(failure.code ?? failure.fields?.replyCode, code, failure.message);
  }
  const error = await closed;
  assert.equal(error.code, code, error.message);
  assert.match(error.message, pattern);
  return error;
}

function brokerIsOlderThan(connection, major) {
  const { version } = connection.connection.serverProperties;
  return Number.parseInt(String(version).split('.')[0], 10) < major;
}

module.exports = {
  afterwards,
  amqplib,
  brokerIsOlderThan,
  callbackApi,
  channel,
  channelClosesWith,
  confirmChannel,
  connect,
  inbox,
  nextEvent,
  packageName,
  privateQueue,
  readyCount,
  texts,
  uniqueName,
  until,
  url,
  urlWith,
  within,
};
