// Small pieces that all pages use.
import { html, useEffect, useId, useRef, useState, observable, useValue } from "../lib/view.js";
import { href, route, setParams } from "../lib/router.js";
import { exchangeName, shown } from "../lib/names.js";

export const Badge = ({ tone = "plain", title, children }) => html`<span class=${`badge ${tone}`} title=${title}>${children}</span>`;

export function Card({ title, actions, children, class: extra = "", wide = false }) {
  const id = useId("card");
  return html`<section class=${`card ${extra} ${wide ? "wide" : ""}`} aria-labelledby=${title ? id : undefined}>
    ${title && html`<header class="card-head"><h2 id=${id}>${title}</h2>${actions && html`<div class="actions">${actions}</div>`}</header>`}
    ${children}
  </section>`;
}

export function PageHead({ title, kind, badges, actions, intro }) {
  return html`<header class="page-head">
    <div class="page-title">${kind && html`<p class="kind">${kind}</p>`}<h1 tabindex="-1">${title}</h1>${badges && html`<div class="badges">${badges}</div>`}</div>
    ${actions && html`<div class="actions">${actions}</div>`}
    ${intro && html`<p class="intro">${intro}</p>`}
  </header>`;
}

export const Notice = ({ tone = "info", title, children }) => html`<div class=${`notice ${tone}`} role=${tone === "danger" ? "alert" : "status"}>
  ${title && html`<strong>${title}</strong>`}<div>${children}</div></div>`;

export const Empty = ({ title, children }) => html`<div class="empty"><p class="empty-title">${title}</p>${children}</div>`;

/** What is shown while nothing is there yet, or nothing comes. */
export function Waiting({ poll, what }) {
  if (poll.error) return html`<${Failure} error=${poll.error} what=${what} onRetry=${poll.reload} />`;
  return html`<p class="waiting" role="status"><span class="spinner" aria-hidden="true"></span> Loading ${what} …</p>`;
}

export function Failure({ error, what, onRetry }) {
  const title = error.status === 404 ? `There is no such ${what}`
    : error.status === 401 || error.status === 403 ? `You may not see this ${what}` : `This ${what} cannot be shown`;
  return html`<div class="notice danger" role="alert"><strong>${title}</strong><div>${error.message}</div>
    ${onRetry && html`<button type="button" onClick=${onRetry}>Try again</button>`}</div>`;
}

/** A name that leads to its page. */
export const QueueLink = ({ vhost, name, tab }) => html`<a class="name" title=${name?.length > 60 ? shown(name) : undefined} href=${href(["queues", vhost, name], { tab })}>${shown(name)}</a>`;
export const ExchangeLink = ({ vhost, name }) => html`<a class="name" href=${href(["exchanges", vhost, name])}>${exchangeName(name)}</a>`;
export const ConnectionLink = ({ name }) => html`<a href=${href(["connections", name])}>${shown(name)}</a>`;
export const ChannelLink = ({ name }) => html`<a href=${href(["channels", name])}>${shown(name)}</a>`;

export function Facts({ items }) {
  return html`<dl class="facts">${items.filter((item) => item && item[1] !== undefined && item[1] !== null && item[1] !== "")
    .map(([label, value, title]) => html`<div key=${label}><dt title=${title}>${label}</dt><dd>${value}</dd></div>`)}</dl>`;
}

export function Tile({ label, value, note, to, tone = "" }) {
  const inner = html`<span class="tile-label">${label}</span><span class="tile-value">${value}</span><span class="tile-note">${note ?? "\u00a0"}</span>`;
  return to ? html`<a class=${`tile ${tone}`} href=${to}>${inner}</a>` : html`<div class=${`tile ${tone}`}>${inner}</div>`;
}

export function Meter({ value, limit, label }) {
  const part = limit > 0 ? Math.min(1, Math.max(0, value / limit)) : 0;
  const tone = part >= 0.95 ? "danger" : part >= 0.8 ? "warn" : "ok";
  return html`<div class=${`meter ${tone}`} role="meter" aria-label=${label} aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(part * 100)}>
    <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect class="meter-back" width="100" height="6" rx="3"/><rect class="meter-fill" width=${part * 100} height="6" rx="3"/></svg></div>`;
}

/** Tabs whose choice is in the address (`?tab=`). `tabs`: [id, label, view, count]. */
export function Tabs({ tabs, label }) {
  const { params } = useValue(route);
  const list = useRef(null);
  const shownTabs = tabs.filter(Boolean);
  const current = shownTabs.find(([id]) => id === params.tab) ?? shownTabs[0];
  const base = useId("tab");
  function onKeyDown(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const place = shownTabs.indexOf(current);
    const next = event.key === "Home" ? 0 : event.key === "End" ? shownTabs.length - 1 : step ? (place + step + shownTabs.length) % shownTabs.length : -1;
    if (next < 0) return;
    event.preventDefault();
    setParams({ tab: shownTabs[next][0] });
    list.current.children[next].focus();
  }
  return html`<div class="tabs" role="tablist" aria-label=${label} ref=${list} onKeyDown=${onKeyDown}>
      ${shownTabs.map(([id, text, , number]) => html`<button key=${id} type="button" role="tab" id=${`${base}-${id}`} aria-controls=${`${base}-panel`}
        aria-selected=${id === current[0] ? "true" : "false"} tabindex=${id === current[0] ? 0 : -1} onClick=${() => setParams({ tab: id })}>
        ${text}${number !== undefined && html` <span class="tab-count">${number}</span>`}</button>`)}
    </div>
    <div class="tab-panel" role="tabpanel" id=${`${base}-panel`} aria-labelledby=${`${base}-${current[0]}`} tabindex="0" key=${current[0]}>${current[2]()}</div>`;
}

/** A dialog of the browser: it keeps the focus, Escape closes it. */
export function Dialog({ title, onClose, children, wide = false }) {
  const element = useRef(null);
  const id = useId("dialog");
  useEffect(() => {
    const dialog = element.current;
    dialog.showModal();
    return () => dialog.open && dialog.close();
  }, []);
  return html`<dialog ref=${element} class=${wide ? "wide" : ""} aria-labelledby=${id} onClose=${onClose}
      onMouseDown=${(event) => event.target === element.current && element.current.close()}>
    <div class="dialog-body"><header class="dialog-head"><h2 id=${id}>${title}</h2>
      <button type="button" class="icon" aria-label="Close" onClick=${() => element.current.close()}>✕</button></header>${children}</div>
  </dialog>`;
}

// ------------------------------------------------------------------ what the page tells the user

const toasts = observable([]);
let toastNumber = 0;

export function tell(text, tone = "ok") {
  const toast = { id: ++toastNumber, text, tone };
  toasts.set([...toasts.get().slice(-3), toast]);
  setTimeout(() => dismiss(toast.id), tone === "danger" ? 12_000 : 5_000);
}

const dismiss = (id) => toasts.set(toasts.get().filter((each) => each.id !== id));

export function Toasts() {
  const list = useValue(toasts);
  return html`<div class="toasts" role="status" aria-live="polite">${list.map((toast) => html`<div key=${toast.id} class=${`toast ${toast.tone}`}>
    <span>${toast.text}</span><button type="button" class="icon" aria-label="Dismiss" onClick=${() => dismiss(toast.id)}>✕</button></div>`)}</div>`;
}

/** Run a change and say how it went. True if it succeeded. */
export async function attempt(doing, success) {
  try {
    const result = await doing();
    const text = typeof success === "function" ? success(result) : success;
    if (text) tell(text);
    return true;
  } catch (error) {
    tell(error.message, "danger");
    return false;
  }
}

const question = observable(null);

/** Ask before something that cannot be undone. `phrase`: what must be typed first. */
export function confirm({ title, text, action, phrase }) {
  return new Promise((resolve) => question.set({ title, text, action, phrase, resolve }));
}

export function Confirmation() {
  const asked = useValue(question);
  const [typed, setTyped] = useState("");
  useEffect(() => setTyped(""), [asked]);
  if (!asked) return null;
  const answer = (value) => {
    question.set(null);
    asked.resolve(value);
  };
  const isReady = !asked.phrase || typed === asked.phrase;
  return html`<${Dialog} title=${asked.title} onClose=${() => answer(false)}>
    <form onSubmit=${(event) => { event.preventDefault(); if (isReady) answer(true); }}>
      <p>${asked.text}</p>
      ${asked.phrase && html`<label class="field"><span>Type <code>${shown(asked.phrase)}</code> to confirm</span>
        <input value=${typed} onInput=${(event) => setTyped(event.target.value)} autocomplete="off" /></label>`}
      <div class="dialog-actions"><button type="button" autofocus=${!asked.phrase} onClick=${() => answer(false)}>Cancel</button>
        <button type="submit" class="danger" disabled=${!isReady}>${asked.action}</button></div>
    </form>
  <//>`;
}

/** A form in which fields are labelled, and the first error is said aloud. */
export function Form({ onSubmit, submit, children, error, busy, secondary, isDanger = false }) {
  return html`<form class="form" onSubmit=${(event) => { event.preventDefault(); onSubmit(event); }}>
    ${children}
    ${error && html`<div class="notice danger" role="alert">${error}</div>`}
    <div class="form-actions">${secondary}<button type="submit" class=${isDanger ? "danger" : "primary"} disabled=${Boolean(busy)}>${busy === true ? "Working …" : submit}</button></div>
  </form>`;
}

export function Field({ label, hint, children, class: extra = "" }) {
  return html`<label class=${`field ${extra}`}><span class="field-label">${label}</span>${children}${hint && html`<span class="hint">${hint}</span>`}</label>`;
}

export const Check = ({ label, checked, onChange, hint }) => html`<label class="check"><input type="checkbox" checked=${checked}
  onChange=${(event) => onChange(event.target.checked)} /><span>${label}${hint && html`<span class="hint">${hint}</span>`}</span></label>`;

export const Select = ({ value, onChange, options, label, ...rest }) => html`<select value=${value} aria-label=${label} onChange=${(event) => onChange(event.target.value)} ...${rest}>
  ${options.map((option) => { const [id, text] = Array.isArray(option) ? option : [option, option]; return html`<option key=${id} value=${id} selected=${id === value}>${text}</option>`; })}</select>`;

export function Copy({ text, label = "Copy" }) {
  return html`<button type="button" class="small" onClick=${() => attempt(() => navigator.clipboard.writeText(text), "Copied")}>${label}</button>`;
}

/** A link to a page of the documentation that the broker serves. */
export function DocLink({ page, children = "documentation" }) {
  const [name, anchor] = page.split("#");
  return html`<a class="doc" href=${href(["docs", name], { at: anchor })}>${children}</a>`;
}
