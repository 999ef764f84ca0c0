// Which page is shown, and what all pages use: asking the daemon, and ending what a page began when it is left.

import { compare } from "./compare.js";
import { job } from "./job.js";
import { overview } from "./overview.js";

const RETRY_MS = 3000;

const trouble = document.getElementById("trouble");

function complain(text) {
  trouble.hidden = !text;
  trouble.textContent = text ?? "";
}

async function ask(path, options) {
  const answer = await fetch(path, options);
  const body = await answer.json().catch(() => ({}));
  if (answer.status === 401) location.reload();
  if (!answer.ok) throw new Error(body.error ?? `the daemon answered ${answer.status}`);
  return body;
}

// What one page is given; `leave` ends its timers and streams.
function open() {
  const endings = [];
  let left = false;
  const page = {
    main: document.getElementById("main"),
    get: (path) => ask(path),
    post: (path) => ask(path, { method: "POST", headers: { "x-traind-page": "1" } }).catch((error) => complain(error.message)),
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
          complain(error instanceof TypeError ? "the daemon is away; jobs go on" : error.message);
          pause = RETRY_MS;
        }
        setTimeout(turn, pause);
      };
      turn();
    },
    // Calls `take` with each event; the browser connects again by itself until the job has ended.
    stream(path, take) {
      if (left) return;
      const source = new EventSource(path);
      source.onmessage = (message) => take(JSON.parse(message.data));
      source.addEventListener("end", () => source.close());
      endings.push(() => source.close());
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
  current = open();
  const [kind, argument] = location.hash.replace(/^#\/?/, "").split("/");
  const page = current;
  const fail = (error) => complain(error.message);
  if (kind === "jobs" && argument) job(page, encodeURIComponent(argument));
  else if (kind === "compare" && argument) compare(page, argument.split(",").map(encodeURIComponent)).catch(fail);
  else overview(page);
  window.scrollTo(0, 0);
}

window.addEventListener("hashchange", show);
show();
