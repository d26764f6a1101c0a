// The three loops in which the engine spends its time, over one block of memory; places and sizes are in bytes.
//
//   products(x, rows, y, size, count)        y[n] = x · row n, for rows of float32
//   productsOfBytes(x, rows, y, size, count) the same for rows of int8
//   mixture(weights, rows, y, size, count)   y += the sum of weights[n] times row n
//
// `size` is the size of x, or of y in a mixture: a multiple of 32 bytes, eight float32. Each loop exists twice: in
// plain JavaScript, which says what it does, and in WebAssembly, which works on four numbers at a time.

function plainKernels(buffer) {
  const floats = new Float32Array(buffer), bytes = new Int8Array(buffer);
  const multiply = (numbers, x, row, y, size, count) => {
    for (let n = 0; n < count; n++, row += size) {
      let sum = 0;
      for (let i = 0; i < size; i++) sum += floats[x + i] * numbers[row + i];
      floats[y + n] = sum;
    }
  };
  return {
    products: (x, rows, y, size, count) => multiply(floats, x >> 2, rows >> 2, y >> 2, size >> 2, count),
    productsOfBytes: (x, rows, y, size, count) => multiply(bytes, x >> 2, rows, y >> 2, size >> 2, count),
    mixture(weights, rows, y, size, count) {
      for (let n = 0; n < count; n++) {
        const weight = floats[(weights >> 2) + n], row = (rows + n * size) >> 2;
        for (let i = 0; i < size >> 2; i++) floats[(y >> 2) + i] += weight * floats[row + i];
      }
    },
  };
}

// WebAssembly is a machine with a stack: an instruction takes its arguments from the stack and leaves its result there.
// Here is the small part of its binary format that the loops need (webassembly.github.io/spec, chapter 5).
const get = (name) => [0x20, name], set = (name) => [0x21, name];
const number = (value) => [0x41, value], plus = [0x6a], differs = [0x47], isZero = [0x45];
const repeatIf = (...condition) => [...condition.flat(), 0x0d, 0];
const loop = (...body) => [0x03, 0x40, ...body.flat(), 0x0b];
const leaveIf = (...condition) => [...condition.flat(), 0x04, 0x40, 0x0f, 0x0b];
const move = (name, bytes) => [get(name), number(bytes), plus, set(name)].flat();
const four = (...code) => [0xfd, ...code]; // instructions on four float32
const load = (offset) => four(0x00, 2, offset), store = four(0x0b, 2, 0), loadToAll = four(0x09, 2, 0);
const loadBytes = four(0x01, 0, 0), lower = four(0xa7, 1), upper = four(0xa8, 1), toFloats = four(0xfa, 1);
const addFours = four(0xe4, 1), multiplyFours = four(0xe6, 1), lane = (index) => four(0x1f, index);
const zeros = four(0x0c, ...Array(16).fill(0)), addFloats = [0x92], storeFloat = [0x38, 2, 0];

// The arguments of all three functions, and their variables after them.
const [X, ROWS, Y, SIZE, COUNT, PLACE, END, SUM, OTHER, EIGHT] = Array(10).keys();

function rowProducts(bytesOfEight, loadEight) {
  const add = (sum, offset, row) => [get(sum), get(PLACE), load(offset), row, multiplyFours, addFours, set(sum)].flat();
  const lanes = [0, 1, 2, 3].flatMap((n) => [get(SUM), lane(n), n ? addFloats : []].flat());
  return [
    leaveIf(get(COUNT), isZero),
    get(X), get(SIZE), plus, set(END),
    loop(
      zeros, set(SUM), zeros, set(OTHER), get(X), set(PLACE),
      loop(
        loadEight.before, add(SUM, 0, loadEight.first), add(OTHER, 16, loadEight.second),
        move(ROWS, bytesOfEight), move(PLACE, 32),
        repeatIf(get(PLACE), get(END), differs),
      ),
      get(SUM), get(OTHER), addFours, set(SUM), get(Y), lanes, storeFloat, move(Y, 4),
      move(COUNT, -1 & 0x7f), repeatIf(get(COUNT)),
    ),
  ];
}

const FLOATS = { before: [], first: [get(ROWS), load(0)].flat(), second: [get(ROWS), load(16)].flat() };
const widened = (half) => [get(EIGHT), half, toFloats].flat();
const BYTES = { before: [get(ROWS), loadBytes, set(EIGHT)].flat(), first: widened(lower), second: widened(upper) };
const MIXTURE = [
  leaveIf(get(COUNT), isZero),
  get(Y), get(SIZE), plus, set(END),
  loop(
    get(X), loadToAll, set(SUM), get(Y), set(PLACE),
    loop(
      get(PLACE), get(PLACE), load(0), get(SUM), get(ROWS), load(0), multiplyFours, addFours, store,
      move(ROWS, 16), move(PLACE, 16), repeatIf(get(PLACE), get(END), differs),
    ),
    move(X, 4), move(COUNT, -1 & 0x7f), repeatIf(get(COUNT)),
  ),
];

function assembled(functions) {
  const size = (value) => (value < 128 ? [value] : [(value & 127) | 128, ...size(value >> 7)]);
  const list = (items) => [...size(items.length), ...items.flat()];
  const section = (number, content) => [number, ...size(content.length), ...content];
  const text = (value) => list([...value].map((each) => each.charCodeAt(0)));
  const INT = 0x7f, FOUR = 0x7b, names = Object.keys(functions);
  const type = [0x60, ...list(Array(5).fill(INT)), 0]; // five numbers in, nothing out
  const bodies = Object.values(functions).map((code) => {
    const body = [...list([[2, INT], [3, FOUR]]), ...code.flat(), 0x0b];
    return [...size(body.length), ...body];
  });
  return new Uint8Array([
    0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0, // "asm", and the version of the format
    ...section(1, list([type])),
    ...section(2, list([[...text("page"), ...text("memory"), 2, 0, 1]])),
    ...section(3, list(names.map(() => 0))),
    ...section(7, list(names.map((name, index) => [...text(name), 0, index]))),
    ...section(10, list(bodies)),
  ]);
}

// Return memory of this many bytes, filled with zeros, and the loops over it; plain ones where there is no WebAssembly.
function memoryWithKernels(bytes, plain = false) {
  try {
    if (plain) throw new Error("plain loops were chosen");
    const memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / 65536) });
    const functions = { products: rowProducts(32, FLOATS), productsOfBytes: rowProducts(8, BYTES), mixture: MIXTURE };
    const module = new WebAssembly.Module(assembled(functions));
    const { exports } = new WebAssembly.Instance(module, { page: { memory } });
    return { buffer: memory.buffer, kernels: exports };
  } catch {
    const buffer = new ArrayBuffer(Math.ceil(bytes / 65536) * 65536);
    return { buffer, kernels: plainKernels(buffer) };
  }
}
