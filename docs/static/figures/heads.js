// The maps of all heads of the trained model on a text: a row for each token, and in it the tokens that it reads. Point
// at a head to see its map, and how much of its attention goes where, on average.

{
  // Draw a map as squares, each of one size: the stronger the larger the weight. The square root lets small ones be seen.
  const squares = (map, size) =>
    map.flatMap((weights, row) => Array.from(weights, (weight, column) => svg("rect", {
      x: (column * size).toFixed(2), y: (row * size).toFixed(2), width: size.toFixed(2), height: size.toFixed(2), fill: "var(--c0)", "fill-opacity": Math.sqrt(weight).toFixed(2),
    })));

  // Return the mean share of the weights of all tokens but the first that goes to the token itself, to the one before, and
  // to the beginning; and of those that came before, the share that goes to what followed them there.
  function shares(map, ids) {
    const rows = map.map((weights, at) => ({ weights, at })).slice(1), again = rows.filter(({ at }) => ids.indexOf(ids[at], 1) < at);
    const mean = (some, share) => some.reduce((sum, { weights, at }) => sum + share(weights, at), 0) / some.length;
    const followed = (weights, at) => weights.reduce((sum, weight, n) => sum + (n > 1 && ids[n - 1] === ids[at] ? weight : 0), 0);
    return [
      ["the token itself", mean(rows, (weights, at) => weights[at])],
      ["the one before", mean(rows, (weights, at) => weights[at - 1])],
      ["the beginning", mean(rows, (weights) => weights[0])],
      ["what followed it, at a token that came before", again.length ? mean(again, followed) : null],
    ];
  }

  build("heads", async (place) => {
    await near(place);
    const inside = await model(), { reader } = inside, { queries, patterns } = reader.machine.heads;
    const all = Array.from({ length: patterns.length * queries }, (_, n) => [Math.floor(n / queries), n % queries]);
    let names, maps, chosen = 6; // the head 4.1

    const text = field("Text", "the cat sat on the mat, the cat sat on the mat", change);
    const chooser = choices("head", all.map(([layer, head]) => `${layer + 1}.${head + 1}`), show, true);
    chooser.classList.add("maps");
    for (const each of chooser.children) each.append(svg("svg", { "aria-hidden": true }));
    const large = picture("The map of the head: a row for each token, a column for each token that it may read", 0, (width) => {
      const labels = 88, size = Math.min((width - labels) / names.length, 18), lines = size < 9 ? Math.ceil(9 / size) : 1;
      large.setAttribute("height", names.length * size + 2);
      const marks = names.map((name, row) => row % lines ? "" : svg("text", { x: labels - 6, y: (row + 0.5) * size + 4, "text-anchor": "end", class: "mono" }, name.slice(0, 10)));
      return [...marks.filter(Boolean), svg("g", { transform: `translate(${labels} 0)` }, ...squares(maps[chosen], size))];
    });
    const said = html("p", { class: "status", role: "status" });

    function change(value) {
      names = read(inside, value);
      const rows = names.map((_, at) => reader.look(at).attention);
      maps = all.map(([layer, head]) => rows.map((row) => Array.from(row[layer][head])));
      [...chooser.children].forEach((each, n) => {
        each.lastChild.setAttribute("viewBox", `0 0 ${names.length} ${names.length}`);
        each.lastChild.replaceChildren(...squares(maps[n], 1));
      });
      show(chosen);
    }

    function show(number) {
      chosen = number;
      chooser.mark(number);
      large.redraw();
      const [layer, head] = all[number], found = names.length > 1 ? shares(maps[number], reader.ids) : [];
      const parts = found.filter(([, share]) => share !== null).map(([name, share]) => `${percent(share)} on ${name}`);
      said.textContent = `Head ${layer + 1}.${head + 1}: ${parts.join(", ")}.`;
    }

    place.append(text, html("p", { class: "soft" }, "All heads, by layer and number:"), chooser, large, said);
    change(text.querySelector("input").value);
  });
}
