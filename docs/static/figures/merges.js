// The tree of merges of a text: the bytes at the bottom, and above each pair of neighbours the token that it became.
// The merges have the order in which they were learned, and a reader goes through them one by one.

{
  const HEIGHT = 30; // pixels from one row of the tree to the next

  // Return the tokens of a word after the merges up to `last`, each a node: its id, its parts, the number of its merge
  // (0 for a byte), the place of its first byte, and its height in the tree.
  function trees(tokenizer, word, last) {
    const bytes = [...new TextEncoder().encode(word)];
    let nodes = bytes.map((byte, place) => ({ id: tokenizer.bytes[byte], parts: [], merge: 0, place, width: 1, height: 0 }));
    for (;;) {
      const found = nodes.map((node, n) => tokenizer.ranks.get(node.id * tokenizer.size + nodes[n + 1]?.id)?.[0] ?? Infinity);
      const rank = Math.min(...found), n = found.indexOf(rank);
      if (!(rank < last)) return nodes;
      const [left, right] = nodes.slice(n, n + 2), [, id] = tokenizer.ranks.get(left.id * tokenizer.size + right.id);
      const [width, height] = [left.width + right.width, Math.max(left.height, right.height) + 1];
      nodes = nodes.toSpliced(n, 2, { id, parts: [left, right], merge: rank + 1, place: left.place, width, height });
    }
  }

  const inside = (node) => [...node.parts.flatMap(inside), node]; // a node after its parts

  build("merges", async (place) => {
    await near(place);
    const tokenizer = await words(), all = tokenizer.ranks.size;
    const state = { text: " representation", last: all, chosen: null };
    const name = (node) => tokenizer.name(node.id);

    const drawn = html("div", { class: "forest" });
    const said = html("p", { class: "status", role: "status" });
    const text = field("Text", state.text, (value) => change({ text: value, chosen: null }));
    const show = (value) => value.toLocaleString("en");
    const merges = slider("merges learned", { min: 0, max: all, step: 1, value: all, show }, (last) => change({ last, chosen: null }));
    const steps = () => [0, ...new Set(forest(all).flat().flatMap(inside).map((node) => node.merge))].sort((a, b) => a - b);
    const forest = (last) => [...state.text.matchAll(tokenizer.words)].map(([word]) => trees(tokenizer, word, last));

    function change(update) {
      Object.assign(state, update);
      merges.set(state.last);
      const found = forest(state.last);
      drawn.replaceChildren(...found.map((word) => tree(word)));
      const tokens = found.flat().length, bytes = new TextEncoder().encode(state.text).length;
      back.disabled = done().length < 2;
      on.disabled = !steps().some((step) => step > state.last);
      const node = state.chosen;
      if (!node) said.textContent = `${bytes} bytes are ${tokens} ${tokens === 1 ? "token" : "tokens"} after ${show(state.last)} merges.`;
      else if (!node.merge) said.textContent = `${name(node)} is a byte: it was there before the first merge.`;
      else said.textContent = `${name(node)} is ${name(node.parts[0])} + ${name(node.parts[1])}: merge ${show(node.merge)} of ${show(all)}.`;
    }

    // Draw the tree of a word: a button for each token, as wide as its bytes, and lines to its parts.
    function tree(word) {
      const nodes = word.flatMap(inside), rows = Math.max(...nodes.map((node) => node.height));
      const bytes = word.reduce((sum, node) => sum + node.width, 0);
      const size = Math.min(26, Math.max(19, (drawn.clientWidth - 6) / bytes)); // pixels a byte, less on a phone
      const part = html("div", { class: "tree" });
      part.style.cssText = `width: ${bytes * size}px; height: ${(rows + 1) * HEIGHT}px`;
      const roots = new Set(word);
      part.append(...nodes.map((node) => {
        const made = button(name(node), () => change({ chosen: node }));
        const [width, top] = [node.width * size - 3, (rows - node.height) * HEIGHT];
        made.style.cssText = `left: ${node.place * size}px; top: ${top}px; width: ${width}px`;
        made.classList.toggle("root", roots.has(node));
        made.classList.toggle("chosen", node === state.chosen);
        made.setAttribute("aria-label", node.merge ? `${name(node)}, merge ${node.merge}` : `${name(node)}, a byte`);
        return made;
      }));
      part.prepend(svg("svg", {}, ...nodes.flatMap((node) => node.parts.map((below) => {
        const [x, y] = [(below.place + below.width / 2) * size - 1.5, (rows - below.height) * HEIGHT];
        return line([[x, y], [x, (rows - node.height) * HEIGHT + 12]], { stroke: "currentColor", "stroke-opacity": 0.4 });
      }))));
      return part;
    }

    const done = () => steps().filter((step) => step <= state.last);
    const back = button("◀ one back", () => change({ last: done().at(-2), chosen: null }));
    const on = button("one merge ▶", () => change({ last: steps().find((step) => step > state.last), chosen: null }));
    const row = html("div", { class: "row" }, back, on, button("from the bytes", () => change({ last: 0, chosen: null })));
    place.append(text, drawn, merges, row, said);
    change({});
  });
}
