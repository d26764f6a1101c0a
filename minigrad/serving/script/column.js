// A column: a model, its settings, and a text or a conversation that it writes.

class Column {
  constructor(number, server, changed) {
    Object.assign(this, { suffix: `-${number}`, server, changed });
    this.tokens = []; // of the text, each with its chance and its rivals; empty until the server has read the text
    this.next = []; // the rivals of the token that comes next
    this.place = null; // the number of the token that is looked at; null for the one that comes next
    this.undone = []; // earlier texts, the newest last
    this.isTyping = false; // whether the last change of the text was made in its field
    this.prompt = ""; // the text before the model wrote on
    this.specials = new Set(); // the names of the tokens that a text cannot hold
    this.messages = []; // of the conversation, each with a role and a content
    this.busy = null; // what ends the present request
    this.isWriting = false;
    this.temperature = null; // of texts, during a conversation
    this.talking = 0; // the temperature of the conversation
    this.paper = new Paper(this.part("text"), this.part("paper"));
    this.listen();
  }

  part(name) {
    return $(name + this.suffix);
  }

  // The value of a setting; of the temperature, that which texts have.
  valueOf(name) {
    return name === "temperature" ? this.temperature ?? this.part(name).value : this.part(name).value;
  }

  get text() {
    return this.part("text").value;
  }

  listen() {
    const on = (name, event, work) => this.part(name).addEventListener(event, work);
    on("text", "input", () => this.edit());
    on("text", "keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.write();
      if (event.key === "Escape" && this.isWriting) this.stop();
    });
    document.addEventListener("selectionchange", () => this.followCaret());
    on("write", "click", () => (this.isWriting ? this.stop() : this.write()));
    on("undo", "click", () => this.undo());
    on("new", "click", () => this.change(""));
    on("model", "change", () => this.choose());
    on("settings", "input", () => (showSliders(this.part("settings")), this.changed()));
    on("as-text", "change", () => this.showMode());
    on("as-chat", "change", () => this.showMode());
    on("again", "click", () => this.startAgain());
    on("ask", "submit", (event) => (event.preventDefault(), this.ask(this.part("message").value)));
  }

  get isTalking() {
    return this.part("as-chat").checked;
  }

  // The fields of a request that the settings give. What is off is left out.
  get settings() {
    const found = { model: this.part("model").value }, value = (name) => Number(this.part(name).value);
    for (const name of ["temperature", "seed", ...Object.keys(OFF)]) {
      if (value(name) !== OFF[name]) found[name.replaceAll("-", "_")] = value(name);
    }
    return found;
  }

  // Do work with the server, which ends what this column did before; show errors as sentences.
  async during(work) {
    clearTimeout(this.pause);
    this.busy?.abort();
    const busy = (this.busy = new AbortController());
    let sentence = "";
    try {
      sentence = await work(busy.signal);
    } catch (error) {
      sentence = error.name === "AbortError" ? "stopped" : error.message;
    }
    if (this.busy !== busy) return; // other work has begun
    this.busy = null;
    this.say(sentence);
    this.showWriting(false);
    this.place = null;
    this.showAll(); // so that the paper has the new tokens, among which the cursor is
    this.followCaret();
  }

  // Take another model: it reads the text anew.
  async choose() {
    this.part("modes").hidden = true;
    this.part("as-text").checked = true;
    this.showMode();
    this.forget(); // what another model answered
    const { model } = this.settings, found = await this.server.measure(model, { prompt: "" }).catch(() => null);
    if (model === this.settings.model) this.part("modes").hidden = !found?.converses;
  }

  // Let the server read the text, for the surprise of each token and for what may come next.
  read() {
    return this.during(async (signal) => {
      const tokens = await this.tokensOf(true, signal);
      this.next = tokens.pop().rivals;
      this.tokens = tokens;
      return "";
    });
  }

  // Let the server say what may come next; the tokens before it stay as they were written.
  look() {
    return this.during(async (signal) => {
      this.next = (await this.tokensOf(false, signal))[0].rivals;
      return this.part("status").textContent;
    });
  }

  // Return the most likely next token as the server describes it, with `echo` after the tokens of the text.
  async tokensOf(echo, signal) {
    const { model } = this.settings, prompt = this.text, tokens = [];
    await this.room(prompt, signal);
    const asked = { model, prompt, echo, max_tokens: 1, temperature: 0 };
    for await (const part of this.server.complete(asked, signal)) tokens.push(...part.tokens);
    return tokens;
  }

  // Return how many tokens may follow a text: at least one.
  async room(prompt, signal) {
    const { most, room, specials } = await this.server.measure(this.settings.model, { prompt }, signal);
    this.specials = new Set(specials);
    if (room <= 0) throw new Error(`The text fills the ${most} tokens that a text may have here: shorten it.`);
    return room;
  }

  // Write on at the end of the text; or from the cursor on, if it is not there: the text after it makes way.
  async write() {
    this.remember();
    const prompt = this.place === null ? this.text : this.text.slice(0, this.part("text").selectionStart);
    [this.prompt, this.place, this.tokens, this.next] = [prompt, null, [], []];
    this.paper.write([prompt]);
    this.changed();
    this.say("writing");
    this.showWriting(true);
    await this.during(async (signal) => {
      const { settings } = this, wanted = countIn(this.part("count")), room = await this.room(prompt, signal);
      const asked = { ...settings, prompt, echo: true, max_tokens: Math.min(wanted, room) };
      const since = performance.now();
      let text = "", ended = "";
      for await (const part of this.server.complete(asked, signal)) {
        this.tokens.push(...part.tokens);
        [text, ended] = [text + part.text.replaceAll("\r", ""), part.ended];
        this.showText();
      }
      // A token that ends the text, and what follows the end of its last character, is no part of it.
      while (piecesOf(this.tokens).join("").length > text.length) this.tokens.pop();
      let at = 0;
      const count = piecesOf(this.tokens).filter((piece) => (at += piece.length) > prompt.length).length;
      return paceOf(count, since) + (ended === "stop" ? "; here the model ends the text" : "");
    });
    if (!this.busy && this.tokens.length) await this.look();
  }

  stop() {
    this.busy?.abort();
  }

  // Read the text when the reader has paused in typing.
  edit() {
    this.remember(this.paper.pieces.join(""), true);
    this.leave(this.text);
    clearTimeout(this.pause);
    this.pause = setTimeout(() => this.read(), 400);
  }

  // End what the column did, and begin with a text of which nothing is known yet.
  leave(text) {
    const { busy } = this;
    [this.busy, this.prompt, this.tokens, this.next, this.place] = [null, text, [], [], null];
    busy?.abort();
    this.part("text").value = text;
    this.say("");
    this.showWriting(false);
    this.showAll();
    this.changed();
  }

  // Replace the text.
  change(text) {
    this.remember();
    this.begin(text);
  }

  begin(text) {
    this.leave(text);
    return this.read();
  }

  // Take a rival of the token that is looked at: the text is cut there, and goes on with the rival.
  take(bytes) {
    const before = this.tokens.slice(0, this.place ?? this.tokens.length);
    this.change(piecesOf([...before, { bytes }]).join(""));
    this.part("rivals").focus();
  }

  // Keep a text for Undo; of what is typed without a pause for anything else, the text before it.
  remember(text = this.text, isTyping = false) {
    const goesOn = isTyping && this.isTyping;
    this.isTyping = isTyping;
    if (goesOn) return;
    this.undone.push(text);
    if (this.undone.length > 100) this.undone.shift();
  }

  undo() {
    this.isTyping = false;
    this.begin(this.undone.pop());
  }

  // End the conversation, and begin another.
  startAgain() {
    this.leave(this.text);
    this.forget();
    this.part("message").focus();
  }

  forget() {
    [this.messages, this.talking] = [[], 0];
    this.part("messages").replaceChildren();
  }

  // Send a message and stream the answer.
  ask(content) {
    if (this.isWriting) return this.stop();
    if (!content.trim()) return null;
    this.part("message").value = "";
    const question = element("p", { class: "user" }, content), answer = element("p", { class: "assistant" });
    this.part("messages").append(question, answer);
    const said = { role: "assistant", content: "" };
    this.say("writing");
    this.showWriting(true);
    return this.during(async (signal) => {
      const { settings } = this, wanted = countIn(this.part("count"));
      const all = [...this.messages, { role: "user", content }];
      try {
        const { messages, room } = await this.fitting(all, signal);
        const asked = { ...settings, messages, max_tokens: Math.min(wanted, room) };
        for await (const text of this.server.answer(asked, signal)) {
          said.content += text;
          if (said.content) this.messages = [...messages, said]; // a question without an answer is not kept
          answer.textContent = said.content;
          answer.scrollIntoView({ block: "nearest" });
        }
        if (!said.content) {
          this.takeBack(content, question, answer);
          return "The model gave no answer.";
        }
        return messages.length < all.length ? "The oldest messages were left out: they no longer fit." : "";
      } catch (error) {
        if (!said.content) this.takeBack(content, question, answer);
        throw error;
      }
    });
  }

  // Put a message that got no answer back into its field, to be shortened or sent again.
  takeBack(content, ...paragraphs) {
    for (const paragraph of paragraphs) paragraph.remove();
    this.part("message").value ||= content;
  }

  // Return the messages and the tokens left for an answer. While less than a quarter of the most is free, the oldest
  // messages are left out, each with its answer.
  async fitting(messages, signal) {
    const { count, most, room } = await this.server.measure(this.settings.model, { messages }, signal);
    if (most - count >= most / 4) return { messages, room };
    if (messages.length > 1) return this.fitting(messages.slice(2), signal);
    if (room > 0) return { messages, room };
    throw new Error(`The message fills the ${most} tokens that a conversation may have here: shorten it.`);
  }

  // The token at the cursor is looked at; at the end of the text, the next one.
  followCaret() {
    if (document.activeElement !== this.part("text") || this.busy || !this.tokens.length) return;
    const { place } = this.paper;
    if (place === this.place) return;
    this.place = place;
    this.showAll();
  }

  showAll() {
    this.showText();
    this.showRivals();
    this.part("undo").disabled = !this.undone.length;
    this.showWriting(this.isWriting);
  }

  showText() {
    const { tokens } = this;
    this.paper.write(tokens.length ? piecesOf(tokens) : [this.text]);
    this.paper.colour((place) => strengthOf(surpriseOf(tokens[place])), this.place ?? this.paper.pieces.length);
  }

  showRivals() {
    const { place } = this, chosen = this.tokens[place], list = this.part("rivals");
    const surprise = surpriseOf(chosen), rivals = chosen ? [...chosen.rivals] : this.next;
    const bits = surprise === undefined ? "" : `, a surprise of ${surprise.toFixed(1)} bits`;
    this.part("here").textContent = chosen ? `Here is ${visible(chosen.bytes)}${bits}` : "What may come next";
    const isChosen = ({ bytes }) => chosen !== undefined && visible(bytes) === visible(chosen.bytes);
    if (surprise !== undefined && !rivals.some(isChosen)) rivals.push(chosen);
    const buttons = rivals.sort((a, b) => b.chance - a.chance).map((rival) => {
      const chance = Math.exp(rival.chance), name = visible(rival.bytes);
      const about = { share: percent(chance), numbers: `${percent(chance)} by the model`, isChosen: isChosen(rival) };
      const button = rivalButton(name, about, () => this.isWriting || this.take(rival.bytes));
      button.style.setProperty("--drawn", chance);
      button.disabled = name.startsWith("\\x") || this.specials.has(name); // a prompt of text cannot hold it
      return element("li", {}, button);
    });
    list.replaceChildren(...buttons);
  }

  showWriting(isWriting) {
    this.isWriting = isWriting;
    this.part("write").textContent = isWriting ? "Stop" : this.place === null ? "Continue" : "Continue from here";
    this.part("send").textContent = isWriting ? "Stop" : "Send";
    this.part("messages").setAttribute("aria-busy", isWriting); // a screen reader waits for the whole answer
  }

  // A small model has learned one answer to a question, and a mixture of two makes no sense: a conversation begins with the
  // most likely tokens, and a text gets its temperature back.
  showMode() {
    const { isTalking } = this, temperature = this.part("temperature");
    if (isTalking) [this.temperature, temperature.value] = [temperature.value, this.talking];
    else if (this.temperature !== null) {
      [this.talking, this.temperature, temperature.value] = [temperature.value, null, this.temperature];
    }
    showSliders(this.part("settings"));
    this.part("writing").hidden = this.part("looking").hidden = isTalking;
    this.part("chat").hidden = !isTalking;
    this.leave(this.text);
    if (!isTalking) this.read();
  }

  say(text) {
    if (this.part("status").textContent !== text) this.part("status").textContent = text;
  }
}

// Return how unexpected a token was, in bits; undefined for one that nothing came before.
const surpriseOf = (token) => (typeof token?.chance === "number" ? -token.chance / Math.LN2 : undefined);
