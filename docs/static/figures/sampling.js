// What may come next after a text, by the trained model, and what temperature and cuts make of it. Grey bars are the
// probabilities of the model, blue bars those that a token is drawn with.

{
  const SHOWN = 10; // tokens with a bar of their own; the others share one

  build("sampling", async (place) => {
    await near(place);
    const inside = await model(), { reader, tokenizer, isAllowed } = inside;
    const settings = { temperature: 1, topK: 0, topP: 1, minP: 0 };
    let logits, drawn, seed = 0;

    const bars = html("ol", { class: "bars", "aria-label": "the most likely next tokens" });
    const said = html("p", { class: "status", role: "status" });
    const text = field("Text", "A list is a", readText), input = text.querySelector("input");

    function readText() {
      read(inside, input.value);
      logits = reader.logits;
      show();
    }

    function show() {
      const chances = Engine.softmax(logits);
      drawn = Engine.distribution(logits, settings, isAllowed);
      const order = [...chances.keys()].filter((id) => isAllowed[id]).sort((a, b) => chances[b] - chances[a]);
      const rest = order.slice(SHOWN), sum = (numbers) => rest.reduce((total, id) => total + numbers[id], 0);
      bars.replaceChildren(
        ...order.slice(0, SHOWN).map((id) => bar(tokenizer.name(id), chances[id], drawn[id])),
        bar(`${rest.length.toLocaleString("en")} others`, sum(chances), sum(drawn)),
      );
      const kept = drawn.reduce((count, each) => count + (each > 0), 0);
      said.textContent = `${kept.toLocaleString("en")} ${kept === 1 ? "token" : "tokens"} may be drawn.`;
    }

    function bar(name, chance, share) {
      const made = html("li", {}, html("span", { class: "mono" }, name), html("span", { class: "bar" }), html("span", { class: "number" }, share ? percent(share) : "cut"));
      made.style.setProperty("--model", chance);
      made.style.setProperty("--drawn", share);
      made.classList.toggle("cut", !share);
      return made;
    }

    // Draw tokens and write them behind the text. A token that ends the text, or a character that is not complete, stops it.
    function write(count) {
      for (let n = 0; n < count; n++) {
        const id = Engine.draw(drawn, Engine.uniform(seed++, reader.ids.length));
        const [piece] = tokenizer.pieces([id]);
        if (!piece || piece.includes("\ufffd")) break;
        input.value += piece.replaceAll("\n", " ");
        readText();
      }
    }

    const set = (name, label, range) => slider(label, range, (value) => ((settings[name] = value), show()));
    const off = (value, none) => (value === none ? "off" : String(value));
    const sliders = [
      set("temperature", "temperature", { min: 0, max: 2, step: 0.05, value: 1 }),
      set("topK", "top-k", { min: 0, max: 60, step: 1, value: 0, show: (value) => off(value, 0) }),
      set("topP", "top-p", { min: 0.05, max: 1, step: 0.01, value: 1, show: (value) => off(value, 1) }),
      set("minP", "min-p", { min: 0, max: 0.5, step: 0.01, value: 0, show: (value) => off(value, 0) }),
    ];
    const buttons = html("div", { class: "row" }, button("Draw a token", () => write(1)), button("Draw ten", () => write(10)));
    place.append(text, html("div", { class: "sides" }, bars, html("div", {}, ...sliders, buttons)), said);
    readText();
  });
}
