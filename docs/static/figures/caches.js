// Three ways to walk through the product of two small matrices, and a cache that holds a few lines: a number that is not
// in it costs a fetch of its whole line, and the line that was not used for the longest time makes room.

{
  const SIZE = 12, LINE = 4; // rows and columns of a matrix, and numbers of a line
  const EACH = SIZE / LINE, NAMES = ["a", "b", "c"];

  // Return the steps (row, column, place in the sum) in the order in which loops take them.
  function walk([first, second, third], block = SIZE) {
    const steps = [], [outer, inner] = [Array(SIZE / block).keys(), Array(block).keys()].map((each) => [...each]);
    for (const p of outer) for (const q of outer) for (const r of outer) {
      for (const x of inner) for (const y of inner) for (const z of inner) {
        steps.push({ [first]: p * block + x, [second]: q * block + y, [third]: r * block + z });
      }
    }
    return steps;
  }

  const ORDERS = { textbook: walk("ijk"), "loop order": walk("ikj"), blocks: walk("ikj", LINE) };

  // Return the numbers that a step reads, as [matrix, row, column].
  const used = ({ i, j, k }) => [[0, i, k], [1, k, j], [2, i, j]];
  const lineOf = ([matrix, row, column]) => (matrix * SIZE + row) * EACH + Math.floor(column / LINE);

  // Take steps with an empty cache; return the lines that it holds then, and the number of fetches.
  function after(steps, room) {
    const held = new Set();
    let fetches = 0;
    for (const each of steps.flatMap(used).map(lineOf)) {
      if (!held.delete(each)) fetches++;
      held.add(each); // now the newest
      if (held.size > room) held.delete(held.values().next().value);
    }
    return { held, fetches };
  }

  build("caches", (place) => {
    const state = { order: "textbook", room: 12, taken: 1 }, last = SIZE ** 3;

    const grids = picture("Three matrices, a times b is c: which of their numbers are in the cache", 0, (width) => {
      const cell = Math.min((width - 48) / (3 * SIZE), 15), steps = ORDERS[state.order].slice(0, state.taken);
      const { held } = after(steps, state.room), now = used(steps.at(-1)).map(String);
      grids.setAttribute("height", SIZE * cell + 24);
      return NAMES.flatMap((name, matrix) => {
        const left = matrix * (SIZE * cell + 24);
        const cells = Array.from({ length: SIZE ** 2 }, (_, number) => {
          const row = Math.floor(number / SIZE), column = number % SIZE, each = [matrix, row, column];
          const isNow = now.includes(String(each)), isHeld = held.has(lineOf(each));
          const [fill, opacity] = isNow ? ["var(--c1)", 1] : isHeld ? ["var(--c0)", 0.6] : ["currentColor", 0.1];
          return svg("rect", {
            x: left + column * cell + Math.floor(column / LINE), y: row * cell, width: cell - 1, height: cell - 1, fill, "fill-opacity": opacity,
          });
        });
        return [...cells, svg("text", { x: left + (SIZE * cell) / 2, y: SIZE * cell + 16, "text-anchor": "middle" }, name)];
      });
    });

    const said = html("p", { class: "status", role: "status" });
    const orders = choices("Order of the steps", Object.keys(ORDERS), (number) => change({ order: Object.keys(ORDERS)[number] }));
    const steps = slider("steps", { min: 1, max: last, step: 1, value: 1, show: (n) => n.toLocaleString("en") }, (taken) => change({ taken }));
    const room = slider("lines in the cache", { min: 3, max: 3 * SIZE * EACH, step: 1, value: 12 }, (lines) => change({ room: lines }));
    const start = button("Play", () => play(last / 8, 30, (n) => change({ taken: Math.max(8 * n, 1) })));

    function change(changes) {
      Object.assign(state, changes);
      orders.mark(Object.keys(ORDERS).indexOf(state.order));
      steps.set(state.taken);
      grids.redraw();
      const all = ORDERS[state.order], count = (taken) => after(all.slice(0, taken), state.room).fetches.toLocaleString("en");
      said.textContent = `Lines fetched: ${count(state.taken)} so far, ${count(last)} by the whole product.`;
    }

    place.append(orders, grids, steps, room, html("div", { class: "row" }, start), said);
    change({});
  });
}
