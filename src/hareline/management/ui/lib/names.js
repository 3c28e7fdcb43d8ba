// Names of queues and exchanges are octets that clients choose. An address may have octets beyond
// UTF-8, which are lone surrogates here (U+DC80 to U+DCFF); encodeURIComponent refuses these. The
// server gives such a name as "Not UTF-8, base64 is: ...", and takes it so in a path.

/** One segment of a path or of the hash. */
export function encode(name) {
  const text = String(name);
  try {
    return encodeURIComponent(text).replaceAll("'", "%27");
  } catch {
    let out = "";
    for (const symbol of text) {
      const code = symbol.codePointAt(0);
      if (code >= 0xdc80 && code <= 0xdcff) out += `%${(code - 0xdc00).toString(16).toUpperCase()}`;
      else if (code >= 0xd800 && code <= 0xdfff) out += "%EF%BF%BD";
      else out += encodeURIComponent(symbol);
    }
    return out;
  }
}

/** The opposite of encode. */
export function decode(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment.replace(/(%[0-9a-fA-F]{2})+/g, (run) => {
      try {
        return decodeURIComponent(run);
      } catch {
        return run.replace(/%([0-9a-fA-F]{2})/g, (_, hex) => {
          const octet = Number.parseInt(hex, 16);
          return String.fromCharCode(octet < 0x80 ? octet : 0xdc00 + octet);
        });
      }
    });
  }
}

/** A path of encoded names: path`/queues/${vhost}/${name}`. */
export function path(texts, ...names) {
  return texts.reduce((out, text, place) => out + encode(names[place - 1]) + text);
}

/** How a name is shown: control characters and surrogates become visible. */
export function shown(name) {
  if (name === "" || name === undefined || name === null) return "";
  return String(name).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/g,
    (symbol) => `\\u${symbol.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .replace(/[\udc80-\udcff]/g, (symbol, place, text) => {
      const before = text.charCodeAt(place - 1);
      if (before >= 0xd800 && before <= 0xdbff) return symbol;
      return `\\x${(symbol.charCodeAt(0) - 0xdc00).toString(16)}`;
    });
}

export const exchangeName = (name) => (name ? shown(name) : "(default)");
