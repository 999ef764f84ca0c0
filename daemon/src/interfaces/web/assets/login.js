// Login: the URL that `traind web` prints contains a key for a session.

import { request, session } from "./request.js";
import { el } from "./dom.js";

export async function logIn(key) {
  const { session: given } = await (await request("/api/login", { method: "POST", body: { key } })).json();
  session.keep(given);
  // The key is used up; remove it from the history.
  location.replace("#/");
}

export function showLogin(main) {
  session.forget();
  main.replaceChildren(el("div", { class: "narrow" },
    el("h1", {}, "Log in"),
    el("p", {}, "On the host of the daemon, run"),
    el("pre", {}, "traind web"),
    el("p", {}, "and open the URL that it prints. It works once, within a minute, and logs this browser in as you.")));
}
