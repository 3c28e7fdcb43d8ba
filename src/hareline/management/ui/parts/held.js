// Messages that wait for their time: held by a queue, or delayed by an exchange.
import { html, useState } from "../lib/view.js";
import { usePoll } from "../lib/poll.js";
import { count, plural } from "../lib/format.js";
import { Card, DocLink, Empty, Waiting, confirm } from "./basics.js";
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
  // those that have become due meanwhile are no longer here to be chosen
  const marked = [...chosen];
  const what = marked.length ? plural(marked.length, "message") : "all of them";
  async function run(operation, verb) {
    if (operation === "cancel" && !(await confirm({ title: "Cancel messages", text: `Delete ${what}? They are gone for good, and are not dead-lettered.`, action: "Delete" }))) return;
    const done = await operate(operation === "fire" ? "Fire now" : "Cancel", base, operation, marked.length ? { offsets: marked } : { all: true }, verb);
    if (done) {
      setChosen(new Set());
      setTrail([null]);
      poll.reload();
      onChanged?.();
    }
  }
  const choose = (offset, isOn) => setChosen(new Set(isOn ? [...chosen, offset] : [...chosen].filter((each) => each !== offset)));
  return html`<${Card} title=${title}><p class="muted">${intro} <${DocLink} page=${page}>More about it<//></p>
    ${!answer ? html`<${Waiting} poll=${poll} what="messages" />` : !items.length ? html`<${Empty} title="No message waits for its time" />` : html`
      <div class="bar" role="group" aria-label=${`With ${what}`}><span class="muted">With ${what}:</span>
        <button type="button" class="small" onClick=${() => run("fire", "fired")}>Fire now</button>
        <button type="button" class="small danger" onClick=${() => run("cancel", "cancelled")}>Cancel …</button>
        ${marked.length > 0 && html`<button type="button" class="small" onClick=${() => setChosen(new Set())}>Choose none</button>`}</div>
      <div class="messages" role="list" aria-label="Messages that wait">${items.map((message) => html`<div role="listitem" key=${message.offset}><${MessageRow} message=${message} isChosen=${chosen.has(message.offset)} onChoose=${(isOn) => choose(message.offset, isOn)} /></div>`)}</div>
      <nav class="pages" aria-label="Pages of messages"><span>${plural(answer.held, "message")} in all, the first to be due first</span><span class="pages-buttons">
        <button type="button" class="small" disabled=${trail.length < 2} onClick=${() => setTrail(trail.slice(0, -1))}>‹ Back</button>
        <button type="button" class="small" disabled=${answer.position === null} onClick=${() => setTrail([...trail, answer.position])}>More ›</button></span></nav>`}
  <//>`;
}

export const heldCount = (queue) => (queue.messages_held > 0 ? count(queue.messages_held) : undefined);
