// What is done with the messages and the state of a queue: one place for paths and bodies.
import { del, patch, post } from "./api.js";
import { path } from "./names.js";

const at = (vhost, name, rest) => path`/queues/${vhost}/${name}` + rest;

/** {messages, position, ready}: messages from the head or the end on, which stay as they are. */
export const browse = (vhost, name, body, signal) => post(at(vhost, name, "/browse"), body, { signal });
export const move = (vhost, name, body) => post(at(vhost, name, "/move"), body);
export const copy = (vhost, name, body) => post(at(vhost, name, "/copy"), body);
export const retry = (vhost, name, body) => post(at(vhost, name, "/retry"), body);
export const remove = (vhost, name, body) => post(at(vhost, name, "/delete"), body);
export const purge = (vhost, name) => del(at(vhost, name, "/contents"));
export const pause = (vhost, name) => post(at(vhost, name, "/pause"));
export const resume = (vhost, name) => post(at(vhost, name, "/resume"));
export const change = (vhost, name, body) => patch(path`/queues/${vhost}/${name}`, body);
export const take = (vhost, name, body) => post(at(vhost, name, "/get"), body);

/** Which messages an operation is for: the chosen ones, those that match, or all. */
export function selection({ offsets, selector }) {
  if (offsets.length) return { offsets };
  return selector ? { selector } : { all: true };
}

/** "3 messages moved. 1 stayed: …" of an answer. */
export function outcome(answer, verb) {
  const done = answer?.[verb];
  if (typeof done !== "number") return `Messages ${verb}.`;
  const refused = Object.values(answer.refused ?? {}).map((each) => ` ${each.count} stayed: ${each.reason}.`).join("");
  const gone = answer.left ? ` ${answer.left} had gone before.` : "";
  return `${done} ${done === 1 ? "message" : "messages"} ${verb}.${refused}${gone}`;
}
