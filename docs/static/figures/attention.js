// One row of attention with all its numbers, of a head of the trained model on a text that the reader types: a query
// meets the keys before it; each product is a score, a softmax makes weights of the scores, and the weights mix the values.

{
  const SHOWN = 16; // tokens with their numbers, those with the largest weights

  // Return what a head computes at a place: the query, and of each token up to there the key, the value, the score and
  // the weight. They are read from the machine while it reads the token again.
  function row({ reader }, place, layer, head) {
    const { machine } = reader, { queries, keys, size } = machine.heads, { cache, floats } = machine;
    const of = Math.floor((head * keys) / queries);
    const step = machine.steps.find((each) => each.name === "ATTEND" && each.layer === layer);
    const stored = (area, position) => {
      const first = cache.place(area, layer, of, position) / 4;
      return Array.from(floats.subarray(first, first + size));
    };
    let found;
    machine.watch(place, reader.ids[place], (name, what) => {
      if (name !== "attention" || what.layer !== layer || what.head !== head) return;
      const from = step.source + head * size, query = Array.from(machine.registers.subarray(from, from + size));
      const seen = Array.from(what.weights, (weight, position) => {
        const key = stored(cache.keys, position), score = key.reduce((sum, each, n) => sum + each * query[n], 0) / Math.sqrt(size);
        return { key, value: stored(cache.values, position), score, weight, position };
      });
      found = { query, seen };
    });
    return found;
  }

  // The weights of all heads at a place.
  const heads = (reader, place) => reader.look(place).attention;

  build("attention", async (place) => {
    await near(place);
    const inside = await model(), { reader } = inside, { queries, patterns } = reader.machine.heads;
    const state = { place: 0, layer: 3, head: 0 };
    let names;

    const text = field("Text", "The cat sat on the mat because the cat was tired.", (value) => change(value));
    const tokens = html("div"), table = html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "the numbers of the row" });
    const said = html("p", { class: "status", role: "status" });
    const maps = Array.from({ length: patterns.length * queries }, (_, n) => [Math.floor(n / queries), n % queries]);
    const chooser = choices("head", maps.map(([layer, head]) => `${layer + 1}.${head + 1}`), (n) => {
      [state.layer, state.head] = maps[n];
      show();
    });
    chooser.classList.add("heads");
    let chain;

    function change(value, place) {
      names = read(inside, value);
      chain = choices("the token that looks back", names, (n) => ((state.place = n), show()), true);
      chain.classList.add("tokens");
      tokens.replaceChildren(chain);
      state.place = place ?? names.length - 1;
      show();
    }

    function show() {
      const { query, seen } = row(inside, state.place, state.layer, state.head), all = heads(reader, state.place);
      chain.mark(state.place);
      [...chain.children].forEach((part, n) => part.style.setProperty("--weight", seen[n]?.weight ?? 0));
      chooser.mark(maps.findIndex(([layer, head]) => layer === state.layer && head === state.head));
      // Above the name of each head a strip of its weights, a stripe for each token.
      [...chooser.children].forEach((part, n) => {
        const [layer, head] = maps[n], weights = [...all[layer][head]], share = 100 / names.length;
        const stripes = weights.map((weight, at) => `color-mix(in srgb, var(--c0) ${(100 * Math.sqrt(weight)).toFixed(0)}%, transparent) ${at * share}% ${(at + 1) * share}%`);
        part.style.setProperty("--strip", `linear-gradient(90deg, ${stripes.join(", ")}, transparent ${weights.length * share}%)`);
      });
      const kept = [...seen].sort((a, b) => b.weight - a.weight).slice(0, SHOWN).sort((a, b) => a.position - b.position);
      const mixed = query.map((_, n) => seen.reduce((sum, each) => sum + each.weight * each.value[n], 0));
      const largest = (rows) => Math.max(...rows.flat().map(Math.abs));
      const [most, widest] = [largest([query, ...seen.map((each) => each.key)]), largest(seen.map((each) => each.value))];
      const cells = (...parts) => html("tr", {}, ...parts.map((part, n) => html(n ? "td" : "th", n ? {} : { scope: "row", class: "mono" }, part)));
      const rows = kept.map(({ position, key, value, score, weight }) => {
        const made = cells(names[position], strip(key, most), score.toFixed(2).replace("-0.00", "0.00"), percent(weight), strip(value, widest));
        made.style.setProperty("--weight", weight);
        return made;
      });
      const heading = html("tr", {}, ...["token", "key", "score", "weight", "value"].map((each) => html("th", { scope: "col" }, each)));
      const asked = cells(names[state.place], strip(query, most), "", "", ""), answer = cells("sum", "", "", "100%", strip(mixed, widest));
      asked.firstChild.append(html("span", { class: "soft" }, " asks"));
      asked.className = answer.className = "total";
      table.replaceChildren(html("table", {}, html("thead", {}, heading), html("tbody", {}, asked, ...rows, answer)));
      const best = seen.reduce((a, b) => (b.weight > a.weight ? b : a));
      const others = seen.length > SHOWN ? ` The table leaves out the small weights (${seen.length - SHOWN}); the sum has them.` : "";
      said.textContent = `Head ${state.layer + 1}.${state.head + 1} at “${names[state.place]}”: most weight, ${percent(best.weight)}, is on “${names[best.position]}”.${others}`;
    }

    // Draw the elements of a row as cells: blue above zero, orange below, the stronger the larger. The square root lets
    // small ones be seen.
    function strip(numbers, most) {
      const width = 2, whole = numbers.length * width;
      const drawn = svg("svg", { width: whole, height: 14, viewBox: `0 0 ${whole} 14`, "aria-hidden": true });
      drawn.append(...numbers.map((each, n) => svg("rect", {
        x: n * width, width: width - 0.4, height: 14, fill: each > 0 ? "var(--c0)" : "var(--c1)", opacity: Math.sqrt(Math.abs(each) / most).toFixed(3),
      })));
      return drawn;
    }

    place.append(text, tokens, html("p", { class: "soft" }, "Heads, by layer and number, each with the tokens that it reads:"), chooser, table, said);
    change(text.querySelector("input").value, 11); // the "c" of the second "cat"
  });
}
