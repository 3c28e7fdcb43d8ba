// Settling with amqplib: ack, nack, reject, recover, get, and where a released message goes.

'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const {
  channel,
  channelClosesWith,
  confirmChannel,
  connect,
  inbox,
  privateQueue,
  readyCount,
  texts,
  uniqueName,
  until,
} = require('./support.cjs');

/** Two channels of one connection, and a queue that holds `count` messages '0', '1', ... */
async function filledQueue(t, count) {
  const connection = await connect(t);
  const publisher = await confirmChannel(t, connection);
  const queue = await privateQueue(publisher);
  for (let i = 0; i < count; i += 1) publisher.sendToQueue(queue, Buffer.from(String(i)));
  await publisher.waitForConfirms();
  return { ch: await channel(t, connection), connection, queue, watcher: publisher };
}

async function drain(ch, queue) {
  const drained = [];
  for (;;) {
    const message = await ch.get(queue, { noAck: true });
    if (!message) return drained;
    drained.push(message);
  }
}

test('an acked message is gone for good', async (t) => {
  const { ch, queue, watcher } = await filledQueue(t, 1);
  const received = await inbox(ch, queue);
  const [message] = await received.take();
  ch.ack(message);
  await ch.close();
  assert.equal(await readyCount(watcher, queue), 0);
});

test('an ack may cover all deliveries up to its own', async (t) => {
  const { ch, queue, watcher } = await filledQueue(t, 5);
  const received = await inbox(ch, queue);
  const messages = await received.take(5);
  ch.ack(messages[2], true);
  await ch.close();
  assert.deepEqual(texts(await drain(watcher, queue)), ['3', '4']);
});

test('ackAll covers everything that is unacked', async (t) => {
  const { ch, queue, watcher } = await filledQueue(t, 5);
  const received = await inbox(ch, queue);
  await received.take(5);
  ch.ackAll();
  await ch.close();
  assert.equal(await readyCount(watcher, queue), 0);
});

test('a nacked message comes again, marked as redelivered', async (t) => {
  const { ch, queue } = await filledQueue(t, 1);
  const received = await inbox(ch, queue);
  const [first] = await received.take();
  assert.equal(first.fields.redelivered, false);
  ch.nack(first);
  const [second] = await received.take();
  assert.equal(second.fields.redelivered, true);
  assert.equal(second.fields.deliveryTag, 2);
  assert.equal(second.content.toString(), '0');
});

test('nack without requeue drops the message', async (t) => {
  const { ch, queue, watcher } = await filledQueue(t, 3);
  const received = await inbox(ch, queue);
  const messages = await received.take(3);
  ch.nack(messages[1], true, false);
  await ch.close();
  assert.deepEqual(texts(await drain(watcher, queue)), ['2']);
});

test('nackAll returns everything in its original order', async (t) => {
  const { ch, queue, watcher } = await filledQueue(t, 10);
  const received = await inbox(ch, queue);
  await received.take(10);
  await ch.cancel(received.consumerTag);
  ch.nackAll();
  await until(async () => (await readyCount(watcher, queue)) === 10, 'all are back');
  const back = await drain(watcher, queue);
  assert.deepEqual(
    texts(back),
    Array.from({ length: 10 }, (_, i) => String(i)),
  );
  assert.ok(back.every((message) => message.fields.redelivered));
});

test('reject returns a message to its place or drops it', async (t) => {
  const { ch, queue, watcher } = await filledQueue(t, 4);
  const taken = [await ch.get(queue), await ch.get(queue), await ch.get(queue)];
  ch.reject(taken[0], false);
  ch.reject(taken[2], true);
  ch.reject(taken[1], true);
  await until(async () => (await readyCount(watcher, queue)) === 3, 'two are back');
  const left = await drain(watcher, queue);
  assert.deepEqual(texts(left), ['1', '2', '3']);
  assert.deepEqual(
    left.map((message) => message.fields.redelivered),
    [true, true, false],
  );
});

test('closing the channel returns what is unacked ahead of what waits', async (t) => {
  const { ch, queue, watcher } = await filledQueue(t, 6);
  await ch.prefetch(3);
  const received = await inbox(ch, queue);
  const [, second] = await received.take(3);
  ch.ack(second);
  await received.take(1);
  await ch.close();
  await until(async () => (await readyCount(watcher, queue)) === 5, 'the unacked are back');
  assert.deepEqual(texts(await drain(watcher, queue)), ['0', '2', '3', '4', '5']);
});

test('recover delivers the unacked messages again', async (t) => {
  const { ch, queue } = await filledQueue(t, 3);
  const received = await inbox(ch, queue);
  const messages = await received.take(3);
  ch.ack(messages[1]);
  await ch.recover();
  const again = await received.take(2);
  assert.deepEqual(texts(again), ['0', '2']);
  assert.ok(again.every((message) => message.fields.redelivered));
});

test('get takes one message and tells how many are left', async (t) => {
  const { ch, queue } = await filledQueue(t, 3);
  const message = await ch.get(queue);
  assert.equal(message.content.toString(), '0');
  assert.equal(message.fields.messageCount, 2);
  assert.equal(message.fields.redelivered, false);
  assert.equal(message.fields.routingKey, queue);
  ch.ack(message);
});

test('get answers false when nothing is there', async (t) => {
  const { ch, queue } = await filledQueue(t, 0);
  assert.equal(await ch.get(queue), false);
});

test('get may ack at once', async (t) => {
  const { ch, queue, watcher } = await filledQueue(t, 2);
  const message = await ch.get(queue, { noAck: true });
  assert.equal(message.content.toString(), '0');
  await ch.close();
  assert.deepEqual(texts(await drain(watcher, queue)), ['1']);
});

test('get from a missing queue closes the channel with 404', async (t) => {
  const ch = await channel(t);
  await channelClosesWith(ch, 404, /NOT_FOUND - no queue/, () => ch.get(uniqueName('missing')));
});

test('acking an unknown tag closes the channel with 406', async (t) => {
  const ch = await channel(t);
  const error = await channelClosesWith(ch, 406, /PRECONDITION_FAILED - unknown delivery tag 42/, () =>
    ch.ack({ fields: { deliveryTag: 42 } }),
  );
  assert.equal(error.classId, 60);
  assert.equal(error.methodId, 80);
});

test('acking twice closes the channel with 406', async (t) => {
  const { ch, queue } = await filledQueue(t, 1);
  const message = await ch.get(queue);
  ch.ack(message);
  await channelClosesWith(ch, 406, /unknown delivery tag 1/, () => ch.ack(message));
});

test('a tag belongs to the channel it was delivered on', async (t) => {
  const { ch, connection, queue, watcher } = await filledQueue(t, 1);
  const other = await channel(t, connection);
  const message = await ch.get(queue);
  await channelClosesWith(other, 406, /unknown delivery tag 1/, () => other.ack(message));
  ch.nack(message);
  await until(async () => (await readyCount(watcher, queue)) === 1, 'the message is back');
});
