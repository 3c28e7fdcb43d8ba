// A reporter for `node --test` that writes one JSON object per finished case: name, status
// ('pass', 'fail' or 'skip'), milliseconds, and the text of a failure or the reason of a skip.
// test_node_amqplib.py reads the lines. Suites here are flat: only nesting level 0 counts, and the entry that some Node
// versions add for the file itself is told apart by its name.

import { inspect } from 'node:util';

export default async function* jsonLines(events) {
  for await (const { type, data } of events) {
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const isFileEntry = data.name === data.file || data.name.endsWith('.test.cjs');
    const isPass = type === 'test:pass';
    // A file entry that passes says nothing new; one that fails says that the file did not load.
    if (isFileEntry ? isPass : data.nesting > 0) continue;
    const error = data.details?.error;
    const isSkip = data.skip !== undefined && data.skip !== false;
    const status = isPass ? (isSkip ? 'skip' : 'pass') : 'fail';
    const failure = () => inspect(error?.cause ?? error, { depth: 4 });
    const text = isPass ? (typeof data.skip === 'string' ? data.skip : '') : failure();
    const duration = data.details?.duration_ms ?? 0;
    yield `${JSON.stringify({ name: data.name, status, ms: duration, text })}\n`;
  }
}
