// Text to tokens and back: byte-pair encoding, as in the package `tokenizer`. The page brings the merges, and the
// characters of each class (letters, numbers, ...), because browsers know different versions of Unicode.

class Tokenizer {
  constructor({ pattern, classes, bytes, merges, others, specials, added, last, nfc, wholeWords, begin, size }) {
    Object.assign(this, { bytes, specials, begin, size, nfc, last });
    this.words = new RegExp(pattern.replace(/<(\w+)>/g, (_, name) => rangesOf(classes[name])), "gu");
    this.ranks = new Map(); // from a pair, left * size + right, to its rank and the token that it becomes
    this.content = Array(size).fill(null); // the bytes of each token, null for an id without one
    bytes.forEach((id, byte) => (this.content[id] = [byte]));
    for (const [id, content] of others) this.content[id] = content;
    for (let n = 0; n < merges.length; n += 3) {
      const [left, right, result] = merges.slice(n, n + 3);
      this.ranks.set(left * size + right, [n / 3, result]);
      this.content[result] = [...this.content[left], ...this.content[right]];
    }
    this.whole = new Map(wholeWords ? this.content.map((content, id) => [String(content), id]) : []);
    this.added = added; // names that are found in every text, with their ids
    const utf8 = new TextEncoder();
    for (const [name, id] of Object.entries({ ...specials, ...added })) this.content[id] = [...utf8.encode(name)];
    this.isSpecial = new Set(Object.values(specials));
  }

  // Return the tokens of a text. The name of a special token in it is ordinary text.
  encode(text) {
    const isLast = (name) => this.last.includes(name), names = Object.keys(this.added);
    const composed = (part) => (this.nfc ? part.normalize("NFC") : part);
    const normal = Object.fromEntries(names.filter(isLast).map((name) => [composed(name), this.added[name]]));
    const first = Object.fromEntries(names.filter((name) => !isLast(name)).map((name) => [name, this.added[name]]));
    return splitAt(text, first).flatMap((part) => {
      if (typeof part === "number") return [part];
      const inner = splitAt(composed(part), normal);
      return inner.flatMap((each) => (typeof each === "number" ? [each] : this.encodeWords(each)));
    });
  }

  encodeWords(text) {
    const utf8 = new TextEncoder(), ids = [];
    for (const [word] of text.matchAll(this.words)) {
      const bytes = utf8.encode(word), whole = this.whole.get(String(bytes));
      if (whole !== undefined) ids.push(whole);
      else for (const id of this.merged(Array.from(bytes, (byte) => this.bytes[byte]))) ids.push(id);
    }
    return ids;
  }

  // Merge the pair that was learned first, the leftmost of equal ones, until no pair is left.
  merged(tokens) {
    const rank = (n) => this.ranks.get(tokens[n] * this.size + tokens[n + 1])?.[0] ?? Infinity;
    const ranks = tokens.map((_, n) => rank(n));
    for (;;) {
      let best = 0;
      for (let n = 1; n < ranks.length; n++) if (ranks[n] < ranks[best]) best = n;
      if (!(ranks[best] < Infinity)) return tokens;
      tokens.splice(best, 2, this.ranks.get(tokens[best] * this.size + tokens[best + 1])[1]);
      ranks.splice(best, 1);
      ranks[best] = rank(best);
      if (best > 0) ranks[best - 1] = rank(best - 1);
    }
  }

  // Return the text that each token completes; a special token has none. A character can take several tokens.
  pieces(ids) {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    return ids.map((id) => {
      const content = this.isSpecial.has(id) ? [] : this.content[id] ?? [];
      return decoder.decode(new Uint8Array(content), { stream: true });
    });
  }

  name(id) {
    const content = this.content[id];
    return content === null ? `[${id}]` : visible(content);
  }
}

// Return the ranges of a class, [first, last, first, last, ...], as they are written between brackets.
function rangesOf(numbers) {
  const escaped = numbers.map((code) => `\\u{${code.toString(16)}}`);
  return escaped.map((code, n) => (n % 2 ? `-${code}` : code)).join("");
}

// Return the parts of a text: strings, and the ids of the names found between them. Of two names the longer is found.
function splitAt(text, ids) {
  const names = Object.keys(ids).sort((a, b) => b.length - a.length);
  if (!names.length) return text ? [text] : [];
  const pattern = new RegExp(`(${names.map((name) => name.replace(/[^\p{L}\p{N}_]/gu, escapedCharacter)).join("|")})`, "u");
  return text.split(pattern).map((part, n) => (n % 2 ? ids[part] : part)).filter((part) => part !== "");
}

const escapedCharacter = (character) => `\\u{${character.codePointAt(0).toString(16)}}`;
