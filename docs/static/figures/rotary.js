// A query and a key, equal at first, are turned by angles that grow with their positions. Each dial is one pair of
// elements with its own speed; the product of the two arrows depends on the angle between them, and the score adds the
// products of all pairs.

{
  const PAIRS = 8, LONGEST = 64;
  const NUMERALS = "₀₁₂₃₄₅₆₇";

  const frequencies = (base) => Array.from({ length: PAIRS }, (_, pair) => base ** (-pair / PAIRS)); // radians a position
  const score = (distance, base) => frequencies(base).reduce((sum, each) => sum + Math.cos(distance * each), 0);

  build("rotary", (place) => {
    const state = { query: 12, key: 9, base: 10000 };

    const dials = picture("Eight dials, each with the arrow of the query and the arrow of the key", 0, (width) => {
      const columns = width < 480 ? 4 : 8, size = width / columns, radius = Math.min(size / 2 - 5, 42);
      dials.setAttribute("height", (PAIRS / columns) * (2 * radius + 44));
      return frequencies(state.base).flatMap((speed, pair) => {
        const cx = (pair % columns + 0.5) * size, cy = Math.floor(pair / columns) * (2 * radius + 44) + radius + 3;
        const tip = (position, length) => [cx + length * Math.cos(speed * position), cy - length * Math.sin(speed * position)];
        const arrow = (position, colour, length) => {
          const [x, y] = tip(position, length);
          return [line([[cx, cy], [x, y]], { stroke: colour, "stroke-width": 3 }), svg("circle", { cx: x, cy: y, r: 4, fill: colour })];
        };
        const between = state.query - state.key, sweep = speed * Math.abs(between) < 2 * Math.PI ? speed * between : 2 * Math.PI;
        const bow = Array.from({ length: 25 }, (_, n) => tip(state.key + (sweep / speed) * (n / 24), 0.4 * radius));
        const text = (below, words, colour = "currentColor") =>
          svg("text", { x: cx, y: cy + radius + below, "text-anchor": "middle", fill: colour }, words);
        return [
          svg("circle", { cx, cy, r: radius, fill: "none", stroke: "currentColor", "stroke-opacity": 0.3 }),
          line(bow, { fill: "none", stroke: "var(--c2)", "stroke-width": 2 }),
          ...arrow(state.key, "var(--c1)", 0.8 * radius),
          ...arrow(state.query, "var(--c0)", radius),
          text(16, `pair${NUMERALS[pair]}`),
          text(31, Math.cos(speed * between).toFixed(2), "var(--c2)"),
        ];
      });
    });

    const curve = picture("The score by distance, with a mark at the distance now", 154, (width) => {
      const x = (distance) => 24 + (distance / LONGEST) * (width - 32), y = (value) => 8 + ((8 - value) / 12) * 112;
      const points = Array.from({ length: 4 * LONGEST + 1 }, (_, n) => [x(n / 4), y(score(n / 4, state.base))]);
      const between = Math.abs(state.query - state.key);
      const grid = [8, 4, 0, -4].flatMap((value) => [
        line([[24, y(value)], [width - 8, y(value)]], { stroke: "currentColor", "stroke-opacity": 0.18 }),
        svg("text", { x: 19, y: y(value) + 4, "text-anchor": "end" }, value),
      ]);
      const marks = [0, 16, 32, 48, 64].map((each) => svg("text", { x: x(each), y: 134, "text-anchor": "middle" }, each));
      return [
        ...grid, ...marks, svg("text", { x: x(32), y: 149, "text-anchor": "middle" }, "distance (tokens)"),
        line(points, { fill: "none", stroke: "var(--c2)", "stroke-width": 1.8 }),
        svg("circle", { cx: x(between), cy: y(score(between, state.base)), r: 5, fill: "var(--c2)" }),
      ];
    });

    const said = html("p", { class: "status", role: "status" });
    const at = (name, value) => slider(`position of ${name}`, { min: 0, max: LONGEST, step: 1, value }, (to) => turn({ [name]: to }));
    const rows = { query: at("query", 12), key: at("key", 9) };
    rows.query.style.setProperty("--mark", "var(--c0)");
    rows.key.style.setProperty("--mark", "var(--c1)");
    const powers = { min: 1, max: 6, step: 0.5, value: 4, show: (power) => Math.round(10 ** power).toLocaleString("en") };
    const base = slider("base θ", powers, (power) => turn({ base: 10 ** power }));
    base.style.setProperty("--mark", "var(--c2)");

    // Move both by the same number of positions, as far as both stay in the text.
    function shift(by) {
      const [low, high] = [Math.min(state.query, state.key), Math.max(state.query, state.key)];
      const way = Math.min(Math.max(by, -low), LONGEST - high);
      turn({ query: state.query + way, key: state.key + way });
    }

    function turn(change) {
      Object.assign(state, change);
      for (const name of ["query", "key"]) rows[name].set(state[name]);
      dials.redraw();
      curve.redraw();
      const between = Math.abs(state.query - state.key);
      said.textContent = `Distance ${between}: the score, the sum of the eight products, is ${score(between, state.base).toFixed(2)}.`;
    }

    const both = html("div", { class: "row" }, "both:", button("◀ one back", () => shift(-1)), button("one on ▶", () => shift(1)));
    both.append(button("Turn", () => {
      const first = state.key, apart = state.query - state.key;
      play(LONGEST - Math.max(first, first + apart), 70, (by) => turn({ key: first + by, query: first + apart + by }));
    }));
    place.append(dials, html("div", { class: "sides" }, html("div", {}, rows.query, rows.key, base, both), curve), said);
    turn({});
  });
}
