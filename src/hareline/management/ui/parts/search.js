// Search across everything: the server looks through all names, pages are found here.
import { html, useEffect, useId, useRef, useState } from "../lib/view.js";
import { get } from "../lib/api.js";
import { has } from "../lib/session.js";
import { go } from "../lib/router.js";
import { exchangeName, shown } from "../lib/names.js";
import { Dialog } from "./basics.js";

const PAGES = [
  ["Overview", ["overview"]], ["Queues", ["queues"]], ["Exchanges", ["exchanges"]], ["Streams", ["streams"]], ["Dead letters by reason", ["dead-letters"]],
  ["Connections", ["connections"]], ["Channels", ["channels"]], ["Consumers", ["consumers"]], ["Route tester", ["route-tester"]], ["Near a limit", ["near-limits"]],
  ["What changed today", ["changes"]], ["Virtual hosts", ["vhosts"]], ["Users", ["users"], "administrator"], ["Policies", ["policies"]],
  ["Definitions", ["definitions"], "administrator"], ["Queues that grow", ["queues"], null, { sort: "messages_details.rate", reverse: "1" }],
  ["Queue arguments explained", ["docs", "queue-arguments"]], ["Documentation", ["docs"]],
];

/** What a hit of the server leads to. */
const PLACES = {
  queue: (hit) => ["queues", hit.vhost, hit.name],
  stream: (hit) => ["queues", hit.vhost, hit.name],
  exchange: (hit) => ["exchanges", hit.vhost, hit.name],
  connection: (hit) => ["connections", hit.name],
  binding: (hit) => ["exchanges", hit.vhost, hit.note],
  channel: (hit) => ["channels", hit.name],
  consumer: (hit) => ["queues", hit.vhost, hit.note],
  vhost: (hit) => ["vhosts", hit.name],
  user: (hit) => ["users", hit.name],
  policy: () => ["policies"],
};

export function Search({ onClose }) {
  const [text, setText] = useState("");
  const [hits, setHits] = useState([]);
  const [state, setState] = useState("");
  const [chosen, setChosen] = useState(0);
  const id = useId("search");
  const list = useRef(null);

  useEffect(() => {
    const wanted = text.trim();
    setChosen(0);
    if (!wanted) {
      setHits([]);
      setState("");
      return undefined;
    }
    const aborter = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const answer = await get("/hareline/search", { q: wanted, limit: 40 }, aborter.signal);
        setHits(answer.items);
        setState(answer.is_complete === false ? "There are more: type more of the name." : "");
      } catch (error) {
        if (error.name !== "AbortError") {
          setHits([]);
          setState(error.message);
        }
      }
    }, 120);
    return () => {
      clearTimeout(timer);
      aborter.abort();
    };
  }, [text]);

  const needle = text.trim().toLowerCase();
  const pages = PAGES.filter(([label, , tag]) => (!tag || has(tag)) && label.toLowerCase().includes(needle))
    .map(([label, segments, , params]) => ({ kind: "page", label, segments, params }));
  const found = hits.filter((hit) => PLACES[hit.kind]).map((hit) => ({
    kind: hit.kind, label: hit.kind === "exchange" ? exchangeName(hit.name) : shown(hit.name), where: [["consumer", "binding"].includes(hit.kind) ? `of ${shown(hit.note)}` : ["connection", "channel"].includes(hit.kind) ? shown(hit.note) : "", hit.vhost ? shown(hit.vhost) : ""].filter(Boolean).join(" · "), note: hit.note, segments: PLACES[hit.kind](hit), params: hit.kind === "consumer" ? { tab: "consumers" } : hit.kind === "binding" ? { tab: "bindings" } : undefined,
  }));
  const all = needle ? [...found, ...pages] : pages;
  const open = (hit) => {
    onClose();
    go(hit.segments, hit.params);
  };
  function onKeyDown(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && all.length) {
      event.preventDefault();
      const next = (chosen + step + all.length) % all.length;
      setChosen(next);
      list.current?.children[next]?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter" && all[chosen]) {
      event.preventDefault();
      open(all[chosen]);
    }
  }
  return html`<${Dialog} title="Search" onClose=${onClose} wide>
    <div class="palette">
      <input type="text" role="combobox" aria-label="Search queues, exchanges, routing keys, connections, addresses, channels, consumers, policies, users and pages" aria-expanded="true" aria-autocomplete="list" aria-controls=${id} autofocus
        aria-activedescendant=${all.length ? `${id}-${chosen}` : undefined} placeholder="Name, address, user, page …" value=${text} autocomplete="off" spellcheck="false"
        onInput=${(event) => setText(event.target.value)} onKeyDown=${onKeyDown} />
      <ul class="results" id=${id} role="listbox" aria-label="Results" ref=${list}>${all.map((hit, place) => html`<li key=${`${hit.kind} ${hit.where ?? ""} ${hit.label} ${place}`} id=${`${id}-${place}`} role="option" aria-selected=${place === chosen ? "true" : "false"}
        onMouseMove=${() => setChosen(place)} onClick=${() => open(hit)}><span class="what">${hit.kind}</span><span>${hit.label}</span><span class="where">${hit.where ?? ""}</span></li>`)}</ul>
      <p class="muted" role="status">${state || (needle && !all.length ? "Nothing has this in its name." : needle ? "" : "↑ ↓ to move, Enter to open, Escape to close")}</p>
    </div>
  <//>`;
}
