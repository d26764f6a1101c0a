// The server as the engine: it continues texts and answers messages, and this reads its streams.

class Server {
  constructor() {
    this.key = ""; // kept in the memory of the page alone
  }

  // Send a request; return the reply. An error is a sentence for the reader of the page.
  async call(path, body, signal) {
    if (!/^[ -~]*$/.test(this.key)) throw new Error("The API key is wrong: a key has only characters of ASCII.");
    const headers = this.key ? { Authorization: `Bearer ${this.key}` } : {};
    const request = { headers, signal, cache: "no-store" };
    if (body) {
      headers["Content-Type"] = "application/json";
      Object.assign(request, { method: "POST", body: JSON.stringify(body) });
    }
    const reply = await fetch(path, request).catch((error) => {
      throw error.name === "AbortError" ? error : new Error("The server does not answer. Is it still running?");
    });
    if (!reply.ok) throw new Error(await this.sentence(reply));
    return reply;
  }

  async sentence(reply) {
    if (reply.status === 401) {
      $("lock").hidden = false;
      return this.key ? "The API key is wrong." : "The API key is missing: enter it above.";
    }
    const { error } = await reply.json().catch(() => ({}));
    if (reply.status === 429) return `The server is busy: ${error?.message ?? "try again"}.`;
    return error ? `The server refused: ${error.message}.` : `The server failed with status ${reply.status}.`;
  }

  // Return the names of the models.
  async models() {
    const { data } = await (await this.call("/v1/models")).json();
    return data.map((each) => each.id);
  }

  // Return the number of tokens of a prompt, with those before it, or of messages, the most that a text may have, how
  // many may follow, the names of the special tokens, and whether the model converses.
  async measure(model, content, signal) {
    const found = await (await this.call("/tokenize", { model, ...content }, signal)).json();
    const count = found.count + found.beginning, most = found.max_model_len;
    return { ...found, count, most, room: Math.min(most - count, found.max_tokens ?? Infinity) };
  }

  // Yield the events of a stream.
  async *events(path, body, signal) {
    const reply = await this.call(path, { ...body, stream: true }, signal);
    let unread = "";
    for await (const text of textsOf(reply.body)) {
      const lines = (unread + text).split("\n\n");
      unread = lines.pop();
      for (const line of lines) {
        const data = line.replace("data: ", "");
        if (data === "[DONE]") return;
        const event = JSON.parse(data);
        if (event.error) throw new Error(`The server stopped: ${event.error.message}.`);
        signal.throwIfAborted();
        yield event;
      }
    }
    throw new Error(LOST);
  }

  // Yield the parts of a text: its new characters and tokens, and at the end the reason.
  async *complete(body, signal) {
    let isFirst = body.echo;
    for await (const { choices: [choice] } of this.events("/v1/completions", { ...body, logprobs: SHOWN }, signal)) {
      const { tokens, token_logprobs: chances, top_logprobs: others } = choice.logprobs;
      const known = tokens.map((token, n) => ({
        bytes: bytesOf(token),
        chance: chances[n],
        rivals: Object.entries(others[n] ?? {}).map(([token, chance]) => ({ bytes: bytesOf(token), chance })),
      }));
      // A tokenizer with byte fallback puts a space before each text, which is no part of it.
      if (isFirst && spacesOf(piecesOf(known).join("")) > spacesOf(choice.text)) known[0].bytes.shift();
      isFirst = false;
      yield { text: choice.text, tokens: known, ended: choice.finish_reason };
    }
  }

  // Yield the parts of the text of an answer.
  async *answer(body, signal) {
    for await (const event of this.events("/v1/chat/completions", body, signal)) yield event.choices[0].delta.content;
  }
}

const SHOWN = 10; // rivals of a token
const LOST = "The connection to the server was lost.";

// Return the number of spaces at the beginning of a text.
const spacesOf = (text) => text.length - text.replace(/^ +/, "").length;

// Yield the texts of a stream of bytes.
async function* textsOf(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  const read = () => reader.read().catch((error) => {
    throw error.name === "AbortError" ? error : new Error(LOST); // the words of the browser for it vary
  });
  for (let part = await read(); !part.done; part = await read()) yield part.value;
}

// Return the bytes of a token as a completion shows it: its text, or bytes that are no character, as in bytes:\xe2\x82.
function bytesOf(token) {
  if (!/^bytes:(\\x[0-9a-f]{2})+$/.test(token)) return [...new TextEncoder().encode(token)];
  return token.slice("bytes:".length).split("\\x").slice(1).map((digits) => parseInt(digits, 16));
}

// Return the texts of tokens as a text field holds them; the last byte of a character brings its text.
function piecesOf(tokens) {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const decoded = (bytes) => decoder.decode(new Uint8Array(bytes), { stream: true });
  return tokens.map(({ bytes }) => decoded(bytes).replaceAll("\r", ""));
}
