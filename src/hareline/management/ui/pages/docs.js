// The documentation, as the broker ships it. The Markdown becomes nodes, never markup. Links to
// what an installation does not have (pages for developers, pictures) are shown as text.
import { html, useEffect, useState, useTitle, useValue } from "../lib/view.js";
import { usePoll } from "../lib/poll.js";
import { path } from "../lib/names.js";
import { href, route } from "../lib/router.js";
import { Card, Field, PageHead, Waiting } from "../parts/basics.js";
import { blocksOf, spansOf } from "../lib/markdown.js";

function linkOf(target, known) {
  if (/^https?:/.test(target)) return { href: target, rel: "noopener noreferrer", target: "_blank" };
  const found = /^(?:\.\/)?([a-z0-9-]*)(?:\.md)?(?:#([\w-]*))?$/.exec(target);
  if (!found || (found[1] && !known.has(found[1]))) return null;
  return { page: found[1], anchor: found[2] };
}

function Spans({ text, page, known }) {
  return spansOf(text).map((span, place) => {
    if (span.kind === "code") return html`<code key=${place}>${span.text}</code>`;
    if (span.kind === "strong") return html`<strong key=${place}><${Spans} text=${span.text} page=${page} known=${known} /></strong>`;
    if (span.kind === "image") return null;
    if (span.kind === "link") {
      const link = linkOf(span.target, known);
      if (link === null) return html`<${Spans} key=${place} text=${span.text} page=${page} known=${known} />`;
      if (link.href) return html`<a key=${place} ...${link}>${span.text}</a>`;
      return html`<a key=${place} href=${href(["docs", link.page || page], { at: link.anchor })}><${Spans} text=${span.text} page=${page} known=${known} /></a>`;
    }
    return span.text;
  });
}

function Block({ block, page, known, place }) {
  const inner = (text) => html`<${Spans} text=${text} page=${page} known=${known} />`;
  if (block.kind === "heading") return block.level === 1 ? html`<h1 tabindex="-1" id=${`doc-${block.anchor}`}>${inner(block.text)}</h1>` : block.level === 2 ? html`<h2 id=${`doc-${block.anchor}`}>${inner(block.text)}</h2>` : html`<h3 id=${`doc-${block.anchor}`}>${inner(block.text)}</h3>`;
  if (block.kind === "code") return html`<pre tabindex="0"><code>${block.text}</code></pre>`;
  if (block.kind === "list") return block.isOrdered ? html`<ol>${block.items.map((item, place) => html`<li key=${place}>${inner(item)}</li>`)}</ol>` : html`<ul>${block.items.map((item, place) => html`<li key=${place}>${inner(item)}</li>`)}</ul>`;
  if (block.kind === "table") return html`<div class="table-box" role="region" aria-label=${`Table ${place}`} tabindex="0"><table><thead><tr>${block.head.map((cell, place) => html`<th key=${place} scope="col">${inner(cell)}</th>`)}</tr></thead><tbody>${block.rows.map((row, place) => html`<tr key=${place}>${row.map((cell, column) => html`<td key=${column} data-label=${block.head[column]}>${inner(cell)}</td>`)}</tr>`)}</tbody></table></div>`;
  return html`<p>${inner(block.text)}</p>`;
}

/** Names of the pages that there are, or null until they are known. */
function usePages() {
  return usePoll("/hareline/docs", { every: 0 });
}

export function DocPage({ name }) {
  const { params } = useValue(route);
  const poll = usePoll(path`/hareline/docs/${name}`, { every: 0 });
  const list = usePages();
  const items = list.data?.items ?? [];
  const title = items.find((each) => each.name === name)?.title ?? "Documentation";
  useTitle(title);
  const isThere = Boolean(poll.data && list.data);
  useEffect(() => {
    if (isThere && params.at) document.getElementById(`doc-${params.at}`)?.scrollIntoView();
  }, [isThere, params.at]);
  if (!isThere) return html`<h1 class="away">Documentation</h1><${Waiting} poll=${poll.error ? poll : list} what="page" />`;
  const known = new Set(items.map((each) => each.name));
  return html`<nav class="crumbs" aria-label="Where this is"><a href=${href(["docs"])}>Documentation</a> <span aria-hidden="true">›</span> ${title}</nav>
    <article class="doc-page card">${blocksOf(poll.data.text).map((block, place) => html`<${Block} key=${place} block=${block} page=${name} known=${known} place=${place} />`)}</article>`;
}

const START = ["queue-arguments", "queue-types", "exchanges", "consumers", "dead-letters", "administration", "operations", "configuration"];

export function DocIndex() {
  useTitle("Documentation");
  const [wanted, setWanted] = useState("");
  const poll = usePages();
  if (!poll.data) return html`<${PageHead} title="Documentation" /><${Waiting} poll=${poll} what="list of pages" />`;
  const needle = wanted.trim().toLowerCase();
  const found = poll.data.items.filter((each) => `${each.title} ${each.name}`.toLowerCase().includes(needle));
  const link = (each) => html`<li key=${each.name}><a href=${href(["docs", each.name])}>${each.title}</a></li>`;
  const start = START.map((name) => poll.data.items.find((each) => each.name === name)).filter(Boolean);
  return html`<${PageHead} title="Documentation" intro="Of this version, from the broker itself: nothing is fetched from elsewhere." />
    ${start.length > 0 && html`<${Card} title="To begin with"><ul class="pages-list">${start.map(link)}</ul><//>`}
    <${Card} title="All pages"><${Field} label="Find a page"><input type="search" value=${wanted} onInput=${(event) => setWanted(event.target.value)} /><//>
      ${found.length ? html`<ul class="pages-list">${found.map(link)}</ul>` : html`<p class="muted">No page has this in its title.</p>`}<//>`;
}
