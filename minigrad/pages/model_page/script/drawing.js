// A text whose tokens are coloured, and the rivals of a token. All text is set as text, never as markup.

const $ = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)}%`;

// Return how many tokens were written since a time, and how fast.
function paceOf(count, since) {
  const perSecond = Math.round((1000 * count) / (performance.now() - since));
  return `${count} ${count === 1 ? "token" : "tokens"}, ${perSecond} a second`;
}

// Return the number of tokens to write that a field holds. What is not a number above 0 becomes 1, also in the field.
const countIn = (field) => (field.value = Math.max(1, Math.round(Number(field.value)) || 1));

// Return the strength of the colour of a token with a surprise in bits, if it has one.
const strengthOf = (bits = 0) => Math.min(bits / 12, 1);

// A text field, and behind it a paper with one span for each token, which shows its colour.
class Paper {
  constructor(field, paper) {
    Object.assign(this, { field, paper, spans: [], pieces: [] });
  }

  // Show the texts of the tokens.
  write(pieces) {
    const text = pieces.join("");
    this.pieces = pieces;
    if (this.field.value !== text) this.field.value = text;
  }

  // Colour each token, and mark one of them: strength(place) is a share from 0 to 1.
  colour(strength, marked) {
    const { spans, pieces } = this;
    while (spans.length > pieces.length) spans.pop().remove();
    while (spans.length < pieces.length) {
      spans.push(element("span", { "data-place": spans.length }));
      this.paper.append(spans.at(-1));
    }
    spans.forEach((span, place) => this.paint(span, pieces[place], strength(place).toFixed(2), place === marked));
  }

  // Change a span where it has changed.
  paint(span, text, strength, isMarked) {
    if (span.textContent !== text) span.textContent = text;
    if (span.strength !== strength) span.style.setProperty("--strength", strength);
    if (span.isMarked !== isMarked) span.classList.toggle("marked", isMarked);
    Object.assign(span, { strength, isMarked });
  }

  // The number of the token at the cursor; null at the end of the text.
  get place() {
    let end = 0;
    const place = this.pieces.findIndex((piece) => (end += piece.length) > this.field.selectionStart);
    return place < 0 ? null : place;
  }
}

// Return a button with the name of a token and its share, which takes the token; `numbers` describes the share.
function rivalButton(token, { share, numbers, isChosen }, take) {
  const name = element("span", { class: "name" }, token);
  const button = element("button", { type: "button", title: numbers }, name, element("span", { class: "share" }, share));
  button.setAttribute("aria-label", `${token}: ${numbers}${isChosen ? "; it is in the text" : ""}`);
  button.classList.toggle("chosen", isChosen);
  button.addEventListener("click", take);
  return button;
}

const OFF = { "top-k": 0, "top-p": 1, "min-p": 0, "presence-penalty": 0, "frequency-penalty": 0, "repetition-penalty": 1 };

// Show the values of the sliders of a part of the page.
function showSliders(part) {
  for (const { htmlFor, parentNode } of part.querySelectorAll(".setting label")) {
    const { value } = $(htmlFor), name = htmlFor.replace(/-\d$/, "");
    parentNode.querySelector("output").textContent = Number(value) === OFF[name] ? "off" : value;
  }
}
