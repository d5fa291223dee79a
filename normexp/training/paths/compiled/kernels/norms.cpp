/* Norms. Most of them work on rows: `groups` heads of d features in each of n tokens, whose tokens lie `ld` numbers apart.

   Axes: n tokens, d features. xhat is the normalized row, g the gradient of y. */

#include "vector.h"

/* Gains and biases of so many rows are summed in registers, or at hand, before they are added to the whole sum. */
constexpr int64_t SUMMED_ROWS = 16;

/* What is called at the widths that occur most has their number as a constant. */
#define AT_WIDTH(d, call)                                        \
    if (d == 16) { constexpr int64_t D = 16; call; }             \
    else if (d == 64) { constexpr int64_t D = 64; call; }        \
    else if (d == 128) { constexpr int64_t D = 128; call; }      \
    else { const int64_t D = d; call; }

enum Gain { EACH, ONE, NONE }; /* a gain for each feature, one for all, none */

/* y = xhat gain [+ bias], xhat = (x - mean) / sqrt(|x - mean|^2 / divisor + eps); mean is 0 unless CENTRED.
   `one` is what a single gain is multiplied with. */
struct Norm {
    int64_t n, groups;
    const float *x;
    float *y;
    const float *w, *bias;
    float *mean, *inverse;
    int64_t ldx, ldy;
    float eps, divisor;
};

template <bool CENTRED, Gain GAIN> INLINE void norm_rows(const Norm &p, const int64_t d) {
    const float gain = GAIN == ONE ? p.w[0] : 1;
    for (int64_t r = 0; r < p.n * p.groups; r++) {
        const int64_t token = r / p.groups, group = r % p.groups;
        const float *x = p.x + token * p.ldx + group * d;
        float *y = p.y + token * p.ldy + group * d, m = 0;
        Vec sum = 0;
        if (CENTRED) {
            each_vector(d, [&](int64_t j, auto lanes) LAMBDA { sum += load(x + j, lanes); });
            m = sum_of(sum) / d;
            p.mean[r] = m;
            sum = 0;
        }
        each_vector(d, [&](int64_t j, auto lanes) LAMBDA {
            Vec c = load(x + j, lanes) - m;
            sum += present(c * c, lanes);
        });
        const float squares = sum_of(sum);
        float inverse = 1 / __builtin_sqrtf(squares / p.divisor + p.eps);
        if (!(squares * gain * gain < NEAR_OVERFLOW)) inverse = NAN;
        p.inverse[r] = inverse;
        each_vector(d, [&](int64_t j, auto lanes) LAMBDA {
            Vec z = (load(x + j, lanes) - m) * inverse;
            z *= GAIN == EACH ? load(p.w + j, lanes) : Vec(gain);
            if (CENTRED) z += load(p.bias + j, lanes);
            store(y + j, z, lanes);
        });
    }
}

/* Slots: n, groups, d, x, ldx, y, ldy, w, bias, mean, inverse, eps, divisor. w, bias and mean where the norm has them. */
template <bool CENTRED, Gain GAIN> INLINE void norm(const Slot *s) {
    Norm p = {s[0].n, s[1].n, s[3].floats, s[5].floats, s[7].floats, s[8].floats, s[9].floats, s[10].floats,
              s[4].n, s[6].n, (float)s[11].x, (float)s[12].x};
    AT_WIDTH(s[2].n, (norm_rows<CENTRED, GAIN>(p, D)));
}

/* gx = (g w - mean(g w) - xhat sum(g w xhat) / divisor) inverse [+ skip]; gw = sum over rows of g xhat, gb = of g. */
struct NormBack {
    int64_t n, groups;
    const float *g, *x, *w, *mean, *inverse, *skip;
    float *gx, *gw, *gb;
    int64_t ldg, ldx, ldgx;
    float divisor;
};

template <bool CENTRED, Gain GAIN> INLINE void norm_rows_back(const NormBack &p, const int64_t d) {
    const int64_t rows = p.n * p.groups;
    const float gain = GAIN == ONE ? p.w[0] : 1;
    Sum scalar;
    if (GAIN == EACH) memset(p.gw, 0, d * sizeof(float));
    if (CENTRED) memset(p.gb, 0, d * sizeof(float));
    for (int64_t first = 0; first < rows; first += SUMMED_ROWS) {
        const int64_t last = rows < first + SUMMED_ROWS ? rows : first + SUMMED_ROWS;
        constexpr int64_t AT_HAND = 512; /* features whose sums are kept here */
        const bool at_hand = d <= AT_HAND;
        Vec gw_sum[AT_HAND / W], gb_sum[AT_HAND / W];
        if (at_hand) for (int64_t j = 0; j < (d + W - 1) / W; j++) gw_sum[j] = gb_sum[j] = 0;
        for (int64_t r = first; r < last; r++) {
            const int64_t token = r / p.groups, group = r % p.groups;
            const float *x = p.x + token * p.ldx + group * d, *g = p.g + token * p.ldg + group * d;
            const float m = CENTRED ? p.mean[r] : 0, inverse = p.inverse[r];
            Vec sum = 0, product = 0, one = 0;
            each_vector(d, [&](int64_t j, auto lanes) LAMBDA {
                Vec xhat = (load(x + j, lanes) - m) * inverse, gr = load(g + j, lanes);
                Vec gw = gr * (GAIN == EACH ? load(p.w + j, lanes) : Vec(gain));
                if (CENTRED) sum += gw;
                product += gw * xhat;
                if (GAIN == ONE) one += gr * xhat;
                if (GAIN == EACH) {
                    if (at_hand) gw_sum[j / W] += gr * xhat;
                    else add_to(p.gw + j, gr * xhat, lanes);
                }
                if (CENTRED) {
                    if (at_hand) gb_sum[j / W] += gr;
                    else add_to(p.gb + j, gr, lanes);
                }
            });
            if (GAIN == ONE) scalar.add(one);
            const float mean = CENTRED ? sum_of(sum) / d : 0, along = sum_of(product) / p.divisor;
            const int64_t out = token * p.ldgx + group * d;
            each_vector(d, [&](int64_t j, auto lanes) LAMBDA {
                Vec xhat = (load(x + j, lanes) - m) * inverse;
                Vec gw = load(g + j, lanes) * (GAIN == EACH ? load(p.w + j, lanes) : Vec(gain));
                Vec z = (gw - mean - xhat * along) * inverse;
                if (p.skip) z += load(p.skip + out + j, lanes);
                store(p.gx + out + j, z, lanes);
            });
        }
        if (at_hand) each_vector(d, [&](int64_t j, auto lanes) LAMBDA {
            if (GAIN == EACH) add_to(p.gw + j, gw_sum[j / W], lanes);
            if (CENTRED) add_to(p.gb + j, gb_sum[j / W], lanes);
        });
    }
    if (GAIN == ONE) p.gw[0] = (float)scalar.total();
}

/* Slots: n, groups, d, g, ldg, x, ldx, w, mean, inverse, skip, gx, ldgx (of skip, too), gw, gb, divisor. */
template <bool CENTRED, Gain GAIN> INLINE void norm_back(const Slot *s) {
    NormBack p = {s[0].n,       s[1].n,       s[3].floats,  s[5].floats,  s[7].floats, s[8].floats, s[9].floats,
                  s[10].floats, s[11].floats, s[13].floats, s[14].floats, s[4].n,      s[6].n,      s[12].n,
                  (float)s[15].x};
    AT_WIDTH(s[2].n, (norm_rows_back<CENTRED, GAIN>(p, D)));
}

KERNEL(layer_norm) { norm<true, EACH>(s); }
KERNEL(layer_norm_back) { norm_back<true, EACH>(s); }
KERNEL(rms_norm) { norm<false, EACH>(s); }
KERNEL(rms_norm_back) { norm_back<false, EACH>(s); }
KERNEL(scale_norm) { norm<false, ONE>(s); }
KERNEL(scale_norm_back) { norm_back<false, ONE>(s); }
KERNEL(unit_length) { norm<false, NONE>(s); }
KERNEL(unit_length_back) { norm_back<false, NONE>(s); }

/* y = w t + b, t = tanh(a x), which is kept in `tanh` (n, d). Slots: n, d, x, ldx, y, ldy, w, b, a, tanh. */
KERNEL(dyt) {
    const int64_t n = s[0].n, d = s[1].n, ldx = s[3].n, ldy = s[5].n;
    const float *w = s[6].floats, *b = s[7].floats, a = *s[8].floats;
    for (int64_t r = 0; r < n; r++) {
        const float *x = s[2].floats + r * ldx;
        float *y = s[4].floats + r * ldy, *tanh = s[9].floats + r * d;
        each_vector(d, [&](int64_t j, auto lanes) LAMBDA {
            const Vec ax = a * load(x + j, lanes); /* the tangent would hide that it overflows */
            Vec t = select(absolute(ax) < Vec(NEAR_OVERFLOW), hyperbolic_tangent(ax), NAN);
            store(tanh + j, t, lanes);
            store(y + j, load(w + j, lanes) * t + load(b + j, lanes), lanes);
        });
    }
}

/* With z = g w (1 - t^2): gx = a z [+ skip], ga = sum of z x, gw = sum over rows of g t, gb = of g.
   Slots: n, d, g, ldg, x, ldx, w, a, tanh, skip, gx, ldgx (of skip, too), gw, gb, ga. */
KERNEL(dyt_back) {
    const int64_t n = s[0].n, d = s[1].n, ldg = s[3].n, ldx = s[5].n, ldgx = s[11].n;
    const float *w = s[6].floats, a = *s[7].floats, *skip = s[9].floats;
    float *gw = s[12].floats, *gb = s[13].floats;
    memset(gw, 0, d * sizeof(float));
    memset(gb, 0, d * sizeof(float));
    Sum total;
    for (int64_t first = 0; first < n; first += SUMMED_ROWS) {
        const int64_t last = n < first + SUMMED_ROWS ? n : first + SUMMED_ROWS;
        each_vector(d, [&](int64_t j, auto lanes) LAMBDA {
            Vec gw_sum = 0, gb_sum = 0, ga_sum = 0, wj = load(w + j, lanes);
            for (int64_t r = first; r < last; r++) {
                Vec t = load(s[8].floats + r * d + j, lanes), g = load(s[2].floats + r * ldg + j, lanes);
                Vec z = g * wj * (1.0f - t * t);
                gw_sum += g * t;
                gb_sum += g;
                ga_sum += z * load(s[4].floats + r * ldx + j, lanes);
                z *= a;
                if (skip) z += load(skip + r * ldgx + j, lanes);
                store(s[10].floats + r * ldgx + j, z, lanes);
            }
            add_to(gw + j, gw_sum, lanes);
            add_to(gb + j, gb_sum, lanes);
            total.add(ga_sum);
        });
    }
    *s[14].floats = (float)total.total();
}

/* BatchNorm: statistics of each feature over all tokens. NV vectors of features at a time, so that rows are read in
   their order; sums over tokens are in double. */

template <int NV, class Value> INLINE void token_means(int64_t n, Vec *means, Value value) {
    Sum sums[NV];
    for (int64_t first = 0; first < n; first += SUMMED_ROWS) {
        const int64_t last = n < first + SUMMED_ROWS ? n : first + SUMMED_ROWS;
        Vec part[NV];
        UNROLL(4) for (int k = 0; k < NV; k++) part[k] = 0;
        for (int64_t r = first; r < last; r++) UNROLL(4) for (int k = 0; k < NV; k++) part[k] += value(r, k);
        UNROLL(4) for (int k = 0; k < NV; k++) sums[k].add(part[k]);
    }
    UNROLL(4) for (int k = 0; k < NV; k++) means[k] = sums[k].each_over((double)n);
}

/* y = (x - mean) inverse w + b, inverse = 1 / sqrt(var + eps), over features from j on. */
template <int NV, class Lanes> INLINE void batch_norm_columns(const Slot *s, int64_t j, Lanes lanes) {
    const int64_t n = s[0].n, ldx = s[3].n, ldy = s[5].n;
    const float *x = s[2].floats + j;
    float *y = s[4].floats + j;
    const float eps = (float)s[10].x, momentum = (float)s[13].x, unbiased = n > 1 ? n / (n - 1.0f) : 1;
    Vec mean[NV], var[NV], scale[NV], b[NV];
    token_means<NV>(n, mean, [&](int64_t r, int k) LAMBDA { return load(x + r * ldx + W * k, lanes); });
    token_means<NV>(n, var, [&](int64_t r, int k) LAMBDA {
        Vec c = load(x + r * ldx + W * k, lanes) - mean[k];
        return c * c;
    });
    UNROLL(4) for (int k = 0; k < NV; k++) {
        const int64_t at = j + W * k;
        Vec inverse = select(var[k] * (float)n < Vec(NEAR_OVERFLOW), 1.0f / square_root(var[k] + eps), NAN);
        store(s[8].floats + at, mean[k], lanes);
        store(s[9].floats + at, inverse, lanes);
        float *running_mean = s[11].floats + at, *running_var = s[12].floats + at;
        store(running_mean, load(running_mean, lanes) * (1 - momentum) + mean[k] * momentum, lanes);
        store(running_var, load(running_var, lanes) * (1 - momentum) + var[k] * unbiased * momentum, lanes);
        scale[k] = inverse * load(s[6].floats + at, lanes);
        b[k] = load(s[7].floats + at, lanes);
    }
    for (int64_t r = 0; r < n; r++)
        UNROLL(4) for (int k = 0; k < NV; k++)
            store(y + r * ldy + W * k, (load(x + r * ldx + W * k, lanes) - mean[k]) * scale[k] + b[k], lanes);
}

/* Slots: n, d, x, ldx, y, ldy, w, b, mean, inverse, eps, running_mean, running_var, momentum, batches counted. */
KERNEL(batch_norm) {
    const int64_t d = s[1].n;
    int64_t j = 0;
    for (; j + 4 * W <= d; j += 4 * W) batch_norm_columns<4>(s, j, Whole());
    each_vector(d - j, [&](int64_t rest, auto lanes) LAMBDA { batch_norm_columns<1>(s, j + rest, lanes); });
    *s[14].integers += 1;
}

/* gx = w inverse (g - mean(g) - xhat mean(g xhat)) [+ skip]; gw = sum over tokens of g xhat, gb = of g. */
template <int NV, class Lanes> INLINE void batch_norm_back_columns(const Slot *s, int64_t j, Lanes lanes) {
    const int64_t n = s[0].n, ldg = s[3].n, ldx = s[5].n, ldgx = s[11].n;
    const float *g = s[2].floats + j, *x = s[4].floats + j, *skip = at(s[9].floats, j);
    float *gx = s[10].floats + j;
    Vec mean[NV], inverse[NV], g_mean[NV], product_mean[NV];
    UNROLL(4) for (int k = 0; k < NV; k++) {
        mean[k] = load(s[7].floats + j + W * k, lanes);
        inverse[k] = load(s[8].floats + j + W * k, lanes);
    }
    auto xhat = [&](int64_t r, int k) LAMBDA { return (load(x + r * ldx + W * k, lanes) - mean[k]) * inverse[k]; };
    token_means<NV>(n, g_mean, [&](int64_t r, int k) LAMBDA { return load(g + r * ldg + W * k, lanes); });
    token_means<NV>(n, product_mean, [&](int64_t r, int k) LAMBDA {
        return load(g + r * ldg + W * k, lanes) * xhat(r, k);
    });
    Vec scale[NV];
    UNROLL(4) for (int k = 0; k < NV; k++) {
        store(s[12].floats + j + W * k, product_mean[k] * (float)n, lanes);
        store(s[13].floats + j + W * k, g_mean[k] * (float)n, lanes);
        scale[k] = load(s[6].floats + j + W * k, lanes) * inverse[k];
    }
    for (int64_t r = 0; r < n; r++)
        UNROLL(4) for (int k = 0; k < NV; k++) {
            Vec z = scale[k] * (load(g + r * ldg + W * k, lanes) - g_mean[k] - xhat(r, k) * product_mean[k]);
            if (skip) z += load(skip + r * ldgx + W * k, lanes);
            store(gx + r * ldgx + W * k, z, lanes);
        }
}

/* Slots: n, d, g, ldg, x, ldx, w, mean, inverse, skip, gx, ldgx (of skip, too), gw, gb. */
KERNEL(batch_norm_back) {
    const int64_t d = s[1].n;
    int64_t j = 0;
    for (; j + 4 * W <= d; j += 4 * W) batch_norm_back_columns<4>(s, j, Whole());
    each_vector(d - j, [&](int64_t rest, auto lanes) LAMBDA { batch_norm_back_columns<1>(s, j + rest, lanes); });
}
