// Requests to the daemon, each with the session that this page was given. It is kept where no other site, and no other
// port of this host, can read it.

const KEY = "session";

export class Stranger extends Error {}

export const session = {
  known: () => localStorage.getItem(KEY) !== null,
  keep: (value) => localStorage.setItem(KEY, value),
  forget: () => localStorage.removeItem(KEY),
};

export async function ask(path, { method = "GET", body, signal } = {}) {
  const headers = { authorization: `Bearer ${localStorage.getItem(KEY) ?? ""}` };
  if (body) headers["content-type"] = "application/json";
  const answer = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body) });
  if (answer.ok) return answer;
  const { error } = await answer.json().catch(() => ({}));
  if (answer.status === 401) throw new Stranger(error);
  throw new Error(error ?? `the daemon answered ${answer.status}`);
}

// The data of the server-sent events of an answer, as they come; null for the one that says that no more will come.
export async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (text + value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      if (lines.includes("event: end")) yield null;
      else yield* lines.filter((line) => line.startsWith("data: ")).map((line) => JSON.parse(line.slice(6)));
    }
  }
}
