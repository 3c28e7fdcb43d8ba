// Who is logged in. The credentials live in this tab only (sessionStorage), never in a cookie, so
// no other site can use them; each request carries them because this page puts them there.
import { observable } from "./view.js";

const KEY = "hareline.session";

function stored() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "null");
  } catch {
    return null;
  }
}

/** null, or {name, tags, authorization}. */
export const session = observable(stored());
/** Why the login page is shown, unless it is the first page of a visit. */
export const loginReason = observable("");

export function authorizationOf(name, password) {
  const octets = new TextEncoder().encode(`${name}:${password}`);
  let text = "";
  for (const octet of octets) text += String.fromCharCode(octet);
  return `Basic ${btoa(text)}`;
}

export function begin(name, tags, authorization) {
  const value = { name, tags, authorization };
  try {
    sessionStorage.setItem(KEY, JSON.stringify(value));
  } catch {
    // storage is switched off: the session ends when the page is loaded again
  }
  loginReason.set("");
  session.set(value);
}

export function end(reason = "") {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // nothing was stored
  }
  loginReason.set(reason);
  session.set(null);
}

const IMPLIED = {
  administrator: ["administrator", "monitoring", "policymaker", "management"],
  monitoring: ["monitoring", "management"],
  policymaker: ["policymaker", "management"],
  management: ["management"],
};

/** True if the user's tags allow what needs this tag. */
export function has(tag) {
  const tags = session.get()?.tags ?? [];
  return tags.some((each) => IMPLIED[each]?.includes(tag));
}
