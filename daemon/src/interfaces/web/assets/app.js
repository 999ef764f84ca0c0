// Which page is shown, and what all pages use: asking the daemon, and ending what a page began when it is left.

import { ask, events, session, Stranger } from "./ask.js";
import { compare } from "./compare.js";
import { job } from "./job.js";
import { logIn, strangers } from "./login.js";
import { overview } from "./overview.js";

const RETRY_MS = 3000;

const trouble = document.getElementById("trouble");

function complain(text) {
  trouble.hidden = !text;
  trouble.textContent = text ?? "";
}

// Says what went wrong; who is not known, or not any more, has to log in.
function fail(error) {
  if (error instanceof Stranger) return turnAway();
  complain(error instanceof TypeError ? "the daemon is away; jobs go on" : error.message);
}

function turnAway() {
  current?.leave();
  complain(null);
  strangers(document.getElementById("main"));
}

// What one page is given; `leave` ends its timers and streams.
function open() {
  const endings = [];
  let left = false;
  const page = {
    main: document.getElementById("main"),
    get: async (path) => (await ask(path)).json(),
    post: (path) => ask(path, { method: "POST" }).catch(fail),
    tell(host, user) {
      document.getElementById("host").textContent = host;
      document.getElementById("user").textContent = user;
    },
    // Calls `work` now and then once a period, never twice at a time, and not while nobody looks.
    every(period, work) {
      const turn = async () => {
        if (left) return;
        let pause = period;
        try {
          if (!document.hidden) await work();
          complain(null);
        } catch (error) {
          if (left) return;
          fail(error);
          pause = RETRY_MS;
        }
        setTimeout(turn, pause);
      };
      turn();
    },
    // Calls `take` with each event from a sequence number on until the job has ended; a connection that is lost is
    // made again.
    async stream(path, from, take) {
      const leaving = new AbortController();
      endings.push(() => leaving.abort());
      while (!left) {
        try {
          for await (const event of events(await ask(`${path}?from=${from}`, { signal: leaving.signal }))) {
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
  complain(null);
  document.title = "traind";
  current = open();
  const [kind, argument] = location.hash.replace(/^#\/?/, "").split("/");
  const page = current;
  if (kind === "login" && argument) logIn(argument).catch(fail);
  else if (!session.known()) turnAway();
  else if (kind === "jobs" && argument) job(page, encodeURIComponent(argument));
  else if (kind === "compare" && argument) compare(page, argument.split(",").map(encodeURIComponent)).catch(fail);
  else overview(page);
  window.scrollTo(0, 0);
}

window.addEventListener("hashchange", show);
show();
