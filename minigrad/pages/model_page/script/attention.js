// What a model remembers of the tokens before: keys and values of each layer, and attention to them.
// Keys lie by layer, head and position; each row is filled with zeros up to 32 bytes.

class Cache {
  // `take` reserves bytes of memory and returns their place.
  constructor(machine, take) {
    const { heads, context, steps } = machine, layers = heads.patterns.length;
    this.machine = machine;
    this.row = aligned(4 * heads.size); // bytes
    this.rows = context;
    const everything = layers * heads.keys * context * this.row;
    [this.keys, this.values] = [take(everything), take(everything)];
    const blocks = heads.patterns.some(([, block]) => block) ? everything : 0; // means of blocks of keys
    [this.farKeys, this.farValues] = [take(blocks), take(blocks)];
    this.query = take(this.row);
    this.sum = take(this.row);
    this.scores = take(4 * 2 * context);
    const summary = steps.find(([name]) => name === "SUMMARISE");
    this.width = summary ? summary[4] : 0;
    this.sums = new Float64Array(summary ? layers * context * this.width : 0); // of each position and those before it
  }

  // Return the cosines and sines of a position.
  angles(position) {
    const { frequencies, scale, cosine, sine } = this.machine.heads, { matrices } = this.machine;
    if (cosine !== undefined) return [matrices[cosine].row(position)[0], matrices[sine].row(position)[0]];
    if (this.angled !== position) {
      const angles = frequencies.map((each) => each * position);
      this.table = [angles.map((each) => scale * Math.cos(each)), angles.map((each) => scale * Math.sin(each))];
      this.angled = position;
    }
    return this.table;
  }

  // Return where the row of a position is in one of the four areas, in bytes.
  place(area, layer, head, position) {
    return area + ((layer * this.machine.heads.keys + head) * this.rows + position) * this.row;
  }

  // Store the key, the source, and the value, the target, of the token. If the step `adds`, the slow half of the key
  // is stored with the next token.
  store({ source, target, layer, adds }) {
    const { machine, rows } = this, { heads, length: position, floats, registers: r } = machine;
    const [, block] = heads.patterns[layer], half = heads.size / 2;
    machine.watcher?.("layer", layer);
    for (let head = 0; head < heads.keys; head++) {
      const key = this.place(this.keys, layer, head, position) / 4, next = key + this.row / 4;
      const value = this.place(this.values, layer, head, position) / 4;
      for (let d = 0; d < heads.size; d++) {
        floats[value + d] = r[target + head * heads.size + d];
        const isShifted = adds && d % half >= Math.floor(half / 2);
        if (!isShifted || position + 1 < rows) floats[(isShifted ? next : key) + d] = r[source + head * heads.size + d];
      }
      if (block && (position + 1) % block === 0) {
        this.storeMean(this.keys, this.farKeys, layer, head, position, block);
        this.storeMean(this.values, this.farValues, layer, head, position, block);
      }
    }
  }

  // Store the mean of the block of rows that ends at a position.
  storeMean(area, farArea, layer, head, position, block) {
    const { floats } = this.machine, width = this.row / 4;
    const mean = this.place(farArea, layer, head, Math.floor(position / block)) / 4;
    const first = this.place(area, layer, head, position + 1 - block) / 4;
    for (let d = 0; d < width; d++) {
      let sum = 0;
      for (let n = 0; n < block; n++) sum += floats[first + n * width + d];
      floats[mean + d] = sum / block;
    }
  }

  // Set the target to the sums of values of each head, weighted by exponentials of the scores; then to the largest
  // score of each head, and to the sum of its exponentials. JOIN divides by that sum.
  attend({ source, target, layer }) {
    const { machine, row } = this, { heads, registers: r, floats, kernels, length } = machine;
    const { queries, keys, size } = heads, [window, block, best, entropy] = heads.patterns[layer];
    const count = length + 1, scale = 1 / Math.sqrt(size);
    let means = 0, first = window ? Math.max(count - window, 0) : 0;
    if (block) [means, first] = [Math.floor(first / block), Math.floor(first / block) * block];
    if (entropy >= 0 && this.relativeEntropy(source, layer, first, count) <= entropy) means = 0;
    const seen = means + count - first, width = queries * size;
    const scores = floats.subarray(this.scores / 4, this.scores / 4 + seen);
    for (let head = 0; head < queries; head++) {
      const of = Math.floor((head * keys) / queries), near = this.scores + 4 * means;
      this.score(source + head * size, this.place(this.farKeys, layer, of, 0), this.scores, means);
      this.score(source + head * size, this.place(this.keys, layer, of, first), near, count - first);
      for (let n = 0; n < means; n++) scores[n] += Math.log(block) / scale; // a mean stands for a block of keys
      if (best && best < count) keepBest(scores, best);
      const [largest, total] = exponentials(scores, scale);
      floats.fill(0, this.sum / 4, (this.sum + row) / 4);
      kernels.mixture(this.scores, this.place(this.farValues, layer, of, 0), this.sum, row, means);
      kernels.mixture(near, this.place(this.values, layer, of, first), this.sum, row, count - first);
      r.set(floats.subarray(this.sum / 4, this.sum / 4 + size), target + head * size);
      [r[target + width + head], r[target + width + queries + head]] = [largest, total];
      machine.watcher?.("attention", { layer, head, weights: byPosition(scores, total, means, block, first, count) });
    }
  }

  join({ source, target }) {
    const { queries, size } = this.machine.heads, r = this.machine.registers, totals = source + queries * (size + 1);
    for (let i = 0; i < queries * size; i++) r[target + i] = r[source + i] / r[totals + Math.floor(i / size)];
  }

  // Set scores to the products of a query, a register, with rows of keys.
  score(query, rows, scores, count) {
    const { machine, row } = this, { registers, floats, kernels, heads } = machine;
    floats.set(registers.subarray(query, query + heads.size), this.query / 4);
    kernels.products(this.query, rows, scores, row, count);
  }

  // Return the mean entropy of the heads' attention to the keys from `first` on, as a share of the largest, ln n.
  relativeEntropy(source, layer, first, count) {
    const { queries, keys, size } = this.machine.heads, near = count - first;
    if (near < 2) return 0;
    const scores = this.machine.floats.subarray(this.scores / 4, this.scores / 4 + near);
    let found = 0;
    for (let head = 0; head < queries; head++) {
      const rows = this.place(this.keys, layer, Math.floor((head * keys) / queries), first);
      this.score(source + head * size, rows, this.scores, near);
      const [, total] = exponentials(scores, 1 / Math.sqrt(size));
      const weighted = scores.reduce((sum, each) => sum + (each > 0 ? each * Math.log(each) : 0), 0);
      found += Math.log(total) - weighted / total;
    }
    return found / (queries * Math.log(near));
  }

  // Set the target to the mean of the source over the text so far.
  summarise({ source, target, layer, outputs }) {
    const { length, registers: r } = this.machine, { sums, rows, width } = this;
    const now = (layer * rows + length) * width;
    for (let i = 0; i < outputs; i++) {
      sums[now + i] = (length ? sums[now - width + i] : 0) + r[source + i];
      r[target + i] = sums[now + i] / (length + 1);
    }
  }
}

// Replace scores by exponentials of the scaled ones, relative to the largest; return the largest, and their sum.
function exponentials(scores, scale) {
  let largest = -Infinity, total = 0;
  for (let n = 0; n < scores.length; n++) largest = Math.max(largest, scores[n]);
  for (let n = 0; n < scores.length; n++) total += scores[n] = Math.exp((scores[n] - largest) * scale);
  return [largest, total];
}

// Set all but the `count` highest scores to minus infinity; of equal scores the first are kept.
function keepBest(scores, count) {
  const order = Array.from(scores.keys()).sort((a, b) => scores[b] - scores[a] || a - b);
  for (const n of order.slice(count)) scores[n] = -Infinity;
}

// Return the share of each position in the attention; that of a block belongs to its positions in equal parts.
function byPosition(weights, total, means, block, first, count) {
  const shares = new Float32Array(count);
  for (let n = 0; n < means * block; n++) shares[n] = weights[Math.floor(n / block)] / block / total;
  for (let n = first; n < count; n++) shares[n] += weights[means + n - first] / total;
  return shares;
}
