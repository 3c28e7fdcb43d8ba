// What is done with the messages and the state of a queue: one place for paths and bodies.
import { ApiError, del, download, lines, patch, post, upload } from "./api.js";
import { count } from "./format.js";
import { path } from "./names.js";

const at = (vhost, name, rest) => path`/queues/${vhost}/${name}` + rest;

/** {messages, position, ready}: messages from the head or the end on, which stay as they are. */
export const browse = (vhost, name, body, signal) => post(at(vhost, name, "/browse"), body, { signal });
export const purge = (vhost, name) => del(at(vhost, name, "/contents"));
export const pause = (vhost, name) => post(at(vhost, name, "/pause"));
export const resume = (vhost, name) => post(at(vhost, name, "/resume"));
export const change = (vhost, name, body) => patch(path`/queues/${vhost}/${name}`, body);
export const take = (vhost, name, body) => post(at(vhost, name, "/get"), body);
/** `groups`: their names; null: all. */
export const resetGroups = (vhost, name, groups) => post(at(vhost, name, "/groups/reset"), { groups });
export const forgetReader = (vhost, name, reader) => del(path`/stream/${vhost}/${name}/readers/${reader}`);

/**
 * move, copy, delete, purge or retry, and held/cancel and held/fire of `base`, the path of a queue
 * or of delayed messages. The answer says what was done; `onProgress` what is done so far.
 */
export async function perform(base, operation, body, { onProgress, signal } = {}) {
  let last = null;
  for await (const line of lines(`${base}/${operation}`, body, { signal, query: { progress: true } })) {
    if (line.error) throw new ApiError(0, line.error, line.reason, line);
    last = line;
    if (!line.complete) onProgress?.(line);
  }
  if (!last?.complete) throw new ApiError(0, "cut_off", "The answer was cut off, so it is not known how much was done.");
  return last;
}

export const queuePath = (vhost, name) => at(vhost, name, "");

/** The messages as a Blob, in the format of an import. Raises ApiError if the file is cut off. */
export async function exported(vhost, name, body, { signal, onProgress } = {}) {
  const response = await download(at(vhost, name, "/export"), { method: "POST", body, signal });
  let octets = 0;
  const counted = response.body.pipeThrough(new TransformStream({
    transform(chunk, controller) {
      octets += chunk.byteLength;
      onProgress?.(octets);
      controller.enqueue(chunk);
    },
  }));
  const file = await new Response(counted).blob();
  const end = (await file.slice(-300).text()).trimEnd().split("\n").pop();
  let said = null;
  try {
    said = JSON.parse(end);
  } catch {
    // half a line
  }
  if (said?.end !== true) throw new ApiError(0, "cut_off", "The export was cut off. Nothing was saved; try again.");
  return { file, messages: said.messages, unreadable: said.unreadable };
}

export const imported = (vhost, name, file, { signal } = {}) => upload(at(vhost, name, "/import"), file, { signal });

/** Which messages an operation is for: the chosen ones, those that match, or all. */
export function selection({ offsets, selector }) {
  if (offsets.length) return { offsets };
  return selector ? { selector } : { all: true };
}

const quoted = (text) => `'${text.replaceAll("'", "''")}'`;

/** The selector of what died first in this queue for this reason. */
export const diedIn = (queue, reason) => `"x-first-death-queue" = ${quoted(queue)} AND "x-first-death-reason" = ${quoted(reason)}`;

const things = (number) => `${count(number)} ${number === 1 ? "message" : "messages"}`;

/** "3 messages moved. 1 stayed: …" of an answer. */
export function outcome(answer, verb) {
  const done = answer?.[verb];
  if (typeof done !== "number") return `Messages ${verb}.`;
  const refused = Object.values(answer.refused ?? {}).map((each) => ` ${count(each.count)} stayed: ${each.reason}.`).join("");
  const gone = answer.left ? ` ${count(answer.left)} had gone before.` : "";
  return `${things(done)} ${verb}.${refused}${gone}`;
}
