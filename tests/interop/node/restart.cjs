// Lives through a restart of the broker with amqplib's own recovery. test_node_amqplib.py reads the
// lines it prints: READY when it consumes, then DISCONNECTED with the reason, then DONE once a
// message published after the restart has been consumed.

'use strict';

const { amqplib, uniqueName, url } = require('./support.cjs');

const queue = uniqueName('restarted');
let announced = false;

async function consumeAndPublish(model) {
  const ch = await model.createConfirmChannel();
  ch.on('error', () => {}); // the restart takes the channel along; 'disconnect' tells why
  await ch.assertQueue(queue, { exclusive: true });
  const consumed = new Promise((resolve) => {
    ch.consume(queue, resolve, { noAck: true });
  });
  ch.sendToQueue(queue, Buffer.from('x'));
  await ch.waitForConfirms();
  await consumed;
}

async function main() {
  const connection = await amqplib.connect(url, { recovery: { initialDelay: 20, maxDelay: 100, setup: consumeAndPublish } });
  connection.on('error', () => {});
  connection.on('disconnect', (error) => console.log(`DISCONNECTED ${error?.message}`));
  connection.on('connect', async () => {
    if (!announced) return;
    console.log('DONE');
    await connection.close();
  });
  announced = true;
  console.log('READY');
}

main();
