// The page: login, navigation, search, shortcuts, and the view that the address names.
import { html, render, useEffect, useRef, useState, useValue } from "./lib/view.js";
import { end, has, session } from "./lib/session.js";
import { go, href, named, route } from "./lib/router.js";
import { freshness, usePoll } from "./lib/poll.js";
import { REFRESH, refresh, theme, vhost } from "./lib/prefs.js";
import { shown } from "./lib/names.js";
import { Confirmation, Dialog, Empty, Select, Toasts } from "./parts/basics.js";
import { Search } from "./parts/search.js";
import { Work } from "./parts/work.js";
import { ICONS } from "./parts/icons.js";
import { Login } from "./pages/login.js";
import { Overview } from "./pages/overview.js";
import { Queues } from "./pages/queues.js";
import { QueuePage } from "./pages/queue.js";
import { Exchanges, ExchangePage } from "./pages/exchanges.js";
import { RouteTester } from "./pages/route_tester.js";
import { Connections, ConnectionPage } from "./pages/connections.js";
import { Channels, ChannelPage } from "./pages/channels.js";
import { Consumers } from "./pages/consumers.js";
import { Streams } from "./pages/streams.js";
import { DeadLetters } from "./pages/dead_letters.js";
import { NearLimits } from "./pages/near_limits.js";
import { Changes } from "./pages/changes.js";
import { VirtualHosts, VirtualHostPage } from "./pages/vhosts.js";
import { Users, UserPage } from "./pages/users.js";
import { Policies } from "./pages/policies.js";
import { Definitions } from "./pages/definitions.js";
import { DocIndex, DocPage } from "./pages/docs.js";

/** Segment of the address -> [list, page of one object by its names, how many names]. */
const VIEWS = {
  overview: [Overview],
  queues: [Queues, (names) => html`<${QueuePage} vhost=${names[0]} name=${names[1]} />`, 2],
  exchanges: [Exchanges, (names) => html`<${ExchangePage} vhost=${names[0]} name=${names[1]} />`, 2],
  streams: [Streams],
  "dead-letters": [DeadLetters],
  connections: [Connections, (names) => html`<${ConnectionPage} name=${names[0]} />`, 1],
  channels: [Channels, (names) => html`<${ChannelPage} name=${names[0]} />`, 1],
  consumers: [Consumers],
  "route-tester": [RouteTester],
  "near-limits": [NearLimits],
  changes: [Changes],
  vhosts: [VirtualHosts, (names) => html`<${VirtualHostPage} name=${names[0]} />`, 1],
  users: [Users, (names) => html`<${UserPage} name=${names[0]} />`, 1],
  policies: [Policies],
  definitions: [Definitions],
  docs: [DocIndex, (names) => html`<${DocPage} name=${names[0]} />`, 1],
};

/** [heading, [[segment, label, tag that is needed, key after g]]] */
const NAVIGATION = [
  ["", [["overview", "Overview", "management", "o"]]],
  ["Messages", [["queues", "Queues", "management", "q"], ["exchanges", "Exchanges", "management", "e"], ["streams", "Streams", "management", "s"], ["dead-letters", "Dead letters", "management", "d"]]],
  ["Clients", [["connections", "Connections", "management", "c"], ["channels", "Channels", "management", "h"], ["consumers", "Consumers", "management", "n"]]],
  ["Find out", [["route-tester", "Route tester", "management", "r"], ["near-limits", "Near a limit", "management", "l"], ["changes", "What changed", "management", "t"], ["docs", "Documentation", "management", "m"]]],
  ["Administration", [["policies", "Policies", "management", "p"], ["vhosts", "Virtual hosts", "management", "v"], ["users", "Users", "administrator", "u"], ["definitions", "Definitions", "administrator", "f"]]],
];

function View() {
  const { segments } = useValue(route);
  const main = useRef(null);
  const [first = "overview", ...rest] = segments;
  const view = VIEWS[first];
  const names = rest.map(named);
  const address = [first, ...rest].join("/");
  const isFirst = useRef(true);
  useEffect(() => {
    if (isFirst.current) {
      isFirst.current = false;
      return;
    }
    scrollTo(0, 0);
    main.current?.querySelector("h1")?.focus();
  }, [address]);
  let inner;
  if (view && rest.length === 0) inner = html`<${view[0]} />`;
  else if (view?.[1] && rest.length === view[2]) inner = view[1](names);
  else inner = html`<${Empty} title="There is no such page"><a href=${href(["overview"])}>Go to the overview</a><//>`;
  return html`<main id="main" ref=${main} key=${address}>${inner}</main>`;
}

function Side({ isOpen, onClose }) {
  const { segments } = useValue(route);
  const current = segments[0] ?? "overview";
  return html`<nav class=${`side ${isOpen ? "open" : ""}`} aria-label="Main" onClick=${(event) => event.target.closest("a") && onClose()}>
    <a class="brand" href=${href(["overview"])}><img src="ui/icon.svg" alt="" />Hareline</a>
    ${NAVIGATION.map(([heading, entries]) => {
      const allowed = entries.filter(([, , tag]) => has(tag));
      if (!allowed.length) return null;
      return html`<div key=${heading}>${heading && html`<h2>${heading}</h2>`}<ul>${allowed.map(([segment, label]) => html`<li key=${segment}><a href=${href([segment])} aria-current=${segment === current ? "page" : undefined}>
        <svg viewBox="0 0 20 20" aria-hidden="true"><path d=${ICONS[segment]}/></svg>${label}</a></li>`)}</ul></div>`;
    })}
    <div class="side-foot"><${VhostChoice} /><${Choices} /></div>
  </nav>`;
}

/** How often views are refreshed, and the colours. */
function Choices() {
  const chosenTheme = useValue(theme);
  const chosenRefresh = useValue(refresh);
  return html`<${Select} label="Refresh" value=${chosenRefresh} onChange=${(next) => refresh.set(next)} options=${REFRESH} />
    <${Select} label="Colours" value=${chosenTheme} onChange=${(next) => theme.set(next)} options=${[["auto", "System colours"], ["light", "Light"], ["dark", "Dark"]]} />`;
}

function VhostChoice() {
  const chosen = useValue(vhost);
  const { data } = usePoll("/vhosts", { every: 30_000, query: { columns: "name" } });
  const names = (Array.isArray(data) ? data : data?.items ?? []).map((each) => each.name);
  useEffect(() => {
    if (data && chosen && !names.includes(chosen)) vhost.set("");
  }, [data]);
  if (names.length < 2) return null;
  return html`<${Select} label="Virtual host" value=${chosen} onChange=${(next) => vhost.set(next)} options=${[["", "All virtual hosts"], ...names.map((name) => [name, shown(name)])]} />`;
}

function Freshness() {
  const { at, error } = useValue(freshness);
  const every = useValue(refresh);
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((number) => number + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  const late = Math.round((Date.now() - at) / 1000);
  const text = error ? (error.status ? "last request failed" : "broker does not answer") : every === "0" ? "paused" : "live";
  return html`<span class="status hide-small" title=${at ? `Last answer ${late} s ago` : ""}><span class=${`dot ${error ? "danger" : every === "0" ? "plain" : ""}`} aria-hidden="true"></span>${text}</span>`;
}

function Top({ onSearch, onMenu }) {
  const who = useValue(session);
  return html`<header class="top">
    <button type="button" class="icon menu-button" aria-label="Open the menu" onClick=${onMenu}>☰</button>
    <button type="button" class="searcher" onClick=${onSearch} aria-keyshortcuts="Control+K /"><span>Search everything</span><kbd>Ctrl K</kbd></button>
    <span class="spacer"></span><${Freshness} />
    <span class="hide-small choices"><${VhostChoice} /><${Choices} /></span>
    <button type="button" class="small" onClick=${() => end()} title=${`Logged in as ${who.name} (${who.tags.join(", ")})`}>Log out<span class="hide-small muted">${shown(who.name)}</span></button>
  </header>`;
}

const SHORTCUTS = [["Ctrl K or /", "search everything"], ["?", "this list"], ["↑ ↓ or j k", "move in a list; Enter opens"], ["[ and ]", "previous and next page of a list"],
  ...NAVIGATION.flatMap(([, entries]) => entries.map(([, label, , key]) => [`g ${key}`, label]))];

function Shortcuts({ onClose }) {
  return html`<${Dialog} title="Keyboard" onClose=${onClose}><table><tbody>${SHORTCUTS.map(([keys, text]) => html`<tr key=${keys}><th scope="row"><kbd>${keys}</kbd></th><td>${text}</td></tr>`)}</tbody></table><//>`;
}

function useShortcuts({ onSearch, onHelp }) {
  const before = useRef("");
  useEffect(() => {
    function onKeyDown(event) {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        onSearch();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.matches?.("input, select, textarea, [contenteditable]") || document.querySelector("dialog[open]")) return;
      const key = event.key;
      if (key === "/") {
        event.preventDefault();
        onSearch();
      } else if (key === "?") onHelp();
      else if (before.current === "g") {
        const entry = NAVIGATION.flatMap(([, entries]) => entries).find(([, , tag, letter]) => letter === key && has(tag));
        if (entry) go([entry[0]]);
      } else if (key === "[" || key === "]") document.querySelector(`button[data-key="${key}"]`)?.click();
      before.current = key;
    }
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);
}

function Shell() {
  const [isSearching, setSearching] = useState(false);
  const [isHelping, setHelping] = useState(false);
  const [isMenuOpen, setMenuOpen] = useState(false);
  useShortcuts({ onSearch: () => setSearching(true), onHelp: () => setHelping(true) });
  useEffect(() => {
    if (!isMenuOpen) return undefined;
    const close = (event) => {
      if (event.type === "keydown" ? event.key === "Escape" : !event.target.closest(".side, .menu-button")) setMenuOpen(false);
    };
    addEventListener("keydown", close);
    addEventListener("click", close);
    return () => {
      removeEventListener("keydown", close);
      removeEventListener("click", close);
    };
  }, [isMenuOpen]);
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector("main h1")?.focus(); }}>Skip to the content</a>
    <div class="shell"><${Side} isOpen=${isMenuOpen} onClose=${() => setMenuOpen(false)} />
      <div><${Top} onSearch=${() => setSearching(true)} onMenu=${() => setMenuOpen(!isMenuOpen)} /><${View} /></div></div>
    ${isSearching && html`<${Search} onClose=${() => setSearching(false)} />`}
    ${isHelping && html`<${Shortcuts} onClose=${() => setHelping(false)} />`}
    <${Confirmation} /><${Work} /><${Toasts} />`;
}

function App() {
  const who = useValue(session);
  return who ? html`<${Shell} />` : html`<${Login} />`;
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
