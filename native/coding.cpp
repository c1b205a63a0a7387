// Codes, groups and duplicates of integer columns: linear passes where NumPy would sort.
#include <nanobind/stl/pair.h>

#include <stdexcept>

#include "arrays.hpp"
#include "vocabulary.hpp"

namespace starcast {

// Integers to codes in the order of first appearance, and the row at which each code first appears.
static auto code_integers(Array<int64_t> values) {
  const int64_t* value = values.data();
  const size_t n = values.shape(0);
  std::vector<int32_t> code(n);
  std::vector<int64_t> first;
  {
    nb::gil_scoped_release release;
    std::vector<int32_t> direct;
    Codes<int64_t> codes;
    const auto key_of = [&](int32_t c) { return value[first[c]]; };
    for (size_t row = 0; row < n; ++row) {
      const int64_t v = value[row];
      const auto next = static_cast<int32_t>(first.size());
      if (v >= 0 && v < kDirect) {
        if (v >= static_cast<int64_t>(direct.size())) direct.resize(2 * v + 64, -1);
        if (direct[v] < 0) direct[v] = next;
        code[row] = direct[v];
      } else {
        code[row] = codes.find_or_add(mix(static_cast<uint64_t>(v)), v, key_of, next);
      }
      if (code[row] == next) first.push_back(static_cast<int64_t>(row));
    }
  }
  return std::make_pair(to_numpy(std::move(code)), to_numpy(std::move(first)));
}

static void check_codes(const int32_t* code, size_t n, int64_t limit) {
  if (limit < 0) throw std::invalid_argument("the number of groups, users or items must be zero or more");
  for (size_t row = 0; row < n; ++row)
    if (code[row] < 0 || code[row] >= limit) throw std::out_of_range("a code lies outside its table");
}

static std::vector<int64_t> row_pointers(const int32_t* code, size_t n, int64_t n_groups) {
  std::vector<int64_t> start(n_groups + 1, 0);
  for (size_t row = 0; row < n; ++row) ++start[code[row] + 1];
  for (int64_t g = 0; g < n_groups; ++g) start[g + 1] += start[g];
  return start;
}

// The rows of each group, in their old order: a stable counting sort. Rows of group g are rows[start[g]:start[g + 1]].
static std::vector<int64_t> rows_by_group(const int32_t* code, size_t n, std::vector<int64_t> start) {
  std::vector<int64_t> rows(n);
  for (size_t row = 0; row < n; ++row) rows[start[code[row]]++] = static_cast<int64_t>(row);
  return rows;
}

static auto group_rows(Array<int32_t> codes, int64_t n_groups) {
  const size_t n = codes.shape(0);
  check_codes(codes.data(), n, n_groups);
  std::vector<int64_t> start, rows;
  {
    nb::gil_scoped_release release;
    start = row_pointers(codes.data(), n, n_groups);
    rows = rows_by_group(codes.data(), n, start);
  }
  return std::make_pair(to_numpy(std::move(start)), to_numpy(std::move(rows)));
}

// Each row whose (user, item) pair stood in an earlier row, and the first such row.
static auto find_duplicates(Array<int32_t> users, Array<int32_t> items, int64_t n_users, int64_t n_items) {
  const size_t n = users.shape(0);
  if (items.shape(0) != n) throw std::invalid_argument("users and items differ in length");
  check_codes(users.data(), n, n_users);
  check_codes(items.data(), n, n_items);
  std::vector<int64_t> again, first;
  {
    nb::gil_scoped_release release;
    const int32_t* item = items.data();
    const auto start = row_pointers(users.data(), n, n_users);
    const auto rows = rows_by_group(users.data(), n, start);
    std::vector<int64_t> seen(n_items, -1);  // the row in which the user at hand rated the item
    for (int64_t u = 0; u < n_users; ++u) {
      for (int64_t at = start[u]; at < start[u + 1]; ++at) {
        int64_t& earlier = seen[item[rows[at]]];
        if (earlier >= 0) {
          again.push_back(rows[at]);
          first.push_back(earlier);
        } else {
          earlier = rows[at];
        }
      }
      for (int64_t at = start[u]; at < start[u + 1]; ++at) seen[item[rows[at]]] = -1;
    }
  }
  return std::make_pair(to_numpy(std::move(again)), to_numpy(std::move(first)));
}

void bind_coding(nb::module_& m) {
  m.def("code_integers", &code_integers, nb::arg("values"));
  m.def("group_rows", &group_rows, nb::arg("codes"), nb::arg("n_groups"));
  m.def("find_duplicates", &find_duplicates, nb::arg("users"), nb::arg("items"), nb::arg("n_users"),
        nb::arg("n_items"));
}

}  // namespace starcast
