// What the numbers of an object say in words. Used by lists and pages; changes nothing.
import { count, duration, plural, rate } from "./format.js";

const rateOf = (stats, name) => stats?.[`${name}_details`]?.rate ?? 0;

export const inRate = (queue) => rateOf(queue.message_stats, "publish");
export const outRate = (queue) => rateOf(queue.message_stats, "deliver_get") || rateOf(queue.message_stats, "deliver") + rateOf(queue.message_stats, "deliver_no_ack") + rateOf(queue.message_stats, "get") + rateOf(queue.message_stats, "get_no_ack");
export const ackRate = (queue) => rateOf(queue.message_stats, "ack") + rateOf(queue.message_stats, "deliver_no_ack") + rateOf(queue.message_stats, "get_no_ack");
export const growth = (queue) => queue.messages_details?.rate ?? 0;
export const statRate = rateOf;

/** Why this queue grows or stands still, most important first: [[tone, sentence]]. */
export function whyDeep(queue) {
  const said = [];
  const published = inRate(queue);
  const delivered = outRate(queue);
  const acked = ackRate(queue);
  const ready = queue.messages_ready ?? 0;
  const unacked = queue.messages_unacknowledged ?? 0;
  const consumers = queue.consumers ?? 0;
  if (queue.paused || queue.state === "paused") said.push(["warn", "It is paused, so nothing is delivered."]);
  if (growth(queue) > 0 && consumers === 0) said.push([queue.type === "stream" ? "info" : "warn", queue.type === "stream" ? `${rate(published)} come in; a stream keeps them.` : `It has no consumer: ${rate(published)} come in and nothing takes them out.`]);
  else if (ready > 0 && consumers === 0) said.push(["warn", queue.type === "stream" ? "It is not read now; a stream keeps what is read." : `It has ${plural(ready, "ready message")} and no consumer.`]);
  if (consumers > 0 && ready > 0 && unacked > 0 && acked === 0) said.push(["warn", consumers === 1 ? `Its consumer holds ${plural(unacked, "unacknowledged message")} and acknowledges none: it is at its prefetch limit, or stuck.` : `Its ${count(consumers)} consumers hold ${plural(unacked, "unacknowledged message")} and acknowledge none: they are at their prefetch limit, or stuck.`]);
  else if (growth(queue) > 0 && consumers > 0) said.push(["warn", `${rate(published)} come in and ${rate(acked || delivered)} are done with: its consumers are too slow or too few.`]);
  if (typeof queue.consumer_utilisation === "number" && ready > 0 && queue.consumer_utilisation < 0.5 && consumers > 0) said.push(["info", `Consumers could take messages only ${Math.round(queue.consumer_utilisation * 100)} % of the time: raise their prefetch or add more.`]);
  const oldest = oldestUnackedMs(queue);
  if (oldest > 60_000) said.push(["warn", `The oldest unacknowledged message has been out for ${duration(oldest)}${heldBy(queue.oldest_unacknowledged_by)}.`]);
  if (growth(queue) < 0) said.push(["ok", `It shrinks by ${rate(-growth(queue))}.`]);
  return said;
}

/** Age of the oldest unacknowledged delivery, in ms; 0 if unknown. */
export function oldestUnackedMs(object) {
  const seconds = object.oldest_unacknowledged_age_s;
  if (typeof seconds === "number") return seconds * 1000;
  return 0;
}

const heldBy = (of) => (of ? `, with ${of.consumer_tag ? `consumer ${of.consumer_tag}` : "a basic.get or a consumer that is gone"}${of.user ? ` of ${of.user}` : ""}` : "");

const ALARMS = { memory: "The memory alarm is on: all publishers wait until consumers have made room.", disk: "The disk alarm is on: all publishers wait until there is room on the disk." };
const HINTS = { queue: "Consume from the queue, or raise its limit." };

/**
 * Why a connection or a channel waits: [{tone, text, queue: {vhost, name} or null, sinceMs}].
 * `node`: for alarms, where the broker's answer has no reasons.
 */
export function whyBlocked(object, node) {
  if (!isBlocked(object)) return [];
  const said = (object.blocked_by ?? []).map((each) => ({
    tone: ["memory", "disk"].includes(each.reason) ? "danger" : "warn",
    text: [sentence(each.text), ALARMS[each.reason] ?? HINTS[each.reason]].filter(Boolean).join(" "),
    queue: each.queue ? { vhost: each.vhost, name: each.queue } : null,
    sinceMs: each.since_ms ?? null,
  }));
  if (said.length) return said;
  const text = object.blocked_reason ? sentence(object.blocked_reason)
    : object.state === "flow" ? "It is slowed down: it publishes to a queue that is full and has overflow flow-control, or faster than the broker takes."
      : object.state === "blocking" ? "It will be blocked at its next publish." : "Its publishes are blocked.";
  const alarms = [node?.mem_alarm && ALARMS.memory, node?.disk_free_alarm && ALARMS.disk].filter(Boolean);
  return [{ tone: alarms.length ? "danger" : "warn", text: [text, ...alarms].join(" "), queue: null, sinceMs: object.blocked_since_ms ?? null }];
}

function sentence(text) {
  const trimmed = String(text ?? "").trim();
  if (!trimmed) return "";
  return `${trimmed[0].toUpperCase()}${trimmed.slice(1)}${/[.!?]$/.test(trimmed) ? "" : "."}`;
}

export const isBlocked = (object) => ["blocked", "blocking", "flow"].includes(object.state) || Boolean(object.blocked_reason) || (object.blocked_by ?? []).length > 0;

/** Tone of a state word. */
export function tone(state) {
  if (["running", "up", "idle", "ok"].includes(state)) return "ok";
  if (["flow", "blocking", "paused", "starting", "waiting"].includes(state)) return "warn";
  if (["blocked", "down", "crashed", "closing", "failed", "stopped"].includes(state)) return "danger";
  return "plain";
}

/** "flow" and "D" and the like of a queue, as [short, title, tone]. */
export function features(queue) {
  const marks = [];
  if (queue.type && queue.type !== "classic") marks.push([queue.type, `x-queue-type: ${queue.type}`, "accent"]);
  if (!queue.durable) marks.push(["transient", "is gone after a restart", "plain"]);
  if (queue.exclusive) marks.push(["exclusive", "belongs to one connection", "plain"]);
  if (queue.auto_delete) marks.push(["auto-delete", "is deleted when its last consumer leaves", "plain"]);
  const known = { "x-max-priority": "priority", "x-qpid-priorities": "priority", "x-message-ttl": "TTL", "x-expires": "lease", "x-max-length": "limit", "x-max-length-bytes": "limit", "x-dead-letter-exchange": "DLX", "x-single-active-consumer": "SAC", "x-sort-key": "sorted", "x-last-value-key": "last value", "x-message-group-key": "groups", "x-message-group-type": "groups", "x-hold-on-publish": "holds" };
  const seen = new Set();
  for (const name of Object.keys(queue.arguments ?? {})) {
    if (known[name] && !seen.has(known[name])) {
      seen.add(known[name]);
      marks.push([known[name], `${name}: ${JSON.stringify(queue.arguments[name])}`, "plain"]);
    }
  }
  if (queue.policy) marks.push(["policy", `policy ${queue.policy}`, "info"]);
  return marks;
}
