/* Both ends of a network: embeddings, the tokens whose targets count, the loss. Axes: n tokens of all sequences, t tokens
   of one, d features, v words. */

#include "vector.h"

/* x = words[token] [+ places[position]]. Slots: n, t, d, tokens, words (v, d), places (t, d) or null, x (n, d). */
KERNEL(embed) {
    const int64_t n = s[0].n, t = s[1].n, d = s[2].n;
    for (int64_t r = 0; r < n; r++) {
        const float *word = s[4].floats + s[3].integers[r] * d, *place = at(s[5].floats, r % t * d);
        each_vector(d, [&](int64_t j, auto lanes) LAMBDA {
            Vec x = load(word + j, lanes);
            if (place) x += load(place + j, lanes);
            store(s[6].floats + r * d + j, x, lanes);
        });
    }
}

/* Gradients of words and places: sums of g over the tokens where they stand.
   Slots: n, t, d, tokens, g, words, their number v d, places or null, their number. */
KERNEL(embed_back) {
    const int64_t n = s[0].n, t = s[1].n, d = s[2].n;
    memset(s[5].floats, 0, s[6].n * sizeof(float));
    if (s[7].floats) memset(s[7].floats, 0, s[8].n * sizeof(float));
    for (int64_t r = 0; r < n; r++) {
        float *word = s[5].floats + s[3].integers[r] * d, *place = at(s[7].floats, r % t * d);
        each_vector(d, [&](int64_t j, auto lanes) LAMBDA {
            Vec g = load(s[4].floats + r * d + j, lanes);
            add_to(word + j, g, lanes);
            if (place) add_to(place + j, g, lanes);
        });
    }
}

/* The tokens of each sequence from `first` on. Slots: sequences, t, d, first, x, y. */
KERNEL(counted) {
    const int64_t t = s[1].n, d = s[2].n, first = s[3].n, rest = (t - first) * d;
    for (int64_t b = 0; b < s[0].n; b++)
        memcpy(s[5].floats + b * rest, s[4].floats + (b * t + first) * d, rest * sizeof(float));
}

/* Slots: sequences, t, d, first, g, gx. */
KERNEL(counted_back) {
    const int64_t t = s[1].n, d = s[2].n, first = s[3].n, rest = (t - first) * d;
    for (int64_t b = 0; b < s[0].n; b++) {
        float *gx = s[5].floats + b * t * d;
        memset(gx, 0, first * d * sizeof(float));
        memcpy(gx + first * d, s[4].floats + b * rest, rest * sizeof(float));
    }
}

/* The mean over n targets of log(sum of e^x) - x[target], in double, and its gradient (softmax - one-hot) / n.
   Slots: n, v, logits, targets, gradient, loss. */
KERNEL(cross_entropy) {
    const int64_t n = s[0].n, v = s[1].n;
    const float share = 1.0f / n;
    double total = 0;
    for (int64_t r = 0; r < n; r++) {
        const float *x = s[2].floats + r * v;
        float *g = s[4].floats + r * v, top = x[0];
        for (int64_t j = 1; j < v; j++) top = x[j] > top ? x[j] : top;
        Vec sum = 0;
        each_vector(v, [&](int64_t j, auto lanes) LAMBDA {
            Vec e = present(exponential(load(x + j, lanes) - top), lanes);
            sum += e;
            store(g + j, e, lanes);
        });
        const float all = sum_of(sum);
        each_vector(v, [&](int64_t j, auto lanes) LAMBDA { store(g + j, load(g + j, lanes) * (share / all), lanes); });
        const int64_t target = s[3].integers[r];
        g[target] -= share;
        total += (double)logf(all) + top - x[target];
    }
    *s[5].doubles = total / n;
}
