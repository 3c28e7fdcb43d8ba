// Publishing with amqplib: what arrives is what was sent, down to header types and frame edges.

'use strict';

const assert = require('node:assert/strict');
const { createHash, randomBytes } = require('node:crypto');
const { test } = require('node:test');
const {
  channel,
  channelClosesWith,
  confirmChannel,
  connect,
  inbox,
  nextEvent,
  privateQueue,
  readyCount,
  texts,
  uniqueName,
  until,
} = require('./support.cjs');

function digest(buffer) {
  return createHash('sha256').update(buffer).digest('hex');
}

test('a published message arrives with its body, exchange and routing key', async (t) => {
  const ch = await channel(t);
  const queue = await privateQueue(ch);
  const received = await inbox(ch, queue, { noAck: true });
  ch.sendToQueue(queue, Buffer.from('hello'));
  const [message] = await received.take();
  assert.equal(message.content.toString(), 'hello');
  assert.equal(message.fields.exchange, '');
  assert.equal(message.fields.routingKey, queue);
  assert.equal(message.fields.redelivered, false);
  assert.equal(message.fields.deliveryTag, 1);
  assert.equal(message.fields.consumerTag, received.consumerTag);
});

test('messages of one publisher arrive in order', async (t) => {
  const ch = await channel(t);
  const queue = await privateQueue(ch);
  const received = await inbox(ch, queue, { noAck: true });
  const sent = Array.from({ length: 2_000 }, (_, i) => String(i));
  for (const text of sent) ch.sendToQueue(queue, Buffer.from(text));
  assert.deepEqual(texts(await received.take(sent.length)), sent);
});

test('an empty body arrives empty', async (t) => {
  const ch = await channel(t);
  const queue = await privateQueue(ch);
  const received = await inbox(ch, queue, { noAck: true });
  ch.sendToQueue(queue, Buffer.alloc(0), { messageId: 'empty' });
  ch.sendToQueue(queue, Buffer.from('next'));
  const [empty, next] = await received.take(2);
  assert.equal(empty.content.length, 0);
  assert.equal(empty.properties.messageId, 'empty');
  assert.equal(next.content.toString(), 'next');
});

test('a body of several megabytes arrives intact', async (t) => {
  const ch = await channel(t);
  const queue = await privateQueue(ch);
  const received = await inbox(ch, queue, { noAck: true });
  const body = randomBytes(5 * 1024 * 1024 + 17);
  ch.sendToQueue(queue, body);
  const [message] = await received.take();
  assert.equal(message.content.length, body.length);
  assert.equal(digest(message.content), digest(body));
});

test('bodies at the edges of a frame arrive intact', async (t) => {
  const connection = await connect(t);
  const ch = await channel(t, connection);
  const queue = await privateQueue(ch);
  const received = await inbox(ch, queue, { noAck: true });
  const room = connection.connection.frameMax - 8;
  const sizes = [1, room - 1, room, room + 1, 2 * room, 2 * room + 1];
  const bodies = sizes.map((size) => randomBytes(size));
  for (const body of bodies) ch.sendToQueue(queue, body);
  const messages = await received.take(sizes.length);
  assert.deepEqual(
    messages.map((message) => message.content.length),
    sizes,
  );
  assert.deepEqual(
    messages.map((message) => digest(message.content)),
    bodies.map(digest),
  );
});

test('large bodies published on several channels at once do not mix', async (t) => {
  const connection = await connect(t);
  const ch = await channel(t, connection);
  const queue = await privateQueue(ch);
  const received = await inbox(ch, queue, { noAck: true });
  const bodies = Array.from({ length: 4 }, (_, i) => Buffer.alloc(700_000, 97 + i));
  const publishers = await Promise.all(bodies.map(() => channel(t, connection)));
  publishers.forEach((publisher, i) => publisher.sendToQueue(queue, bodies[i]));
  const messages = await received.take(bodies.length);
  assert.deepEqual(messages.map((message) => digest(message.content)).sort(), bodies.map(digest).sort());
});

test('every basic property arrives as it was sent', async (t) => {
  const ch = await channel(t);
  const queue = await privateQueue(ch);
  const received = await inbox(ch, queue, { noAck: true });
  const sent = {
    contentType: 'application/json; charset=utf-8',
    contentEncoding: 'gzip',
    headers: { trace: 'ä-1' },
    deliveryMode: 2,
    priority: 7,
    correlationId: 'correlation-1',
    replyTo: 'reply-queue',
    expiration: '600000',
    messageId: 'message-1',
    timestamp: 1_700_000_000,
    type: 'order.created',
    userId: 'guest',
    appId: 'shop',
  };
  ch.sendToQueue(queue, Buffer.from('{}'), sent);
  const [message] = await received.take();
  for (const [name, value] of Object.entries(sent)) {
    assert.deepEqual(message.properties[name], value, name);
  }
});

test('headers of every field type arrive with their values', async (t) => {
  const ch = await channel(t);
  const queue = await privateQueue(ch);
  const received = await inbox(ch, queue, { noAck: true });
  const typed = (type, value) => ({ '!': type, value });
  ch.sendToQueue(queue, Buffer.from('x'), {
    headers: {
      int8: typed('int8', -128),
      uint8: typed('uint8', 255),
      int16: typed('int16', -32_768),
      uint16: typed('uint16', 65_535),
      int32: typed('int32', -2_147_483_648),
      uint32: typed('uint32', 4_294_967_295),
      int64: typed('int64', -9_007_199_254_740_991),
      float: typed('float', 0.5),
      double: typed('double', 0.1),
      decimal: typed('decimal', { places: 2, digits: 314 }),
      timestamp: typed('timestamp', 1_700_000_000),
      text: 'naïve ☃',
      empty: '',
      yes: true,
      no: false,
      nothing: null,
      bytes: Buffer.from([0, 255, 1]),
      list: [1, 'two', [3], { four: 4 }],
      table: { inner: { deep: 'down' } },
      'a key with spaces': 'ok',
    },
  });
  const [{ properties }] = await received.take();
  assert.deepEqual(
    { ...properties.headers, bytes: [...properties.headers.bytes] },
    {
      int8: -128,
      uint8: 255,
      int16: -32_768,
      uint16: 65_535,
      int32: -2_147_483_648,
      uint32: 4_294_967_295,
      int64: -9_007_199_254_740_991,
      float: 0.5,
      double: 0.1,
      decimal: typed('decimal', { places: 2, digits: 314 }),
      timestamp: typed('timestamp', 1_700_000_000),
      text: 'naïve ☃',
      empty: '',
      yes: true,
      no: false,
      nothing: null,
      bytes: [0, 255, 1],
      list: [1, 'two', [3], { four: 4 }],
      table: { inner: { deep: 'down' } },
      'a key with spaces': 'ok',
    },
  );
});

test('CC keys get copies too, and BCC keys do so unseen', async (t) => {
  const ch = await channel(t);
  const [to, cc, bcc] = [await privateQueue(ch), await privateQueue(ch), await privateQueue(ch)];
  ch.sendToQueue(to, Buffer.from('shared'), { CC: [cc], BCC: [bcc] });
  for (const queue of [to, cc, bcc]) {
    const message = await until(() => ch.get(queue, { noAck: true }), `'${queue}' has its copy`);
    assert.deepEqual(message.properties.headers.CC, [cc]);
    assert.equal(message.properties.headers.BCC, undefined);
    assert.equal(message.fields.routingKey, to);
  }
});

test('an unroutable mandatory message is returned whole', async (t) => {
  const ch = await channel(t);
  const missing = uniqueName('missing');
  const returned = nextEvent(ch, 'return');
  ch.publish('amq.direct', missing, Buffer.from('come back'), {
    mandatory: true,
    messageId: 'm-1',
    headers: { kept: 'yes' },
  });
  const message = await returned;
  assert.equal(message.fields.replyCode, 312);
  assert.equal(message.fields.replyText, 'NO_ROUTE');
  assert.equal(message.fields.exchange, 'amq.direct');
  assert.equal(message.fields.routingKey, missing);
  assert.equal(message.properties.messageId, 'm-1');
  assert.deepEqual(message.properties.headers, { kept: 'yes' });
  assert.equal(message.content.toString(), 'come back');
});

test('a routable mandatory message is not returned', async (t) => {
  const ch = await confirmChannel(t);
  const queue = await privateQueue(ch);
  const returns = [];
  ch.on('return', (message) => returns.push(message));
  ch.sendToQueue(queue, Buffer.from('fine'), { mandatory: true });
  await ch.waitForConfirms();
  assert.equal(await readyCount(ch, queue), 1);
  assert.equal(returns.length, 0);
});

test('publishing to a missing exchange closes the channel with 404', async (t) => {
  const ch = await channel(t);
  const missing = uniqueName('missing');
  const error = await channelClosesWith(ch, 404, /NOT_FOUND - no exchange '.*' in vhost '\/'/, () =>
    ch.publish(missing, 'key', Buffer.from('lost')),
  );
  assert.equal(error.classId, 60);
  assert.equal(error.methodId, 40);
});

test("a user id that is not the connection's own closes the channel with 406", async (t) => {
  const ch = await channel(t);
  const queue = await privateQueue(ch);
  await channelClosesWith(ch, 406, /PRECONDITION_FAILED/, () =>
    ch.sendToQueue(queue, Buffer.from('forged'), { userId: 'somebody-else' }),
  );
});

test('an expiration that is no number closes the channel with 406', async (t) => {
  const ch = await channel(t);
  const queue = await privateQueue(ch);
  await channelClosesWith(ch, 406, /PRECONDITION_FAILED - invalid expiration/, () =>
    ch.sendToQueue(queue, Buffer.from('when?'), { expiration: 'soon' }),
  );
});
