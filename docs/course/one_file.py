"""A small GPT in one file: it reads the documentation of Python's own modules, then writes more of it.

Nothing is hidden: the text, the model, its gradient, the optimizer and the sampling are all here, in NumPy alone.
Run it with `python one_file.py`. It takes about a minute, and prints how well the model predicts text that it has not
been trained on, and at the end what it writes.

Shapes are written with the letters B (sequences in a batch), T (positions in a sequence), C (channels: the numbers at a
position), H (attention heads) and V (tokens).
"""

import ast
import os
import sysconfig
import time
from pathlib import Path

if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small products: several cores would only wait

import numpy as np

WIDTH, LAYERS, HEADS, CONTEXT = 96, 3, 4, 64  # the model: numbers at a position, layers, attention heads, positions
BATCH, STEPS, RATE = 16, 1000, 6e-3  # its training: sequences a step, steps, highest learning rate
VOCABULARY = 128  # a token is one ASCII character


# The text: the docstrings of the standard library, which every installation of Python has.


def read_text(folder):
    """Return the docstrings in a folder as token ids: nine modules in ten for training, every tenth for validation."""
    parts = [], []  # True counts as 1: every tenth module goes into the second list
    for number, path in enumerate(sorted(Path(folder).glob("*.py"))):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                parts[number % 10 == 0].append(ast.get_docstring(node) or "")
    texts = ("\n\n".join(filter(None, part)).encode("ascii", "ignore") for part in parts)
    return tuple(np.frombuffer(text, np.uint8) for text in texts)


def draw_batch(text, count, rng):
    """Draw `count` pieces of the text: the inputs, and as targets the token that follows each of them."""
    starts = rng.integers(len(text) - CONTEXT, size=(count, 1))
    pieces = text[starts + np.arange(CONTEXT + 1)]  # (B, T + 1)
    return pieces[:, :-1], pieces[:, 1:]


# The parts of the model. Each function returns its result y and a function backward, which takes dy, the derivative of
# the loss with respect to every element of y, and returns the derivatives with respect to the arguments: one
# application of the chain rule.


def linear(x, w):
    """Mix the channels: y = x w."""

    def backward(dy):
        # Every row of x meets the same w, so the gradient of w is a sum over all rows.
        return dy @ w.T, x.reshape(-1, x.shape[-1]).T @ dy.reshape(-1, dy.shape[-1])

    return x @ w, backward


def norm(x):
    """Divide each row by its root mean square, so that deep layers get numbers of an ordinary size."""
    r = np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    y = x / r

    def backward(dy):
        return (dy - y * (dy * y).mean(-1, keepdims=True)) / r  # y does not depend on the length of x

    return y, backward


def relu(x):
    """Keep what is positive."""
    return np.maximum(x, 0), lambda dy: dy * (x > 0)


def attention(q, k, v):
    """Let every position collect values from itself and the positions before it.

    The weight of position u for position t is large if the query q_t fits the key k_u and u is near. The score of u is
    q_t k_u / sqrt(size), less a penalty that grows with the distance: the first head has a large penalty, the last
    hardly any. The weights are the softmax of the scores: their exponentials, divided by the sum of these over all u.
    """
    shape, size = q.shape, q.shape[-1] // HEADS
    q, k, v = (a.reshape(*shape[:2], HEADS, size).swapaxes(1, 2) for a in (q, k, v))  # (B, H, T, size)
    distance = np.subtract.outer(np.arange(shape[1]), np.arange(shape[1]))  # (T, T): t - u
    steepness = 2 * 4.0 ** -np.arange(HEADS)[:, None, None]  # 2, 0.5, 0.125, 0.03125
    penalty = np.where(distance < 0, np.inf, steepness * distance).astype(q.dtype)  # (H, T, T): nothing from the future
    scores = q @ k.swapaxes(-1, -2) / size**0.5 - penalty  # (B, H, T, T)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)

    def backward(dy):
        dy = dy.reshape(*shape[:2], HEADS, size).swapaxes(1, 2)
        dweights = dy @ v.swapaxes(-1, -2)
        dscores = weights * (dweights - (dweights * weights).sum(-1, keepdims=True)) / size**0.5
        gradients = dscores @ k, dscores.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ dy
        return tuple(g.swapaxes(1, 2).reshape(shape) for g in gradients)

    return (weights @ v).swapaxes(1, 2).reshape(shape), backward


def cross_entropy(logits, targets):
    """Return the mean of -ln p, where p is the probability of the true next token.

    The logits are the model's scores for all tokens. As in `attention`, a softmax turns the scores into probabilities.
    """
    shifted = logits - logits.max(-1, keepdims=True)
    p = np.exp(shifted)
    p /= p.sum(-1, keepdims=True)  # (B, T, V)
    true = np.eye(VOCABULARY, dtype=logits.dtype)[targets]  # (B, T, V): 1 at the true token, else 0
    loss = -np.log((p * true).sum(-1)).mean()
    return loss, lambda: (p - true) / targets.size  # raise the logit of what came, lower those of all others


# The model. The parameters are a dictionary of matrices; their gradients are a dictionary with the same names.


def new_parameters(rng):
    """Draw small random numbers.

    The matrices whose results are added to x begin at zero, so at first each block changes nothing; so does `head`, the
    last matrix, which gives the logits (it is not an attention head), so at first all tokens are equally probable.
    """
    shapes = {"token": (VOCABULARY, WIDTH), "head": (WIDTH, VOCABULARY)}
    for layer in range(LAYERS):
        shapes |= {f"{name}{layer}": (WIDTH, WIDTH) for name in ("query", "key", "value", "mixed")}
        shapes |= {f"up{layer}": (WIDTH, 4 * WIDTH), f"down{layer}": (4 * WIDTH, WIDTH)}
    drawn = {name: rng.normal(size=shape) / np.sqrt(WIDTH) for name, shape in shapes.items()}
    return {name: 0 * w if name.startswith(("mixed", "down", "head")) else w for name, w in drawn.items()}


def attend(x, p, layer):
    """Read from earlier positions."""
    n, norm_backward = norm(x)
    names = [f"{name}{layer}" for name in ("query", "key", "value")]
    projected, backwards = zip(*(linear(n, p[name]) for name in names), strict=True)
    a, attention_backward = attention(*projected)
    y, mixed_backward = linear(a, p[f"mixed{layer}"])

    def backward(dy, gradients):
        da, gradients[f"mixed{layer}"] = mixed_backward(dy)
        dn = 0
        for name, each, dprojected in zip(names, backwards, attention_backward(da), strict=True):
            part, gradients[name] = each(dprojected)
            dn = dn + part  # n was used three times, so its gradient is a sum of three
        return norm_backward(dn)

    return y, backward


def think(x, p, layer):
    """Compute something new at each position."""
    n, norm_backward = norm(x)
    h, up_backward = linear(n, p[f"up{layer}"])
    a, relu_backward = relu(h)
    y, down_backward = linear(a, p[f"down{layer}"])

    def backward(dy, gradients):
        da, gradients[f"down{layer}"] = down_backward(dy)
        dn, gradients[f"up{layer}"] = up_backward(relu_backward(da))
        return norm_backward(dn)

    return y, backward


def gpt(tokens, p):
    """Return for each position the logits, one score for each token that may follow it: (B, T) -> (B, T, V)."""
    x = p["token"][tokens]  # (B, T, C): the stream that the blocks add to
    backwards = []
    for layer in range(LAYERS):
        for part in (attend, think):
            y, part_backward = part(x, p, layer)
            x = x + y
            backwards.append(part_backward)
    n, norm_backward = norm(x)
    logits, head_backward = linear(n, p["head"])

    def backward(dlogits):
        gradients = {name: np.zeros_like(w) for name, w in p.items()}
        dn, gradients["head"] = head_backward(dlogits)
        dx = norm_backward(dn)
        for part_backward in reversed(backwards):
            dx = dx + part_backward(dx, gradients)  # x reaches the sum directly, and through the part
        np.add.at(gradients["token"], tokens, dx)  # a token that occurs often collects from all its places
        return gradients

    return logits, backward


# Training and writing.


def adamw(p, gradients, state, step):
    """Change every parameter by about the learning rate, against its gradient's smoothed direction."""
    rate = RATE * min(1, (step + 1) / 50, 1.1 - step / STEPS)  # rise in 50 steps, later fall to a tenth
    for name, g in gradients.items():
        m, v = state.setdefault(name, (np.zeros_like(g), np.zeros_like(g)))
        m += 0.1 * (g - m)  # roughly the mean of the last ten gradients
        v += 0.05 * (g * g - v)  # roughly the mean of the last twenty squared gradients
        m_hat, v_hat = m / (1 - 0.9 ** (step + 1)), v / (1 - 0.95 ** (step + 1))  # corrects for their start at zero
        p[name] -= rate * (m_hat / (np.sqrt(v_hat) + 1e-8) + 0.1 * p[name])  # 0.1 p keeps parameters small


def write(p, prompt, count, rng, temperature=0.7):
    """Continue a text: ask for the probabilities of the next token, draw one, add it, repeat."""
    tokens = list(prompt.encode("ascii"))
    for _ in range(count):
        logits, _ = gpt(np.array([tokens[-CONTEXT:]]), p)
        weights = np.exp((logits[0, -1] - logits[0, -1].max()) / temperature)
        tokens.append(rng.choice(VOCABULARY, p=weights / weights.sum()))
    return bytes(tokens).decode("ascii")


def main():
    """Train, evaluate now and then, and write."""
    rng, start = np.random.default_rng(0), time.perf_counter()
    text, validation = read_text(sysconfig.get_path("stdlib"))
    judged = draw_batch(validation, 200, np.random.default_rng(1))  # the same pieces every time
    p = {name: w.astype(np.float32) for name, w in new_parameters(rng).items()}
    state = {}
    print(f"{len(text):,} characters, {sum(w.size for w in p.values()):,} parameters")
    for step in range(STEPS + 1):
        if step % 100 == 0:
            logits, _ = gpt(judged[0], p)
            bits = cross_entropy(logits, judged[1])[0] / np.log(2)
            print(f"step {step:4}  {bits:.3f} bits per character  {time.perf_counter() - start:.0f} s")
        inputs, targets = draw_batch(text, BATCH, rng)
        logits, backward = gpt(inputs, p)
        _, loss_backward = cross_entropy(logits, targets)
        adamw(p, backward(loss_backward()), state, step)
    print(write(p, "Return the ", 400, rng))


if __name__ == "__main__":
    main()
