// One training step on several threads, divided in two ways: each operation among all threads, which meet after each; or
// the batch among replicas, which meet once and then add up their gradients.

{
  const BANDWIDTH = 10; // of the memory: megabytes a millisecond

  // Return the milliseconds of both ways, part by part: computing, meeting, adding.
  function times({ compute, operations, meeting, weights, threads }) {
    const share = compute / threads, meet = meeting / 1000;
    return {
      "each operation divided": [share, operations * meet, 0],
      "a replica for each thread": [share, meet, (threads * weights) / BANDWIDTH],
    };
  }

  const sum = (parts) => parts.reduce((total, each) => total + each, 0);

  build("replicas", (place) => {
    const state = { compute: 60, operations: 300, meeting: 20, weights: 4, threads: 2 };

    const bars = picture("The threads of both ways by time: computing, meeting, adding up gradients", 0, (width) => {
      const both = Object.entries(times(state)), longest = Math.max(...both.map(([, parts]) => sum(parts)));
      const row = 14, block = state.threads * row + 34, scale = (width - 2) / longest;
      bars.setAttribute("height", 2 * block + 6);
      return both.flatMap(([name, parts], number) => {
        const top = number * block + 20, meetings = parts[2] ? 1 : state.operations;
        const rows = Array.from({ length: state.threads }, (_, n) => top + n * row);
        const rect = (y, from, long, fill) => svg("rect", { x: (from * scale).toFixed(2), y, width: (long * scale).toFixed(2), height: row - 2, fill });
        // Computing and meeting take turns: short bars of computing lie over one long bar of meeting.
        const turn = (parts[0] + parts[1]) / meetings, long = ((parts[0] / meetings) * scale).toFixed(2);
        const path = (y) => Array.from({ length: meetings }, (_, n) => `M${(n * turn * scale).toFixed(2)} ${y}h${long}v${row - 2}h-${long}z`).join("");
        return [
          svg("text", { x: 0, y: top - 6 }, name),
          ...rows.map((y) => rect(y, 0, parts[0] + parts[1], "var(--c1)")),
          ...rows.map((y) => svg("path", { d: path(y), fill: "var(--c0)" })),
          ...rows.map((y) => rect(y, parts[0] + parts[1], parts[2], "var(--c2)")),
        ];
      });
    });

    const said = html("p", { class: "status", role: "status" }), key = html("p", { class: "soft" });
    for (const [colour, name] of [["--c0", "computing"], ["--c1", "meeting"], ["--c2", "adding up gradients"]]) {
      key.append(html("span", { style: `color: var(${colour})` }, "■"), ` ${name}  `);
    }
    const log = (name, unit, field, max) =>
      slider(name, { min: 0, max, step: 0.01, value: Math.log10(state[field]), show: (power) => `${exact(power)} ${unit}` }, (power) => change({ [field]: exact(power) }));
    const exact = (power) => Number((10 ** power).toPrecision(2));
    const rows = [
      slider("threads", { min: 1, max: 8, step: 1, value: state.threads }, (threads) => change({ threads })),
      log("computing", "ms", "compute", 3),
      log("operations", "", "operations", 3),
      log("a meeting", "µs", "meeting", 3),
      log("weights", "MB", "weights", 3),
    ];

    function change(changes) {
      Object.assign(state, changes);
      bars.redraw();
      const [divided, replicas] = Object.values(times(state)).map(sum), ratio = (time) => `${(state.compute / time).toFixed(2)} times as fast as one thread`;
      said.textContent = `Each operation divided: ${divided.toFixed(1)} ms, ${ratio(divided)}. Replicas: ${replicas.toFixed(1)} ms, ${ratio(replicas)}.`;
    }

    place.append(bars, key, html("div", { class: "sides" }, html("div", {}, ...rows.slice(0, 3)), html("div", {}, ...rows.slice(3))), said);
    change({});
  });
}
