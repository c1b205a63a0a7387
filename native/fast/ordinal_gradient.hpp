// The gradient of the ordinal model: how the log-likelihood of rows changes with their numbers, the others standing
// still.
//
// Long rows are walked one by one. Short ones share strips, so that they waste few lanes: first eta, one lane per
// rating, for which the others' rows are turned; then the softmax; then the sums, one lane per column. Rows are laid
// out as in ordinal.hpp, but only the first two basis functions have factors, and as many as whole fours.
#pragma once

#include "ordinal_stream.hpp"
#include "ordinal_strip.hpp"

namespace starcast::STARCAST_ISA_NS {

// K0t, K1t, Jt: factors of the first two basis functions, and how many functions, where the compiler knows them, and
// that there are five scores; otherwise -1.
template <int K0t, int K1t, int Jt>
class OrdinalSlope : private OrdinalStrip {
 public:
  OrdinalSlope(const OrdinalSlopes& slopes, float* scratch)
      : OrdinalStrip(slopes),
        K0_(slopes.ranks[0]),
        K_(K0_ + (slopes.n_basis > 1 ? slopes.ranks[1] : 0)),
#if STARCAST_VECTOR_FLOATS == 16
        stream_(slopes),
#endif
        own_(scratch),
        which_(reinterpret_cast<int32_t*>(own_ + 16 * slopes.stride)) {
    for (int d = 0; d < p_.stride; ++d) which_[d] = d < K0() ? 0 : 8;
  }

  static STARCAST_INLINE int64_t scratch_floats(int stride) { return 17 * stride; }

  // The slopes of rows first .. last - 1; adds to the log-likelihood and the squares of the pulls, if asked for.
  void walk(int64_t first, int64_t last) {
    if (p_.loglik) walk_rows<true>(first, last);
    else walk_rows<false>(first, last);
  }

 private:
  static constexpr int short_row = 40;  // ratings; more are walked by themselves
  struct Piece {
    int64_t row;
    int begin, end;  // ratings of the strip
  };

  // Where the columns of the second function, the biases and the padding begin.
  STARCAST_INLINE int K0() const { return K0t >= 0 ? K0t : K0_; }
  STARCAST_INLINE int K() const { return K0t >= 0 ? K0t + K1t : K_; }
  STARCAST_INLINE int J() const { return Jt >= 0 ? Jt : J_; }
  STARCAST_INLINE int D() const { return K() + J(); }
  STARCAST_INLINE int64_t stride() const { return K0t >= 0 ? (K0t + K1t + Jt + 15) / 16 * 16 : p_.stride; }

  template <bool Asked>
  void walk_rows(int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int64_t begin = p_.indptr[row], n = p_.indptr[row + 1] - begin;
      if (n > short_row) {
        flush<Asked>();
        walk_long<Asked>(row, begin, begin + n);
      } else {
        if (count_ + n > strip_length) flush<Asked>();
        clear(p_.slopes + row * stride());
        if (n) take(row, begin, static_cast<int>(n));
      }
    }
    flush<Asked>();
    if (Asked)
      for (int j = 0; j < J_; ++j) p_.squares[j] += static_cast<double>(sum(Sixteen::load(squares_[j])));
  }

  template <bool Asked>
  STARCAST_INLINE void walk_long(int64_t row, int64_t begin, int64_t end) {
#if STARCAST_VECTOR_FLOATS == 16
    if constexpr (K0t >= 0) {
      Sixteen squares[4];
      for (int j = 0; j < 4; ++j) squares[j] = Sixteen::load(squares_[j]);
      if (stream_.template walk<Asked>(row, p_.loglik, squares)) {
        for (int j = 0; j < 4 && Asked; ++j) squares[j].store(squares_[j]);
        return;
      }
    }
#endif
    clear(p_.slopes + row * stride());
    for (; begin < end; begin += strip_length) {
      take(row, begin, end - begin < strip_length ? static_cast<int>(end - begin) : strip_length);
      flush<Asked>();
    }
  }

  STARCAST_INLINE void clear(float* slope) {
    for (int d = 0; d < stride(); d += 16) Sixteen::all(0.0f).store(slope + d);
  }

  STARCAST_INLINE void take(int64_t row, int64_t begin, int n) {
    for (int t = 0; t < n; ++t) {
      f_[count_ + t] = p_.others + int64_t{p_.other[begin + t]} * stride();
      score_[count_ + t] = p_.score[begin + t];
    }
    pieces_[n_pieces_++] = {row, count_, count_ + n};
    count_ += n;
  }

  template <bool Asked>
  void flush() {
    if (!count_) return;
    for (int t = count_; t % 16; ++t) {
      f_[t] = f_[0];
      score_[t] = 0;
    }
    soften<Asked>();
    for (int k = 0; k < n_pieces_; ++k) collect(pieces_[k]);
    count_ = n_pieces_ = 0;
  }

  template <bool Asked>
  STARCAST_INLINE void soften() {
    constexpr int St = K0t >= 0 ? 5 : -1;
    Sums<Jt> sums;
    const Piece* piece = pieces_;
    for (int from = 0; from < count_; from += 16) {
      while (piece->end <= from) ++piece;
      meet(from, piece);
      pull<Jt, St, Asked, false, St == 5>(score_, from, sums);
    }
    if (finish<Jt, Asked, false>(sums)) return;
    Sums<-1> carefully;
    for (int from = 0; from < count_; from += 16) pull<-1, -1, Asked, true, false>(score_, from, carefully);
    finish<-1, Asked, true>(carefully);
  }

  // Eta of sixteen ratings, the first of which is of the piece.
  STARCAST_INLINE void meet(int from, const Piece* piece) {
    const float* x = p_.rows + piece->row * stride();
    if (piece->end == count_ || piece->end >= from + 16) return tie<true>(from, x);
    const float* rows[16];
    for (int t = 0; t < 16; ++t) {
      if (from + t == piece->end && from + t < count_) ++piece;
      rows[t] = p_.rows + piece->row * stride();
    }
    for (int d = 0; d < D(); d += 8) {
      Sixteen columns[8];
      turn_eight(rows, d, columns);
      unrolled<8>(STARCAST_EACH(c) { columns[c].store(own_ + (d + c) * 16); });
    }
    tie<false>(from, own_);
  }

  // x: the row that the ratings are of, or sixteen of them, turned.
  template <bool IsOneRow>
  STARCAST_INLINE void tie(int from, const float* x) {
    Sixteen eta[2] = {Sixteen::all(0.0f), Sixteen::all(0.0f)};
    for (int d = 0; d < D(); d += 8) {
      Sixteen y[8];
      turn_eight(f_ + from, d, y);
      unrolled<8>(STARCAST_EACH(c) {
        const int at = d + c;
        if (at >= D()) return;
        const Sixteen own = IsOneRow ? Sixteen::all(x[at]) : Sixteen::load(x + at * 16);
        if (at < K0()) eta[0] = fma(y[c], own, eta[0]);
        else if (at < K()) eta[1] = fma(y[c], own, eta[1]);
        else (at - K() < 2 ? y[c] + own + eta[at - K()] : y[c] + own).store(eta_[at - K()] + from);
      });
    }
  }

  // Adds what the ratings of a piece pull at to the slope of its row.
  STARCAST_INLINE void collect(const Piece& piece) {
    float* slope = p_.slopes + piece.row * stride();
    for (int j = 0; j < J(); ++j) {
      Sixteen sums = Sixteen::all(0.0f);
      for (int from = piece.begin / 16 * 16; from < piece.end; from += 16) {
        const int a = piece.begin > from ? piece.begin - from : 0, b = piece.end - from < 16 ? piece.end - from : 16;
        sums = fma(Sixteen::load(pull_[j] + from), lanes_between(a, b), sums);
      }
      slope[K() + j] += sum(sums);
    }
#if STARCAST_VECTOR_FLOATS == 16
    for (int d = 0; d < K(); d += 16) add_factors(piece, d, slope + d);
#else
    add_factors<16>(piece, 0, 0, K0(), slope);
    add_factors<16>(piece, 1, K0(), K(), slope);
#endif
  }

#if STARCAST_VECTOR_FLOATS == 16
  // A permutation gives each of sixteen columns its pull: those of both functions lie side by side for eight ratings.
  STARCAST_INLINE void add_factors(const Piece& piece, int d, float* slope) {
    const __mmask16 factors = d + 16 > K() ? (1 << (K() - d)) - 1 : 0xffff;
    const __m512i which = _mm512_load_si512(which_ + d);
    __m512 sums = _mm512_loadu_ps(slope);
    for (int t = piece.begin; t < piece.end; ++t) {
      const __m512 pulls = _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_load_ps(pull_[0] + t / 8 * 8)),
                                              _mm256_load_ps(pull_[1] + t / 8 * 8), 1);
      const __m512i lane = _mm512_add_epi32(which, _mm512_set1_epi32(t % 8));
      sums = _mm512_fmadd_ps(_mm512_permutexvar_ps(lane, pulls), _mm512_loadu_ps(f_[t] + d), sums);
    }
    _mm512_mask_storeu_ps(slope, factors, sums);
  }
#else
  // Columns d .. end - 1, whose pull is that of function j.
  template <int W>
  STARCAST_INLINE void add_factors(const Piece& piece, int j, int d, int end, float* slope) {
    for (; d + W <= end; d += W) {
      Lanes<W> sums = Lanes<W>::load(slope + d);
      for (int t = piece.begin; t < piece.end; ++t)
        sums = fma(Lanes<W>::load(f_[t] + d), Lanes<W>::all(pull_[j][t]), sums);
      sums.store(slope + d);
    }
    if constexpr (W > 4) add_factors<W / 2>(piece, j, d, end, slope);
  }
#endif

  const int K0_, K_;
#if STARCAST_VECTOR_FLOATS == 16
  OrdinalStream<K0t> stream_;
#endif
  int n_pieces_ = 0;
  float* own_;  // sixteen rows of this side, turned
  int32_t* which_;
  Piece pieces_[strip_length];
  const float* f_[strip_length];  // rows of the other side
  int8_t score_[strip_length];
};

inline int64_t slopes_scratch(const OrdinalSlopes& slopes) {
  return OrdinalSlope<-1, -1, -1>::scratch_floats(slopes.stride);
}

// Whether there are five scores and four functions of them, odd and even in turns.
inline bool are_five_mirrored(const OrdinalSlopes& slopes) {
  if (slopes.n_scores != 5 || slopes.n_basis != 4) return false;
  for (int j = 0; j < 4; ++j)
    for (int s = 0; s < 5; ++s) {
      const float one = slopes.basis[j * 5 + s], twin = slopes.basis[j * 5 + 4 - s];
      if (__builtin_fabsf(one - (j % 2 ? twin : -twin)) > 1e-6f) return false;
    }
  return true;
}

inline void slopes_of(const OrdinalSlopes& slopes, int64_t first, int64_t last, float* scratch) {
  const int ranks[2] = {slopes.ranks[0], slopes.n_basis > 1 ? slopes.ranks[1] : 0};
  const bool five = are_five_mirrored(slopes);
  if (five && ranks[0] == 8 && ranks[1] == 4 && slopes.stride == 16)
    OrdinalSlope<8, 4, 4>(slopes, scratch).walk(first, last);
  else if (five && ranks[0] == 16 && ranks[1] == 4 && slopes.stride == 32)
    OrdinalSlope<16, 4, 4>(slopes, scratch).walk(first, last);
  else OrdinalSlope<-1, -1, -1>(slopes, scratch).walk(first, last);
}

}  // namespace starcast::STARCAST_ISA_NS
