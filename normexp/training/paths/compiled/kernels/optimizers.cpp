/* One pass over all parameters: the update, and whether every parameter is finite afterwards. */

#include "vector.h"

#define FUNCTION(type) extern "C" __attribute__((visibility("default"))) type

/* In double, of the gradients: not finite where one of them is not. */
FUNCTION(double) sum_of_squares(const float *x, int64_t count) {
    Sum sum;
    each_vector(count, [&](int64_t j, auto lanes) LAMBDA { sum.add_square(load(x + j, lanes)); });
    return sum.total();
}

/* Adam (Kingma and Ba 2015), with weight decay in the gradient or, DECOUPLED, beside it. `size` is the rate over the
   first correction, `root` the square root of the second, `shrink` the rate times the decay; `new1` and `new2` are 1 - beta1
   and 1 - beta2, which float would round too far.

       m <- m + (1 - beta1) (g - m);  u <- beta2 u + (1 - beta2) g^2;  x <- x - size m / (sqrt(u) / root + eps) */
struct Adam {
    float size, new1, beta2, new2, inverse_root, eps, decay, shrink;
};

template <bool DECOUPLED>
INLINE bool adam(float *x, const float *g, float *m, float *u, int64_t count, const Adam &a) {
    Vec zero = 0; /* stays 0 while all are finite */
    each_vector(count, [&](int64_t j, auto lanes) LAMBDA {
        Vec p = load(x + j, lanes), gr = load(g + j, lanes);
        if (DECOUPLED) p -= p * a.shrink;
        else gr += p * a.decay;
        Vec first = load(m + j, lanes), second = load(u + j, lanes);
        first += (gr - first) * a.new1;
        second = second * a.beta2 + gr * a.new2 * gr;
        p -= a.size * first / (square_root(second) * a.inverse_root + a.eps);
        store(m + j, first, lanes);
        store(u + j, second, lanes);
        store(x + j, p, lanes);
        zero += present(p * 0.0f, lanes);
    });
    return sum_of(zero) == 0;
}

FUNCTION(int64_t) adam_coupled(float *x, const float *g, float *m, float *u, int64_t count, float size, float new1,
                               float beta2, float new2, float root, float eps, float decay) {
    return adam<false>(x, g, m, u, count, Adam{size, new1, beta2, new2, 1 / root, eps, decay, 0});
}

FUNCTION(int64_t) adam_decoupled(float *x, const float *g, float *m, float *u, int64_t count, float size, float new1,
                                 float beta2, float new2, float root, float eps, float shrink) {
    return adam<true>(x, g, m, u, count, Adam{size, new1, beta2, new2, 1 / root, eps, 0, shrink});
}

/* x <- x - rate (g + decay x). */
FUNCTION(int64_t) descend(float *x, const float *g, int64_t count, float rate, float decay) {
    Vec zero = 0;
    each_vector(count, [&](int64_t j, auto lanes) LAMBDA {
        Vec p = load(x + j, lanes);
        p -= rate * (load(g + j, lanes) + p * decay);
        store(x + j, p, lanes);
        zero += present(p * 0.0f, lanes);
    });
    return sum_of(zero) == 0;
}
