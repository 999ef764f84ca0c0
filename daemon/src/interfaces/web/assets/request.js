// Requests to the daemon with the session of this page. It is in local storage, which no other site and no other port
// of this host can read.

const KEY = "session";

export class Unauthenticated extends Error {}

export const session = {
  known: () => localStorage.getItem(KEY) !== null,
  keep: (value) => localStorage.setItem(KEY, value),
  forget: () => localStorage.removeItem(KEY),
};

export async function request(path, { method = "GET", body, signal } = {}) {
  const headers = { authorization: `Bearer ${localStorage.getItem(KEY) ?? ""}` };
  if (body) headers["content-type"] = "application/json";
  const response = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body) });
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({}));
  if (response.status === 401) throw new Unauthenticated(error);
  throw new Error(error ?? `the daemon answered ${response.status}`);
}

// Yields the data of the server-sent events of a response; null for the event that ends the stream.
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
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
