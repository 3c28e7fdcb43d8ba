// What the numbers of an object say in words. Used by lists and pages; changes nothing.
import { count, duration, rate } from "./format.js";

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
  else if (ready > 0 && consumers === 0) said.push(["warn", queue.type === "stream" ? "It is not read now; a stream keeps what is read." : `It has ${count(ready)} ready messages and no consumer.`]);
  if (consumers > 0 && ready > 0 && unacked > 0 && acked === 0) said.push(["warn", `Its ${consumers} ${consumers === 1 ? "consumer holds" : "consumers hold"} ${count(unacked)} unacknowledged messages and acknowledge none: they are at their prefetch limit, or stuck.`]);
  else if (growth(queue) > 0 && consumers > 0) said.push(["warn", `${rate(published)} come in and ${rate(acked || delivered)} are done with: its consumers are too slow or too few.`]);
  if (typeof queue.consumer_utilisation === "number" && ready > 0 && queue.consumer_utilisation < 0.5 && consumers > 0) said.push(["info", `Consumers could take messages only ${Math.round(queue.consumer_utilisation * 100)} % of the time: raise their prefetch or add more.`]);
  const oldest = oldestUnackedMs(queue);
  if (oldest > 60_000) said.push(["warn", `The oldest unacknowledged message has been out for ${duration(oldest)}.`]);
  if (growth(queue) < 0) said.push(["ok", `It shrinks by ${rate(-growth(queue))}.`]);
  return said;
}

/** Age of the oldest unacknowledged delivery, in ms; 0 if unknown. */
export function oldestUnackedMs(object) {
  const seconds = object.oldest_unacknowledged_age_s;
  if (typeof seconds === "number") return seconds * 1000;
  return 0;
}

/** Why a connection's publishes wait: [[tone, sentence]]. */
export function whyBlocked(connection, node) {
  const said = [];
  const reason = connection.blocked_reason ?? connection.last_blocked_by;
  if (connection.state === "blocked" || connection.state === "blocking" || connection.blocked) {
    if (reason && reason !== "none") said.push(["danger", `Its publishes are blocked: ${reason}.`]);
    else said.push(["danger", connection.state === "blocking" ? "It will be blocked at its next publish." : "Its publishes are blocked."]);
    if (node?.mem_alarm) said.push(["danger", "The memory alarm is on: all publishers wait until consumers have made room."]);
    if (node?.disk_free_alarm) said.push(["danger", "The disk alarm is on: all publishers wait until there is room on the disk."]);
  }
  if (connection.state === "flow") said.push(["warn", reason ? `It is slowed down: ${reason}.` : "It is slowed down: it publishes to a queue that is full and has overflow flow-control, or faster than the broker takes."]);
  return said;
}

export const isBlocked = (connection) => ["blocked", "blocking", "flow"].includes(connection.state) || Boolean(connection.blocked);

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
  if (queue.durable) marks.push(["durable", "survives a restart", "plain"]);
  if (queue.exclusive) marks.push(["exclusive", "belongs to one connection", "plain"]);
  if (queue.auto_delete) marks.push(["auto-delete", "is deleted when its last consumer leaves", "plain"]);
  const known = { "x-max-priority": "priority", "x-qpid-priorities": "priority", "x-message-ttl": "TTL", "x-expires": "lease", "x-max-length": "limit", "x-max-length-bytes": "limit", "x-dead-letter-exchange": "DLX", "x-single-active-consumer": "SAC", "x-sort-key": "sorted", "x-last-value-key": "last value", "x-message-group-key": "groups" };
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
