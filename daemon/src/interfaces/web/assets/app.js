// Routing, and what all pages share: requests to the daemon, and ending timers and streams when a page is closed.

import { events, request, session, Unauthenticated } from "./request.js";
import { compare } from "./compare.js";
import { job } from "./job.js";
import { logIn, showLogin } from "./login.js";
import { overview } from "./overview.js";
import { plan } from "./plan.js";

const RETRY_MS = 3000;

const banner = document.getElementById("error");

function showError(text) {
  banner.hidden = !text;
  banner.textContent = text ?? "";
}

// Shows an error; a missing or expired session requires a new login.
function fail(error) {
  if (error instanceof Unauthenticated) return requireLogin();
  showError(error instanceof TypeError ? "the daemon is away; jobs keep running" : error.message);
}

function requireLogin() {
  current?.leave();
  showError(null);
  showLogin(document.getElementById("main"));
}

// Creates the context of a page; `leave` ends its timers and streams.
function open() {
  const endings = [];
  let left = false;
  const page = {
    main: document.getElementById("main"),
    get: async (path) => (await request(path)).json(),
    post: (path) => request(path, { method: "POST" }).catch(fail),
    ask: async (path, body) => (await request(path, { method: "POST", body })).json(),
    setHeader(host, user) {
      document.getElementById("host").textContent = host;
      document.getElementById("user").textContent = user;
    },
    // Calls `work` now and then once per period, never concurrently, and not while the page is hidden.
    every(period, work) {
      const turn = async () => {
        if (left) return;
        let pause = period;
        try {
          if (!document.hidden) await work();
          showError(null);
        } catch (error) {
          if (left) return;
          fail(error);
          pause = RETRY_MS;
        }
        setTimeout(turn, pause);
      };
      turn();
    },
    // Calls `take` with each event from a sequence number on until the job has ended; reconnects when the connection
    // is lost.
    async stream(path, from, take) {
      const leaving = new AbortController();
      endings.push(() => leaving.abort());
      while (!left) {
        try {
          for await (const event of events(await request(`${path}?from=${from}`, { signal: leaving.signal }))) {
            if (!event || left) return;
            take(event);
            from = event.sequence + 1;
          }
        } catch (error) {
          if (left) return;
          fail(error);
        }
        await new Promise((wake) => { setTimeout(wake, RETRY_MS); });
      }
    },
    onResize(draw) {
      const observer = new ResizeObserver(draw);
      observer.observe(page.main);
      endings.push(() => observer.disconnect());
    },
    leave() {
      left = true;
      endings.forEach((end) => end());
    },
  };
  return page;
}

let current = null;

function show() {
  current?.leave();
  showError(null);
  document.title = "traind";
  current = open();
  const [kind, argument] = location.hash.replace(/^#\/?/, "").split("/");
  const page = current;
  if (kind === "login" && argument) logIn(argument).catch(fail);
  else if (!session.known()) requireLogin();
  else if (kind === "jobs" && argument) job(page, encodeURIComponent(argument));
  else if (kind === "compare" && argument) compare(page, argument.split(",").map(encodeURIComponent)).catch(fail);
  else if (kind === "plan") plan(page, argument && encodeURIComponent(argument)).catch(fail);
  else overview(page);
  window.scrollTo(0, 0);
}

window.addEventListener("hashchange", show);
show();
