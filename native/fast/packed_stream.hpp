// Gradient steps on packed lanes for short rows, which fit in registers with their sums: ratings stream through, a
// pack's dot products next to the exponentials of the pack before and the sums of the one before that. From logits to
// sums it is a chain of some 120 cycles, of which the processor would otherwise overlap two or three.
#pragma once

#include "packed_rows.hpp"

#if STARCAST_VECTOR_FLOATS == 16

namespace starcast::STARCAST_ISA_NS {

// N: registers of a row.
template <typename Model, int D, int N, bool Scored>
struct PackedStream {
  static constexpr int R = Packing<D>::R, V = Packing<D>::V, ahead = 48;
  static constexpr int64_t stride = 16 * N;
  static_assert(V == 1, "a slot is a register");
  const Pass& pass;
  const int64_t limit;  // of the ratings that may be asked for
  Log2Lik& loglik;
  Wide x[N], sums[N], start, total = Wide::all(0.0f);

  struct Pack {
    const float* f[R];
    Wide logits, weights;
    int32_t scores;
  };

  STARCAST_INLINE const float* other(int64_t j) const { return pass.others + pass.other[j] * stride; }

  // Rows of the ratings from j on, m of them, and their logits.
  template <bool Whole>
  STARCAST_INLINE Pack meet(int64_t j, int64_t m) const {
    Pack pack;
    pack.scores = -1;  // which no score equals
    for (int t = 0; t < R; ++t) pack.f[t] = Whole || t < m ? other(j + t) : pass.others;
    if constexpr (Whole) std::memcpy(&pack.scores, pass.score + j, sizeof pack.scores);
    else
      for (int t = 0; t < R && t < m; ++t) reinterpret_cast<int8_t*>(&pack.scores)[t] = pass.score[j + t];
    Wide z[R][V];
    for (int t = 0; t < R; ++t) {
      z[t][0] = x[0] * Wide::load(pack.f[t]);
      for (int k = 1; k < N; ++k) z[t][0] = fma(x[k], Wide::load(pack.f[t] + 16 * k), z[t][0]);
    }
    pack.logits = add_planes<D>(z, start);
    return pack;
  }

  static STARCAST_INLINE void weigh(Pack& pack) {
    pack.logits = tamed<Model, D>(pack.logits);
    pack.weights = Model::weights(pack.logits);
  }

  template <bool Whole>
  STARCAST_INLINE void learn(const Pack& pack, int64_t m) {
    const Wide g = slopes<Model, D, Scored, Whole>(pack.logits, pack.weights, truth_of<D>(pack.scores),
                                                   Packing<D>::rated(m), loglik);
    for (int t = 0; t < R; ++t) {
      const Wide slope = packing<D>.spread[t][0](g);
      for (int k = 0; k < N; ++k) sums[k] = fma(slope, Wide::load(pack.f[t] + 16 * k), sums[k]);
    }
    total = total + g;
  }

  // Four bytes of scores are read at a time, so that a pack is whole where at least one more rating follows; the last
  // one has from one to R ratings.
  STARCAST_INLINE void walk(int64_t begin, int64_t end) {
    int64_t j = begin;
    if (end - j > 2 * R) {
      Pack first = meet<true>(j, R), second = meet<true>(j + R, R);
      weigh(first);
      const auto advance = [&]() __attribute__((always_inline)) {
        j += R;
        if (j + ahead + R <= limit)
          for (int t = 0; t < R; ++t) prefetch(other(j + ahead + t), stride);
        const Pack third = meet<true>(j, R);
        weigh(second);
        learn<true>(first, R);
        first = second;
        second = third;
      };
      for (j += R; end - j > 3 * R;) {
        advance();
        advance();
        if constexpr (Scored) loglik.part();
      }
      if (end - j > 2 * R) advance();
      if constexpr (Scored) loglik.part();
      j += R;
      Pack last = meet<false>(j, end - j);
      weigh(second);
      learn<true>(first, R);
      weigh(last);
      learn<true>(second, R);
      if constexpr (Scored) loglik.part();
      learn<false>(last, end - j);
      if constexpr (Scored) loglik.part();
      return;
    }
    for (; j < end; j += R) {
      Pack pack = meet<false>(j, end - j);
      weigh(pack);
      learn<false>(pack, end - j);
      if constexpr (Scored) loglik.part();
    }
  }
};

template <typename Model, int D, int N, bool Scored>
void packed_stream_rows(const Pass& pass, int64_t first, int64_t last, float* scratch) {
  using Stream = PackedStream<Model, D, N, Scored>;
  // As PackedRow has it, but in registers: what is stored in pieces cannot be loaded as a whole at once.
  const int bias_register = pass.biased ? pass.n_factors / 3 : -1, bias_group = pass.n_factors % 3;
  const __mmask16 biases = Packing<D>::group(bias_group);
  const Index& bias_spread = packing<D>.spread[bias_group][0];
  const Wide none = Wide::all(0.0f), unit = Wide::all(Model::unit), base = PackedRow<Model, D>(pass).start();
  Log2Lik loglik;
  for (int64_t row = first; row < last; ++row) {
    const Visit visit(pass, row, last, Stream::stride, scratch);
    const float* x = pass.rows + row * Stream::stride;
    Stream stream{pass, visit.limit(), loglik};
    stream.start = base;
    Wide before = none;
    for (int k = 0; k < N; ++k) {
      const Wide own = Wide::load(x + 16 * k);
      stream.x[k] = own * unit;
      stream.sums[k] = pass.window.first ? none : Wide::load(visit.sums + 16 * k);
      if (k != bias_register) continue;
      stream.x[k] = choose(biases, unit, stream.x[k]);
      stream.start = base + bias_spread(own) * unit;
      before = stream.sums[k];
    }
    stream.walk(visit.begin, visit.end);
    for (int k = 0; k < N; ++k) {
      if (k == bias_register) {
        Wide slopes = before + stream.total;
        for (int t = 1; t < 3; ++t) slopes = slopes + packing<D>.turn[t](stream.total);
        stream.sums[k] = choose(biases, slopes, stream.sums[k]);
      }
      stream.sums[k].store(visit.sums + 16 * k);
    }
    if (pass.window.last) visit.step();
  }
  if constexpr (Scored) report(pass, first, last, loglik.natural());
}

template <typename Model, int D, bool Scored>
void packed_rows(const Pass& pass, int64_t first, int64_t last, float* scratch) {
  if constexpr (Packing<D>::V == 1) switch (RowLayout(D).slots(pass.n_factors + pass.biased)) {
      case 1:
        return packed_stream_rows<Model, D, 1, Scored>(pass, first, last, scratch);
      case 2:
        return packed_stream_rows<Model, D, 2, Scored>(pass, first, last, scratch);
      case 3:
        return packed_stream_rows<Model, D, 3, Scored>(pass, first, last, scratch);
      case 4:
        return packed_stream_rows<Model, D, 4, Scored>(pass, first, last, scratch);
    }
  packed_gradient_rows<Model, D, Scored>(pass, first, last, scratch);
}

template <typename Model, int D>
void packed_gradient(const Pass& pass, int64_t first, int64_t last, float* scratch) {
  if (pass.row_loglik) packed_rows<Model, D, true>(pass, first, last, scratch);
  else packed_rows<Model, D, false>(pass, first, last, scratch);
}

}  // namespace starcast::STARCAST_ISA_NS

#endif
