// The page itself: the text and its colours, the next token, the layers and the heads. All text is set as text, never
// as markup. `content` is the table of the page, `file` the bytes of the weights.

const SLICE = 25; // milliseconds of work between two drawings of the page
const SHOWN = 10; // rivals of a token

class View {
  constructor(content, file) {
    this.content = content;
    this.words = new Tokenizer(content.tokenizer);
    this.reader = new Reader(new Machine(content.model, file));
    this.allowed = this.words.content.map((each) => each !== null);
    while (this.allowed.length < content.model.logits[1]) this.allowed.push(false);
    this.ends = new Set(content.ends);
    this.left = 0; // tokens that are still to be written
    this.writing = null; // while the model writes: how many tokens there were before, and since when
    this.place = null; // the number of the token that is looked at; null for the one that comes next
    this.pointed = null; // the token under the pointer
    this.prompt = ""; // the text before the model wrote on
    this.head = [0, 0];
    this.undone = []; // earlier texts, the newest last
    this.isTyping = false; // whether the last change of the text was made in its field
    this.paper = new Paper($("text"), $("paper"));
    this.listen();
    this.restore();
  }

  get settings() {
    const value = (name) => Number($(name).value);
    return { temperature: value("temperature"), topK: value("top-k"), topP: value("top-p"), minP: value("min-p") };
  }

  listen() {
    $("text").addEventListener("input", () => this.edit($("text").value));
    $("text").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.write();
      if (event.key === "Escape") this.stop();
    });
    document.addEventListener("selectionchange", () => this.followCaret());
    $("editor").addEventListener("pointermove", (event) => this.point(event));
    $("editor").addEventListener("pointerleave", () => this.point(null));
    $("write").addEventListener("click", () => (this.left ? this.stop() : this.write()));
    $("undo").addEventListener("click", () => this.undo());
    $("new").addEventListener("click", () => this.change([...this.words.begin]));
    for (const name of ["temperature", "top-k", "top-p", "min-p", "seed", "count"]) {
      $(name).addEventListener("input", () => (this.keep(), showSliders(document), this.showRivals()));
    }
    for (const name of ["by-surprise", "by-head"]) $(name).addEventListener("change", () => this.showColours());
    $("ask")?.addEventListener("submit", (event) => (event.preventDefault(), this.ask($("message").value)));
    $("again")?.addEventListener("click", () => this.startAgain());
    $("as-chat")?.addEventListener("change", () => this.showMode());
    $("as-text")?.addEventListener("change", () => this.showMode());
    addEventListener("hashchange", () => this.restore());
  }

  // Return the texts of tokens as a text field holds them: without carriage returns, which it removes.
  piecesOf(ids) {
    return this.words.pieces(ids).map((piece) => piece.replaceAll("\r", ""));
  }

  tokensOf(text) {
    return [...this.words.begin, ...this.words.encode(text)];
  }

  // Read what is unread and write what is left to write, a slice of time after the other.
  async work() {
    if (this.isBusy) return;
    this.isBusy = true;
    while (this.reader.isBehind || this.left > 0) {
      const until = performance.now() + SLICE;
      while (performance.now() < until && (this.reader.isBehind || this.left > 0)) {
        if (this.reader.isBehind) this.reader.next();
        else this.writeToken();
      }
      if (this.reader.isBehind || this.left > 0) this.say(this.reader.isBehind ? "reading" : "writing");
      this.showText();
      await new Promise((resume) => setTimeout(resume));
    }
    this.isBusy = false;
    if ($("status").textContent === "reading") this.say("");
    if (this.writing) this.sayWritten();
    this.writing = null;
    this.place = null;
    this.followCaret();
    this.showAll();
  }

  sayWritten() {
    const { before, since } = this.writing, ended = this.ended ? "; here the model ends the text" : "";
    this.say(paceOf(this.reader.ids.length - before, since) + ended);
  }

  writeToken() {
    const { reader, settings } = this;
    const seed = Number($("seed").value), chances = distribution(reader.logits, settings, this.allowed);
    const id = draw(chances, uniform(seed, reader.ids.length));
    this.ended = this.ends.has(id);
    this.left = this.ended ? 0 : this.left - 1;
    if (!this.ended) reader.add(id);
  }

  // Write on at the end of the text; or from the cursor on, if it is not there: the text after it makes way.
  write() {
    const tokens = countIn($("count"));
    this.remember();
    this.readShown();
    this.prompt = this.piecesOf(this.reader.ids).join("");
    this.keep();
    [this.left, this.ended, this.place] = [tokens, false, null];
    this.writing = { before: this.reader.ids.length, since: performance.now() };
    this.say("writing");
    this.work();
    this.showButtons();
  }

  // Read the text that is shown, up to where writing goes on, as a page does that opens its link: drawn tokens are not
  // always those of their text, and a text that grew beyond the context may be read from another place.
  readShown() {
    const { reader } = this, end = this.place === null ? undefined : $("text").selectionStart;
    reader.replace(this.tokensOf($("text").value.slice(0, end)));
    const start = Math.max(0, reader.ids.length - reader.machine.context);
    if (reader.start !== start) reader.begin(start);
  }

  // Whether a text can hold a token: not if it is special, or half a character.
  holds(id) {
    return !this.words.isSpecial.has(id) && !this.nameOf(id).startsWith("\\x");
  }

  stop() {
    this.left = 0;
    this.showButtons();
  }

  // Replace the text by these tokens; Undo brings it back.
  change(ids) {
    this.remember();
    this.replace(ids, this.piecesOf(ids).join(""));
    this.keep();
  }

  edit(text) {
    this.remember(true);
    this.replace(this.tokensOf(text), text);
    this.keep();
  }

  // End what is being written, and read another text.
  replace(ids, prompt) {
    [this.left, this.writing, this.prompt] = [0, null, prompt];
    this.say("");
    this.reader.replace(ids);
    this.showText();
    this.work();
  }

  // Take a rival of the token that is looked at: the text is cut there, and goes on with the rival.
  take(id) {
    const { ids } = this.reader;
    this.change([...ids.slice(0, this.place ?? ids.length), id]);
    $("rivals").focus();
  }

  // Keep the text for Undo; of what is typed without a pause for anything else, the text before it.
  remember(isTyping = false) {
    const goesOn = isTyping && this.isTyping;
    this.isTyping = isTyping;
    if (goesOn) return;
    this.undone.push([...this.reader.ids]);
    if (this.undone.length > 100) this.undone.shift();
  }

  undo() {
    const ids = this.undone.pop();
    if (!ids) return;
    this.change(ids);
    this.undone.pop();
    this.showButtons();
  }

  // Keep prompt, seed and settings in the address, so that a link repeats them; browsers refuse to do so too often.
  keep() {
    const names = ["temperature", "top-k", "top-p", "min-p", "seed", "count"];
    const kept = new URLSearchParams(names.map((name) => [name, $(name).value]));
    kept.set("text", this.prompt);
    clearTimeout(this.keeping);
    this.keeping = setTimeout(() => history.replaceState(null, "", `#${kept}`), 200);
  }

  restore() {
    const prompt = this.readAddress();
    this.replace(this.tokensOf(prompt), prompt);
  }

  // Take the settings in the address, and return the text in it.
  readAddress() {
    const kept = new URLSearchParams(location.hash.slice(1));
    for (const [name, value] of kept) if (name !== "text" && $(name)?.matches("input")) $(name).value = value;
    showSliders(document);
    this.head = [0, 0];
    this.showHeads();
    return kept.get("text") ?? this.content.prompt;
  }

  // The token at the caret is looked at; at the end of the text, the next one.
  followCaret() {
    const field = $("text");
    if (document.activeElement !== field || this.left || this.isBusy) return;
    this.lookAt(this.paper.place);
  }

  lookAt(place) {
    if (place === this.place) return;
    this.place = place;
    this.showAll();
  }

  point(event) {
    const found = event && document.elementsFromPoint(event.clientX, event.clientY);
    const span = found?.find((each) => each.dataset.place !== undefined);
    const place = span ? Number(span.dataset.place) : null;
    if (place === this.pointed) return;
    this.pointed = place;
    if (!this.isBusy) this.showColours();
  }

  say(text) {
    if ($("status").textContent !== text) $("status").textContent = text; // a screen reader reads each change
  }

  showAll() {
    this.showText();
    this.showRivals();
    this.showLayers();
    this.showButtons();
  }

  showButtons() {
    $("write").textContent = this.left ? "Stop" : this.place === null ? "Continue" : "Continue from here";
    $("undo").disabled = !this.undone.length;
  }

  showText() {
    this.pieces = this.piecesOf(this.reader.ids);
    this.paper.write(this.pieces);
    this.showColours();
  }

  showColours() {
    const { reader } = this;
    const byHead = $("by-head").checked, read = byHead ? this.weights() : null;
    const least = this.place ?? reader.ids.length, marked = byHead ? (this.pointed ?? least) : least;
    const most = Math.max(...(read ?? []), 1e-9);
    const strength = (place) => (byHead ? (read?.[place] ?? 0) / most : strengthOf(reader.surprises[place]));
    this.paper.colour(strength, marked);
    $("paper").classList.toggle("heads", byHead);
  }

  // Return the share of each token that the chosen head reads: from the token pointed at, else the one looked at.
  weights() {
    const { reader } = this, last = reader.ids.length - 1, place = this.pointed ?? this.place ?? last;
    const found = this.isBusy ? null : reader.look(Math.min(place, last));
    const shares = found?.attention[this.head[0]]?.[this.head[1]];
    $("reads").textContent = shares
      ? `${this.nameOf(reader.ids[Math.min(place, last)])} reads: ${this.mostRead(shares, found.start)}`
      : "";
    return shares && [...Array(found.start).fill(0), ...shares];
  }

  mostRead(shares, start) {
    const order = Array.from(shares.keys()).sort((a, b) => shares[b] - shares[a]).slice(0, 4);
    return order.map((n) => `${this.nameOf(this.reader.ids[start + n])} ${percent(shares[n])}`).join(", ");
  }

  nameOf(id) {
    return this.words.name(id);
  }

  // Show the most likely tokens at the place that is looked at, with the chances that the settings give them.
  showRivals() {
    const { reader, place } = this, list = $("rivals");
    const logits = place === null ? reader.logits : reader.look(place - 1)?.logits;
    const chosen = place === null ? null : reader.ids[place], bits = reader.surprises[place];
    const surprise = bits === undefined ? "" : `, a surprise of ${bits.toFixed(1)} bits`;
    $("here").textContent = chosen === null ? "What may come next" : `Here is ${this.nameOf(chosen)}${surprise}`;
    list.replaceChildren();
    if (!logits || reader.isBehind) return;
    const chances = softmax(logits), drawn = distribution(logits, this.settings, this.allowed);
    const order = Array.from(chances.keys()).filter((id) => this.allowed[id]).sort((a, b) => chances[b] - chances[a]);
    const shown = order.slice(0, SHOWN);
    if (chosen !== null && !shown.includes(chosen)) shown.push(chosen);
    for (const id of shown) {
      const numbers = `${percent(drawn[id])} with these settings, ${percent(chances[id])} by the model itself`;
      const share = drawn[id] ? percent(drawn[id]) : "cut", isChosen = id === chosen;
      const button = rivalButton(this.nameOf(id), { share, numbers, isChosen }, () => this.left || this.take(id));
      button.style.setProperty("--drawn", drawn[id]);
      button.style.setProperty("--model", chances[id]);
      button.classList.toggle("cut", !drawn[id]);
      button.disabled = !this.holds(id);
      list.append(element("li", {}, button));
    }
  }

  // Show what each layer would have said at the place that is looked at, had the model ended there.
  showLayers() {
    const { reader, place } = this, table = $("layers");
    table.replaceChildren();
    const found = reader.isBehind ? null : reader.look((place ?? reader.ids.length) - 1);
    const answers = found?.layers.map((logits) => [softmax(logits), mostLikely(logits, this.allowed)]) ?? [];
    $("no-layers").hidden = answers.length > 0;
    answers.forEach(([chances, best], layer) => {
      const title = layer ? `layer ${layer}` : "embedding", isFinal = best === answers.at(-1)[1];
      const row = element("tr", {}, element("th", { scope: "row" }, title));
      const name = element(isFinal ? "b" : "span", {}, this.nameOf(best));
      row.append(element("td", { class: "name" }, name), element("td", { class: "share" }, percent(chances[best])));
      row.style.setProperty("--drawn", chances[best]);
      table.append(row);
    });
  }

  // Show a button for each head, by layers.
  showHeads() {
    const { queries, patterns } = this.content.model.heads;
    const rows = patterns.map((_, layer) => {
      const heads = Array.from({ length: queries }, (_, head) => {
        const button = element("button", { type: "button", "aria-pressed": "false" }, `${layer + 1}.${head + 1}`);
        button.setAttribute("aria-label", `layer ${layer + 1}, head ${head + 1}`);
        button.addEventListener("click", () => {
          this.head = [layer, head];
          $("by-head").checked = true;
          for (const each of $("heads").querySelectorAll("button")) each.setAttribute("aria-pressed", each === button);
          this.showColours();
        });
        return button;
      });
      return element("div", {}, ...heads);
    });
    $("heads").replaceChildren(...rows);
    $("heads").querySelector("button").setAttribute("aria-pressed", "true");
  }
}
