// The logit lens: what the trained model would say after each layer, for every token of a text. The stream of a token goes
// down its column; each layer adds to it.

{
  build("lens", async (place) => {
    await near(place);
    const inside = await model(), { reader, tokenizer, isAllowed } = inside;
    const state = { layer: 0, at: 0 };
    let names, cells; // by layer, then by token: the likeliest tokens, and the chances of all

    const text = field("Text", "def __init__(self", change);
    const table = html("div", { class: "scroll lens" }), said = html("p", { class: "status", role: "status" });

    function change(value) {
      names = read(inside, value);
      const seen = names.map((_, at) => reader.look(at).layers.map((logits) => {
        const chances = Engine.softmax(logits), allowed = [...chances.keys()].filter((id) => isAllowed[id]);
        return { chances, best: allowed.sort((a, b) => chances[b] - chances[a]).slice(0, 4) };
      }));
      cells = seen[0].map((_, layer) => seen.map((layers) => layers[layer]));
      const head = names.map((name) => html("th", { scope: "col", class: "mono" }, name));
      const rows = cells.map((row, layer) => html("tr", {}, html("th", { scope: "row" }, nameOf(layer)), ...row.map((cell, at) => {
        const part = html("button", { type: "button" }, tokenizer.name(cell.best[0]));
        part.style.setProperty("--weight", cell.chances[cell.best[0]]);
        for (const event of ["click", "pointerenter"]) part.addEventListener(event, () => show(layer, at));
        return html("td", {}, part);
      })));
      table.replaceChildren(html("table", {}, html("thead", {}, html("tr", {}, html("th", {}, ""), ...head)), html("tbody", {}, ...rows)));
      show(cells.length - 1, names.length - 1);
    }

    const nameOf = (layer) => (layer ? `after layer ${layer}` : "the embedding alone");
    const buttonAt = (layer, at) => table.querySelectorAll("tbody tr")[layer].querySelectorAll("button")[at];

    function show(layer, at) {
      Object.assign(state, { layer, at });
      for (const each of table.querySelectorAll("button")) each.tabIndex = -1;
      buttonAt(layer, at).tabIndex = 0;
      const { best, chances } = cells[layer][at], likely = best.map((id) => `“${tokenizer.name(id)}” ${percent(chances[id])}`);
      const right = reader.ids[at + 1], better = right === undefined ? 0 : chances.filter((each) => each > chances[right]).length;
      const rank = right === undefined ? "" : ` “${names[at + 1]}”, which does follow, is number ${better + 1}.`;
      said.textContent = `What follows “${names[at]}”, ${nameOf(layer)}: ${likely.join(", ")}.${rank}`;
    }

    table.addEventListener("keydown", (event) => {
      const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] ?? [0, 0];
      if (!down && !right) return;
      event.preventDefault();
      const layer = Math.min(Math.max(state.layer + down, 0), cells.length - 1), at = Math.min(Math.max(state.at + right, 0), names.length - 1);
      show(layer, at);
      buttonAt(layer, at).focus();
    });

    place.append(text, table, said);
    change(text.querySelector("input").value);
  });
}
