// A text that grows, and the machine that reads it: each token is read once, as long as the text before it stays.

class Reader {
  constructor(machine) {
    Object.assign(this, { machine, ids: [], start: 0, logits: null, surprises: [] });
  }

  // The number of tokens that are read, counted from the beginning of the text.
  get read() {
    return this.start + this.machine.length;
  }

  get isBehind() {
    return this.read < this.ids.length;
  }

  // Change the text. The tokens that it shares with the text before stay read; if others followed, the last of them is
  // read again, for its logits. Of a text that is longer than the context, the last part is read; the last half, if
  // fewer than half a context of its tokens are new, so that the next half costs no more than before. At least a quarter
  // of a context is read of a text that has become shorter.
  replace(ids) {
    const { context } = this.machine;
    let same = 0;
    while (same < Math.min(ids.length, this.ids.length) && ids[same] === this.ids[same]) same++;
    this.ids = [...ids];
    this.surprises.length = same;
    const isLong = ids.length - this.start > context, hasFewNew = ids.length - same < context / 2;
    const isShort = this.start > 0 && ids.length - this.start < context >> 2;
    if (same <= this.start || isShort || (isLong && !hasFewNew)) this.begin(Math.max(0, ids.length - context));
    else if (isLong) this.begin(ids.length - Math.max(1, context >> 1));
    else if (same < this.read || !this.logits) this.cut(same - 1 - this.start);
  }

  begin(start) {
    this.start = start;
    this.cut(0);
  }

  cut(length) {
    this.machine.cut(length);
    this.logits = null; // of a token that is no longer there
  }

  // Add a token, once all tokens before it are read. A text that outgrows the context is read again from its last half.
  add(id) {
    const { context } = this.machine;
    this.surprises[this.ids.length] ??= surprise(this.logits, id);
    this.ids.push(id);
    if (this.ids.length - this.start > context) this.begin(this.ids.length - Math.max(1, context >> 1));
  }

  // Read the next unread token.
  next() {
    const place = this.read, id = this.ids[place];
    if (place > this.start) this.surprises[place] ??= surprise(this.logits, id);
    this.logits = this.machine.read(id);
  }

  // Look into the model at a token that it has read. Return the logits after it, what each layer would have answered
  // (the logits of the residual stream after it), and which tokens each head reads: by layer and head, the shares of
  // the tokens from `start` on. Null for a token that the model does not see.
  look(place) {
    const { machine } = this, attention = [], streams = [], lens = machine.lens();
    if (place < this.start || place >= this.read) return null;
    const logits = machine.watch(place - this.start, this.ids[place], (name, what) => {
      if (name === "attention") (attention[what.layer] ??= [])[what.head] = what.weights;
      else if (lens) streams.push(lens.stream());
    });
    return { logits, attention, start: this.start, layers: lens ? [...streams.map(lens.answer), logits] : [] };
  }
}

// Return how unexpected a token was, in bits.
function surprise(logits, id) {
  let largest = -Infinity, total = 0;
  for (let n = 0; n < logits.length; n++) largest = Math.max(largest, logits[n]);
  for (let n = 0; n < logits.length; n++) total += Math.exp(logits[n] - largest);
  return (Math.log(total) + largest - logits[id]) / Math.LN2;
}
