// Conversations, for a model that was taught them: <|user|>How are you?<|end|><|assistant|>Fine.<|end|>

class ChatView extends View {
  constructor(content, file) {
    super(content, file);
    this.messages = []; // with a role and a text each
    this.answer = null; // the paragraph of the newest answer; its tokens are those from `begin` on
    this.leftOut = 0; // messages, the oldest, that the model does not read because they do not fit
  }

  // Return the tokens of the messages and of the beginning of an answer.
  conversation(messages) {
    const { specials } = this.words;
    const ids = messages.flatMap(({ role, text }) => [
      specials[`<|${role}|>`], ...this.words.encode(text), specials["<|end|>"],
    ]);
    return [...ids, specials["<|assistant|>"]];
  }

  // Return the newest messages that leave half a context free; one that is longer than that alone.
  fitting(messages) {
    const room = this.content.model.context / 2;
    return this.conversation(messages).length - 1 > room && messages.length > 1
      ? this.fitting(messages.slice(2))
      : messages;
  }

  ask(text) {
    if (this.left) return this.interrupt();
    if (!text.trim()) return;
    const { context } = this.content.model, all = [...this.messages, { role: "user", text }];
    const kept = this.fitting(all), ids = this.conversation(kept);
    if (ids.length > context) {
      this.say(`The message fills the ${context} tokens that a conversation may have here: shorten it.`);
      return;
    }
    $("message").value = "";
    [this.messages, this.leftOut] = [all, all.length - kept.length];
    this.reader.replace(ids);
    this.messages.push({ role: "assistant", text: "" });
    this.begin = this.reader.ids.length;
    this.answer = element("p", { class: "assistant" });
    $("messages").append(element("p", { class: "user" }, text), this.answer);
    this.write();
  }

  sayWritten() {
    super.sayWritten();
    if (this.isTalking && this.leftOut) this.say("The oldest messages were left out: they no longer fit.");
  }

  // A conversation goes on from its tokens: its text does not tell a special token from the same characters.
  readShown() {
    if (!this.isTalking) super.readShown();
  }

  holds(id) {
    return this.isTalking || super.holds(id);
  }

  showText() {
    super.showText();
    if (!this.isTalking || !this.answer) return;
    this.answer.textContent = this.messages.at(-1).text = this.pieces.slice(this.begin).join("");
    this.answer.scrollIntoView({ block: "nearest" });
  }

  showButtons() {
    super.showButtons();
    $("send").textContent = this.left ? "Stop" : "Send";
    $("messages").setAttribute("aria-busy", this.left > 0); // a screen reader waits for the whole answer
  }

  take(id) {
    super.take(id);
    if (this.isTalking && !this.ends.has(id)) this.write();
  }

  // Before the first question there is no answer that a rival could change, and none to look into.
  showRivals() {
    super.showRivals();
    if (this.isTalking && !this.answer) $("rivals").replaceChildren();
  }

  showLayers() {
    super.showLayers();
    if (this.isTalking && !this.answer) $("layers").replaceChildren();
  }

  get isTalking() {
    return $("as-chat").checked;
  }

  interrupt() {
    this.stop();
    if (this.messages.at(-1)?.text) return;
    this.takeBack();
    this.rest();
  }

  // Put a message that got no answer back into its field.
  takeBack() {
    if (this.messages.at(-1)?.text !== "") return;
    const [{ text }] = this.messages.splice(-2);
    for (const paragraph of [...$("messages").children].slice(-2)) paragraph.remove();
    $("message").value ||= text;
  }

  // Wait for the next message: until then, no answer is looked into.
  rest() {
    this.answer = null;
    this.showAll();
  }

  // End the conversation, and begin another.
  startAgain() {
    [this.left, this.writing, this.messages, this.leftOut] = [0, null, [], 0];
    $("messages").replaceChildren();
    this.rest();
    this.say("");
    $("message").focus();
  }

  showMode() {
    this.stop();
    this.takeBack();
    this.place = null;
    for (const name of ["writing", "pointing", "help"]) $(name).hidden = this.isTalking;
    $("chat").hidden = !this.isTalking;
    if (this.isTalking) {
      this.kept = { ids: [...this.reader.ids], prompt: this.prompt };
      this.rest();
    } else {
      this.replace(this.kept.ids, this.kept.prompt);
      this.keep();
    }
  }

  // A link that is opened during a conversation shows its text after it.
  restore() {
    if (!this.isTalking) return super.restore();
    const prompt = this.readAddress();
    this.kept = { ids: this.tokensOf(prompt), prompt };
  }

  // Undo is for the text alone.
  remember(isTyping) {
    if (!this.isTalking) super.remember(isTyping);
  }

  // The address keeps texts; a conversation stays in the page.
  keep() {
    if (!this.isTalking) super.keep();
  }
}
