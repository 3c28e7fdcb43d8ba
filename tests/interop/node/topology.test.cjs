// Queues, exchanges and bindings with amqplib, and the errors of each.

'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const {
  afterwards,
  brokerIsOlderThan,
  channel,
  channelClosesWith,
  confirmChannel,
  connect,
  inbox,
  nextEvent,
  privateQueue,
  readyCount,
  uniqueName,
  until,
} = require('./support.cjs');

/** A confirm channel, and an exchange that the case leaves behind for nobody. */
async function withExchange(t, type, options = {}) {
  const connection = await connect(t);
  const ch = await confirmChannel(t, connection);
  const exchange = uniqueName(type);
  await ch.assertExchange(exchange, type, { durable: false, autoDelete: true, ...options });
  afterwards(t, (cleaner) => cleaner.deleteExchange(exchange));
  return { ch, connection, exchange };
}

/** Which of the routing keys (or header sets) reach the queue. */
async function reaching(ch, exchange, queue, messages) {
  const reached = [];
  for (const { key = '', headers = {} } of messages) {
    ch.publish(exchange, key, Buffer.from(key), { headers });
    await ch.waitForConfirms();
    const message = await ch.get(queue, { noAck: true });
    reached.push(message !== false);
    assert.equal(await ch.get(queue, { noAck: true }), false, 'one copy at most');
  }
  return reached;
}

test('asserting a queue answers its name and counts', async (t) => {
  const ch = await confirmChannel(t);
  const name = uniqueName('counted');
  const created = await ch.assertQueue(name, { exclusive: true });
  assert.deepEqual({ ...created }, { queue: name, messageCount: 0, consumerCount: 0 });
  ch.sendToQueue(name, Buffer.from('x'));
  await ch.waitForConfirms();
  const counted = await ch.assertQueue(name, { exclusive: true });
  assert.equal(counted.messageCount, 1);
  await ch.consume(name, () => {});
  assert.equal((await ch.checkQueue(name)).consumerCount, 1);
});

test('a queue without a name is given a generated one', async (t) => {
  const ch = await channel(t);
  assert.match(await privateQueue(ch), /^amq\.gen-[A-Za-z0-9_-]{22}$/);
});

test('checking a missing queue closes the channel with 404', async (t) => {
  const ch = await channel(t);
  const error = await channelClosesWith(ch, 404, /NOT_FOUND - no queue '.*' in vhost '\/'/, () =>
    ch.checkQueue(uniqueName('missing')),
  );
  assert.deepEqual([error.classId, error.methodId], [50, 10]);
});

test('asserting a queue differently closes the channel with 406', async (t) => {
  const connection = await connect(t);
  const ch = await channel(t, connection);
  const name = uniqueName('fixed');
  await ch.assertQueue(name, { exclusive: true, autoDelete: false });
  const other = await channel(t, connection);
  await channelClosesWith(
    other,
    406,
    /PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue '.*' in vhost '\/': received 'true' but current is 'false'/,
    () => other.assertQueue(name, { exclusive: true, autoDelete: true }),
  );
});

test('asserting a queue with another TTL closes the channel with 406', async (t) => {
  const connection = await connect(t);
  const ch = await channel(t, connection);
  const name = uniqueName('fixed');
  await ch.assertQueue(name, { exclusive: true, messageTtl: 60_000 });
  await ch.assertQueue(name, { exclusive: true, messageTtl: 60_000 });
  await channelClosesWith(ch, 406, /inequivalent arg 'x-message-ttl'/, () =>
    ch.assertQueue(name, { exclusive: true, messageTtl: 61_000 }),
  );
});

test('a queue name with a reserved prefix is refused with 403', async (t) => {
  const ch = await channel(t);
  await channelClosesWith(ch, 403, /ACCESS_REFUSED - queue name 'amq\.mine' contains reserved prefix 'amq\.\*'/, () =>
    ch.assertQueue('amq.mine'),
  );
});

test('deleting a queue answers how many messages it held, and 0 once it is gone', async (t) => {
  const ch = await confirmChannel(t);
  const queue = await privateQueue(ch);
  for (let i = 0; i < 3; i += 1) ch.sendToQueue(queue, Buffer.from('x'));
  await ch.waitForConfirms();
  assert.equal((await ch.deleteQueue(queue)).messageCount, 3);
  assert.equal((await ch.deleteQueue(queue)).messageCount, 0);
});

test('a queue in use survives deletion if-unused', async (t) => {
  const ch = await channel(t);
  const queue = await privateQueue(ch);
  await ch.consume(queue, () => {});
  await channelClosesWith(ch, 406, /PRECONDITION_FAILED - queue '.*' in vhost '\/' in use/, () =>
    ch.deleteQueue(queue, { ifUnused: true }),
  );
});

test('a queue with messages survives deletion if-empty', async (t) => {
  const ch = await confirmChannel(t);
  const queue = await privateQueue(ch);
  ch.sendToQueue(queue, Buffer.from('x'));
  await ch.waitForConfirms();
  await channelClosesWith(ch, 406, /PRECONDITION_FAILED - queue '.*' in vhost '\/' not empty/, () =>
    ch.deleteQueue(queue, { ifEmpty: true }),
  );
});

test('purging answers how many ready messages went', async (t) => {
  const ch = await confirmChannel(t);
  const queue = await privateQueue(ch);
  for (let i = 0; i < 4; i += 1) ch.sendToQueue(queue, Buffer.from('x'));
  await ch.waitForConfirms();
  const held = await ch.get(queue);
  assert.equal((await ch.purgeQueue(queue)).messageCount, 3);
  ch.nack(held);
  await until(async () => (await readyCount(ch, queue)) === 1, 'the unacked one is back');
});

test("another connection's exclusive queue is locked with 405", async (t) => {
  const owner = await channel(t);
  const queue = await privateQueue(owner);
  for (const operation of ['checkQueue', 'purgeQueue', 'deleteQueue', 'get']) {
    const stranger = await channel(t);
    await channelClosesWith(stranger, 405, /RESOURCE_LOCKED - cannot obtain exclusive access to locked queue/, () =>
      stranger[operation](queue),
    );
  }
});

test('an exclusive queue is gone once its connection is closed', async (t) => {
  const connection = await connect(t);
  const name = uniqueName('mine');
  await (await channel(t, connection)).assertQueue(name, { exclusive: true });
  await connection.close();
  const ch = await channel(t);
  await channelClosesWith(ch, 404, /NOT_FOUND/, () => ch.checkQueue(name));
});

test('an auto-delete queue goes with its last consumer', async (t) => {
  const connection = await connect(t);
  const ch = await channel(t, connection);
  const { queue } = await ch.assertQueue(uniqueName('fleeting'), { autoDelete: true, durable: false });
  const first = await ch.consume(queue, () => {});
  const second = await ch.consume(queue, () => {});
  await ch.cancel(first.consumerTag);
  assert.equal((await ch.checkQueue(queue)).consumerCount, 1);
  await ch.cancel(second.consumerTag);
  await channelClosesWith(ch, 404, /NOT_FOUND/, () => ch.checkQueue(queue));
});

test('asserting and checking an exchange', async (t) => {
  const { ch, exchange } = await withExchange(t, 'direct');
  await ch.checkExchange(exchange);
  assert.equal((await ch.assertExchange(exchange, 'direct', { durable: false, autoDelete: true })).exchange, exchange);
  await channelClosesWith(
    ch,
    406,
    /inequivalent arg 'type' for exchange '.*' in vhost '\/': received 'fanout' but current is 'direct'/,
    () => ch.assertExchange(exchange, 'fanout', { durable: false, autoDelete: true }),
  );
});

test('checking a missing exchange closes the channel with 404', async (t) => {
  const ch = await channel(t);
  await channelClosesWith(ch, 404, /NOT_FOUND - no exchange/, () => ch.checkExchange(uniqueName('missing')));
});

test('the predeclared exchanges are there', async (t) => {
  const ch = await channel(t);
  for (const name of ['direct', 'fanout', 'topic', 'headers', 'match']) await ch.checkExchange(`amq.${name}`);
});

test('an exchange name with a reserved prefix is refused with 403', async (t) => {
  const ch = await channel(t);
  await channelClosesWith(ch, 403, /ACCESS_REFUSED - exchange name 'amq\.mine' contains reserved prefix/, () =>
    ch.assertExchange('amq.mine', 'direct'),
  );
});

test('an unknown exchange type is refused', async (t) => {
  const connection = await connect(t);
  const ch = await channel(t, connection);
  const name = uniqueName('odd');
  // differs: old-exchange-type
  if (brokerIsOlderThan(connection, 4)) {
    const failed = nextEvent(connection, 'error');
    await assert.rejects(ch.assertExchange(name, 'no-such-type'));
    assert.ok([406, 503].includes((await failed).code));
    return;
  }
  await channelClosesWith(ch, 406, /unknown exchange type 'no-such-type'/, () => ch.assertExchange(name, 'no-such-type'));
});

test('a bound exchange survives deletion if-unused', async (t) => {
  const { ch, connection, exchange } = await withExchange(t, 'direct');
  await ch.bindQueue(await privateQueue(ch), exchange, 'key');
  const other = await channel(t, connection);
  await channelClosesWith(other, 406, /PRECONDITION_FAILED - exchange '.*' in vhost '\/' in use/, () =>
    other.deleteExchange(exchange, { ifUnused: true }),
  );
  await ch.deleteExchange(exchange);
  await ch.deleteExchange(exchange);
});

test('an internal exchange takes no publishes', async (t) => {
  const { ch, exchange } = await withExchange(t, 'fanout', { internal: true });
  await channelClosesWith(ch, 403, /ACCESS_REFUSED - cannot publish to internal exchange/, () =>
    ch.publish(exchange, '', Buffer.from('x')),
  );
});

test('an auto-delete exchange goes with its last binding', async (t) => {
  const { ch, exchange } = await withExchange(t, 'direct');
  const queue = await privateQueue(ch);
  await ch.bindQueue(queue, exchange, 'a');
  await ch.bindQueue(queue, exchange, 'b');
  await ch.unbindQueue(queue, exchange, 'a');
  await ch.checkExchange(exchange);
  await ch.unbindQueue(queue, exchange, 'b');
  await channelClosesWith(ch, 404, /NOT_FOUND/, () => ch.checkExchange(exchange));
});

test('a direct exchange routes by the exact key until it is unbound', async (t) => {
  const { ch, exchange } = await withExchange(t, 'direct', { autoDelete: false });
  const queue = await privateQueue(ch);
  await ch.bindQueue(queue, exchange, 'red');
  const keys = [{ key: 'red' }, { key: 'Red' }, { key: '' }, { key: 'red.blue' }];
  assert.deepEqual(await reaching(ch, exchange, queue, keys), [true, false, false, false]);
  await ch.unbindQueue(queue, exchange, 'red');
  await ch.unbindQueue(queue, exchange, 'red');
  assert.deepEqual(await reaching(ch, exchange, queue, keys), [false, false, false, false]);
});

test('a fanout exchange reaches every bound queue', async (t) => {
  const { ch, exchange } = await withExchange(t, 'fanout');
  const queues = await Promise.all(Array.from({ length: 5 }, () => privateQueue(ch)));
  for (const queue of queues) await ch.bindQueue(queue, exchange, '');
  ch.publish(exchange, 'whatever', Buffer.from('all'));
  await ch.waitForConfirms();
  assert.deepEqual(await Promise.all(queues.map((queue) => readyCount(ch, queue))), [1, 1, 1, 1, 1]);
});

test('a topic exchange understands star and hash', async (t) => {
  const { ch, exchange } = await withExchange(t, 'topic', { autoDelete: false });
  const keys = ['', 'a', 'a.b', 'a.b.c', 'b', 'a.x.c', 'b.a', 'a..c'];
  // An empty routing key has no words in RabbitMQ, so a star does not match it.
  const expected = {
    '#': [true, true, true, true, true, true, true, true],
    '*': [false, true, false, false, true, false, false, false],
    'a.#': [false, true, true, true, false, true, false, true],
    '#.c': [false, false, false, true, false, true, false, true],
    'a.*.c': [false, false, false, true, false, true, false, true],
    'a.#.c': [false, false, false, true, false, true, false, true],
    '*.b': [false, false, true, false, false, false, false, false],
  };
  for (const [pattern, reached] of Object.entries(expected)) {
    const queue = await privateQueue(ch);
    await ch.bindQueue(queue, exchange, pattern);
    const messages = keys.map((key) => ({ key }));
    assert.deepEqual(await reaching(ch, exchange, queue, messages), reached, pattern);
    await ch.deleteQueue(queue);
  }
});

test('a headers exchange matches all or any of its arguments', async (t) => {
  const { ch, exchange } = await withExchange(t, 'headers', { autoDelete: false });
  const messages = [{ format: 'pdf', pages: 2 }, { format: 'pdf' }, { pages: 2 }, {}, { format: 'png', pages: 2 }].map(
    (headers) => ({ headers }),
  );
  const expected = {
    all: [true, false, false, false, false],
    any: [true, true, true, false, true],
  };
  for (const [match, reached] of Object.entries(expected)) {
    const queue = await privateQueue(ch);
    await ch.bindQueue(queue, exchange, '', { 'x-match': match, format: 'pdf', pages: 2 });
    assert.deepEqual(await reaching(ch, exchange, queue, messages), reached, match);
    await ch.deleteQueue(queue);
  }
});

test('bindings with other arguments are other bindings', async (t) => {
  const { ch, exchange } = await withExchange(t, 'headers', { autoDelete: false });
  const queue = await privateQueue(ch);
  await ch.bindQueue(queue, exchange, '', { 'x-match': 'all', colour: 'red' });
  await ch.bindQueue(queue, exchange, '', { 'x-match': 'all', colour: 'blue' });
  await ch.unbindQueue(queue, exchange, '', { 'x-match': 'all', colour: 'red' });
  const messages = [{ headers: { colour: 'red' } }, { headers: { colour: 'blue' } }];
  assert.deepEqual(await reaching(ch, exchange, queue, messages), [false, true]);
});

test('binding to what does not exist closes the channel with 404', async (t) => {
  const connection = await connect(t);
  const first = await channel(t, connection);
  const queue = await privateQueue(first);
  await channelClosesWith(first, 404, /NOT_FOUND - no exchange/, () =>
    first.bindQueue(queue, uniqueName('missing'), 'key'),
  );
  const second = await channel(t, connection);
  await channelClosesWith(second, 404, /NOT_FOUND - no queue/, () =>
    second.bindQueue(uniqueName('missing'), 'amq.direct', 'key'),
  );
});

test('the default exchange takes no bindings', async (t) => {
  const ch = await channel(t);
  const queue = await privateQueue(ch);
  await channelClosesWith(ch, 403, /ACCESS_REFUSED - operation not permitted on the default exchange/, () =>
    ch.bindQueue(queue, '', 'key'),
  );
});

test('exchanges bound to exchanges pass messages on until they are unbound', async (t) => {
  const { ch, exchange: source } = await withExchange(t, 'topic', { autoDelete: false });
  const { exchange: middle } = await withExchange(t, 'direct', { autoDelete: false });
  const { exchange: destination } = await withExchange(t, 'fanout', { autoDelete: false });
  const queue = await privateQueue(ch);
  await ch.bindExchange(middle, source, 'a.*');
  await ch.bindExchange(destination, middle, 'a.b');
  await ch.bindExchange(source, destination, '#');
  await ch.bindQueue(queue, destination, '');
  const keys = [{ key: 'a.b' }, { key: 'a.c' }, { key: 'b' }];
  assert.deepEqual(await reaching(ch, source, queue, keys), [true, false, false]);
  await ch.unbindExchange(destination, middle, 'a.b');
  assert.deepEqual(await reaching(ch, source, queue, keys), [false, false, false]);
});

test('a queue reached by several ways gets one copy', async (t) => {
  const { ch, exchange } = await withExchange(t, 'topic');
  const queue = await privateQueue(ch);
  for (const pattern of ['#', 'a.*', 'a.b', '*.b']) await ch.bindQueue(queue, exchange, pattern);
  assert.deepEqual(await reaching(ch, exchange, queue, [{ key: 'a.b' }]), [true]);
});

test('an alternate exchange takes what nothing matched', async (t) => {
  const { ch, exchange: spare } = await withExchange(t, 'fanout', { autoDelete: false });
  const { exchange } = await withExchange(t, 'direct', { autoDelete: false, alternateExchange: spare });
  const [matched, unmatched] = [await privateQueue(ch), await privateQueue(ch)];
  await ch.bindQueue(matched, exchange, 'known');
  await ch.bindQueue(unmatched, spare, '');
  const returns = [];
  ch.on('return', (message) => returns.push(message));
  for (const key of ['known', 'unknown']) ch.publish(exchange, key, Buffer.from(key), { mandatory: true });
  await ch.waitForConfirms();
  const received = await inbox(ch, unmatched, { noAck: true });
  const [message] = await received.take();
  assert.equal(message.content.toString(), 'unknown');
  assert.equal(message.fields.exchange, exchange);
  assert.equal(await readyCount(ch, matched), 1);
  assert.equal(returns.length, 0);
});
