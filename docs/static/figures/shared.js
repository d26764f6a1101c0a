// What all figures share. A figure is a function that fills its place in the page, and draws anew after each change.
// Without scripts its place stays hidden, and the picture of the chapter above it says the same once.

const FOLDER = document.currentScript.src.replace(/[^/]*$/, "");

// Fill the places of a figure in this page.
function build(name, fill) {
  for (const place of document.querySelectorAll(`.touch[data-figure="${name}"]`)) {
    place.hidden = false;
    fill(place);
  }
}

// Return a new part of the page, or of a picture; text among its children is text, never markup.
const html = (name, attributes, ...children) => filled(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

function filled(part, attributes = {}, children) {
  for (const [key, value] of Object.entries(attributes)) part.setAttribute(key, value);
  part.append(...children);
  return part;
}

// Return a picture as wide as its place, with `description` for those who hear the page. draw(width) returns its parts;
// it is called again when the width changes, or by `picture.redraw()`. So text in it has the same size on every screen.
// What a caller appends to the picture itself is not drawn again, and so keeps the focus and the pointer.
function picture(description, height, draw) {
  const content = svg("g"), drawn = svg("svg", { role: "img", "aria-label": description, height }, content);
  let width = 0;
  drawn.redraw = () => width && content.replaceChildren(...draw(width));
  new ResizeObserver(([entry]) => {
    if (Math.round(entry.contentRect.width) === width) return;
    width = Math.round(entry.contentRect.width);
    drawn.redraw();
  }).observe(drawn);
  return drawn;
}

const line = (points, attributes) =>
  svg("path", { d: points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L").replace(/^/, "M"), ...attributes });

// Return a slider in a row with its name and its value; change(value) is called when it moves.
function slider(name, { min, max, step, value, show = String }, change) {
  const input = html("input", { type: "range", min, max, step, value }), shown = html("output");
  const row = html("label", { class: "slider" }, html("span", {}, name), input, shown);
  row.set = (value) => {
    input.value = value;
    shown.textContent = show(Number(input.value));
    input.setAttribute("aria-valuetext", shown.textContent);
  };
  input.addEventListener("input", () => {
    playing++;
    row.set(input.value);
    change(Number(input.value));
  });
  row.set(value);
  return row;
}

function button(name, press) {
  const made = html("button", { type: "button" }, name);
  made.addEventListener("click", () => (playing++, press()));
  return made;
}

// Return a row of buttons, one of which is chosen; the arrow keys go from one to the next. choose(number) is called for
// a click and for a key, and, if `points`, for the pointer above a button.
function choices(label, names, choose, points = false) {
  const row = html("div", { class: "choices", role: "radiogroup", "aria-label": label });
  const parts = names.map((name, number) => {
    const part = html("button", { type: "button", role: "radio" }, name);
    part.addEventListener("click", () => (playing++, choose(number)));
    if (points) part.addEventListener("pointerenter", () => choose(number));
    return part;
  });
  row.append(...parts);
  row.mark = (chosen) =>
    parts.forEach((part, number) => {
      part.setAttribute("aria-checked", number === chosen);
      part.tabIndex = number === chosen ? 0 : -1;
    });
  row.addEventListener("keydown", (event) => {
    const way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!way) return;
    event.preventDefault();
    const next = (parts.indexOf(document.activeElement) + way + parts.length) % parts.length;
    parts[next].focus();
    playing++;
    choose(next);
  });
  return row;
}

// Return a field for a short text; change(text) is called with each edit.
function field(name, value, change) {
  const input = html("input", { type: "text", maxlength: 200, spellcheck: "false", autocomplete: "off" });
  input.value = value;
  input.addEventListener("input", () => change(input.value));
  return html("label", { class: "field" }, html("span", {}, name), input);
}

// Call move(number) for each number up to `last`, one in `pause` milliseconds; the next call begins anew, and the next
// use of a slider or a button ends it. Readers who asked for little motion see the last one at once.
let playing = 0;
async function play(last, pause, move) {
  const mine = ++playing, isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  for (let number = isStill ? last : 0; number <= last && mine === playing; number++) {
    move(number);
    await new Promise((resume) => setTimeout(resume, pause));
  }
}

const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)}%`;

// Load a script of the site, once.
const loaded = {};
function load(name) {
  return (loaded[name] ??= new Promise((resolve, reject) => {
    const script = html("script", { src: FOLDER + name });
    script.onload = resolve;
    script.onerror = () => reject(new Error(`${name} could not be loaded`));
    document.head.append(script);
  }));
}

// Return the tokenizer of the trained model.
async function words() {
  await Promise.all([load("engine.js"), load("words.js")]);
  return new Engine.Tokenizer(Words);
}

// Return the trained model: a reader of texts, and its tokenizer.
async function model() {
  const [tokenizer] = await Promise.all([words(), load("weights.js")]);
  const bytes = Uint8Array.from(atob(Trained.bytes), (each) => each.charCodeAt(0));
  const reader = new Engine.Reader(new Engine.Machine(Trained.table, bytes));
  return { reader, tokenizer, isAllowed: tokenizer.content.map((each) => each !== null) };
}

// Read a text from its beginning; return the names of its tokens, the one that begins a text included.
function read({ reader, tokenizer }, text) {
  reader.replace([...tokenizer.begin, ...tokenizer.encode(text)].slice(0, reader.machine.context));
  while (reader.isBehind) reader.next();
  return reader.ids.map((id) => (tokenizer.begin.includes(id) ? "start" : tokenizer.name(id)));
}

// Wait until a place is near the window: what it loads is large.
const near = (place) =>
  new Promise((resolve) => {
    const observer = new IntersectionObserver(
      ([entry]) => entry.isIntersecting && (observer.disconnect(), resolve()),
      { rootMargin: "400px" },
    );
    observer.observe(place);
  });
