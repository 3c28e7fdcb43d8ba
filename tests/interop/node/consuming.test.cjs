// Consuming with amqplib: tags, cancel from both sides, fairness, prefetch, exclusivity.

'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const {
  channel,
  channelClosesWith,
  connect,
  inbox,
  nextEvent,
  privateQueue,
  readyCount,
  texts,
  uniqueName,
  until,
} = require('./support.cjs');

function publish(ch, queue, count, from = 0) {
  for (let i = from; i < from + count; i += 1) ch.sendToQueue(queue, Buffer.from(String(i)));
}

test('a consumer without a tag is given a generated one', async (t) => {
  const ch = await channel(t);
  const { consumerTag } = await ch.consume(await privateQueue(ch), () => {});
  assert.match(consumerTag, /^amq\.ctag-/);
});

test('a consumer keeps the tag it asked for', async (t) => {
  const ch = await channel(t);
  const { consumerTag } = await ch.consume(await privateQueue(ch), () => {}, { consumerTag: 'mine ☃' });
  assert.equal(consumerTag, 'mine ☃');
});

test('consuming the same tag twice on a channel closes the connection with 530', async (t) => {
  const connection = await connect(t);
  const ch = await channel(t, connection);
  const queue = await privateQueue(ch);
  await ch.consume(queue, () => {}, { consumerTag: 'twin' });
  const failed = nextEvent(connection, 'error');
  await assert.rejects(ch.consume(queue, () => {}, { consumerTag: 'twin' }));
  const error = await failed;
  assert.equal(error.code, 530);
  assert.match(error.message, /NOT_ALLOWED - attempt to reuse consumer tag 'twin'/);
});

test('consuming a missing queue closes the channel with 404', async (t) => {
  const ch = await channel(t);
  await channelClosesWith(ch, 404, /NOT_FOUND - no queue/, () => ch.consume(uniqueName('missing'), () => {}));
});

test('an exclusive consumer keeps others out with 403', async (t) => {
  const connection = await connect(t);
  const ch = await channel(t, connection);
  const other = await channel(t, connection);
  const queue = await privateQueue(ch);
  await ch.consume(queue, () => {}, { exclusive: true });
  await channelClosesWith(other, 403, /ACCESS_REFUSED - queue '.*' in vhost '\/' in exclusive use/, () =>
    other.consume(queue, () => {}),
  );
});

test('an exclusive consumer is refused while another one is there', async (t) => {
  const connection = await connect(t);
  const ch = await channel(t, connection);
  const other = await channel(t, connection);
  const queue = await privateQueue(ch);
  await ch.consume(queue, () => {});
  await channelClosesWith(other, 403, /ACCESS_REFUSED/, () => other.consume(queue, () => {}, { exclusive: true }));
});

test('deliveries without acknowledgement leave nothing behind', async (t) => {
  const connection = await connect(t);
  const ch = await channel(t, connection);
  const watcher = await channel(t, connection);
  const queue = await privateQueue(ch);
  const received = await inbox(ch, queue, { noAck: true });
  publish(ch, queue, 10);
  await received.take(10);
  await ch.close();
  assert.equal(await readyCount(watcher, queue), 0);
});

test('a cancelled consumer gets nothing more and the queue keeps its messages', async (t) => {
  const ch = await channel(t);
  const queue = await privateQueue(ch);
  const received = await inbox(ch, queue);
  publish(ch, queue, 1);
  await received.take();
  await ch.cancel(received.consumerTag);
  publish(ch, queue, 3, 1);
  await until(async () => (await readyCount(ch, queue)) === 3, 'three messages wait');
  assert.equal(received.messages.length, 1);
});

test('what a cancelled consumer left unacked may still be acked', async (t) => {
  const connection = await connect(t);
  const ch = await channel(t, connection);
  const watcher = await channel(t, connection);
  const queue = await privateQueue(ch);
  const received = await inbox(ch, queue);
  publish(ch, queue, 2);
  const [first] = await received.take(2);
  await ch.cancel(received.consumerTag);
  assert.equal(await readyCount(watcher, queue), 0);
  ch.ack(first);
  await ch.close();
  await until(async () => (await readyCount(watcher, queue)) === 1, 'only the unacked one is back');
});

test('deleting the queue tells its consumer that it was cancelled', async (t) => {
  const connection = await connect(t);
  const ch = await channel(t, connection);
  const other = await channel(t, connection);
  const queue = await privateQueue(ch);
  const received = await inbox(ch, queue);
  await other.deleteQueue(queue);
  assert.deepEqual(await received.take(), [null]);
  const again = await privateQueue(ch);
  assert.match(again, /^amq\.gen-/, 'the channel lives on');
});

test('two consumers of a queue share its messages evenly', async (t) => {
  const connection = await connect(t);
  const ch = await channel(t, connection);
  const queue = await privateQueue(ch);
  const [one, two] = [await channel(t, connection), await channel(t, connection)];
  const inboxes = [await inbox(one, queue, { noAck: true }), await inbox(two, queue, { noAck: true })];
  publish(ch, queue, 100);
  await until(() => inboxes[0].messages.length + inboxes[1].messages.length === 100, 'all are delivered');
  assert.deepEqual(
    inboxes.map((each) => each.messages.length),
    [50, 50],
  );
});

test('prefetch limits each consumer that starts after it', async (t) => {
  const connection = await connect(t);
  const ch = await channel(t, connection);
  const publisher = await channel(t, connection);
  const queue = await privateQueue(publisher);
  publish(publisher, queue, 20);
  await until(async () => (await readyCount(publisher, queue)) === 20, 'all are enqueued');
  await ch.prefetch(3);
  const first = await inbox(ch, queue);
  const second = await inbox(ch, queue);
  await first.take(3);
  const [oldest] = await second.take(3);
  assert.equal(await readyCount(publisher, queue), 14);
  ch.ack(oldest);
  await second.take(1);
  assert.equal(await readyCount(publisher, queue), 13);
  assert.equal(first.messages.length, 3);
});

test('a global prefetch is one limit for the whole channel', async (t) => {
  const connection = await connect(t);
  const ch = await channel(t, connection);
  const publisher = await channel(t, connection);
  const queue = await privateQueue(publisher);
  publish(publisher, queue, 20);
  await until(async () => (await readyCount(publisher, queue)) === 20, 'all are enqueued');
  await ch.prefetch(5, true);
  const inboxes = [await inbox(ch, queue), await inbox(ch, queue)];
  const delivered = () => inboxes[0].messages.length + inboxes[1].messages.length;
  await until(() => delivered() === 5, 'the window is full');
  assert.equal(await readyCount(publisher, queue), 15);
  ch.ackAll();
  await until(() => delivered() === 10, 'the window is full again');
  assert.equal(await readyCount(publisher, queue), 10);
});

test('raising a global prefetch resumes delivery', async (t) => {
  const connection = await connect(t);
  const ch = await channel(t, connection);
  const publisher = await channel(t, connection);
  const queue = await privateQueue(publisher);
  await ch.prefetch(1, true);
  const received = await inbox(ch, queue);
  publish(publisher, queue, 10);
  await received.take(1);
  await until(async () => (await readyCount(publisher, queue)) === 9, 'nine wait');
  await ch.prefetch(4, true);
  await received.take(3);
  assert.equal(await readyCount(publisher, queue), 6);
});

test('one message at a time goes to whoever acked the last', async (t) => {
  const connection = await connect(t);
  const publisher = await channel(t, connection);
  const queue = await privateQueue(publisher);
  const idle = await channel(t, connection);
  const busy = await channel(t, connection);
  await idle.prefetch(1);
  await busy.prefetch(1);
  const idleInbox = await inbox(idle, queue);
  const seen = [];
  await busy.consume(queue, (message) => {
    seen.push(message.content.toString());
    busy.ack(message);
  });
  publish(publisher, queue, 50);
  await until(() => seen.length === 49, 'the acking consumer took all but one');
  const [held] = await idleInbox.take();
  assert.deepEqual(
    [...seen, held.content.toString()].map(Number).sort((a, b) => a - b),
    Array.from({ length: 50 }, (_, i) => i),
  );
});

test('several consumers on one channel each get deliveries under their own tag', async (t) => {
  const ch = await channel(t);
  const queues = await Promise.all(Array.from({ length: 5 }, () => privateQueue(ch)));
  const inboxes = [];
  for (const queue of queues) inboxes.push(await inbox(ch, queue, { noAck: true }));
  for (const queue of queues) ch.sendToQueue(queue, Buffer.from(queue));
  for (const [i, received] of inboxes.entries()) {
    assert.deepEqual(texts(await received.take()), [queues[i]]);
  }
});
