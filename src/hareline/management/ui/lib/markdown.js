// The part of Markdown that the project's own documentation uses, as data: blocks, and spans of a line.

export const anchorOf = (text) => text.toLowerCase().replace(/[`*]/g, "").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/[^\p{L}\p{N}\s_-]/gu, "").trim().replace(/\s/g, "-");

const cellsOf = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));

/** [{kind: heading|code|list|table|text, ...}] */
export function blocksOf(markdown) {
  const lines = markdown.replaceAll("\r", "").split("\n");
  const blocks = [];
  let place = 0;
  while (place < lines.length) {
    const line = lines[place];
    const heading = /^(#{1,6}) (.*)$/.exec(line);
    const item = /^(\s*)([-*]|\d+\.) (.*)$/.exec(line);
    if (!line.trim() || /^<!--/.test(line)) place += 1;
    else if (/^```/.test(line)) {
      const end = lines.findIndex((each, number) => number > place && /^```/.test(each));
      blocks.push({ kind: "code", text: lines.slice(place + 1, end === -1 ? undefined : end).join("\n") });
      place = end === -1 ? lines.length : end + 1;
    } else if (heading) {
      blocks.push({ kind: "heading", level: heading[1].length, text: heading[2], anchor: anchorOf(heading[2]) });
      place += 1;
    } else if (line.startsWith("|") && /^\|[\s:|-]+\|?$/.test(lines[place + 1] ?? "")) {
      const head = cellsOf(line);
      const rows = [];
      for (place += 2; lines[place]?.startsWith("|"); place += 1) rows.push(cellsOf(lines[place]));
      blocks.push({ kind: "table", head, rows });
    } else if (item) {
      const items = [];
      const isOrdered = /\d/.test(item[2]);
      while (place < lines.length && lines[place].trim()) {
        const next = /^(\s*)([-*]|\d+\.) (.*)$/.exec(lines[place]);
        if (next) items.push(next[3]);
        else items[items.length - 1] += ` ${lines[place].trim()}`;
        place += 1;
      }
      blocks.push({ kind: "list", isOrdered, items });
    } else {
      const text = [];
      while (place < lines.length && lines[place].trim() && !/^(#{1,6} |```|\||[-*] )/.test(lines[place])) text.push(lines[place++].trim());
      if (!text.length) text.push(lines[place++].trim());
      blocks.push({ kind: "text", text: text.join(" ") });
    }
  }
  return blocks;
}

/** [{kind: text|code|strong|link|image, text, target?}] */
export function spansOf(text) {
  const spans = [];
  const pattern = /(`+)(.+?)\1(?!`)|\*\*(.+?)\*\*|(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)/g;
  let before = 0;
  for (const found of text.matchAll(pattern)) {
    if (found.index > before) spans.push({ kind: "text", text: text.slice(before, found.index) });
    if (found[2] !== undefined) spans.push({ kind: "code", text: found[2].trim() });
    else if (found[3] !== undefined) spans.push({ kind: "strong", text: found[3] });
    else spans.push({ kind: found[4] ? "image" : "link", text: found[5], target: found[6] });
    before = found.index + found[0].length;
  }
  if (before < text.length) spans.push({ kind: "text", text: text.slice(before) });
  return spans;
}
