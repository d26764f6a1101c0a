// The weights of a model, as its page holds them: matrices of float32, float16, bfloat16, int8 or int4, row by row.
// They are widened to float32 once, except int8, which stays as it is: it takes a quarter of the memory.

const aligned = (bytes) => Math.ceil(bytes / 32) * 32;

// The value of each of the 65,536 float16: a sign, five bits of exponent, ten bits of fraction.
function valuesOfHalves() {
  return Float32Array.from({ length: 65536 }, (_, bits) => {
    const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = (bits & 1023) / 1024;
    if (exponent === 0) return sign * fraction * 2 ** -14;
    return exponent === 31 ? sign * (fraction ? NaN : Infinity) : sign * (1 + fraction) * 2 ** (exponent - 15);
  });
}

// The bytes of a row in memory, where it is filled with zeros up to a multiple of eight numbers.
const rowSize = ({ format, columns }) => (aligned(4 * columns) / 4) * (format === "int8" ? 1 : 4);

class Matrix {
  constructor(about, place, buffer) {
    Object.assign(this, about);
    this.place = place;
    this.size = rowSize(about);
    this.isBytes = this.format === "int8";
    this.view = this.isBytes ? new Int8Array(buffer) : new Float32Array(buffer);
  }

  // Copy the matrix from the bytes of the file.
  fill(file, halves) {
    const { format, rows, columns, at } = this;
    const read = (type, place, count) => new type(file.buffer, file.byteOffset + place, count);
    const step = this.isBytes ? this.size : this.size / 4, first = this.isBytes ? this.place : this.place / 4;
    const count = rows * columns;
    if (format === "int4") return this.fillFromInt4(read, halves, first, step);
    const types = { float32: Float32Array, float16: Uint16Array, bfloat16: Uint16Array, int8: Int8Array };
    let numbers = read(types[format], at, count);
    if (format === "float16") numbers = Float32Array.from(numbers, (bits) => halves[bits]);
    if (format === "bfloat16") numbers = new Float32Array(Uint32Array.from(numbers, (bits) => bits << 16).buffer);
    if (format === "int8") this.scales = read(Float32Array, this.scales, rows);
    for (let row = 0; row < rows; row++) {
      this.view.set(numbers.subarray(row * columns, (row + 1) * columns), first + row * step);
    }
  }

  // Each group of 32 columns has a scale. A byte holds two numbers from -8 to 7: of the first 16 columns, and the last.
  fillFromInt4(read, halves, first, step) {
    const groups = Math.ceil(this.columns / 32), pairs = read(Int8Array, this.at, this.rows * groups * 16);
    const scales = read(Uint16Array, this.scales, this.rows * groups);
    for (let row = 0; row < this.rows; row++) {
      for (let column = 0; column < this.columns; column++) {
        const group = row * groups + (column >> 5), pair = pairs[group * 16 + (column & 15)];
        const value = column & 16 ? pair >> 4 : (pair << 28) >> 28;
        this.view[first + row * step + column] = value * halves[scales[group]];
      }
    }
  }

  // Return the numbers of a row, and what they are multiplied with.
  row(number) {
    const first = this.isBytes ? this.place + number * this.size : (this.place + number * this.size) / 4;
    return [this.view.subarray(first, first + this.columns), this.isBytes ? this.scales[number] : 1];
  }
}
