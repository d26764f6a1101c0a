// Three optimizers walk down a valley from a point that the reader drags. The loss is (x² + s y²) / 2, so its slope is
// (x, s y): the flat weight x feels 1, the steep weight y feels s.

{
  const STEPS = 60, LOST = 1e6; // a loss above this is drawn no further
  const [LEFT, RIGHT, BOTTOM, TOP] = [-10.5, 5, -3.6, 3.6]; // the part of the valley that is shown

  // Each rule returns a function that moves the weights w by one step, given their slopes.
  const RULES = {
    SGD: (rate) => (w, slope) => w.map((each, n) => each - rate * slope[n]),
    momentum: (rate, speed = [0, 0]) => (w, slope) => {
      speed = speed.map((each, n) => 0.8 * each + slope[n]);
      return w.map((each, n) => each - rate * speed[n]);
    },
    AdamW: (rate, mean = [0, 0], square = [0, 0], step = 0) => (w, slope) => {
      step++;
      mean = mean.map((each, n) => 0.8 * each + 0.2 * slope[n]);
      square = square.map((each, n) => 0.95 * each + 0.05 * slope[n] ** 2);
      const size = (n) => Math.sqrt(square[n] / (1 - 0.95 ** step)) + 1e-8;
      return w.map((each, n) => each - (rate * mean[n]) / (1 - 0.8 ** step) / size(n));
    },
  };

  const lossAt = ([x, y], steep) => (x * x + steep * y * y) / 2;

  // Return the places that a rule visits from `start` on, the start included.
  function path(rule, rate, start, steep) {
    const places = [start], step = RULES[rule](rate);
    for (let n = 0; n < STEPS; n++) {
      const [x, y] = places.at(-1);
      places.push(step([x, y], [x, steep * y]));
    }
    return places;
  }

  build("descent", (place) => {
    const colours = { SGD: "var(--c0)", momentum: "var(--c1)", AdamW: "var(--c2)" };
    const state = { start: [-9, 2], steep: 30, step: STEPS, rates: { SGD: 0.06, momentum: 0.03, AdamW: 0.5 } };
    const names = Object.keys(RULES);
    const paths = () => names.map((name) => path(name, state.rates[name], state.start, state.steep));

    const valley = picture("The valley from above, with the three paths", 250, (width) => {
      const x = (value) => ((value - LEFT) / (RIGHT - LEFT)) * width, y = (value) => ((TOP - value) / (TOP - BOTTOM)) * 250;
      const rings = [0.3, 1, 3, 10, 30, 60, 120].map((loss) => {
        const [a, b] = [Math.sqrt(2 * loss), Math.sqrt((2 * loss) / state.steep)];
        const size = { rx: x(a) - x(0), ry: y(0) - y(b) };
        return svg("ellipse", { cx: x(0), cy: y(0), ...size, fill: "none", stroke: "currentColor", "stroke-opacity": 0.22 });
      });
      const walked = paths().flatMap((places, number) => {
        const seen = places.slice(0, state.step + 1).filter((each) => lossAt(each, state.steep) < LOST);
        const shown = seen.map(([a, b]) => [x(a), y(b)]), colour = colours[names[number]], [cx, cy] = shown.at(-1);
        const dots = shown.map(([cx, cy]) => svg("circle", { cx, cy, r: 1.7, fill: colour }));
        return [line(shown, { fill: "none", stroke: colour, "stroke-width": 1.3 }), ...dots, svg("circle", { cx, cy, r: 4.5, fill: colour })];
      });
      handle.setAttribute("transform", `translate(${x(state.start[0])} ${y(state.start[1])})`);
      const least = svg("path", { d: `M${x(0) - 5} ${y(0)}h10m-5 -5v10`, stroke: "currentColor" });
      return [...rings, least, ...walked];
    });

    const handle = svg(
      "g", { class: "handle", tabindex: 0, role: "application", "aria-roledescription": "point to drag" },
      svg("circle", { r: 16, fill: "transparent" }),
      svg("circle", { r: 8, fill: "var(--color-background-primary)", stroke: "currentColor", "stroke-width": 2.5 }),
    );
    valley.append(handle);
    handle.addEventListener("pointerdown", (event) => (event.preventDefault(), handle.focus(), handle.setPointerCapture(event.pointerId)));
    handle.addEventListener("pointermove", (event) => {
      if (!handle.hasPointerCapture(event.pointerId)) return;
      const box = valley.getBoundingClientRect();
      const [across, down] = [(event.clientX - box.x) / box.width, (event.clientY - box.y) / box.height];
      begin([LEFT + across * (RIGHT - LEFT), TOP - down * (TOP - BOTTOM)]);
    });
    handle.addEventListener("keydown", (event) => {
      const way = { ArrowLeft: [-0.5, 0], ArrowRight: [0.5, 0], ArrowUp: [0, 0.25], ArrowDown: [0, -0.25] }[event.key];
      if (!way) return;
      event.preventDefault();
      begin(state.start.map((each, n) => each + way[n]));
    });

    // Begin at another point, inside of what is shown.
    function begin([x, y]) {
      state.start = [Math.min(Math.max(x, LEFT + 0.5), RIGHT - 0.5), Math.min(Math.max(y, BOTTOM + 0.2), TOP - 0.2)];
      show();
    }

    const losses = picture("The loss by step of each optimizer", 150, (width) => {
      const x = (step) => 34 + (step / STEPS) * (width - 40), y = (loss) => 8 + ((3 - Math.log10(loss)) / 9) * 118;
      const grid = [1e3, 1, 1e-3, 1e-6].flatMap((loss) => [
        line([[34, y(loss)], [width, y(loss)]], { stroke: "currentColor", "stroke-opacity": 0.18 }),
        svg("text", { x: 29, y: y(loss) + 4, "text-anchor": "end" }, `10${{ 3: "³", 0: "⁰", "-3": "⁻³", "-6": "⁻⁶" }[Math.log10(loss)]}`),
      ]);
      const curves = paths().map((places, number) => {
        const shown = places.slice(0, state.step + 1).map((each, step) => [x(step), y(Math.min(Math.max(lossAt(each, state.steep), 1e-6), 2e3))]);
        return line(shown, { fill: "none", stroke: colours[names[number]], "stroke-width": 1.8 });
      });
      return [...grid, ...curves, svg("text", { x: 34, y: 146 }, "loss by step"), svg("text", { x: width, y: 146, "text-anchor": "end" }, STEPS)];
    });

    const rows = names.map((name) => {
      const range = { SGD: [0.002, 0.1, 0.001], momentum: [0.002, 0.1, 0.001], AdamW: [0.02, 1.5, 0.01] }[name];
      const [min, max, step] = range, value = state.rates[name];
      const row = slider(`${name}, rate`, { min, max, step, value }, (rate) => ((state.rates[name] = rate), show()));
      row.style.setProperty("--mark", colours[name]);
      return row;
    });
    const steep = slider("steepness", { min: 1, max: 60, step: 1, value: state.steep }, (value) => ((state.steep = value), show()));
    const step = slider("step", { min: 0, max: STEPS, step: 1, value: STEPS }, goTo);
    for (const each of [steep, step]) each.style.setProperty("--mark", "var(--soft)");
    const said = html("p", { class: "status", role: "status" });

    function goTo(number) {
      state.step = number;
      step.set(number);
      show();
    }

    function show() {
      valley.redraw();
      losses.redraw();
      handle.setAttribute("aria-label", `start: flat weight ${state.start[0].toFixed(1)}, steep weight ${state.start[1].toFixed(2)}; arrow keys move it`);
      const ends = paths().map((places) => lossAt(places[state.step], state.steep));
      const told = ends.map((loss, n) => `${names[n]} ${loss < LOST ? loss.toPrecision(2) : "out of the valley"}`);
      said.textContent = `Loss after ${state.step} steps: ${told.join(", ")}.`;
    }

    const race = button("Race", () => play(STEPS, 80, goTo));
    const right = html("div", {}, losses, ...rows, steep);
    place.append(html("div", { class: "sides" }, html("div", {}, valley, html("div", { class: "row" }, race), step), right), said);
    show();
  });
}
