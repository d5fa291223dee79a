/* Functions of single numbers, and sums over tokens. Axes: n tokens, d features; buffers (n, d) without gaps. */

#include "vector.h"

constexpr int64_t SUMMED_ROWS = 16; /* rows that are summed in registers before they are added to the whole sum */

/* y = x cdf(x), cdf of the standard normal distribution; `kept`, which may be x, gets the derivative
   x pdf(x) + cdf(x). Slots: count, x, y, kept. */
KERNEL(gelu) {
    float *x = s[1].floats, *y = s[2].floats, *kept = s[3].floats;
    each_vector(s[0].n, [&](int64_t j, auto lanes) LAMBDA {
        Vec a = load(x + j, lanes), cdf, pdf;
        normal_distribution(a, &cdf, &pdf);
        store(y + j, a * cdf, lanes);
        store(kept + j, a * pdf + cdf, lanes);
    });
}

/* y = max(x, 0), NaN for NaN; `kept`, which may be x, gets the derivative, 1 for x > 0, else 0. Slots: count, x, y, kept. */
KERNEL(relu) {
    float *x = s[1].floats, *y = s[2].floats, *kept = s[3].floats;
    each_vector(s[0].n, [&](int64_t j, auto lanes) LAMBDA {
        Vec a = load(x + j, lanes);
        store(y + j, larger(0, a), lanes);
        store(kept + j, select(Vec(0.0f) < a, 1, 0), lanes);
    });
}

/* gx = g times the derivative that was kept, and the sum of gx over tokens. Slots: n, d, g, kept, gx, sums or null. */
KERNEL(times_kept) {
    const int64_t n = s[0].n, d = s[1].n;
    const float *g = s[2].floats, *kept = s[3].floats;
    float *gx = s[4].floats, *sums = s[5].floats;
    if (sums) memset(sums, 0, d * sizeof(float));
    for (int64_t first = 0; first < n; first += SUMMED_ROWS) {
        const int64_t last = n < first + SUMMED_ROWS ? n : first + SUMMED_ROWS;
        auto columns = [&](int64_t j, auto count, auto lanes) LAMBDA {
            constexpr int NV = decltype(count)::value;
            Vec sum[NV];
            UNROLL(8) for (int k = 0; k < NV; k++) sum[k] = 0;
            for (int64_t r = first; r < last; r++)
                UNROLL(8) for (int k = 0; k < NV; k++) {
                    const int64_t at = r * d + j + W * k;
                    Vec z = load(g + at, lanes) * load(kept + at, lanes);
                    store(gx + at, z, lanes);
                    sum[k] += z;
                }
            if (sums) UNROLL(8) for (int k = 0; k < NV; k++) add_to(sums + j + W * k, sum[k], lanes);
        };
        int64_t j = 0;
        for (; j + 8 * W <= d; j += 8 * W) columns(j, Count<8>(), Whole());
        each_vector(d - j, [&](int64_t rest, auto lanes) LAMBDA { columns(j + rest, Count<1>(), lanes); });
    }
}

/* Sums over tokens. Slots: n, d, g, sums. */
KERNEL(column_sums) {
    const int64_t n = s[0].n, d = s[1].n;
    const float *g = s[2].floats;
    each_vector(d, [&](int64_t j, auto lanes) LAMBDA {
        Vec total = 0;
        for (int64_t first = 0; first < n; first += SUMMED_ROWS) {
            const int64_t last = n < first + SUMMED_ROWS ? n : first + SUMMED_ROWS;
            Vec sum = 0;
            for (int64_t r = first; r < last; r++) sum += load(g + r * d + j, lanes);
            total += sum;
        }
        store(s[3].floats + j, total, lanes);
    });
}

/* out = a x [+ y]. Slots: count, x, y or null, out, a. */
KERNEL(scaled) {
    const float *x = s[1].floats, *y = s[2].floats;
    const float a = (float)s[4].x;
    each_vector(s[0].n, [&](int64_t j, auto lanes) LAMBDA {
        Vec z = load(x + j, lanes) * a;
        if (y) z += load(y + j, lanes);
        store(s[3].floats + j, z, lanes);
    });
}

/* The same with a learned factor. Slots: count, x, y or null, out, address of a. */
KERNEL(learned_scaled) {
    const float *x = s[1].floats, *y = s[2].floats, a = *s[4].floats;
    each_vector(s[0].n, [&](int64_t j, auto lanes) LAMBDA {
        Vec z = load(x + j, lanes) * a;
        if (y) z += load(y + j, lanes);
        store(s[3].floats + j, z, lanes);
    });
}

/* The sum of x y, which is the gradient of a factor. Slots: count, x, y, sum. */
KERNEL(dot) {
    const float *x = s[1].floats, *y = s[2].floats;
    Sum sum;
    each_vector(s[0].n, [&](int64_t j, auto lanes) LAMBDA { sum.add(load(x + j, lanes) * load(y + j, lanes)); });
    *s[3].floats = (float)sum.total();
}

/* ---- the mean of the tokens so far; t tokens a sequence ---- */

/* y[i] = (x[0] + ... + x[i]) / (i + 1). Slots: sequences, t, d, x, y. */
KERNEL(running_mean) {
    const int64_t t = s[1].n, d = s[2].n;
    for (int64_t b = 0; b < s[0].n; b++)
        each_vector(d, [&](int64_t j, auto lanes) LAMBDA {
            const float *x = s[3].floats + b * t * d + j;
            float *y = s[4].floats + b * t * d + j;
            Vec sum = 0;
            for (int64_t i = 0; i < t; i++) {
                sum += load(x + i * d, lanes);
                store(y + i * d, sum * (1.0f / (i + 1)), lanes);
            }
        });
}

/* gx[i] = g[i] / (i + 1) + ... + g[t - 1] / t [+ skip]. Slots: sequences, t, d, g, skip or null, gx. */
KERNEL(running_mean_back) {
    const int64_t t = s[1].n, d = s[2].n;
    for (int64_t b = 0; b < s[0].n; b++)
        each_vector(d, [&](int64_t j, auto lanes) LAMBDA {
            const int64_t start = b * t * d + j;
            Vec sum = 0;
            for (int64_t i = t - 1; i >= 0; i--) {
                sum += load(s[3].floats + start + i * d, lanes) * (1.0f / (i + 1));
                Vec z = sum;
                if (s[4].floats) z += load(s[4].floats + start + i * d, lanes);
                store(s[5].floats + start + i * d, z, lanes);
            }
        });
}
