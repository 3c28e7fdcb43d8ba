// Connections and channels with amqplib: handshake, errors of both scopes, reconnecting.

'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const {
  afterwards,
  amqplib,
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
} = require('./support.cjs');

test('the server introduces itself as RabbitMQ with the capabilities clients look for', async (t) => {
  const connection = await connect(t);
  const properties = connection.connection.serverProperties;
  assert.equal(properties.product, 'RabbitMQ');
  assert.match(String(properties.version), /^\d+\.\d+\.\d+/);
  for (const name of [
    'publisher_confirms',
    'exchange_exchange_bindings',
    'basic.nack',
    'consumer_cancel_notify',
    'connection.blocked',
    'consumer_priorities',
    'authentication_failure_close',
    'per_consumer_qos',
    'direct_reply_to',
  ]) {
    assert.equal(properties.capabilities[name], true, name);
  }
});

test('the client properties may name the connection', async (t) => {
  const connection = await connect(t, url, { clientProperties: { connection_name: 'interop ☃' } });
  await channel(t, connection);
});

test('AMQPLAIN credentials are accepted', async (t) => {
  const { username, password } = new URL(url);
  const [user, secret] = [username || 'guest', password || 'guest'].map(decodeURIComponent);
  const connection = await connect(t, url, { credentials: amqplib.credentials.amqplain(user, secret) });
  await channel(t, connection);
});

test('a wrong password is refused with 403 ACCESS_REFUSED', async () => {
  const wrong = new URL(url);
  wrong.username = 'guest';
  wrong.password = 'wrong';
  await assert.rejects(
    within(amqplib.connect(wrong.href), 'the refusal'),
    /403 \(ACCESS.REFUSED\)[^]*ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN/,
  );
});

test('an unknown virtual host is refused', async () => {
  const wrong = new URL(url);
  wrong.pathname = '/no-such-vhost';
  // amqplib does not read the code of a close that comes in place of open-ok.
  await assert.rejects(within(amqplib.connect(wrong.href), 'the refusal'), /got <ConnectionClose channel:0>/);
});

test('small frames are negotiated and kept', async (t) => {
  const connection = await connect(t, urlWith({ frameMax: '8192' }));
  assert.equal(connection.connection.frameMax, 8192);
  const sizes = [];
  const accept = connection.connection.accept;
  connection.connection.accept = function accepting(frame) {
    if (frame.content) sizes.push(frame.content.length);
    return accept.call(this, frame);
  };
  const ch = await channel(t, connection);
  const queue = await privateQueue(ch);
  const received = await inbox(ch, queue, { noAck: true });
  const body = Buffer.alloc(100_000, 'x');
  ch.sendToQueue(queue, body);
  const [message] = await received.take();
  assert.ok(message.content.equals(body));
  assert.ok(sizes.length >= 13, `${sizes.length} body frames`);
  assert.ok(Math.max(...sizes) <= 8192 - 8, `a body frame of ${Math.max(...sizes)} octets`);
});

test('a negotiated channel_max is what the client keeps to', async (t) => {
  const connection = await connect(t, urlWith({ channelMax: '3' }));
  for (let i = 0; i < 3; i += 1) await channel(t, connection);
  await assert.rejects(connection.createChannel(), /No channels left/i);
});

test('many channels live on one connection', async (t) => {
  const connection = await connect(t);
  const channels = await Promise.all(Array.from({ length: 200 }, () => channel(t, connection)));
  const queue = await privateQueue(channels[0]);
  const received = await inbox(channels[0], queue, { noAck: true });
  channels.forEach((each, i) => each.sendToQueue(queue, Buffer.from(String(i))));
  const numbers = texts(await received.take(200)).map(Number);
  assert.deepEqual(
    numbers.sort((a, b) => a - b),
    Array.from({ length: 200 }, (_, i) => i),
  );
});

test('heartbeats of the server come when the connection is idle', async (t) => {
  const connection = await connect(t, urlWith({ heartbeat: '1' }));
  assert.equal(connection.connection.heartbeat, 1);
  let beats = 0;
  connection.connection.stream.on('data', (data) => {
    if (data.equals(Buffer.from([8, 0, 0, 0, 0, 0, 0, 0xce]))) beats += 1;
  });
  await until(() => beats >= 3, 'three heartbeats came');
  await channel(t, connection);
});

test('a channel error leaves the other channels alone', async (t) => {
  const connection = await connect(t);
  const [broken, healthy] = [await channel(t, connection), await channel(t, connection)];
  await channelClosesWith(broken, 404, /NOT_FOUND/, () => broken.checkQueue(uniqueName('missing')));
  assert.match(await privateQueue(healthy), /^amq\.gen-/);
});

test('the number of a closed channel may be used again', async (t) => {
  const connection = await connect(t, urlWith({ channelMax: '1' }));
  for (let i = 0; i < 20; i += 1) {
    const ch = await channel(t, connection);
    if (i % 2) await ch.close();
    else await channelClosesWith(ch, 404, /NOT_FOUND/, () => ch.checkExchange(uniqueName('missing')));
  }
});

test('publishes in flight after a channel error are discarded', async (t) => {
  const connection = await connect(t);
  const watcher = await channel(t, connection);
  const queue = await privateQueue(watcher);
  const ch = await channel(t, connection);
  const closed = nextEvent(ch, 'error');
  ch.publish(uniqueName('missing'), '', Buffer.from('x'));
  for (let i = 0; i < 10; i += 1) ch.sendToQueue(queue, Buffer.alloc(10_000));
  assert.equal((await closed).code, 404);
  assert.equal(await readyCount(watcher, queue), 0);
});

test('a connection error closes everything with its code, and a new connection works', async (t) => {
  const connection = await connect(t);
  const ch = await channel(t, connection);
  const queue = await privateQueue(ch);
  const failed = nextEvent(connection, 'error');
  const closed = nextEvent(connection, 'close');
  await ch.consume(queue, () => {}, { consumerTag: 'same' });
  await assert.rejects(ch.consume(queue, () => {}, { consumerTag: 'same' }));
  assert.equal((await failed).code, 530);
  await closed;
  await assert.rejects(connection.createChannel());
  const again = await channel(t);
  const secondQueue = await privateQueue(again);
  again.sendToQueue(secondQueue, Buffer.from('back'));
  const message = await until(() => again.get(secondQueue), 'the message is there');
  assert.equal(message.content.toString(), 'back');
});

test('close-ok arrives although the client had more to say after its close', async (t) => {
  const connection = await connect(t);
  await channel(t, connection);
  const { stream } = connection.connection;
  stream.on('error', () => {}); // what the network says after close-ok is of no interest
  // Much more than one read of the server's, right behind connection.close: a server that closes
  // its socket over unread octets resets the connection, and the client may never see close-ok.
  const heartbeats = Buffer.alloc(4_000_000, Buffer.from([8, 0, 0, 0, 0, 0, 0, 0xce]));
  const { write } = stream;
  stream.write = function writeOnceMore(...chunk) {
    stream.write = write;
    write.apply(stream, chunk);
    return write.call(stream, heartbeats);
  };
  await within(connection.close(), 'close-ok');
});

test('a lost socket returns what was unacked and deletes exclusive queues', async (t) => {
  const watcher = await confirmChannel(t);
  const { queue } = await watcher.assertQueue(uniqueName('shared'), { durable: false });
  afterwards(t, (cleaner) => cleaner.deleteQueue(queue));
  for (let i = 0; i < 3; i += 1) watcher.sendToQueue(queue, Buffer.from(String(i)));
  await watcher.waitForConfirms();
  const connection = await connect(t);
  const ch = await channel(t, connection);
  const own = await privateQueue(ch);
  const received = await inbox(ch, queue);
  await received.take(3);
  const closed = nextEvent(connection, 'close');
  connection.connection.stream.destroy(new Error('cut by the test'));
  await closed;
  await until(async () => (await readyCount(watcher, queue)) === 3, 'all are back');
  const message = await watcher.get(queue, { noAck: true });
  assert.equal(message.content.toString(), '0');
  assert.equal(message.fields.redelivered, true);
  await channelClosesWith(watcher, 404, /NOT_FOUND/, () => watcher.checkQueue(own));
});

test("amqplib's own recovery reconnects and consumes again", async (t) => {
  if (packageName === 'amqplib-legacy') {
    t.skip('this amqplib has no recovery');
    return;
  }
  const { queue } = await (await channel(t)).assertQueue(uniqueName('recovering'), { durable: false });
  afterwards(t, (cleaner) => cleaner.deleteQueue(queue));
  const seen = [];
  let lastModel;
  const recovering = await amqplib.connect(url, {
    recovery: {
      initialDelay: 10,
      async setup(model) {
        lastModel = model;
        const ch = await model.createChannel();
        await ch.consume(queue, (message) => seen.push(message.content.toString()), { noAck: true });
      },
    },
  });
  t.after(() => recovering.close());
  recovering.on('error', () => {});
  const publisher = await channel(t);
  publisher.sendToQueue(queue, Buffer.from('before'));
  await until(() => seen.length === 1, 'the first message came');
  const reconnected = nextEvent(recovering, 'connect');
  lastModel.connection.stream.destroy(new Error('cut by the test'));
  await reconnected;
  publisher.sendToQueue(queue, Buffer.from('after'));
  await until(() => seen.length === 2, 'a message came after the reconnect');
  assert.deepEqual(seen, ['before', 'after']);
});

test('the secret of a connection may be updated', async (t) => {
  const connection = await connect(t);
  await within(connection.updateSecret(Buffer.from('new secret'), 'rotation'), 'update-secret-ok');
  await channel(t, connection);
});

test('a request is answered over direct reply-to', async (t) => {
  const connection = await connect(t);
  const server = await channel(t, connection);
  const requests = await privateQueue(server);
  await server.consume(
    requests,
    (request) => {
      const { replyTo, correlationId } = request.properties;
      server.sendToQueue(replyTo, Buffer.from(`${request.content} world`), { correlationId });
    },
    { noAck: true },
  );
  const client = await channel(t);
  const replies = await inbox(client, 'amq.rabbitmq.reply-to', { noAck: true });
  const shared = await channel(t, connection);
  const { queue } = await shared.assertQueue(uniqueName('rpc'), { durable: false, autoDelete: true });
  await shared.consume(queue, (message) => shared.sendToQueue(requests, message.content, message.properties), {
    noAck: true,
  });
  client.sendToQueue(queue, Buffer.from('hello'), {
    replyTo: 'amq.rabbitmq.reply-to',
    correlationId: 'request-1',
  });
  const [reply] = await replies.take();
  assert.equal(reply.content.toString(), 'hello world');
  assert.equal(reply.properties.correlationId, 'request-1');
  assert.equal(reply.fields.exchange, '');
});

test('consuming direct replies with acks is refused with 406', async (t) => {
  const ch = await channel(t);
  await channelClosesWith(ch, 406, /PRECONDITION_FAILED - reply consumer cannot acknowledge/, () =>
    ch.consume('amq.rabbitmq.reply-to', () => {}),
  );
});

test('the callback API publishes, confirms and consumes', async (t) => {
  const call = (target, method, ...args) =>
    within(
      new Promise((resolve, reject) => {
        target[method](...args, (error, answer) => (error ? reject(error) : resolve(answer)));
      }),
      method,
    );
  const connection = await call(callbackApi, 'connect', url, {});
  t.after(() => call(connection, 'close'));
  const ch = await call(connection, 'createConfirmChannel');
  const { queue } = await call(ch, 'assertQueue', '', { exclusive: true });
  await call(ch, 'sendToQueue', queue, Buffer.from('by callback'), {});
  const message = await call(ch, 'get', queue, {});
  assert.equal(message.content.toString(), 'by callback');
  ch.ack(message);
  assert.equal((await call(ch, 'checkQueue', queue)).messageCount, 0);
});
