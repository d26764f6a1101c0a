// Signs for what a list of tokens could not show.

// Return a token that stands by itself: a dot for a space, \x and two digits for a byte that is no character.
function visible(bytes) {
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(new Uint8Array(bytes));
  if (text.includes("\ufffd")) return bytes.map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("");
  return text.replaceAll(" ", "·").replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll("\r", "␍");
}
