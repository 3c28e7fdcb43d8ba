// What takes its time: operations on many messages, exports and imports. Each is shown with how far
// it is, and can be stopped; what was done until then stays done.
import { html, observable, useValue } from "../lib/view.js";
import { outcome, perform } from "../lib/operations.js";
import { count } from "../lib/format.js";
import { tell } from "./basics.js";

const running = observable([]);
let number = 0;

const change = (id, values) => running.set(running.get().map((each) => (each.id === id ? { ...each, ...values } : each)));

/**
 * Run `doing({signal, onProgress(text)})` and say how it went; its value, or null if it failed or
 * was stopped. `throws`: an error goes to the caller, which shows it in its form.
 */
export async function work(title, doing, { throws = false } = {}) {
  const aborter = new AbortController();
  const id = ++number;
  running.set([...running.get(), { id, title, text: "", aborter }]);
  try {
    return await doing({ signal: aborter.signal, onProgress: (text) => change(id, { text }) });
  } catch (error) {
    if (error.name === "AbortError") tell(`${title}: stopped. What was done until then stays done.`, "warn");
    else if (throws) throw error;
    else tell(error.message, "danger");
    return null;
  } finally {
    running.set(running.get().filter((each) => each.id !== id));
  }
}

/** An operation of `lib/operations.js`, with its progress. The answer, or null. */
export function operate(title, base, operation, body, verb, options) {
  return work(title, async ({ signal, onProgress }) => {
    const answer = await perform(base, operation, body, { signal, onProgress: (sofar) => onProgress(`${count(sofar[verb] ?? 0)} ${verb}`) });
    tell(outcome(answer, verb), Object.keys(answer.refused ?? {}).length ? "warn" : "ok");
    return answer;
  }, options);
}

export function Work() {
  const list = useValue(running).filter((each) => each.text);
  return html`<div class="works" role="status">${list.map((each) => html`<div key=${each.id} class="toast work"><span class="spinner" aria-hidden="true"></span><span>${each.title}: ${each.text}</span>
    <button type="button" class="small" onClick=${() => each.aborter.abort()}>Stop</button></div>`)}</div>`;
}
