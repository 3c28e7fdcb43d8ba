// What this browser remembers: colours, how often views are refreshed, the chosen virtual host.
import { observable } from "./view.js";

function remembered(name, fallback, allowed) {
  let value = null;
  try {
    value = localStorage.getItem(`hareline.${name}`);
  } catch {
    // storage is switched off
  }
  if (value === null || (allowed && !allowed.includes(value))) value = fallback;
  const box = observable(value);
  box.watch((next) => {
    try {
      if (next === fallback) localStorage.removeItem(`hareline.${name}`);
      else localStorage.setItem(`hareline.${name}`, next);
    } catch {
      // only for this page, then
    }
  });
  return box;
}

export const theme = remembered("theme", "auto", ["auto", "light", "dark"]);
theme.watch((value) => {
  if (value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = value;
});

export const REFRESH = [["2000", "every 2 s"], ["5000", "every 5 s"], ["15000", "every 15 s"], ["60000", "every minute"], ["0", "paused"]];
export const refresh = remembered("refresh", "5000", REFRESH.map(([ms]) => ms));
/** The virtual host that lists are limited to; "" for all. */
export const vhost = remembered("vhost", "");
