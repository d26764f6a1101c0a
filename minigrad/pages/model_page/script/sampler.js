// The next token: from logits to a distribution, and from the distribution to a draw.

// Return the probabilities with which to draw the next token. A top-k of 0, a top-p of 1 and a min-p of 0 keep all.
function distribution(logits, { temperature, topK, topP, minP }, isAllowed) {
  const weights = new Float64Array(logits.length), best = mostLikely(logits, isAllowed);
  if (temperature === 0) {
    weights[best] = 1;
    return weights;
  }
  for (let id = 0; id < logits.length; id++) {
    weights[id] = isAllowed[id] ? Math.exp((logits[id] - logits[best]) / temperature) : 0; // 1 for the most likely
  }
  let kept = Array.from(weights.keys()).filter((id) => isAllowed[id]), total = sumOf(weights);
  const least = topK ? Float64Array.from(weights).sort().at(-Math.min(topK, weights.length)) : 0;
  // Of tokens less likely than (1 - p) / V all together have less than 1 - p: the others reach p without them.
  const bound = topK || minP ? Math.max(least, minP) : ((1 - topP) * total) / weights.length;
  if (topK || minP || topP < 1) {
    kept = kept.filter((id) => weights[id] >= bound).sort((a, b) => logits[b] - logits[a] || a - b);
    if (topK) kept = kept.slice(0, topK);
    if (topK || minP) total = kept.reduce((sum, id) => sum + weights[id], 0);
    // A token stays unless the tokens before it already reach the share.
    let before = 0;
    kept = topP < 1 ? kept.filter((id) => [before < topP * total, (before += weights[id])][0]) : kept;
  }
  const probabilities = new Float64Array(weights.length), sum = kept.reduce((sum, id) => sum + weights[id], 0);
  for (const id of kept) probabilities[id] = weights[id] / sum;
  return probabilities;
}

const sumOf = (numbers) => numbers.reduce((sum, each) => sum + each, 0);

function mostLikely(logits, isAllowed) {
  let best = -1;
  for (let id = 0; id < logits.length; id++) if (isAllowed[id] && (best < 0 || logits[id] > logits[best])) best = id;
  return best;
}

// Return the token at the share `uniform`, from 0 to 1, of the cumulative distribution.
function draw(probabilities, uniform) {
  let left = uniform, last = 0;
  for (let id = 0; id < probabilities.length; id++) {
    if (!probabilities[id]) continue;
    if ((left -= probabilities[id]) < 0) return id;
    last = id;
  }
  return last;
}

// Return the random number of a position: it depends on the seed and the position alone.
function uniform(seed, position) {
  const mixed = (x) => {
    x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
    x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
    return (x ^ (x >>> 15)) >>> 0;
  };
  return mixed((mixed((seed + 0x9e3779b9) | 0) + position) | 0) / 2 ** 32;
}

// Return the probabilities that the model itself gives to all tokens.
function softmax(logits) {
  const largest = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const weights = Float64Array.from(logits, (each) => Math.exp(each - largest)), total = sumOf(weights);
  return weights.map((each) => each / total);
}
