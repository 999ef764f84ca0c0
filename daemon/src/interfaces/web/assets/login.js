// Who has no session is told how to get one; the address that `traind web` prints leads here with a key for one.

import { ask, session } from "./ask.js";
import { el } from "./dom.js";

export async function logIn(key) {
  const { session: given } = await (await ask("/api/login", { method: "POST", body: { key } })).json();
  session.keep(given);
  // The key is spent; it need not stand in the history either.
  location.replace("#/");
}

export function strangers(main) {
  session.forget();
  main.replaceChildren(el("div", { class: "narrow" },
    el("h1", {}, "Who is there?"),
    el("p", {}, "On the host of the daemon, run"),
    el("pre", {}, "traind web"),
    el("p", {}, "and open the address that it prints. It works once and within a minute; this browser then sees and does what you may see and do.")));
}
