// The machine that computes the next token. The model's pass over one token is a table of steps, the same that Python
// runs (minigrad/kernels/decoding); a step reads and writes registers, which are parts of one row of float32.

class Machine {
  // `model` is the content of the page's table, `file` the bytes of the weights.
  constructor(model, file, plain = false) {
    Object.assign(this, model);
    let size = 0;
    const take = (bytes) => (size += aligned(bytes)) - aligned(bytes);
    const places = model.matrices.map((each) => take(each.rows * rowSize(each)));
    this.registersAt = take(4 * model.size);
    this.input = take(4 * Math.max(...model.steps.map(([, , , inputs]) => inputs)));
    this.output = take(4 * Math.max(...model.steps.map(([, , , , outputs]) => outputs)));
    this.cache = new Cache(this, take);
    const { buffer, kernels } = memoryWithKernels(size, plain);
    this.kernels = kernels;
    this.floats = new Float32Array(buffer);
    this.registers = this.floats.subarray(this.registersAt / 4, this.registersAt / 4 + model.size);
    const halves = valuesOfHalves();
    this.matrices = model.matrices.map((about, index) => new Matrix(about, places[index], buffer));
    for (const matrix of this.matrices) matrix.fill(file, halves);
    this.steps = model.steps.map(([name, source, target, inputs, outputs, weight, bias, adds, layer]) => {
      const step = { name, source, target, inputs, outputs, adds, layer };
      return { ...step, weight: this.matrices[weight], bias: this.matrices[bias] };
    });
    this.length = 0; // the number of tokens read
    this.watcher = null; // it is called with the name and the content of what happens inside
  }

  // Forget all tokens after the first `length`. What the cache holds of them is overwritten by the next ones.
  cut(length) {
    this.length = Math.min(this.length, length);
  }

  // Read the next token; return the logits of the one after it.
  read(token) {
    this.token = token;
    for (const step of this.steps) STEPS[step.name](this, step);
    this.length++;
    const [first, count] = this.logits;
    return this.registers.slice(first, first + count);
  }

  // Read token number `position` again, while `watcher` looks on; return its logits. The tokens after it stay.
  watch(position, token, watcher) {
    const length = this.length;
    [this.length, this.watcher] = [position, watcher];
    const logits = this.read(token);
    [this.length, this.watcher] = [length, null];
    return logits;
  }

  // Return two functions: one that copies the residual stream, which all layers add to, and one that returns the logits
  // of such a copy, by the last norm and the head. Null if the program has no such register.
  lens() {
    const [norm, head] = this.steps.slice(-2), first = this.steps.findIndex((step) => step.name === "STORE");
    const isNorm = norm.name.endsWith("NORM") && head.name === "LINEAR" && head.source === norm.target;
    const { source, outputs } = norm, overlaps = (step) => step.target < source + outputs && step.target + step.outputs > source;
    const adds = (step) => step.target === source && (step.adds || step.name === "BLEND" || step.name === "ADD");
    const layers = this.steps.slice(first, -2).filter((step) => step.name !== "STORE" && overlaps(step));
    if (!isNorm || first < 0 || !layers.every(adds)) return null;
    const answer = (stream) => {
      this.registers.set(stream, source);
      for (const step of [norm, head]) STEPS[step.name](this, step);
      return this.registers.slice(this.logits[0], this.logits[0] + this.logits[1]);
    };
    return { stream: () => this.registers.slice(source, source + outputs), answer };
  }
}

// Change each element of a register: change(old element of the target, element of the source).
function change(machine, step, rule) {
  const r = machine.registers;
  for (let i = 0; i < step.outputs; i++) r[step.target + i] = rule(r[step.target + i], r[step.source + i]);
}

const logistic = (x) => 1 / (1 + Math.exp(-x));

// The probability that a normal draw is below x; see minigrad/kernels/rowwise/normal_cdf.py.
const NORMAL = [
  0.253244277, -0.171495805, 0.0710989542, -0.0102338353, -0.00510880834, 0.0017542155, 0.000690130279,
  -0.000213737182, -0.000113730555,
];
function normal(x) {
  const z = Math.abs(x), t = 1 / (1 + 0.35 * z), s = 1 - 2 * t;
  const tail = Math.exp((-z * z) / 2) * t * NORMAL.reduceRight((sum, each) => sum * s + each, 0);
  return x < 0 ? tail : 1 - tail;
}

function normalise(machine, { name, source, target, outputs, weight, bias }) {
  const r = machine.registers, [scale] = weight.row(0), [offset] = bias ? bias.row(0) : [null];
  const isLayerNorm = name === "LAYER_NORM";
  let mean = 0, square = 0;
  for (let i = 0; i < outputs; i++) {
    r[target + i] = r[source + i] + (name === "OFFSET_RMS_NORM" ? offset[i] : 0);
    mean += isLayerNorm ? r[target + i] / outputs : 0;
  }
  for (let i = 0; i < outputs; i++) square += (r[target + i] - mean) ** 2;
  const factor = 1 / Math.sqrt(square / outputs + machine.eps);
  for (let i = 0; i < outputs; i++) {
    r[target + i] = (r[target + i] - mean) * factor * scale[i] + (isLayerNorm ? offset[i] : 0);
  }
}

const STEPS = {
  // The row of the token, or, added to it, the row of its position.
  EMBED(machine, { target, weight, adds }) {
    const [row, scale] = weight.row(adds ? machine.length : machine.token), r = machine.registers;
    for (let i = 0; i < row.length; i++) r[target + i] = (adds ? r[target + i] : 0) + row[i] * scale;
  },
  RMS_NORM: normalise,
  OFFSET_RMS_NORM: normalise,
  LAYER_NORM: normalise,
  LINEAR(machine, { source, target, inputs, outputs, weight, bias, adds }) {
    const r = machine.registers, x = machine.input / 4, y = machine.output / 4;
    machine.floats.set(r.subarray(source, source + inputs), x);
    machine.floats.fill(0, x + inputs, x + aligned(4 * inputs) / 4);
    const multiply = weight.isBytes ? machine.kernels.productsOfBytes : machine.kernels.products;
    multiply(machine.input, weight.place, machine.output, aligned(4 * inputs), outputs);
    const offset = bias ? bias.row(0)[0] : null;
    for (let n = 0; n < outputs; n++) {
      const product = machine.floats[y + n] * (weight.isBytes ? weight.scales[n] : 1) + (offset ? offset[n] : 0);
      r[target + n] = adds ? r[target + n] + product : product;
    }
  },
  // Rotate the pairs of every head by the angles of the position.
  ROTATE(machine, { target, outputs }) {
    const { size, interleaved } = machine.heads, half = size / 2, r = machine.registers;
    const [cosine, sine] = machine.cache.angles(machine.length);
    for (let head = target; head < target + outputs; head += size) {
      for (let j = 0; j < half; j++) {
        const a = head + (interleaved ? 2 * j : j), b = interleaved ? a + 1 : a + half;
        [r[a], r[b]] = [r[a] * cosine[j] - r[b] * sine[j], r[b] * cosine[j] + r[a] * sine[j]];
      }
    }
  },
  STORE: (machine, step) => machine.cache.store(step),
  ATTEND: (machine, step) => machine.cache.attend(step),
  JOIN: (machine, step) => machine.cache.join(step),
  GELU: (machine, step) =>
    change(machine, step, (_, x) => x * logistic(2 * Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  EXACT_GELU: (machine, step) => change(machine, step, (_, x) => x * normal(x)),
  SWIGLU: (machine, step) => change(machine, step, (y, x) => y * x * logistic(x)),
  SIGMOID_GATE: (machine, step) => change(machine, step, (y, x) => y * logistic(x)),
  ADD: (machine, step) => change(machine, step, (y, x) => y + x),
  SUMMARISE: (machine, step) => machine.cache.summarise(step),
  // Mix the target with attention to a few keys, which are in the source after the queries; the values follow them.
  ATTEND_TO_FEW(machine, { source, target, inputs, weight }) {
    const { queries, keys, size } = machine.heads, r = machine.registers, [[beta]] = weight.row(0);
    const width = queries * size, line = keys * size, count = (inputs - width) / (2 * line);
    for (let head = 0; head < queries; head++) {
      const query = source + head * size, first = source + width + Math.floor((head * keys) / queries) * size;
      const scores = Array.from({ length: count }, (_, n) => {
        let sum = 0;
        for (let d = 0; d < size; d++) sum += r[query + d] * r[first + n * line + d];
        return sum / Math.sqrt(size);
      });
      const largest = Math.max(...scores), weights = scores.map((score) => Math.exp(score - largest));
      const total = weights.reduce((sum, each) => sum + each, 0);
      for (let d = 0; d < size; d++) {
        let sum = 0;
        for (let n = 0; n < count; n++) sum += (weights[n] / total) * r[first + (count + n) * line + d];
        r[target + head * size + d] = r[target + head * size + d] * (1 - beta) + sum * beta;
      }
    }
  },
  // Add to the target a mixture of a and b, which follow each other in the source; after them comes their gate.
  BLEND(machine, { source, target, outputs }) {
    const r = machine.registers;
    for (let i = 0; i < outputs; i++) {
      const share = logistic(r[source + 2 * outputs + i]);
      r[target + i] += share * r[source + i] + (1 - share) * r[source + outputs + i];
    }
  },
};
