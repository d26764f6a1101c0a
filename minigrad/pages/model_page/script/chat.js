// Conversations, for a model that was taught them: <|user|>How are you?<|end|><|assistant|>Fine.<|end|>

class ChatView extends View {
  constructor(content, file) {
    super(content, file);
    this.messages = [];
  }

  // Return the tokens of the messages and of the beginning of an answer; the oldest are left out if they do not fit.
  tokensOf(messages) {
    const { specials } = this.words, room = this.content.model.context / 2;
    const ids = messages.flatMap(({ role, text }) => [
      specials[`<|${role}|>`], ...this.words.encode(text), specials["<|end|>"],
    ]);
    return ids.length > room && messages.length > 1
      ? this.tokensOf(messages.slice(2))
      : [...ids, specials["<|assistant|>"]];
  }

  ask(text) {
    if (!text.trim() || this.left) return;
    $("message").value = "";
    this.messages.push({ role: "user", text });
    const ids = this.tokensOf(this.messages), answer = element("p", { class: "assistant" });
    $("messages").append(element("p", { class: "user" }, text), answer);
    this.reader.replace(ids);
    this.showAnswer = () => {
      answer.textContent = this.words.pieces(this.reader.ids.slice(ids.length)).join("");
      answer.scrollIntoView({ block: "nearest" });
    };
    this.answered = () => {
      this.showAnswer();
      this.messages.push({ role: "assistant", text: answer.textContent });
      this.answered = this.showAnswer = null;
    };
    this.write();
  }

  showMode() {
    const isChat = $("as-chat").checked;
    this.stop();
    $("writing").hidden = isChat;
    $("chat").hidden = !isChat;
    if (!isChat) this.restore();
  }

  // The address keeps texts; a conversation stays in the page.
  keep() {
    if (!$("as-chat").checked) super.keep();
  }
}
