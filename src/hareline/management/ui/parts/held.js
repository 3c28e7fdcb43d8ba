// Messages that wait for their time: held by a queue, or delayed by an exchange.
import { html, useState } from "../lib/view.js";
import { usePoll } from "../lib/poll.js";
import { count, duration, moment, plural } from "../lib/format.js";
import { Badge, Card, DocLink, Empty, Waiting, confirm } from "./basics.js";
import { MessageRow } from "./messages.js";
import { operate } from "./work.js";

const PAGE = 25;

/** `base`: the path in the API; `page`: of the documentation. */
export function HeldMessages({ base, title, intro, page, onChanged }) {
  const [trail, setTrail] = useState([null]);
  const [chosen, setChosen] = useState(new Set());
  const position = trail[trail.length - 1];
  const poll = usePoll(base, { query: { count: PAGE, position } });
  const answer = poll.data;
  const items = answer?.messages ?? [];
  // a firing gives a schedule another offset, so its id says which is meant
  const keyOf = (message) => message.schedule ? `schedule ${message.schedule.id}` : message.offset;
  const body = (keys) => ({ offsets: keys.filter((key) => typeof key === "number"), schedules: keys.filter((key) => typeof key === "string").map((key) => key.slice("schedule ".length)) });
  // those that have become due meanwhile are no longer here to be chosen
  const marked = [...chosen];
  const what = marked.length ? plural(marked.length, "message") : "all of them";
  async function run(operation, verb) {
    if (operation === "cancel" && !(await confirm({ title: "Cancel messages", text: `Delete ${what}? They are gone for good, and are not dead-lettered.`, action: "Delete" }))) return;
    const done = await operate(operation === "fire" ? "Fire now" : "Cancel", base, operation, marked.length ? body(marked) : { all: true }, verb);
    if (done) {
      setChosen(new Set());
      setTrail([null]);
      poll.reload();
      onChanged?.();
    }
  }
  const choose = (key, isOn) => setChosen(new Set(isOn ? [...chosen, key] : [...chosen].filter((each) => each !== key)));
  return html`<${Card} title=${title}><p class="muted">${intro} <${DocLink} page=${page}>More about it<//></p>
    ${!answer ? html`<${Waiting} poll=${poll} what="messages" />` : !items.length ? html`<${Empty} title="No message waits for its time" />` : html`
      <div class="bar" role="group" aria-label=${`With ${what}`}><span class="muted">With ${what}:</span>
        <button type="button" class="small" onClick=${() => run("fire", "fired")}>Fire now</button>
        <button type="button" class="small danger" onClick=${() => run("cancel", "cancelled")}>Cancel …</button>
        ${marked.length > 0 && html`<button type="button" class="small" onClick=${() => setChosen(new Set())}>Choose none</button>`}</div>
      <div class="messages" role="list" aria-label="Messages that wait">${items.map((message) => html`<div role="listitem" key=${keyOf(message)}><${MessageRow} message=${message} isChosen=${chosen.has(keyOf(message))} onChoose=${(isOn) => choose(keyOf(message), isOn)} badge=${message.schedule && html`<${Badge} tone="info" title="sent again and again">repeats<//>`} facts=${scheduleFacts(message.schedule)} /></div>`)}</div>
      <nav class="pages" aria-label="Pages of messages"><span>${plural(answer.held, "message")} in all, the first to be due first</span><span class="pages-buttons">
        <button type="button" class="small" disabled=${trail.length < 2} onClick=${() => setTrail(trail.slice(0, -1))}>‹ Back</button>
        <button type="button" class="small" disabled=${answer.position === null} onClick=${() => setTrail([...trail, answer.position])}>More ›</button></span></nav>`}
  <//>`;
}

const scheduleFacts = (schedule) => !schedule ? [] : [["Schedule", schedule.id], ["At the times of", schedule.cron ? `${schedule.cron} (UTC)` : undefined], ["Repeated", schedule.period_ms ? `${schedule.repeat < 0 ? "for ever" : plural(schedule.repeat, "more time")}, each ${duration(schedule.period_ms)}` : undefined], ["Sent so far", plural(schedule.fired, "time")], ["Next times", schedule.next_ms.map(moment).join(", ")]];

export const heldCount = (queue) => (queue.messages_held > 0 ? count(queue.messages_held) : undefined);
