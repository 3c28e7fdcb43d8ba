// Publisher confirms with amqplib's ConfirmChannel.

'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { afterwards, confirmChannel, nextEvent, privateQueue, readyCount, uniqueName, until, within } = require('./support.cjs');

test('every publish is confirmed once and in order of its callbacks', async (t) => {
  const ch = await confirmChannel(t);
  const queue = await privateQueue(ch);
  const confirmed = [];
  for (let i = 0; i < 500; i += 1) {
    ch.sendToQueue(queue, Buffer.from(String(i)), {}, (error) => confirmed.push([i, error]));
  }
  await within(ch.waitForConfirms(), 'all confirms');
  const numbers = confirmed.map(([i]) => i);
  assert.equal(new Set(numbers).size, 500);
  assert.equal(numbers.length, 500);
  assert.ok(confirmed.every(([, error]) => error === null));
  assert.equal(await readyCount(ch, queue), 500);
});

test('a confirm covers all tags up to it when it says multiple', async (t) => {
  const ch = await confirmChannel(t);
  const queue = await privateQueue(ch);
  const acks = [];
  ch.on('ack', ({ deliveryTag, multiple }) => acks.push({ deliveryTag, multiple }));
  let sent = 0;
  await until(async () => {
    for (let i = 0; i < 200; i += 1) ch.sendToQueue(queue, Buffer.alloc(64), { deliveryMode: 2 });
    sent += 200;
    await ch.waitForConfirms();
    return acks.some((ack) => ack.multiple);
  }, 'some ack is a multiple one');
  let covered = 0;
  const single = new Set();
  for (const { deliveryTag, multiple } of acks) {
    assert.ok(deliveryTag <= sent, `ack ${deliveryTag} is beyond the ${sent} publishes`);
    assert.ok(deliveryTag > covered && !single.has(deliveryTag), `ack ${deliveryTag} came twice`);
    if (!multiple) single.add(deliveryTag);
    else covered = deliveryTag;
    while (single.delete(covered + 1)) covered += 1;
  }
  assert.equal(covered, sent);
});

test('an unroutable publish is confirmed', async (t) => {
  const ch = await confirmChannel(t);
  ch.publish('amq.direct', uniqueName('nowhere'), Buffer.from('dropped'));
  await within(ch.waitForConfirms(), 'the confirm');
});

test('the return of a mandatory publish comes before its confirm', async (t) => {
  const ch = await confirmChannel(t);
  const order = [];
  ch.on('return', () => order.push('return'));
  ch.on('ack', () => order.push('ack'));
  ch.publish('', uniqueName('nowhere'), Buffer.from('back'), { mandatory: true });
  await within(ch.waitForConfirms(), 'the confirm');
  assert.deepEqual(order, ['return', 'ack']);
});

test('a publish into a deleted queue is still confirmed', async (t) => {
  const ch = await confirmChannel(t);
  const queue = await privateQueue(ch);
  for (let i = 0; i < 50; i += 1) ch.sendToQueue(queue, Buffer.from('x'), { deliveryMode: 2 });
  const deleted = ch.deleteQueue(queue);
  await within(Promise.all([deleted, ch.waitForConfirms()]), 'confirms and delete-ok');
});

test('persistent publishes to a durable queue are confirmed', async (t) => {
  const ch = await confirmChannel(t);
  const { queue } = await ch.assertQueue(uniqueName('durable'), { durable: true });
  afterwards(t, (cleaner) => cleaner.deleteQueue(queue));
  for (let i = 0; i < 20; i += 1) ch.sendToQueue(queue, Buffer.from('kept'), { persistent: true });
  await within(ch.waitForConfirms(), 'all confirms');
  assert.equal(await readyCount(ch, queue), 20);
});

test('publishes before a channel error are confirmed, the failing one is not', async (t) => {
  const ch = await confirmChannel(t);
  const queue = await privateQueue(ch);
  ch.sendToQueue(queue, Buffer.from('good'));
  await within(ch.waitForConfirms(), 'the first confirm');
  const outcome = new Promise((resolve) => {
    ch.publish(uniqueName('missing'), 'key', Buffer.from('bad'), {}, resolve);
  });
  const closed = nextEvent(ch, 'error');
  assert.equal((await closed).code, 404);
  const error = await within(outcome, 'the callback of the failing publish');
  assert.match(error.message, /channel closed/);
});
