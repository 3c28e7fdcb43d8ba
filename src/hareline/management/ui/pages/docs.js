// A page of the documentation, as the broker ships it. The Markdown becomes nodes, never markup.
import { html, useEffect, useTitle, useValue } from "../lib/view.js";
import { usePoll } from "../lib/poll.js";
import { path } from "../lib/names.js";
import { href, route } from "../lib/router.js";
import { Waiting } from "../parts/basics.js";
import { blocksOf, spansOf } from "../lib/markdown.js";

function linkOf(target) {
  if (/^https?:/.test(target)) return { href: target, rel: "noopener noreferrer", target: "_blank" };
  const found = /^(?:\.\/)?([a-z0-9-]*)(?:\.md)?(?:#([\w-]*))?$/.exec(target);
  if (!found) return null;
  return { page: found[1], anchor: found[2] };
}

function Spans({ text, page }) {
  return spansOf(text).map((span, place) => {
    if (span.kind === "code") return html`<code key=${place}>${span.text}</code>`;
    if (span.kind === "strong") return html`<strong key=${place}><${Spans} text=${span.text} page=${page} /></strong>`;
    if (span.kind === "link") {
      const link = linkOf(span.target);
      if (link === null) return html`<${Spans} key=${place} text=${span.text} page=${page} />`;
      if (link.href) return html`<a key=${place} ...${link}>${span.text}</a>`;
      return html`<a key=${place} href=${href(["docs", link.page || page], { at: link.anchor })}><${Spans} text=${span.text} page=${page} /></a>`;
    }
    return span.text;
  });
}

function Block({ block, page, place }) {
  const inner = (text) => html`<${Spans} text=${text} page=${page} />`;
  if (block.kind === "heading") return block.level === 1 ? html`<h1 tabindex="-1" id=${`doc-${block.anchor}`}>${inner(block.text)}</h1>` : block.level === 2 ? html`<h2 id=${`doc-${block.anchor}`}>${inner(block.text)}</h2>` : html`<h3 id=${`doc-${block.anchor}`}>${inner(block.text)}</h3>`;
  if (block.kind === "code") return html`<pre tabindex="0"><code>${block.text}</code></pre>`;
  if (block.kind === "list") return block.isOrdered ? html`<ol>${block.items.map((item, place) => html`<li key=${place}>${inner(item)}</li>`)}</ol>` : html`<ul>${block.items.map((item, place) => html`<li key=${place}>${inner(item)}</li>`)}</ul>`;
  if (block.kind === "table") return html`<div class="table-box" role="region" aria-label=${`Table ${place}`} tabindex="0"><table><thead><tr>${block.head.map((cell, place) => html`<th key=${place} scope="col">${inner(cell)}</th>`)}</tr></thead><tbody>${block.rows.map((row, place) => html`<tr key=${place}>${row.map((cell, column) => html`<td key=${column} data-label=${block.head[column]}>${inner(cell)}</td>`)}</tr>`)}</tbody></table></div>`;
  return html`<p>${inner(block.text)}</p>`;
}

export function DocPage({ name }) {
  useTitle("Documentation");
  const { params } = useValue(route);
  const poll = usePoll(path`/hareline/docs/${name}`, { every: 0 });
  useEffect(() => {
    if (poll.data && params.at) document.getElementById(`doc-${params.at}`)?.scrollIntoView();
  }, [poll.data, params.at]);
  if (!poll.data) return html`<h1 class="away">Documentation</h1><${Waiting} poll=${poll} what="page" />`;
  return html`<article class="doc-page card">${blocksOf(poll.data.text).map((block, place) => html`<${Block} key=${place} block=${block} page=${name} place=${place} />`)}</article>`;
}
