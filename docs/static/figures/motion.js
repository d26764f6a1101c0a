// The trained model in motion: every step of its pass over one token, with the numbers that it reads and writes, and what
// the model would answer if it stopped there.

{
  const LAYER = [
    ["norm", "bring the numbers to one scale"],
    ["q", "multiply by a matrix: the queries of all heads"],
    ["k", "multiply by a matrix: the key of this token"],
    ["v", "multiply by a matrix: the value of this token"],
    ["turn q", "turn the pairs of the queries by the angles of this position"],
    ["turn k", "turn the pairs of the key by the same angles"],
    ["store", "store key and value in the cache, beside those of the tokens before"],
    ["attend", "compare the queries with all stored keys, and mix the values"],
    ["join", "divide the mixtures by the sums of their weights"],
    ["add", "multiply by a matrix, and add to the stream"],
    ["norm", "bring the numbers of the stream to one scale"],
    ["gate", "multiply by a matrix: how far each unit is open"],
    ["up", "multiply by a matrix: what each unit says"],
    ["gated", "let each unit say its part"],
    ["add", "multiply by a matrix, and add to the stream"],
  ];
  const ADDED = ["add v", "add the values of the first layer"];
  const FIRST = ["look up", "copy the row of the token from the table of embeddings: the stream begins"];
  const SHARED = [["norm", "bring the numbers to one scale"], ["first v", "multiply by a matrix: the values of the first layer, which later layers add to their own"]];
  const LAST = [["norm", "bring the numbers of the stream to one scale"], ["logits", "multiply by the table of embeddings: a score for every token"]];

  // Carry out the pass over the token at `place` again; return for each step what it read and wrote.
  function walk({ reader }, place) {
    const { machine } = reader, { registers: r, length } = machine, lens = machine.lens();
    let weights = [];
    Object.assign(machine, { length: place, token: reader.ids[place], watcher: (name, what) => name === "attention" && weights.push(what.weights) });
    const states = machine.steps.map((step) => {
      const { name, source, target, inputs, outputs } = step, joined = name === "ATTEND" || name === "JOIN";
      const width = joined ? machine.heads.queries * machine.heads.size : 0;
      weights = [];
      const read = name === "EMBED" ? [] : Array.from(r.subarray(name === "ROTATE" ? target : source, (name === "ROTATE" ? target : source) + (width || inputs)));
      Engine.STEPS[name](machine, step);
      const written = Array.from(name === "STORE" ? r.subarray(source, target + inputs) : r.subarray(target, target + (width || outputs)));
      return { step, read, written, weights, stream: lens.stream() };
    });
    const logits = r.slice(machine.logits[0], machine.logits[0] + machine.logits[1]);
    for (const state of states.slice(0, -2)) state.answer = lens.answer(state.stream);
    for (const state of states.slice(-2)) state.answer = logits;
    Object.assign(machine, { length, watcher: null });
    return states;
  }

  // Return for each step its name, what it does and where it belongs, and the steps with which a layer begins.
  function describe({ steps, heads }) {
    const layers = heads.patterns.length, all = [[...FIRST, "the beginning"]], begins = [];
    if (steps[3].name !== "LINEAR") all.push(...SHARED.map((each) => [...each, "the beginning"])); // a norm: layer 1 is yet to come
    for (let layer = 1; layer <= layers; layer++) {
      const where = `layer ${layer} of ${layers}`;
      begins.push(all.length);
      for (const each of LAYER) {
        const adds = each[0] === "v" && steps[all.length].adds; // in the last layer: nothing needs the first values any more
        all.push([each[0], adds ? `${each[1]}, added to the values of the first layer` : each[1], where]);
        if (each[0] === "v" && steps[all.length].name === "ADD") all.push([...ADDED, where]);
      }
    }
    begins.push(all.length);
    all.push(...LAST.map((each) => [...each, "the end"]));
    return { all, begins };
  }

  build("motion", async (place) => {
    await near(place);
    const inside = await model(), { reader, tokenizer, isAllowed } = inside, { machine } = reader;
    const { all, begins } = describe(machine), count = machine.steps.length;
    let states, tokens, chosen = 0;

    const text = field("Text", "import numpy as", change);
    const chooser = choices("step", all.map(([name]) => name), (n) => move(n));
    chooser.classList.add("steps");
    for (const n of begins) chooser.children[n].classList.add("begins");
    const numbers = picture("the numbers that the step reads and writes", 190, draw), heads = html("div", { class: "soft" });
    const answers = html("p", { class: "mono soft" }), said = html("p", { class: "status", role: "status" });
    const row = html("div", { class: "row" }, button("◀ one back", () => move(Math.max(chosen - 1, 0))), button("one on ▶", () => move(Math.min(chosen + 1, count - 1))), button("Play", () => play(count - 1, 160, move)));

    function change(value) {
      tokens = read(inside, value);
      states = walk(inside, tokens.length - 1);
      move(chosen);
    }

    function move(n) {
      chosen = n;
      const { step, weights, answer } = states[n], products = step.weight && step.name === "LINEAR" ? step.inputs * step.outputs : 0;
      chooser.mark(n);
      numbers.redraw();
      heads.replaceChildren(...weights.map((each, head) => {
        const most = [...each.keys()].sort((a, b) => each[b] - each[a]).slice(0, 4);
        return html("div", {}, `head ${head + 1} reads `, ...most.map((at) => html("span", { class: "mono" }, `${tokens[at]} ${percent(each[at])}  `)));
      }));
      const chances = Engine.softmax(answer), best = [...chances.keys()].filter((id) => isAllowed[id]).sort((a, b) => chances[b] - chances[a]);
      answers.textContent = `next, if it stopped here: ${best.slice(0, 4).map((id) => `${tokenizer.name(id)} ${percent(chances[id])}`).join("  ")}`;
      const cost = products ? ` ${products.toLocaleString("en")} products of two numbers.` : "";
      const [, what, where] = all[n];
      said.textContent = `Step ${n + 1} of ${count}, ${where}: ${what}.${cost}`;
    }

    // Draw what the step reads above what it writes, a cell for each number: blue above zero, orange below, the stronger
    // the larger. Of the logits every number has a cell too, a very small one.
    function draw(width) {
      const { read, written } = states[chosen], parts = [];
      for (const [label, all, top] of [["reads", read, 0], ["writes", written, 98]]) {
        parts.push(svg("text", { x: 0, y: top + 12, fill: "var(--soft)" }, `${label} ${all.length ? `${all.length.toLocaleString("en")} numbers` : "the number of the token"}`));
        const columns = Math.max(Math.ceil(all.length / 6), Math.min(all.length, 48)), side = Math.min(width / columns, 18), most = Math.max(...all.map(Math.abs));
        const rows = Math.ceil(all.length / columns), height = Math.min(70 / Math.max(rows, 1), 18), gap = side > 3 ? 1 : 0;
        for (const sign of [1, -1]) {
          for (const level of [0.25, 0.5, 0.75, 1]) {
            const cells = all.map((each, n) => [each * sign, n]).filter(([each]) => each > 0 && Math.ceil(4 * Math.sqrt(each / most)) / 4 === level);
            const path = cells.map(([, n]) => `M${((n % columns) * side).toFixed(1)} ${(top + 20 + Math.floor(n / columns) * height).toFixed(1)}h${(side - gap).toFixed(1)}v${(height - gap).toFixed(1)}h-${(side - gap).toFixed(1)}z`);
            parts.push(svg("path", { d: path.join(""), fill: sign > 0 ? "var(--c0)" : "var(--c1)", opacity: level }));
          }
        }
      }
      return parts;
    }

    place.append(text, html("p", { class: "soft" }, "The steps of one pass, a row for each layer:"), chooser, row, numbers, heads, answers, said);
    change(text.querySelector("input").value);
  });
}
