// The kernels of one instruction set. CMake compiles this file several times with different flags and STARCAST_ISA_NS;
// it must not touch the standard library's templates, or the linker might keep, say, the AVX-512 copy of one for
// everybody.
#include "beta.hpp"
#include "dirmf.hpp"
#include "exact_parts.hpp"
#include "ordinal.hpp"
#include "ordinal_glide.hpp"
#include "ordinal_gradient.hpp"
#include "ordinal_pairs.hpp"
#include "packed_stream.hpp"
#include "point.hpp"
#include "point_squares.hpp"
#include "resbemf.hpp"
#include "score_pairs.hpp"
#include "top.hpp"

namespace starcast::STARCAST_ISA_NS {

template <int W, int S, int D>
void exact_rows(const Pass& pass, int64_t first, int64_t last, float* scratch) {
  ExactRow<W, S, D> worker(pass, scratch);
  for (int64_t row = first; row < last; ++row) worker.step(row);
}

// Five and ten scores, the usual ones, get code in which their number is known. W: lanes of a plane; S: lanes of a
// slot, as RowLayout has them.
#define STARCAST_BY_SCORES(n_scores, call)   \
  if (n_scores == 5) call(8, 16, 5);         \
  else if (n_scores == 10) call(16, 32, 10); \
  else if (n_scores <= 8) call(8, 16, 0);    \
  else if (n_scores == 9) call(16, 32, 0);   \
  else if (n_scores <= 16) call(16, 16, 0);  \
  else if (n_scores <= 32) call(32, 32, 0);  \
  else call(64, 64, 0)

int64_t scratch_floats(const Pass& pass) {
  int64_t floats = 0;
#define CALL(W, S, D) floats = ExactRow<W, S, D>::scratch_floats(pass, pass.longest_row)
  STARCAST_BY_SCORES(pass.n_scores, CALL);
#undef CALL
  return floats;
}

void resbemf_look(const ScoreLook& look, int64_t first, int64_t last, float* scratch) {
#define CALL(W, S, D) look_at_rows<W, S, D>(look, first, last, scratch)
  STARCAST_BY_SCORES(look.pass.n_scores, CALL);
#undef CALL
}

void resbemf_aim(const ScoreAim& aim, int64_t first, int64_t last, float* scratch) {
#define CALL(W, S, D) aim_rows<W, S, D>(aim, first, last, scratch)
  STARCAST_BY_SCORES(aim.pass.n_scores, CALL);
#undef CALL
}

// Five or ten scores without special wishes are walked on packed lanes where there are instructions for that.
#if STARCAST_VECTOR_FLOATS == 16
#define STARCAST_TRY_PACKED(Model)                                                                                \
  if (pass.n_scores == 5 && pass.recklessness == 0) return packed_gradient<Model, 5>(pass, first, last, scratch); \
  if (pass.n_scores == 10 && pass.recklessness == 0) return packed_gradient<Model, 10>(pass, first, last, scratch)
#else
#define STARCAST_TRY_PACKED(Model)
#endif

#define STARCAST_ENTRY(name, rows, before)                                   \
  void name(const Pass& pass, int64_t first, int64_t last, float* scratch) { \
    before;                                                                  \
    STARCAST_BY_SCORES(pass.n_scores, rows);                                 \
  }
#define CALL(W, S, D) exact_rows<W, S, D>(pass, first, last, scratch)
STARCAST_ENTRY(resbemf_exact, CALL, )
#undef CALL
#define CALL(W, S, D)                                                             \
  pass.row_loglik ? resbemf_gradient_rows<S, D, true>(pass, first, last, scratch) \
                  : resbemf_gradient_rows<S, D, false>(pass, first, last, scratch)
STARCAST_ENTRY(resbemf_gradient, CALL, STARCAST_TRY_PACKED(PackedSoftmax))
#undef CALL
#define CALL(W, S, D)                                                          \
  pass.row_loglik ? bemf_gradient_rows<S, D, true>(pass, first, last, scratch) \
                  : bemf_gradient_rows<S, D, false>(pass, first, last, scratch)
STARCAST_ENTRY(bemf_gradient, CALL, STARCAST_TRY_PACKED(PackedLogistic))
#undef CALL
#define CALL(W, S, D)                                                      \
  pass.row_loglik ? dirmf_sgd_rows<S, D, true>(pass, first, last, scratch) \
                  : dirmf_sgd_rows<S, D, false>(pass, first, last, scratch)
STARCAST_ENTRY(dirmf_sgd, CALL, )
#undef CALL

void proba(const Question& ask, int64_t first, int64_t last) {
#define CALL(W, S, D) proba_pairs<W>(ask, first, last)
  STARCAST_BY_SCORES(ask.n_scores, CALL);
#undef CALL
}

template <bool Biased>
void point_by_length(const PointPass& pass, int64_t first, int64_t last) {
  switch (pass.stride / 8) {
    case 1:
      return point_rows<1, Biased>(pass, first, last);
    case 2:
      return point_rows<2, Biased>(pass, first, last);
    case 3:
      return point_rows<3, Biased>(pass, first, last);
    case 4:
      return point_rows<4, Biased>(pass, first, last);
    default:
      return point_rows_long(pass, first, last);
  }
}

void point_sgd(const PointPass& pass, int64_t first, int64_t last) {
  if (pass.row_bias) point_by_length<true>(pass, first, last);
  else point_by_length<false>(pass, first, last);
}

int64_t ordinal_scratch_floats(const OrdinalPass& pass) { return OrdinalRow::scratch_floats(pass); }

void ordinal_rows(const OrdinalPass& pass, int64_t first, int64_t last, float* scratch) {
  OrdinalRow worker(pass, scratch);
  for (int64_t row = first; row < last; ++row) worker.move(row);
}

void ordinal_look(const OrdinalLook& look, int64_t first, int64_t last, float* scratch) {
  OrdinalRow worker(look.pass, scratch);
  for (int64_t k = first; k < last; ++k) worker.tell(look, k);
}

void ordinal_aim(const OrdinalAim& aim, int64_t first, int64_t last, float* scratch) {
  OrdinalRow worker(aim.pass, scratch);
  for (int64_t row = first; row < last; ++row) worker.aim(aim, row);
}

int64_t squares_scratch_floats(const PointSquares& work) { return SquaresRow::scratch_floats(work); }

void squares_meet(const PointSquares& work, int64_t first, int64_t last, float* scratch) {
  SquaresRow worker(work, scratch);
  for (int64_t row = first; row < last; ++row) worker.meet(row);
}

void squares_solve(const PointSquares& work, int64_t first, int64_t last, float* scratch) {
  SquaresRow worker(work, scratch);
  for (int64_t row = first; row < last; ++row) worker.solve(row);
}

void ordinal_proba(const OrdinalQuestion& ask, int64_t first, int64_t last) { ordinal_pairs(ask, first, last); }

int64_t ordinal_slopes_scratch(const OrdinalSlopes& slopes) { return slopes_scratch(slopes); }

void ordinal_slopes(const OrdinalSlopes& slopes, int64_t first, int64_t last, float* scratch) {
  slopes_of(slopes, first, last, scratch);
}

void ordinal_glide(const OrdinalGlide& glide, int64_t first, int64_t last) { glide_rows(glide, first, last); }

void ordinal_sums(const OrdinalGlide& glide, int64_t first, int64_t last, double* sums) {
  sum_rows(glide, first, last, sums);
}

#define STARCAST_TEXT_(x) #x
#define STARCAST_TEXT(x) STARCAST_TEXT_(x)
extern const Kernels table;
const Kernels table = {
    .isa = STARCAST_TEXT(STARCAST_ISA_NS),
    .scratch_floats = scratch_floats,
    .resbemf_exact = resbemf_exact,
    .resbemf_gradient = resbemf_gradient,
    .bemf_gradient = bemf_gradient,
    .dirmf_sgd = dirmf_sgd,
    .point_sgd = point_sgd,
    .proba = proba,
    .ordinal_scratch_floats = ordinal_scratch_floats,
    .ordinal_rows = ordinal_rows,
    .ordinal_proba = ordinal_proba,
    .tile_of_scores = tile_of_scores,
    .tile_of_draws = tile_of_draws,
    .tile_of_values = tile_of_values,
    .sieve = sieve,
    .ordinal_slopes_scratch = ordinal_slopes_scratch,
    .ordinal_slopes = ordinal_slopes,
    .ordinal_glide = ordinal_glide,
    .ordinal_sums = ordinal_sums,
    .resbemf_look = resbemf_look,
    .resbemf_aim = resbemf_aim,
    .ordinal_look = ordinal_look,
    .ordinal_aim = ordinal_aim,
    .squares_scratch_floats = squares_scratch_floats,
    .squares_meet = squares_meet,
    .squares_solve = squares_solve,
};

}  // namespace starcast::STARCAST_ISA_NS
